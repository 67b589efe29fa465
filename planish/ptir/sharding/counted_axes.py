"""Indices that only count: gathers and scatters along them go wherever the axis goes, like elementwise ops."""

from __future__ import annotations

from typing import Final

from planish.ptir import ops
from planish.ptir.function import Inst, Value

_COUNTS: Final = {4: 8, 8: 128, 16: 1 << 15, 32: 1 << 31, 64: 1 << 62}
"""How far integers of so many bits count."""


def counted_axis(value: Value) -> int | None:
    """The axis along which an index counts 0, 1, 2 …, whatever the other axes are; None if that is not seen."""
    inst = value.def_inst
    if inst is None:
        return None
    if inst.op is ops.iota:
        return int(inst.attrs.axis)  # type: ignore[attr-defined]
    if inst.op in (ops.max, ops.min):
        return _clamped_axis(inst)
    if inst.op not in (ops.sharding, ops.cast, ops.broadcast_to, ops.reshape):
        return None
    source = inst.operands[0]
    axis = counted_axis(source)
    if axis is None or inst.op is ops.sharding:
        return axis
    old, new = source.type.dims, value.type.dims
    if inst.op is ops.cast:
        size = old[axis]
        return (
            axis
            if isinstance(size, int) and value.type.dtype.is_int and size <= _COUNTS[value.type.dtype.bits]
            else None
        )
    if inst.op is ops.broadcast_to:
        place = axis + len(new) - len(old)
        return place if old[axis] == new[place] else None
    kept = [[k for k, dim in enumerate(dims) if dim != 1] for dims in (old, new)]
    same = [old[k] for k in kept[0]] == [new[k] for k in kept[1]]
    return kept[1][kept[0].index(axis)] if same and axis in kept[0] else None


def _clamped_axis(inst: Inst) -> int | None:
    """Of an index that is kept within its axis, which changes nothing."""
    for source, bound in (inst.operands, inst.operands[::-1]):
        axis, limit = counted_axis(source), None if bound.literal is None else bound.literal.item
        size = None if axis is None else source.type.dims[axis]
        if isinstance(limit, int) and isinstance(size, int):
            return axis if (limit <= 0 if inst.op is ops.max else limit >= size - 1) else None
    return None
