"""One access of a kernel: which memory, in which loops and lanes, and by how much it moves along each of them.

Of some loops an access touches a number of contiguous runs of elements; what that is in lines of a cache is its footprint.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import gcd, prod
from typing import Final, cast

from planish.dtypes import AddrSpace, DType, PtrDType
from planish.records import dataclass
from planish.uop.nest import LANES, trips, without_gate
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.ranges import kind_of
from planish.uop.reached import joined_by
from planish.uop.strides import stride

LINE: Final = 64
"""Bytes that move together between caches."""
PAGE: Final = 4096
"""Bytes after which lines come to lie in the same sets of a first cache: it finds them by the place within a page."""
Steps = dict[UOp, int | None]
"""By how many elements an index grows with each of its ranges; None: not by a number."""


def is_global(memory: UOp) -> bool:
    """Whether memory is a parameter's, not the kernel's own."""
    return isinstance(memory.dtype, PtrDType) and memory.dtype.space is AddrSpace.GLOBAL


def steps_of(index: UOp, *, over_edges: bool = False) -> Steps:
    """By how much an index grows with each of its ranges.

    `over_edges`: as it does before an edge, beyond which the last element is read again.
    """
    steps: Steps = {}
    hard: list[tuple[UOp, int]] = []
    stack = [(index, 1)]
    while stack:
        term, factor = stack.pop()
        if term.op is Ops.ADD:
            stack.extend((each, factor) for each in term.src)
        elif term.op is Ops.MUL and term.src[1].op is Ops.CONST:
            stack.append((term.src[0], factor * cast("int", term.src[1].arg)))
        elif over_edges and term.op is Ops.MIN and term.src[1].op is Ops.CONST:
            stack.append((term.src[0], factor))
        elif term.op is Ops.RANGE:
            old = steps.get(term, 0)
            steps[term] = None if old is None else old + factor
        elif term.ranges:
            hard.append((term, factor))
    for term, factor in hard:
        for r in term.ranges:
            step = stride(term, r)
            old = steps.get(r, 0)
            steps[r] = None if step is None or old is None else old + step * factor
    return steps


def plain_indices(indices: Iterable[UOp]) -> tuple[list[UOp], list[UOp]]:
    """Indices without their gates, and the gates."""
    plain, gates = [], []
    for index in indices:
        if index.dtype.is_bool:
            gates.append(index)
            continue
        inside, gated = without_gate(index), index
        while gated is not inside:
            gates.append(gated.src[0])
            gated = gated.src[1]
        plain.append(inside)
    return plain, gates


def ends_of(gates: Iterable[UOp]) -> tuple[dict[UOp, int], list[UOp]]:
    """Of gates: where they end ranges that are lanes, so that what lies beyond is never accessed; and all other conditions."""
    ends: dict[UOp, int] = {}
    others: list[UOp] = []
    for gate in joined_by(Ops.AND, *gates):
        r = gate.src[0] if gate.op is Ops.CMPLT and gate.src[1].op is Ops.CONST else gate
        if r.op is Ops.RANGE and kind_of(r) in LANES:
            ends[r] = min(cast("int", gate.src[1].arg), ends.get(r, trips(r)))
        else:
            others.append(gate)
    return ends, others


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
    steps: Steps
    is_store: bool
    conditions: Sequence[UOp]
    """Comparisons that say whether it is left out."""
    ends: Mapping[UOp, int]
    """Of lanes that are padded, how many there are."""
    nontemporal: bool = False
    copies: int = 1
    """Lanes that have such memory each for itself."""

    @property
    def in_memory(self) -> bool:
        """Whether it is a parameter's, not the kernel's own."""
        return is_global(self.memory)

    @property
    def is_gated(self) -> bool:
        """Whether it is left out in some iterations."""
        return bool(self.conditions)

    @property
    def capacity(self) -> int:
        """The bytes of its memory; 0 if that is not known."""
        dtype = self.memory.dtype
        return max(dtype.size, 0) * self.dtype.itemsize if isinstance(dtype, PtrDType) else 0

    def trips(self, r: UOp) -> int:
        """How many values of a range it is for."""
        return self.ends.get(r, trips(r))

    def runs(self, ranges: Iterable[UOp]) -> tuple[int, int]:
        """Over some ranges: how many contiguous runs of elements it touches, and how long one is. What several touch counts once."""
        spans, unknown = self.spans(ranges)
        return unknown * prod(number for _, number in spans[1:]), spans[0][1]

    def step_of(self, ranges: Iterable[UOp]) -> int:
        """The least step along some ranges, 0 if it does not move or not by a number."""
        return min((abs(step) for r in ranges if (step := self.steps.get(r))), default=0)

    def spans(self, ranges: Iterable[UOp]) -> tuple[list[tuple[int, int]], int]:
        """Steps and how many of each are made, the contiguous ones first; and how many runs have no known step.

        Ranges whose steps fit into each other are one: pixels and taps of a window reach their sum, not their product.
        """
        spans, unknown = [(1, 1)], 1
        moves = [(self.steps.get(r, 0), self.trips(r)) for r in ranges]
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
        (first, *others), runs = self.spans(ranges)
        run, size = first[1], self.dtype.itemsize
        for step, number in others:
            if step * size < LINE or step <= run:  # every line is touched, if not every element
                run += step * (number - 1)
            else:
                runs *= number
        length = run * size
        lines = -(-length // LINE) * LINE if runs == 1 else max(length, LINE)
        return min(runs * lines, self.capacity or runs * lines) * self.copies

    def collides(self, ways: int) -> bool:
        """Whether lines that it touches side by side are more than the sets of a first cache that they fall into hold."""
        for r in self.lanes:
            pitch = abs(self.steps.get(r) or 0) * self.dtype.itemsize
            if pitch >= LINE and trips(r) > ways * PAGE // max(gcd(pitch, PAGE), LINE):
                return True
        return False
