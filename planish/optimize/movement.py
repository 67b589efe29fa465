"""Moves between layouts: what is contiguous where it is read, and something else where it is written.

Neither reading nor writing element by element is fast. A square of elements is: its rows are read as vectors, turned by shuffles
in registers, and written as vectors. Around it, a macro tile of few squares uses whole lines of either side while they are in a
cache, and the pieces follow each other along what is read: reads are the ones that wait.

    y[j, i] = x[i, j]       for i by 32: for j by 32: for j by 16: for i by 16: 16 × 16 of registers

A sum of products whose factors lie otherwise takes them in squares as well.
"""

from __future__ import annotations

from math import prod
from typing import Final

from planish.actions.accumulators import Accumulators
from planish.actions.pad_to import PadTo
from planish.actions.shift_inwards import ShiftInwards
from planish.actions.split import Split
from planish.actions.unroll import Unroll
from planish.actions.upcast import Upcast
from planish.optimize.draft import Draft
from planish.optimize.lanes import lanes_along, take_lanes
from planish.target import Target
from planish.uop.nest import is_part, size_of
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import AxisType, Ops
from planish.uop.ranges import kind_of

_SIDE: Final = 16
"""Elements along a side of a square; more would not fit the registers."""


def turn(draft: Draft, view: Nest, axis: UOp) -> bool:
    """Squares of registers, where something is read along another axis than the one it is written along; whether so."""
    other = contiguous_elsewhere(view, axis)
    if other is None:
        return False
    # (positions are turned as well, though lanes of them are looked at one by one)
    widest = min(draft.target.lanes(place.dtype.scalar) for place in _turned(view, axis, other))
    side = min(lanes_along(draft.target, view, axis), widest, _SIDE)
    amounts = [_side(draft, each, side) for each in (axis, other)]
    if min(amounts) < 2:
        return False
    for each, amount in zip((axis, other), amounts, strict=True):
        if not draft.has_pieces(each) and draft.least(each) >= amount:
            draft.take(ShiftInwards, each, amount, "squares without an edge")
        elif draft.left(each) % amount or not draft.left(each):
            draft.take(PadTo, each, amount)
        draft.take(Upcast, each, amount, inner=True)
    if _bytes(view) > draft.target.caches[0]:
        _macro_tile(draft, other, axis)
    return True


def summed_square(nest: Nest, reduction: UOp) -> tuple[UOp, UOp] | None:
    """Two axes, the one for lanes and a reduced one, of which some operand is contiguous along one, and some other along the other.

    Every operand has both: what is used again along one is a product of matrices.
    """
    reduced = [r for r in reduction.src[1:] if r.op is Ops.RANGE and kind_of(r) is AxisType.REDUCE]
    written = [r for r in nest.outputs if all(nest.stride(place, r) == 1 for place in nest.writes)]
    reads = nest.reads_of(reduction)
    for lanes in (*reversed(written), *sorted(reduced, key=lambda r: r.order, reverse=True)):
        for other in reduced:
            if other is lanes or not all({lanes, other} <= place.ranges for place in reads):
                continue
            along = [{r for r in (lanes, other) if nest.stride(place, r) == 1} for place in reads]
            if {lanes} in along and {other} in along and all(along):
                return lanes, other
    return None


def sum_in_squares(draft: Draft, nest: Nest, reduction: UOp) -> bool:
    """Squares of registers for a sum of operands that lie otherwise (the trace of a product): rows are added up in lanes."""
    square = summed_square(nest, reduction)
    if square is None:
        return False
    lanes, other = square
    side = min(lanes_along(draft.target, nest, lanes), draft.target.lanes(reduction.dtype.scalar), _SIDE)
    kind = Accumulators if kind_of(lanes) is AxisType.REDUCE else Upcast
    if take_lanes(draft, lanes, kind, side) < 2:
        return False
    return draft.take_first(Unroll, other, (side, side >> 1, side >> 2), "squares turned in registers") > 1


def contiguous_elsewhere(view: Nest, axis: UOp) -> UOp | None:
    """The axis along which neighbours are read of what is read in jumps along a given one."""
    for other in reversed(view.outputs):
        if other is not axis and size_of(other) > 1 and _turned(view, axis, other):
            return other
    return None


def _turned(view: Nest, axis: UOp, other: UOp) -> list[UOp]:
    """What is read in jumps along one axis, and without along the other."""
    return [p for p in view.reads if view.stride(p, axis) not in {0, 1, None} and view.stride(p, other) == 1]


def _side(draft: Draft, axis: UOp, most: int) -> int:
    """How many elements of an axis make a side of a square; 1 if that does not work out."""
    size = draft.left(axis)
    if 0 < size <= most:
        return size
    if size and size % most == 0:
        return most
    if _can_pad(draft.target):
        return most
    return next((n for n in (most >> 1, most >> 2) if n > 1 and size and size % n == 0), 1)


def _can_pad(target: Target) -> bool:
    return target.masked


def _bytes(view: Nest) -> int:
    """What the kernel moves, about."""
    return sum(prod(r.vmax + 1 for r in place.ranges) * place.dtype.itemsize for place in view.writes)


def _macro_tile(draft: Draft, outer: UOp, inner: UOp) -> None:
    """Two nested loops over squares as loops over macro tiles: those along the inner axis outermost, then the outer axis'."""
    macro = draft.target.register_tiles.lines_together
    if min(draft.left(outer), draft.left(inner)) <= macro or not all(map(draft.has_pieces, (outer, inner))):
        return  # (gates of the last tile cost more than lines that are fetched again)
    for axis in (outer, inner):
        if draft.left(axis) % macro or not draft.take(Split, axis, macro):
            return
    first, second = sorted((draft.loops(axis) for axis in (outer, inner)), key=lambda loops: loops[0].order)
    draft.swap(first[-1], second[0], "")
    if is_part(first[0], outer):
        draft.swap(first[0], second[0], "")
