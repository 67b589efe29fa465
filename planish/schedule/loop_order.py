"""The loops of one kernel while it is put together: which ranges there are, what lies around each, and their final order.

An *output* range runs over an axis of what the kernel stores. Their order is free until something is computed for some of
them only: the reduction of a row must not lie in the loop over the row's elements, so its ranges have to *lead*. Sets that
lead are nested in each other; one that does not fit is refused.

An *inner* range is opened by a reduction, or by a loop that keeps a row. It knows the ranges around it, and its *level*:
how many reductions, one after another, what runs in it depends on. Reductions of one level, in the same place and over the
same sizes, share their ranges, and so become one loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, cast

from planish.uop.node import Table, UOp
from planish.uop.ops import Axis, AxisType
from planish.uop.shape import Dim
from planish.uop.symbolic import simplify

Ranges = frozenset[UOp]
_FIRST: Final = 1 << 16
"""Where the numbers of ranges start before they have an order: above all final ones, so that neither is taken for the other."""


class LoopOrder:
    """Ranges, and how they lie in each other."""

    def __init__(self, table: Table, dims: Sequence[Dim], level: int, ordered: bool = False) -> None:
        self.table = table
        self.ranges: list[UOp] = []
        self.level: dict[UOp, int] = {}
        self.around: dict[UOp, Ranges] = {}
        self.shared: dict[tuple[int, Ranges, tuple[Dim, ...]], tuple[UOp, ...]] = {}
        self.indices = self._indices(dims, AxisType.LOOP, level, frozenset())
        """Per axis of what is stored: its range, or 0 where there is but one element."""
        self.outputs: Ranges = frozenset(self.ranges)
        self.leading: list[Ranges] = [self.outputs]
        if ordered:  # the loops run as they are written
            for count in range(len(self.ranges)):
                self.leading.append(frozenset(self.ranges[:count]))

    def _indices(self, dims: Sequence[Dim], kind: AxisType, level: int, around: Ranges) -> tuple[UOp, ...]:
        indices = []
        for dim in dims:
            if isinstance(dim, int) and dim == 1:
                indices.append(self.table.const(0))
                continue
            r = self.table.range(dim, _FIRST + len(self.ranges), kind)
            self.ranges.append(r)
            self.level[r] = level
            self.around[r] = around
            indices.append(r)
        return tuple(indices)

    # -- what lies around -------------------------------------------------------------------------------------------

    def closure(self, ranges: Iterable[UOp]) -> Ranges:
        """The loops that something depending on these ranges runs in, if its output ranges lead."""
        loops: set[UOp] = set()
        for r in ranges:
            loops.add(r)
            loops |= self.around[r]
        return frozenset(loops)

    def level_of(self, ranges: Iterable[UOp]) -> int:
        """The level of the outermost work that is done in these ranges; -1 without any."""
        return max((self.level[r] for r in ranges), default=-1)

    def can_lead(self, ranges: Iterable[UOp]) -> bool:
        """Whether the output ranges among these can come before all others."""
        wanted = self.outputs & frozenset(ranges)
        return all(wanted <= each or each <= wanted for each in self.leading)

    def lead(self, ranges: Iterable[UOp]) -> None:
        """Put the output ranges among these before all others."""
        wanted = self.outputs & frozenset(ranges)
        if wanted not in self.leading:
            self.leading.append(wanted)

    # -- inner ranges -----------------------------------------------------------------------------------------------

    def share(self, level: int, around: Ranges, dims: tuple[Dim, ...]) -> tuple[UOp, ...]:
        """The ranges of reductions at a level, in a place, over these sizes."""
        key = (level, around, dims)
        if key not in self.shared:
            self.shared[key] = self._indices(dims, AxisType.REDUCE, level, around)
        return self.shared[key]

    def fresh(self, level: int, around: Ranges, dims: Sequence[Dim]) -> tuple[UOp, ...]:
        """Ranges of a loop of its own."""
        return self._indices(dims, AxisType.LOOP, level, around)

    # -- the end ----------------------------------------------------------------------------------------------------

    def ordered(self, ranges: Iterable[UOp]) -> list[UOp]:
        """Output ranges, those that lead first."""
        places = {r: number for number, r in enumerate(self.ranges)}

        def place(r: UOp) -> tuple[int, int]:
            return sum(r not in each for each in self.leading), places[r]

        return sorted(ranges, key=place)

    def numbered(self, used: Ranges) -> dict[UOp, UOp]:
        """The ranges under their final numbers: those of the stores from the outermost to the innermost, then the others."""
        order = self.ordered(self.outputs) + [r for r in self.ranges if r not in self.outputs and r in used]
        return {
            r: self.table.make(r.op, r.dtype, r.src, Axis((number,), cast("Axis", r.arg).kind))
            for number, r in enumerate(order)
        }


def from_the_end(r: UOp, dim: Dim) -> UOp:
    """The index that runs from the last element to the first."""
    return simplify(r * -1 + (dim - 1))
