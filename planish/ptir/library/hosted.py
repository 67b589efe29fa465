"""Ops of many elements that a routine of the machine computes better than kernels do: they stay, and run as host ops.

Few elements, or dtypes that routines do not know, are expanded as everywhere (`expansions`). What stays works on the last axis:
other axes are moved there and back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, cast

from planish import dtypes
from planish.dtypes import DType
from planish.ptir import ops
from planish.ptir.dims import DimLike, bounds
from planish.ptir.graph_value import GraphValue
from planish.ptir.library import compaction
from planish.ptir.library.common import move_axis, normal_axis, take_along_axis
from planish.ptir.ops.definition import Attrs, OpDef

Kept: TypeAlias = tuple[GraphValue, ...] | None
_FEW: Final = 32
"""Rows up to so many elements are sorted in kernels, by networks of whole rows: what a routine does besides costs more there."""
_FEW_BEST: Final = 32
"""The best of so many are found by counting."""
_MOST: Final = 1 << 31
"""Positions have 31 bits in routines."""


def _is_known(dtype: DType) -> bool:
    return dtype.is_bool or (dtype.bits >= 8 and not dtype.is_complex)


def _are_many(size: DimLike) -> bool:
    return _FEW < bounds(size)[1] < _MOST


def _order(key: GraphValue, axis: int, descending: bool) -> GraphValue:
    attrs = ops.ArgsortAttrs(key.rank - 1, descending)
    moved = move_axis(key, axis, key.rank - 1)
    return move_axis(moved.graph.emit(ops.argsort, [moved], attrs), key.rank - 1, axis)


def _order_by(keys: Sequence[GraphValue], axis: int = 0, descending: bool = False) -> GraphValue:
    """The last key first: every later sort keeps the order of what is equal for it."""
    order = _order(keys[-1], axis, descending)
    for key in reversed(keys[:-1]):
        finer = _order(take_along_axis(key, order, axis), axis, descending)
        order = take_along_axis(order, finer, axis)
    return order


def _unique(operands: Sequence[GraphValue], attrs: Attrs) -> Kept:
    of, x = cast("ops.UniqueAttrs", attrs), operands[0]
    known = _is_known(x.dtype) or x.dtype.is_complex
    if of.axis is not None or not known or not _are_many(x.type.size):
        return None
    return compaction.unique(x, of.size, None, _order_by)


def _counts(value: GraphValue, axis: int) -> bool:
    """Whether it holds its own positions along the axis."""
    inst = value.value.def_inst
    return inst is not None and isinstance(inst.attrs, ops.IotaAttrs) and inst.attrs.axis == axis


def _sort(operands: Sequence[GraphValue], attrs: Attrs) -> Kept:
    of = cast("ops.SortAttrs", attrs)
    first, keys = operands[0], operands[: of.num_keys]
    axis = normal_axis(first, of.axis)
    if not _are_many(first.dims[axis]) or not all(_is_known(key.dtype) for key in keys):
        return None
    if len(operands) == 1:
        moved = move_axis(first, axis, first.rank - 1)
        own = ops.SortAttrs(first.rank - 1, of.descending)
        return (move_axis(moved.graph.emit(ops.sort, [moved], own), first.rank - 1, axis),)
    order = _order_by(keys, axis, of.descending)
    return tuple(
        order.cast(value.dtype) if _counts(value, axis) else take_along_axis(value, order, axis)
        for value in operands
    )


def _top_k(operands: Sequence[GraphValue], attrs: Attrs) -> Kept:
    of = cast("ops.TopKAttrs", attrs)
    x = operands[0]
    axis = normal_axis(x, of.axis)
    size = x.dims[axis]
    if not _is_known(x.dtype) or not isinstance(of.k, int) or not of.k or bounds(size)[1] >= _MOST:
        return None
    if 4 * of.k > bounds(size)[1] or bounds(size)[1] <= _FEW_BEST:
        if not _are_many(size):
            return None
        order = _order(x, axis, of.largest)
        limits = [*order.dims[:axis], of.k, *order.dims[axis + 1 :]]
        best = order.slice([0] * x.rank, limits)
        return take_along_axis(x, best, axis), best.cast(of.dtype)
    moved = move_axis(x, axis, x.rank - 1)
    own = ops.TopKAttrs(of.k, x.rank - 1, of.largest, dtypes.int64)
    values, indices = moved.graph.emit_many(ops.top_k, [moved], own)
    return move_axis(values, x.rank - 1, axis), move_axis(indices, x.rank - 1, axis).cast(of.dtype)


def _suppress(operands: Sequence[GraphValue], attrs: Attrs) -> Kept:
    boxes = operands[0]
    if boxes.dtype not in (dtypes.float32, dtypes.float64) or bounds(boxes.dims[1])[1] >= _MOST:
        return None
    return boxes.graph.emit_many(ops.non_max_suppression, operands, attrs)


def _along(op: OpDef, x: GraphValue, axis: int, attrs: Attrs) -> GraphValue:
    """A transform of the last axis, of another."""
    last = x.rank - 1
    return move_axis(x.graph.emit(op, [move_axis(x, axis, last)], attrs), last, axis)


def _fourier(op: OpDef) -> Callable[[Sequence[GraphValue], Attrs], Kept]:
    def split(operands: Sequence[GraphValue], attrs: Attrs) -> Kept:
        """Several axes, or not the last: one after the other, the one that is halved first there and last back."""
        x = operands[0]
        *others, last = (axis % x.rank for axis in cast("ops.FftAttrs", attrs).axes)
        if not others and last == x.rank - 1:
            return None
        plain = ops.FftAttrs((x.rank - 1,))
        if isinstance(attrs, ops.IrfftAttrs):
            for axis in others:
                x = _along(ops.ifft, x, axis, plain)
            return (_along(op, x, last, ops.IrfftAttrs(plain.axes, attrs.length)),)
        x = _along(op, x, last, plain)
        for axis in others:
            x = _along(ops.fft if op is ops.rfft else op, x, axis, plain)
        return (x,)

    return split


HOSTED: Final[dict[str, Callable[[Sequence[GraphValue], Attrs], Kept]]] = {
    "sort": _sort,
    "top_k": _top_k,
    "unique": _unique,
    "non_max_suppression": _suppress,
    **{op.name: _fourier(op) for op in (ops.fft, ops.ifft, ops.rfft, ops.irfft)},
}
"""What stands for an op where there are routines; None: what stands for it everywhere."""
