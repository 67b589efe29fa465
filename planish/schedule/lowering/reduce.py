"""Reductions over axes, arg-reductions, cumulative scans and windows (docs/semantics.md 6)."""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from typing import Final, cast

from planish import dtypes
from planish.dtypes import DType
from planish.ptir.function import Inst
from planish.ptir.ops.reduce import ArgReduceAttrs, CumulativeAttrs, ReduceAttrs, ReduceWindowAttrs
from planish.schedule.lowering.channels_last import inverse, lying, reshaped
from planish.schedule.lowering.joined_sums import joined_parts
from planish.schedule.lowering.positions import WindowAxis, elements
from planish.schedule.lowering.rules import Lowering, accumulator, is_tiny
from planish.schedule.lowering.single_updates import sum_of_chosen
from planish.schedule.tensors import (
    Tensors,
    expand,
    flip,
    full,
    is_empty,
    largest,
    minus,
    most,
    pad,
    permute,
    plus,
    product,
    reshape,
    shrink,
    times,
)
from planish.uop.node import UOp
from planish.uop.ops import Ops, ReduceAxes
from planish.uop.shape import Dim, same_dim, shape

_KINDS: Final = {
    "sum": Ops.ADD, "prod": Ops.MUL, "max": Ops.MAX, "min": Ops.MIN, "and": Ops.AND, "or": Ops.OR,
}  # fmt: skip


_IMAGE: Final = 64
"""Pixels from which on the sum of a channel is worth a kernel, where sums of several channels are wanted."""


def identity(op: Ops, dtype: DType) -> bool | int | float:
    """What an empty reduction gives (6.2)."""
    if op is Ops.ADD or op is Ops.OR:
        return False if dtype.is_bool else 0
    if op is Ops.MUL:
        return 1
    if op is Ops.AND:
        return True if dtype.is_bool else dtype.wrap(-1)
    end = dtype.min if op is Ops.MAX else dtype.max
    return bool(end) if dtype.is_bool else cast("int | float", end)


def _wide(op: Ops, dtype: DType) -> DType:
    """The dtype that values are combined in."""
    if op in (Ops.ADD, Ops.MUL):
        return accumulator(dtype)
    return dtypes.float32 if is_tiny(dtype) else dtype


def combined(x: UOp, op: Ops, axes: Sequence[int]) -> UOp:
    """Axes reduced to size 1, in the dtype of x."""
    if not axes:
        return x
    dtype, dims = x.dtype, shape(x)
    wide = x.cast(_wide(op, dtype))
    result = wide.table.make(Ops.REDUCE_AXIS, wide.dtype, (wide,), ReduceAxes(op, tuple(axes)))
    if is_tiny(dtype) and op in (Ops.MAX, Ops.MIN) and any(_may_be_empty(dims[axis]) for axis in axes):
        # float32 has infinities to begin with, the format perhaps not
        result = result.alu(op, identity(op, dtype))
    return result.cast(dtype)


def _together(parts: Sequence[UOp], op: Ops, axes: Sequence[int]) -> UOp:
    """Reductions of several tensors, combined: in the dtype in which reductions run, rounded once."""
    dtype = parts[0].dtype
    wide = [part.cast(_wide(op, dtype)) for part in parts]
    kept = ([axis for axis in axes if not same_dim(shape(part)[axis], 1)] for part in wide)
    each = (combined(part, op, left) for part, left in zip(wide, kept, strict=True))
    return functools.reduce(lambda x, y: x.alu(op, y), each).cast(dtype)


def _may_be_empty(dim: Dim) -> bool:
    return dim == 0 if isinstance(dim, int) else dim.vmin <= 0


def _by_channel(x: UOp, op: Ops, axes: Collection[int], channels: int) -> UOp | None:
    """A reduction over all pixels of images whose channels are last in memory, and perhaps over some of their axes; None if it is another.

    Pixels come first, those of each image or of all, as columns of a matrix, by a kernel of their own: beside rows that see them again
    they would not be shared, and of a group of channels nobody would read neighbours.
    """
    dims, pixels = shape(x), range(1, channels)
    groups = [axis - channels for axis in axes if axis >= channels]
    if not {*pixels} <= {*axes} or len(groups) == len(dims) - channels:
        return None
    if groups and (is_tiny(x.dtype) or most(dims[axis] for axis in pixels) < _IMAGE):
        return None
    lead = () if 0 in axes else dims[:1]
    matrix = reshape(x, (*lead, product(dims[len(lead) : channels]), product(dims[channels:])))
    wide = _wide(op, x.dtype) if groups else x.dtype
    columns = combined(matrix.cast(wide), op, (len(lead),))
    columns = x.table.make(Ops.CONTIGUOUS, wide, (columns,))
    if not groups:
        return columns
    of_groups = reshape(columns, (*lead, *dims[channels:]))
    return combined(of_groups, op, tuple(len(lead) + axis for axis in groups)).cast(x.dtype)


def _reduce(op: Ops) -> Lowering:
    def lower(tensors: Tensors, inst: Inst) -> UOp:
        given = full(tensors.values[inst.operands[0]], tensors.dims_of(inst.operands[0]))
        asked = cast("ReduceAttrs", inst.attrs).axes
        chosen = sum_of_chosen(tensors, given, asked) if op is Ops.ADD else None
        if chosen is not None:
            left = [axis for axis in asked if not same_dim(shape(chosen)[axis], 1)]
            return reshape(combined(chosen, op, left), tensors.dims_of(inst.results[0]))
        parts = joined_parts(tensors, inst.operands[0], given, asked)
        if parts:
            return reshape(_together(parts, op, asked), tensors.dims_of(inst.results[0]))
        x, of = lying(tensors, given)
        axes = tuple(sorted(of[axis] for axis in asked))
        by_channel = None if x is given else _by_channel(x, op, axes, of[1])
        if by_channel is not None:
            return reshape(by_channel, tensors.dims_of(inst.results[0]))
        return reshaped(tensors, permute(combined(x, op, axes), of), tensors.dims_of(inst.results[0]))

    return lower


def _arg_reduce(op: Ops) -> Lowering:
    """The least position that holds the extreme, or a NaN: where there is one, the extreme is NaN, which equals nothing."""

    def lower(tensors: Tensors, inst: Inst) -> UOp:
        attrs, dims = cast("ArgReduceAttrs", inst.attrs), tensors.dims_of(inst.operands[0])
        x = full(tensors.values[inst.operands[0]], dims)
        if is_tiny(x.dtype):
            x = x.cast(dtypes.float32)
        if tensors.target.is_gpu and x.dtype.bits <= _KEY and largest(dims[attrs.axis]) < 1 << 31:
            position = _packed(tensors, x, dims, attrs.axis, op)
            return reshape(position, tensors.dims_of(inst.results[0])).cast(attrs.dtype)
        best = combined(x, op, (attrs.axis,))
        hit = x.eq(expand(best, dims))
        if x.dtype.is_float:
            hit = hit | x.ne(x)
        size = largest(dims[attrs.axis])
        word = dtypes.int32 if size < 1 << 31 else dtypes.int64
        where = hit.where(tensors.position(dims, attrs.axis).cast(word), size)
        first = combined(where, Ops.MIN, (attrs.axis,))
        return reshape(first, tensors.dims_of(inst.results[0])).cast(attrs.dtype)

    return lower


_KEY: Final = 32
"""Bits of a value that fit above a position in one integer."""


def _packed(tensors: Tensors, x: UOp, dims: Sequence[Dim], axis: int, op: Ops) -> UOp:
    """Value and position as one integer, whose extreme is the least position of the extreme: memory is read once.

    argmax: max of (key(x), last - position); argmin: min of (key(x), position). Keys compare as values do, -0 as 0, a NaN before all.
    """
    key = x
    if x.dtype.is_float:
        wide = x.cast(dtypes.float32)
        bits = wide.eq(0.0).where(wide.const_like(0.0), wide).bitcast(dtypes.int32)
        ordered = (bits < 0).where(bits ^ int(dtypes.int32.max or 0), bits)
        first = dtypes.int32.max if op is Ops.MAX else dtypes.int32.min
        key = wide.ne(wide).where(ordered.const_like(int(first or 0)), ordered)
    elif x.dtype is dtypes.uint32:
        # the upper half of an int64 has a sign
        key = (x ^ (1 << 31)).bitcast(dtypes.int32)
    last = largest(dims[axis]) - 1
    place = tensors.position(tuple(dims), axis).cast(dtypes.int64)
    place = place.const_like(last) - place if op is Ops.MAX else place
    position = combined((key.cast(dtypes.int64) << _KEY) | place, op, (axis,)) & ((1 << _KEY) - 1)
    return position.const_like(last) - position if op is Ops.MAX else position


# -- cumulative ------------------------------------------------------------------------------------------------------


def _cumulative(op: Ops) -> Lowering:
    def lower(tensors: Tensors, inst: Inst) -> UOp:
        attrs, dims = cast("CumulativeAttrs", inst.attrs), tensors.dims_of(inst.operands[0])
        x = full(tensors.values[inst.operands[0]], dims)
        if is_empty(dims):
            return x
        dtype, axis = x.dtype, attrs.axis
        turned = (axis,) if attrs.reverse else ()
        wide = flip(x, turned).cast(_wide(op, dtype))
        running = wide.table.make(Ops.SCAN_AXIS, wide.dtype, (wide,), ReduceAxes(op, (axis,))).cast(dtype)
        if attrs.exclusive:
            # One further on, with the identity in front. Padded first: a named size may be 0, and nothing has no last element.
            in_front: list[tuple[Dim, Dim]] = [(1 if each == axis else 0, 0) for each in range(len(dims))]
            longer = tuple(plus(dim, 1) if each == axis else dim for each, dim in enumerate(dims))
            moved = shrink(pad(running, in_front), longer, [(0, dim) for dim in dims])
            nothing = identity(op, dtype)
            first = tensors.position(dims, axis).eq(0)
            running = moved if nothing == 0 else first.where(moved.const_like(nothing), moved)
        return flip(running, turned)

    return lower


# -- windows ---------------------------------------------------------------------------------------------------------


def _reduce_window(tensors: Tensors, inst: Inst) -> UOp:
    """A window is an axis of its own, over which is reduced; what is not there counts as the identity."""
    attrs = cast("ReduceWindowAttrs", inst.attrs)
    op = _KINDS[attrs.kind]
    whole = full(tensors.values[inst.operands[0]], tensors.dims_of(inst.operands[0]))
    nothing = identity(op, whole.dtype)
    if is_empty(shape(whole)) or is_empty(tensors.dims_of(inst.results[0])):
        return tensors.filled(nothing, whole.dtype, tensors.dims_of(inst.results[0]))
    x, of = lying(tensors, whole)
    order, dims = inverse(of), shape(x)
    sizes = tuple(tensors.dims_of(inst.results[0])[axis] for axis in order)
    rank, window = len(dims), [attrs.window[axis] for axis in order]
    windowed = [axis for axis in range(rank) if window[axis] > 1]
    every = (*sizes, *(window[axis] for axis in windowed))
    axes = []
    for axis, (dim, size, given) in enumerate(zip(dims, sizes, order, strict=True)):
        tap = tensors.position(every, rank + windowed.index(axis)) if axis in windowed else None
        far = (window[axis] - 1) * attrs.window_dilation[given]
        axes.append(
            WindowAxis(
                tensors.position(every, axis),
                dim,
                attrs.strides[given],
                tap,
                attrs.window_dilation[given],
                attrs.low[given],
                attrs.base_dilation[given],
                plus(times(minus(size, 1), attrs.strides[given]), far),
            )
        )
    chosen, gate = elements(x, axes)
    if gate is not None and nothing != 0:
        chosen = gate.where(chosen, chosen.const_like(nothing))
    return permute(reshape(combined(chosen, op, tuple(range(rank, rank + len(windowed)))), sizes), of)


REDUCE: Final[dict[str, Lowering]] = {
    **{f"reduce_{kind}": _reduce(op) for kind, op in _KINDS.items()},
    **{f"cum{kind}": _cumulative(_KINDS[kind]) for kind in ("sum", "prod", "max", "min")},
    "argmax": _arg_reduce(Ops.MAX),
    "argmin": _arg_reduce(Ops.MIN),
    "reduce_window": _reduce_window,
}
