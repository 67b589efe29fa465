"""The loops of a scheduled kernel and what is accessed in them: the facts that the cost model counts with.

A kernel after stage 7 still is a graph. Which loops run around a node follows from its ranges: those it depends on, and those
around them, since a loop runs once per iteration of every loop that its result depends on. Lanes and the threads of a block
run side by side: they make an access longer, not more frequent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from math import prod
from typing import Final, cast

from planish.dtypes import AddrSpace, DType, PtrDType
from planish.records import dataclass
from planish.uop.nest import LANES, SEQUENTIAL, THREADS
from planish.uop.node import UOp
from planish.uop.ops import FIRST_RANGE, AxisType, Ops
from planish.uop.ranges import kind_of
from planish.uop.strides import stride

PARALLEL: Final = frozenset({AxisType.THREAD, AxisType.GLOBAL})
"""Axes that run around everything else."""
SIDE_BY_SIDE: Final = LANES | THREADS
"""Axes whose values run side by side."""
LINE: Final = 64
"""Bytes that move together between caches."""


def trips(r: UOp) -> int:
    """How many values a range has, at the largest sizes."""
    return max(r.vmax + 1, 1)


def count(ranges: Iterable[UOp]) -> int:
    """How many values several ranges have together."""
    return prod(trips(r) for r in ranges)


def closed_by(node: UOp) -> frozenset[UOp]:
    """The ranges that a node closes."""
    first = FIRST_RANGE.get(node.op)
    if first is None:
        return frozenset()
    return frozenset(r for listed in node.src[first:] for r in listed.ranges)


@dataclass(frozen=True, slots=True)
class Access:
    """One place that is read or written."""

    place: UOp
    memory: UOp
    """The parameter, or what keeps a value."""
    dtype: DType
    loops: tuple[UOp, ...]
    """Around it, outermost first."""
    lanes: tuple[UOp, ...]
    """Side by side in one access."""
    steps: dict[UOp, int | None]
    """By how many elements it moves along each range; None: not by a number."""
    is_store: bool
    is_gated: bool
    nontemporal: bool = False

    @property
    def in_memory(self) -> bool:
        """Whether it is a parameter's, not the kernel's own."""
        dtype = self.memory.dtype
        return isinstance(dtype, PtrDType) and dtype.space is AddrSpace.GLOBAL

    @property
    def capacity(self) -> int:
        """The bytes of its memory; 0 if that is not known."""
        dtype = self.memory.dtype
        return max(dtype.size, 0) * self.dtype.itemsize if isinstance(dtype, PtrDType) else 0

    def runs(self, ranges: Iterable[UOp]) -> tuple[int, int]:
        """Over some ranges: how many contiguous runs of elements it touches, and how long one is. What several touch counts once."""
        spans, unknown = self._spans(ranges)
        return unknown * prod(number for _, number in spans[1:]), spans[0][1]

    def step_of(self, ranges: Iterable[UOp]) -> int:
        """The least step along some ranges, 0 if it does not move or not by a number."""
        return min((abs(step) for r in ranges if (step := self.steps.get(r))), default=0)

    def _spans(self, ranges: Iterable[UOp]) -> tuple[list[tuple[int, int]], int]:
        """Steps and how many of each are made, the contiguous ones first; and how many runs have no known step.

        Ranges whose steps fit into each other are one: pixels and taps of a window reach their sum, not their product.
        """
        spans, unknown = [(1, 1)], 1
        moves = [(self.steps.get(r, 0), trips(r)) for r in ranges]
        for step, number in sorted((abs(s), n) for s, n in moves if s):
            for place, (fine, count) in enumerate(spans):
                if step % fine == 0 and step // fine <= count:
                    spans[place] = fine, count + step // fine * (number - 1)
                    break
            else:
                spans.append((step, number))
        for known, number in moves:
            unknown *= number if known is None else 1
        return spans, unknown

    def footprint(self, ranges: Iterable[UOp]) -> int:
        """The bytes of the cache lines that it touches over some ranges."""
        (first, *others), runs = self._spans(ranges)
        run, size = first[1], self.dtype.itemsize
        for step, number in others:
            if step * size < LINE or step <= run:  # every line is touched, if not every element
                run += step * (number - 1)
            else:
                runs *= number
        length = run * size
        lines = -(-length // LINE) * LINE if runs == 1 else max(length, LINE)
        return min(runs * lines, self.capacity or runs * lines)


@dataclass(slots=True)
class Nest:
    """One kernel."""

    sink: UOp
    nodes: list[UOp] = field(init=False)
    accesses: list[Access] = field(init=False)
    around: dict[UOp, frozenset[UOp]] = field(init=False)
    """For every loop, those around it."""
    parallel: tuple[UOp, ...] = field(init=False)
    consumers: dict[UOp, int] = field(init=False)
    """How often each node is a source."""

    def __post_init__(self) -> None:
        self.nodes = self.sink.toposort()
        ranges = [n for n in self.nodes if n.op is Ops.RANGE]
        self.parallel = tuple(sorted((r for r in ranges if kind_of(r) in PARALLEL), key=lambda r: r.order))
        self.around = self._around()
        self.consumers = {}
        for node in self.nodes:
            for source in node.src:
                self.consumers[source] = self.consumers.get(source, 0) + 1
        self.accesses = self._accesses()

    def _around(self) -> dict[UOp, frozenset[UOp]]:
        direct: dict[UOp, frozenset[UOp]] = {}
        for node in self.nodes:
            closed = [r for r in closed_by(node) if kind_of(r) in SEQUENTIAL]
            if not closed:
                continue
            outer = frozenset(r for r in node.ranges if kind_of(r) in SEQUENTIAL)
            for r in closed:
                own = frozenset(s for s in closed if s.order < r.order)
                direct[r] = direct.get(r, frozenset()) | outer | own
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
        found: set[UOp] = set()
        for r in ranges:
            if kind_of(r) in SEQUENTIAL:
                found.add(r)
                found |= self.around.get(r, frozenset())
        inner = sorted(found, key=lambda r: (len(self.around.get(r, ())), r.order))
        return (*self.parallel, *inner)

    def times(self, node: UOp) -> int:
        """How often a node is computed."""
        return count(self.loops(node.ranges))

    def is_inside(self, r: UOp, loop: UOp) -> bool:
        """Whether a loop runs inside of another."""
        if kind_of(loop) in PARALLEL:
            return kind_of(r) not in PARALLEL or r.order > loop.order
        return loop in self.around.get(r, frozenset())

    def _accesses(self) -> list[Access]:
        written = {n.src[0]: n for n in self.nodes if n.op is Ops.STORE and n.src[0].op is Ops.INDEX}
        found: list[Access] = []
        for node in self.nodes:
            if node.op is Ops.INDEX and len(node.src) > 1:
                store = written.get(node)
                if store is not None:
                    found.append(self._access(node, node.src[0], node.src[1:], store))
                if store is None or self.consumers[node] > 1:
                    found.append(self._access(node, node.src[0], node.src[1:], None))
            elif node.op is Ops.BUFFERIZE:
                found.append(self._access(node, node, node.src[FIRST_RANGE[node.op] :], node))
        return found

    def _access(self, node: UOp, memory: UOp, indices: Iterable[UOp], store: UOp | None) -> Access:
        while memory.op in {Ops.AFTER, Ops.NOOP}:
            memory = memory.src[0]
        plain = [i for i in indices if not i.dtype.is_bool]
        gated = any(i.dtype.is_bool for i in indices)
        steps: dict[UOp, int | None] = {}
        for each in plain:
            index = each
            while index.op is Ops.WHERE and index.src[2].op is Ops.INVALID:
                gated, index = True, index.src[1]
            for r, step in _steps(index).items():
                old = steps.get(r, 0)
                steps[r] = None if old is None or step is None or len(plain) > 1 else old + step
        ranges = frozenset(r for i in plain for r in i.ranges) if store is node else node.ranges
        if store is not None and store is not node:
            ranges |= store.ranges | closed_by_end(self, store)
        return Access(
            node,
            memory,
            node.dtype if store is None or store is node else store.src[1].dtype,
            self.loops(ranges),
            tuple(sorted((r for r in ranges if kind_of(r) in SIDE_BY_SIDE), key=lambda r: r.order)),
            steps,
            store is not None,
            gated,
            store is not None and "nontemporal" in str(store.arg or ""),
        )


def closed_by_end(nest: Nest, store: UOp) -> frozenset[UOp]:
    """A store runs in all loops whose END it stands in, even those that its place does not depend on."""
    found: frozenset[UOp] = frozenset()
    for node in nest.nodes:
        if node.op is Ops.END and store in node.toposort(lambda n: n.op in {Ops.END, Ops.GROUP}):
            found |= closed_by(node)
    return found


def _steps(index: UOp) -> dict[UOp, int | None]:
    """By how much an index grows with each of its ranges."""
    found: dict[UOp, int | None] = {}
    hard: list[tuple[UOp, int]] = []
    stack = [(index, 1)]
    while stack:
        term, factor = stack.pop()
        if term.op is Ops.ADD:
            stack.extend((each, factor) for each in term.src)
        elif term.op is Ops.MUL and term.src[1].op is Ops.CONST:
            stack.append((term.src[0], factor * cast("int", term.src[1].arg)))
        elif term.op is Ops.MIN and term.src[1].op is Ops.CONST:
            stack.append((term.src[0], factor))  # beyond an edge the last element is read again
        elif term.op is Ops.RANGE:
            old = found.get(term, 0)
            found[term] = None if old is None else old + factor
        elif term.ranges:
            hard.append((term, factor))
    for term, factor in hard:
        for r in term.ranges:
            step = stride(term, r)
            old = found.get(r, 0)
            found[r] = None if step is None or old is None else old + step * factor
    return found
