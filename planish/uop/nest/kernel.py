"""What is asked of a kernel as a whole: its loops and what lies around each, what it reads, writes, reduces and keeps, how much it does.

A kernel is a graph. Which loops run around a node follows from its ranges: those it depends on, and those around them, since a loop
runs once per iteration of every loop that its result depends on. Lanes and the threads of a block run side by side: they make an
access longer, not more frequent.

Every answer is worked out when it is first asked for, and kept with the kernel (`Nest.of`): whoever chooses a schedule, tries an action
and estimates what it costs looks at the same one.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import cast

from planish.uop.access_hints import hints_of
from planish.uop.nest import (
    OUTPUT,
    PARALLEL,
    SEQUENTIAL,
    SIDE_BY_SIDE,
    around,
    closed_by,
    closers_of,
    count,
    plain_index,
)
from planish.uop.nest.access import Access, Steps, ends_of, is_global, plain_indices, steps_of
from planish.uop.nest.order import ordered
from planish.uop.node import UOp
from planish.uop.ops import FIRST_RANGE, Axis, AxisType, Ops
from planish.uop.ranges import kind_of
from planish.uop.strides import stride


def work_of(node: UOp) -> int:
    """How many iterations the nest of a node has that closes loops."""
    return count({r for listed in node.src[1:] for r in listed.ranges} | node.src[0].ranges)


class Nest:
    """One kernel."""

    def __init__(self, sink: UOp) -> None:
        self.sink = sink
        self._strides: dict[tuple[UOp, UOp], int | None] = {}

    @staticmethod
    def of(sink: UOp) -> Nest:
        """The nest of a kernel, with all that has been asked of it before."""
        known = cast("dict[UOp, Nest]", sink.table.memos.setdefault(Nest, {}))
        nest = known.get(sink)
        if nest is None:
            nest = known[sink] = Nest(sink)
        return nest

    # -- what there is -----------------------------------------------------------------------------------------------

    @cached_property
    def nodes(self) -> list[UOp]:
        """All of it, sources first."""
        return self.sink.toposort()

    def _all(self, op: Ops) -> list[UOp]:
        return [n for n in self.nodes if n.op is op]

    @cached_property
    def ranges(self) -> list[UOp]:
        return self._all(Ops.RANGE)

    @cached_property
    def reductions(self) -> list[UOp]:
        return self._all(Ops.REDUCE)

    @cached_property
    def scans(self) -> list[UOp]:
        return self._all(Ops.SCAN)

    @cached_property
    def kept(self) -> list[UOp]:
        """Values that the kernel keeps in memory of its own."""
        return self._all(Ops.BUFFERIZE)

    @cached_property
    def stored(self) -> dict[UOp, UOp]:
        """The places that are written, each with its STORE."""
        return {n.src[0]: n for n in self.nodes if n.op is Ops.STORE and n.src[0].op is Ops.INDEX}

    @cached_property
    def writes(self) -> list[UOp]:
        """The places written in parameters."""
        return [place for place in self.stored if is_global(place.src[0])]

    @cached_property
    def reads(self) -> list[UOp]:
        """The places read, in parameters and in what the kernel keeps."""
        return [n for n in self._all(Ops.INDEX) if n not in self.stored and len(n.src) > 1]

    @cached_property
    def positions(self) -> frozenset[UOp]:
        """Of the places read, those that say where another one is."""
        places = (
            index for place in self._all(Ops.INDEX) for index in place.src[1:] if not index.dtype.is_bool
        )
        return frozenset(n for index in places for n in index.toposort() if n.op is Ops.INDEX)

    @cached_property
    def consumers(self) -> dict[UOp, int]:
        """How often each node is a source."""
        counts: dict[UOp, int] = {}
        for node in self.nodes:
            for source in node.src:
                counts[source] = counts.get(source, 0) + 1
        return counts

    def reads_of(self, reduction: UOp) -> list[UOp]:
        """What a reduction reads."""
        below = set(reduction.toposort())
        return [place for place in self.reads if place in below]

    @cached_property
    def work(self) -> int:
        """How many iterations the largest nest has: what it takes to run the kernel, roughly."""
        return max((work_of(node) for node in self.nodes if node.op in FIRST_RANGE), default=1)

    # -- axes --------------------------------------------------------------------------------------------------------

    def axes(self, *kinds: AxisType) -> list[UOp]:
        """The ranges of some kinds."""
        return [r for r in self.ranges if kind_of(r) in kinds]

    @cached_property
    def outputs(self) -> list[UOp]:
        """Sequential axes that are not reduced, outermost first."""
        return sorted(self.axes(*OUTPUT), key=lambda r: cast("Axis", r.arg).path)

    @cached_property
    def rows(self) -> list[UOp]:
        """The axes along which the kernel keeps a value."""
        along = {r for n in self.kept for r in n.src[FIRST_RANGE[Ops.BUFFERIZE] :]}
        return [r for r in self.ranges if r in along]

    @cached_property
    def parallel(self) -> tuple[UOp, ...]:
        """Axes around everything else, outermost first."""
        return tuple(sorted(self.axes(*PARALLEL), key=lambda r: r.order))

    @cached_property
    def closers(self) -> dict[UOp, list[UOp]]:
        """Every range, threads and lanes too, with the nodes that close it."""
        closers: dict[UOp, list[UOp]] = {}
        for node in self.nodes:
            for r in closed_by(node):
                closers.setdefault(r, []).append(node)
        return closers

    @cached_property
    def outer_ends(self) -> list[UOp]:
        """The loops of the kernel that stand in no other: what the SINK is made of."""
        ends: list[UOp] = []
        stack = list(self.sink.src)
        while stack:
            each = stack.pop()
            if each.op is Ops.GROUP:
                stack.extend(each.src)
            else:
                ends.append(each)
        return ends

    # -- what lies around --------------------------------------------------------------------------------------------

    @cached_property
    def around(self) -> dict[UOp, frozenset[UOp]]:
        """For every loop, those around it."""
        direct = {
            r: frozenset[UOp]().union(*(around(r, node) for node in nodes))
            for r, nodes in closers_of(self.nodes).items()
        }
        final: dict[UOp, frozenset[UOp]] = {}
        for r, outside in direct.items():
            seen: set[UOp] = set()
            stack = list(outside)
            while stack:
                s = stack.pop()
                if s not in seen and s is not r:
                    seen.add(s)
                    stack.extend(direct.get(s, ()))
            final[r] = frozenset(seen)
        return final

    def loops(self, ranges: Iterable[UOp]) -> tuple[UOp, ...]:
        """The loops in which something that depends on ranges runs, outermost first."""
        loops: set[UOp] = set()
        for r in ranges:
            if kind_of(r) in SEQUENTIAL:
                loops.add(r)
                loops |= self.around.get(r, frozenset())
        inner = sorted(loops, key=lambda r: (len(self.around.get(r, ())), r.order))
        return (*self.parallel, *inner)

    def is_inside(self, r: UOp, loop: UOp) -> bool:
        """Whether a loop runs inside of another."""
        if kind_of(loop) in PARALLEL:
            return kind_of(r) not in PARALLEL or r.order > loop.order
        return loop in self.around.get(r, frozenset())

    # -- order -------------------------------------------------------------------------------------------------------

    @cached_property
    def scanned(self) -> frozenset[UOp]:
        """Ranges that a SCAN runs along."""
        return frozenset(r for n in self.scans for along in n.src[1:] for r in along.ranges)

    @cached_property
    def otherwise(self) -> dict[UOp, str]:
        """Those whose order matters for another reason than a SCAN."""
        return ordered(self.nodes)

    @cached_property
    def ordered(self) -> dict[UOp, str]:
        """Ranges whose order matters, and why."""
        return {**self.otherwise, **dict.fromkeys(self.scanned, "a SCAN runs along it")}

    @cached_property
    def reused(self) -> frozenset[UOp]:
        """Ranges of which every value uses the same LOCAL memory again (`hold`): no two run side by side on one core."""
        ranges: frozenset[UOp] = frozenset()
        for place, store in self.stored.items():
            if place.src[0].op is Ops.DEFINE_LOCAL:
                index = plain_index(place)
                ranges |= store.ranges if index is None else store.ranges - index.ranges
        return ranges

    def is_bound(self, r: UOp) -> bool:
        """Whether the length of another loop depends on a range."""
        return any(r in each.src[0].ranges for each in self.ranges)

    # -- accesses ----------------------------------------------------------------------------------------------------

    def stride(self, place: UOp, axis: UOp) -> int | None:
        """By how much the index of a place grows with an axis; None if that is not one number."""
        key = place, axis
        if key not in self._strides:
            plain, _ = plain_indices(place.src[1:])
            if len(plain) == 1:
                self._strides[key] = stride(plain[0], axis)
            else:
                self._strides[key] = None if any(axis in index.ranges for index in place.src[1:]) else 0
        return self._strides[key]

    @cached_property
    def accesses(self) -> list[Access]:
        """All places that are read or written, how often and in which steps."""
        accesses: list[Access] = []
        for node in self.nodes:
            if node.op is Ops.INDEX and len(node.src) > 1:
                store = self.stored.get(node)
                if store is not None:
                    accesses.append(self._access(node, node.src[0], node.src[1:], store))
                if store is None or self.consumers[node] > 1:
                    accesses.append(self._access(node, node.src[0], node.src[1:], None))
            elif node.op is Ops.BUFFERIZE:
                accesses.append(self._access(node, node, node.src[FIRST_RANGE[node.op] :], node))
        return accesses

    def _access(self, node: UOp, memory: UOp, indices: Iterable[UOp], store: UOp | None) -> Access:
        while memory.op in {Ops.AFTER, Ops.NOOP}:
            memory = memory.src[0]
        plain, gates = plain_indices(indices)
        ends, conditions = ends_of(gates)
        steps: Steps = {}
        for index in plain:
            for r, step in steps_of(index, over_edges=True).items():
                old = steps.get(r, 0)
                steps[r] = None if old is None or step is None or len(plain) > 1 else old + step
        ranges = frozenset(r for i in plain for r in i.ranges) if store is node else node.ranges
        if store is not None and store is not node:
            ranges |= store.ranges | self._ended_around(store)
        dtype, own = node.dtype if store is None else store.src[1].dtype, frozenset[UOp]()
        if memory.op is Ops.BUFFERIZE:
            value, *places = memory.src
            dtype = value.dtype
            own = value.ranges - frozenset(r for place in places for r in place.ranges)
            own = frozenset(r for r in own if kind_of(r) in SIDE_BY_SIDE)
        return Access(
            node,
            memory,
            dtype,
            self.loops(ranges),
            tuple(sorted((r for r in ranges if kind_of(r) in SIDE_BY_SIDE), key=lambda r: r.order)),
            steps,
            store is not None,
            conditions,
            ends,
            store is not None and store.op is Ops.STORE and hints_of(store).nontemporal,
            count(own),
        )

    def _ended_around(self, store: UOp) -> frozenset[UOp]:
        """A store runs in all loops whose END it stands in, even those that its place does not depend on."""
        loops: frozenset[UOp] = frozenset()
        for node in self._all(Ops.END):
            if store in node.toposort(lambda n: n.op in {Ops.END, Ops.GROUP}):
                loops |= closed_by(node)
        return loops
