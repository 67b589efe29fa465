"""Which axis goes into lanes, and how many of it: for what is written element by element, and for reductions in lanes."""

from __future__ import annotations

from math import prod
from typing import Final

from planish.optimize.draft import Draft
from planish.optimize.kernel_view import View, kind_of, size_of
from planish.target import Target
from planish.uop.actions import ActionKind
from planish.uop.node import UOp
from planish.uop.ops import AxisType, Ops

_LEAST_LANES: Final = 4
"""Below that, lanes are not worth the wider loads, unless the machine has no more."""
MOST_LANES: Final = 64
"""Lanes of one axis in a register tile."""
_ACCUMULATORS: Final = 4
"""Independent sums that hide the latency of an addition."""
_PADDED: Final = (8, 9)
"""Several vectors are padded to only if that makes an axis no longer than by this ratio."""


def vector_axes(view: View, *, every: bool = False) -> list[UOp]:
    """For every place written, and every row kept, the axis whose neighbours go into lanes.

    Unless `every` one is wanted, an axis is left out if lanes do better along a reduced one.
    """
    found: dict[UOp, None] = {}
    for place in view.writes:
        axis = next(
            (r for r in reversed(view.outputs) if size_of(r) != 1 and view.stride(place, r) == 1), None
        )
        if axis is not None and all(view.stride(other, axis) in {0, 1} for other in view.writes):
            found[axis] = None
    for axis in view.rows:
        if kind_of(axis) is AxisType.LOOP and all(view.stride(p, axis) in {0, 1} for p in view.reads):
            found[axis] = None
    return [axis for axis in found if every or not _prefers_reduction(view, axis)]


def _prefers_reduction(view: View, axis: UOp) -> bool:
    """Whether reads jump along an output axis but run along a reduced one."""
    for reduction in view.reductions:
        reads = [place for place in view.inside(reduction) if axis in place.ranges]
        if all(view.stride(place, axis) == 1 for place in reads):
            continue
        if axis in reduction.ranges and _contiguous_reduced(view, reduction) is not None:
            return True
    return False


def _contiguous_reduced(view: View, reduction: UOp) -> UOp | None:
    """The reduced axis along which everything that is read moves by 0 or 1, and something does move."""
    for axis in reversed(reduction.src[1:]):
        if axis.op is not Ops.RANGE or kind_of(axis) is not AxisType.REDUCE:
            continue
        steps = {view.stride(place, axis) for place in view.inside(reduction)}
        if 1 in steps and steps <= {0, 1}:
            return axis
    return None


def lanes_along(target: Target, view: View, axis: UOp) -> int:
    """How many elements along an axis fill a register, for the widest dtype that is accessed along it."""
    places = [p for p in (*view.writes, *view.reads) if axis in p.ranges and not p.dtype.is_bool]
    return min((target.lanes(place.dtype.scalar) for place in places if not place.dtype.is_index), default=1)


def take_lanes(
    draft: Draft, axis: UOp, kind: ActionKind, lanes: int, vectors: int = 1, least: int = 2
) -> int:
    """Lanes of an axis: whole vectors if that is possible, parts of one if not; padded if nothing divides.

    `least`: how many halves of a vector an axis must have to be worth padding.
    """
    if lanes < 2:
        return 1
    fewest = min(_LEAST_LANES, lanes)
    whole = [lanes * count for count in range(vectors, 0, -1) if lanes * count <= MOST_LANES]
    parts = [lanes >> shift for shift in range(1, lanes.bit_length()) if lanes >> shift >= fewest]
    if wants_padding(draft, axis, lanes) and 2 * (axis.vmax + 1) > least * lanes:
        width = next(
            (w for w in whole if _PADDED[0] * _up(axis.vmax + 1, w) <= _PADDED[1] * (axis.vmax + 1)), lanes
        )
        if draft.take(ActionKind.PADTO, axis, width):
            return width if draft.take(kind, axis, width) else 1
    return draft.take_first(kind, axis, (*whole, *parts))


def wants_padding(draft: Draft, axis: UOp, lanes: int) -> bool:
    """Whether no vector, nor half of one, divides an axis, on a machine that can leave out the lanes too many."""
    size = draft.left(axis)
    half = max(lanes // 2, 1)
    return draft.target.masked and (size == 0 or (size % lanes != 0 and size % half != 0))


def _up(size: int, width: int) -> int:
    return -(-size // width) * width


def reduce_in_lanes(draft: Draft, view: View, reduction: UOp) -> None:
    """Lanes on the reduced axis, in enough vectors to hide the latency of adding; several rows at once do that too."""
    axis = _contiguous_reduced(view, reduction)
    if axis is not None:
        lanes = lanes_along(draft.target, view, axis)
        rows = prod(amount for row, amount in draft.upcast.items() if row in reduction.ranges)
        vectors = max(1, _ACCUMULATORS // rows)
        take_lanes(draft, axis, ActionKind.ACCUMULATORS, lanes, vectors, least=4)
