"""Actions for common kernels, chosen by looking at indices; nothing is measured.

The rules, in order:

1. The output axis along which the result is contiguous goes into lanes, a register's worth of it.
2. If there is a reduction, an output axis that some operand does not depend on goes into registers: that operand is then
   loaded once for all of them. As many as leave registers for the operands.
3. If no output axis fits (a reduction to few elements), a contiguous reduce axis goes into lanes.

An axis whose size nothing sensible divides stays a loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from planish.target import Target
from planish.uop.actions import Action, ActionKind, axes_of
from planish.uop.node import UOp
from planish.uop.ops import Axis, AxisType, Ops
from planish.uop.rewrite import substitute
from planish.uop.symbolic import simplify

_LEAST_LANES: Final = 4
"""Below that, lanes are not worth the wider loads."""
_TILE: Final = (8, 6, 5, 4, 3, 2)
"""Rows of a register tile, best first."""


def stride(index: UOp, axis: UOp) -> int | None:
    """By how much an index grows with an axis; None if that is not one number."""
    step = simplify(substitute(index, {axis: axis + 1}) + index * -1)
    return cast("int", step.arg) if step.op is Ops.CONST else None


def _size(axis: UOp) -> int:
    bound = axis.src[0]
    return cast("int", bound.arg) if bound.op is Ops.CONST else 0


def _fitting(size: int, most: int) -> int:
    """The largest power of two that divides a size, up to a limit; 0 if that is too few."""
    width = most
    while width >= _LEAST_LANES:
        if size % width == 0:
            return width
        width //= 2
    return 0


def _indices(sink: UOp) -> tuple[list[UOp], list[UOp]]:
    """The places written and those read, each INDEX once."""
    written = [n.src[0] for n in sink.toposort() if n.op is Ops.STORE]
    return written, [n for n in sink.toposort() if n.op is Ops.INDEX and n not in written and len(n.src) > 1]


def _kind(axis: UOp) -> AxisType:
    return cast("Axis", axis.arg).kind


def choose(sink: UOp, target: Target) -> list[Action]:
    """Actions for a kernel whose views are resolved."""
    written, read = _indices(sink)
    if not written or any(len(place.src) != 2 for place in (*written, *read)):
        return []
    axes = axes_of(sink)
    lanes = min(target.lanes(place.dtype) for place in (*written, *read))
    outputs = [axis for axis in axes if _kind(axis) is AxisType.LOOP]
    reduces = [axis for axis in axes if _kind(axis) is AxisType.REDUCE]
    chosen: list[tuple[ActionKind, UOp, int]] = []
    vector = _contiguous(outputs, written, lanes)
    if vector is not None:
        chosen.append((ActionKind.UPCAST, *vector))
        if reduces:
            chosen += _tile(vector[0], outputs, read, target)
    else:
        found = _contiguous(reduces, read, lanes)
        if found is not None:
            chosen.append((ActionKind.UNROLL, *found))
    return _addressed(axes, chosen)


def _contiguous(axes: Sequence[UOp], places: Sequence[UOp], lanes: int) -> tuple[UOp, int] | None:
    for axis in reversed(axes):
        width = _fitting(_size(axis), lanes)
        if width and all(stride(place.src[1], axis) in {0, 1} for place in places):
            return axis, width
    return None


def _tile(
    vector: UOp, outputs: Sequence[UOp], read: Sequence[UOp], target: Target
) -> list[tuple[ActionKind, UOp, int]]:
    for axis in reversed(outputs):
        if axis is vector or not any(axis not in place.src[1].ranges for place in read):
            continue
        for rows in _TILE:
            if _size(axis) % rows == 0 and rows * 2 < target.registers:
                return [(ActionKind.UPCAST, axis, rows)]
    return []


def _addressed(axes: Sequence[UOp], chosen: Sequence[tuple[ActionKind, UOp, int]]) -> list[Action]:
    """Actions by place: splitting an axis keeps the outer part at its place, so earlier places stay valid if later go first."""
    places = {axis: number for number, axis in enumerate(axes)}
    ordered = sorted(chosen, key=lambda item: -places[item[1]])
    return [Action(kind, places[axis], amount) for kind, axis, amount in ordered]
