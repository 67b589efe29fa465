"""What an action has to know of a kernel before it changes an axis: what closes it, and whether its order matters.

The values of a range may be taken in any order, or side by side, unless

* a SCAN runs along it;
* a STORE in its loop writes to a place that does not depend on it: the last one counts;
* a STORE writes to a place that data decides: two iterations may meet there, and the later one counts. (Ranges that
  provably keep places apart are free: of `m[idx[i]*64 + j]`, j < 64, the j.) A place that no data decides is
  written once, by the contract of kernels;
* the kernel reads a buffer that it writes, elsewhere than at the place written.

Besides, the length of another loop may depend on a range; such a range stays as it is. Iterations that use the same LOCAL memory
one after the other (`hold`) may run in any order, and on several cores, but not in lanes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Final, cast

from planish.dtypes import AddrSpace, PtrDType
from planish.uop.laws import memory_of
from planish.uop.nest import LANES, THREADS, closed_by, plain_index, stores_in
from planish.uop.node import UOp
from planish.uop.ops import FIRST_RANGE, Axis, AxisType, Bufferize, Lanes, Ops
from planish.uop.ranges import kind_of
from planish.uop.symbolic import simplify

_READS: Final = frozenset({Ops.INDEX, Ops.LOAD})


@dataclass(slots=True)
class Facts:
    """What is asked about a kernel."""

    sink: UOp
    nodes: list[UOp] = field(init=False)
    closers: dict[UOp, list[UOp]] = field(init=False)
    """Every range, threads and lanes too, with the nodes that close it."""
    scanned: frozenset[UOp] = field(init=False)
    ordered: dict[UOp, str] = field(init=False)
    """Ranges whose order matters, and why."""
    otherwise: dict[UOp, str] = field(init=False)
    """Those whose order matters for another reason than a SCAN."""
    reused: frozenset[UOp] = field(init=False)
    """Ranges of which every value uses the same LOCAL memory again (`hold`): no two run side by side on one core."""

    def __post_init__(self) -> None:
        self.nodes = self.sink.toposort()
        self.closers = {}
        for node in self.nodes:
            if node.op in FIRST_RANGE:
                for r in closed_by(node):
                    self.closers.setdefault(r, []).append(node)
        scans = [along for n in self.nodes if n.op is Ops.SCAN for along in n.src[1:]]
        self.scanned = frozenset(r for each in scans for r in each.ranges)
        self.otherwise = self._ordered()
        self.reused = frozenset(
            r
            for n in self.nodes
            if n.op is Ops.STORE and n.src[0].src[0].op is Ops.DEFINE_LOCAL
            for index in [plain_index(n.src[0])]
            for r in (n.ranges if index is None else n.ranges - index.ranges)
        )
        self.ordered = {**self.otherwise, **dict.fromkeys(self.scanned, "a SCAN runs along it")}

    def is_bound(self, r: UOp) -> bool:
        """Whether the length of another loop depends on a range."""
        return any(n.op is Ops.RANGE and r in n.src[0].ranges for n in self.nodes)

    def axes(self, *kinds: AxisType) -> list[UOp]:
        """The ranges of some kinds."""
        return [n for n in self.nodes if n.op is Ops.RANGE and kind_of(n) in kinds]

    @property
    def outer_ends(self) -> list[UOp]:
        """The loops of the kernel that stand in no other: what the SINK is made of."""
        found: list[UOp] = []
        stack = list(self.sink.src)
        while stack:
            each = stack.pop()
            if each.op is Ops.GROUP:
                stack.extend(each.src)
            else:
                found.append(each)
        return found

    def _ordered(self) -> dict[UOp, str]:
        found: dict[UOp, str] = {}
        written: dict[UOp, list[UOp]] = {}
        for end in (n for n in self.nodes if n.op is Ops.END):
            for store in stores_in(end):
                place = store.src[0]
                if place.op is not Ops.INDEX:
                    continue
                if _is_global(place.src[0]):
                    written.setdefault(place.src[0], []).append(end)
                for r in closed_by(end):
                    reason = _why_ordered(r, place, store)
                    if reason is not None:
                        found.setdefault(r, reason)
        stores = [n.src[0] for n in self.nodes if n.op is Ops.STORE]  # some stand in no loop
        for buffer, ends in written.items():
            places = {place.src[1:] for place in stores if memory_of(place) is buffer}
            if any(
                n.op is Ops.INDEX and memory_of(n) is buffer and n.src[1:] not in places for n in self.nodes
            ):
                for end in ends:
                    for r in closed_by(end):
                        found.setdefault(r, "the kernel reads other elements of what it writes")
        return found


def _is_global(buffer: UOp) -> bool:
    return isinstance(buffer.dtype, PtrDType) and buffer.dtype.space is AddrSpace.GLOBAL


def _why_ordered(r: UOp, place: UOp, store: UOp) -> str | None:
    index = plain_index(place)
    if index is None:
        return "it is not known where is stored"
    if r not in index.ranges:
        return "every iteration stores to the same place"
    data = [n for n in index.toposort() if n.op in _READS and n is not index]
    ranges = frozenset(s for read in data for s in read.ranges)
    if r in ranges:
        return "data decides where is stored, and the last of several counts"
    if ranges and r not in _kept_apart(index, ranges):
        return "data decides where is stored, and the last of several counts"
    return None


def _kept_apart(index: UOp, data: frozenset[UOp]) -> frozenset[UOp]:
    """Ranges that never meet at one place whatever the data is: index % n is a row-major place of theirs, and free of data."""
    for n in dict.fromkeys(_factors(index)):
        rest = simplify(index % n)
        if rest.ranges and rest.ranges.isdisjoint(data) and is_row_major(rest):
            return rest.ranges
    return frozenset()


def _factors(index: UOp) -> Iterator[int]:
    for node in index.toposort():
        if node.op is Ops.MUL and node.src[1].op is Ops.CONST:
            factor = cast("int", node.src[1].arg)
            if factor > 1:
                yield factor


def is_row_major(index: UOp) -> bool:
    """Whether an index is a sum of ranges, each times more than all those below it can add up to: no two values meet."""
    terms: list[tuple[int, int]] = []
    stack = [index]
    while stack:
        term = stack.pop()
        factor = 1
        if term.op is Ops.ADD:
            stack.extend(term.src)
            continue
        if term.op is Ops.MUL and term.src[1].op is Ops.CONST:
            term, factor = term.src[0], cast("int", term.src[1].arg)
        if term.op is Ops.CONST:
            continue
        if term.op is not Ops.RANGE or factor < 1:
            return False
        terms.append((factor, term.vmax))
    reach = 0
    for factor, largest in sorted(terms):
        if factor <= reach:
            return False
        reach += factor * largest
    return True


# -- sizes -----------------------------------------------------------------------------------------------------------


def threads_of(sink: UOp) -> int:
    """How many threads a block has."""
    return prod(n.vmax + 1 for n in sink.toposort() if n.op is Ops.RANGE and kind_of(n) in THREADS)


def _copies(x: UOp, closed: frozenset[UOp], unrolled: bool) -> int:
    """How many elements of a value there are at once: one for each thread and lane that it depends on."""
    count = prod(r.vmax + 1 for r in x.ranges - closed if kind_of(r) in THREADS | LANES)
    if not unrolled:
        return count
    axes = {axis for n in x.toposort(_is_open) if n.op is Ops.UNROLL for axis in cast("Lanes", n.arg).axes}
    return count * prod(size for _, size in axes)


def _is_open(node: UOp) -> bool:
    return node.op not in {Ops.CONTRACT, Ops.BUFFERIZE}


def local_bytes(sink: UOp, *, in_lanes: bool = False) -> int:
    """How much LOCAL memory a kernel needs; what is made of a buffer element by element takes its place.

    With `in_lanes`, only that of rows which several lanes have each for itself.
    """
    nodes = sink.toposort()
    alone = not any(n.op is Ops.RANGE and kind_of(n) in THREADS for n in nodes)
    unrolled = any(n.op is Ops.UNROLL for n in nodes)
    kept: dict[UOp, int] = {}
    several: set[UOp] = set()
    total = 0
    for node in nodes:
        x = node.src[0] if node.src else node
        if node.op is Ops.DEFINE_LOCAL:
            memory = cast("PtrDType", node.dtype)
            total += memory.size * memory.base.itemsize
        elif node.op is Ops.BUFFERIZE:
            size = prod(place.vmax + 1 for place in node.src[1:]) * cast("Bufferize", node.arg).buffers
            copies = _copies(x, closed_by(node), unrolled)
            kept[node] = size * copies * x.dtype.itemsize
            if copies > 1:
                several.add(node)
            for read in x.toposort(lambda n: n.op not in {Ops.REDUCE, Ops.INDEX}):
                own = alone or read.src[1:] == node.src[1:]  # a thread reads just what it then writes
                if read.op is Ops.INDEX and own and kept.get(read.src[0]) == kept[node]:
                    kept[read.src[0]] = 0
        elif node.op is Ops.REDUCE:
            group = [
                r for r in node.src[1:] if isinstance(r.arg, Axis) and kind_of(r) is AxisType.GROUP_REDUCE
            ]
            if group:
                size = prod(r.vmax + 1 for r in group)
                total += size * _copies(node, frozenset(), unrolled) * x.dtype.itemsize
    return sum(kept[node] for node in several) if in_lanes else total + sum(kept.values())
