"""Register tiles for contractions: sums of products whose operands are used again along output axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from planish.optimize.draft import Draft
from planish.optimize.kernel_view import View, size_of
from planish.optimize.lanes import MOST_LANES, lanes_along, take_lanes, wants_padding
from planish.target import Target
from planish.uop.actions import ActionKind
from planish.uop.node import UOp

_VECTORS: Final = (4, 3, 2, 1)
_ROWS: Final = (14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1)
_ENOUGH: Final = 24
"""Accumulators beyond which a tile gains nothing."""
_TALL: Final = 8
"""Rows beyond which the rows of an operand start to collide in the first cache."""


class _Shape(NamedTuple):
    """A register tile: rows of vectors."""

    rows: int
    vectors: int

    def rank(self, width: int) -> tuple[int, ...]:
        """Better tiles have greater ranks: enough accumulators, two vectors of each row, as tall as is good, wide."""
        count = min(self.rows * self.vectors, _ENOUGH)
        return count, self.vectors > 1, self.rows <= _TALL, self.rows, self.vectors * width


def _tile(target: Target, rows: int, columns: int, lanes: int) -> _Shape:
    """The best tile whose sides divide those of the output (0: any will do, it is padded) and fits with its operands."""
    fitting = [
        _Shape(r, v)
        for r in _ROWS
        for v in _VECTORS
        if ((not rows and r == 1) or (rows and rows % r == 0))
        and (columns % (v * lanes) == 0 if v > 1 else True)
        and v * lanes <= MOST_LANES
        and r * v + v + 1 <= target.registers
    ]
    return max(fitting, key=lambda shape: shape.rank(lanes))


def contract(draft: Draft, view: View, axis: UOp, reductions: Sequence[UOp]) -> None:
    """A register tile: vectors along an axis, rows along one that some operand does not depend on."""
    lanes = lanes_along(draft.target, view, axis)
    rows = broadcast_axis(view, axis, reductions)
    columns = 0 if wants_padding(draft, axis, max(lanes, 2)) else draft.left(axis)
    shape = _tile(draft.target, 0 if rows is None else size_of(rows), columns, max(lanes, 1))
    take_lanes(draft, axis, ActionKind.UPCAST, lanes, shape.vectors, least=1)
    if rows is not None and shape.rows > 1:
        draft.take(ActionKind.UPCAST, rows, shape.rows)


def broadcast_axis(view: View, lanes: UOp, reductions: Sequence[UOp]) -> UOp | None:
    """An output axis of all reductions that some of their operands do not depend on: those are loaded once for all of it."""
    for axis in reversed(view.outputs):
        if axis is lanes or not size_of(axis) or not all(axis in r.ranges for r in reductions):
            continue
        if any(axis not in place.ranges for r in reductions for place in view.inside(r)):
            return axis
    return None
