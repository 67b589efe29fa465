"""Data movement: reshape, transpose, broadcast_to, slice, reverse, concat, pad.

Plain movement ops wherever sizes allow. Where a size that matters is dynamic (a stride over it, a padding of unknown sign), elements
are taken by position instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from planish import dtypes
from planish.ptir.dims import DimLike
from planish.ptir.function import Inst, Value
from planish.ptir.ops.movement import (
    BroadcastToAttrs,
    ConcatAttrs,
    PadAttrs,
    ReshapeAttrs,
    ReverseAttrs,
    SliceAttrs,
    TransposeAttrs,
)
from planish.schedule.lowering.channels_last import inverse, lying, reshaped
from planish.schedule.lowering.positions import WindowAxis, elements
from planish.schedule.lowering.rules import Lowering
from planish.schedule.tensors import Dims, Tensors, expand, flip, full, minus, pad, permute, reshape, shrink
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.shape import Dim, same_dim, shape


def _reshape(tensors: Tensors, inst: Inst) -> UOp:
    x = tensors.values[inst.operands[0]]
    return x if not shape(x) and x.op is Ops.CONST else reshaped(tensors, full(x, tensors.dims_of(inst.operands[0])), tensors.dims(cast("ReshapeAttrs", inst.attrs).dims))  # fmt: skip


def _transpose(tensors: Tensors, inst: Inst) -> UOp:
    x = tensors.values[inst.operands[0]]
    return permute(x, cast("TransposeAttrs", inst.attrs).perm) if shape(x) else x


def _broadcast(tensors: Tensors, inst: Inst) -> UOp:
    x = tensors.values[inst.operands[0]]
    if x.op is Ops.CONST:
        return x
    dims = tensors.dims(cast("BroadcastToAttrs", inst.attrs).dims)
    old = tensors.dims_of(inst.operands[0])
    x = full(x, old)
    if len(dims) > len(old):
        return expand(reshape(x, (*(1,) * (len(dims) - len(old)), *old)), dims)
    x, of = lying(tensors, x)
    return permute(expand(x, tuple(dims[axis] for axis in inverse(of))), of)


def _slice(tensors: Tensors, inst: Inst) -> UOp:
    """Cut out, then every s-th: rows of s elements, of which the first is kept."""
    attrs = cast("SliceAttrs", inst.attrs)
    x = tensors.values[inst.operands[0]]
    if not shape(x):
        return x
    x, of = lying(tensors, x)
    order = inverse(of)
    dims, sizes, starts, limits = (
        [each[axis] for axis in order]
        for each in (
            tensors.dims_of(inst.operands[0]),
            tensors.dims_of(inst.results[0]),
            tensors.dims(attrs.starts),
            tensors.dims(attrs.limits),
        )
    )
    left = tuple(minus(limit, start) for start, limit in zip(starts, limits, strict=True))
    x = shrink(x, tuple(dims), list(zip(starts, limits, strict=True)))
    strides = [attrs.strides[axis] for axis in order]
    if any(stride != 1 for stride in strides):
        x = _every(tensors, x, left, tuple(sizes), strides)
    return permute(x, of)


def _every(tensors: Tensors, x: UOp, left: Dims, sizes: Dims, strides: Sequence[int]) -> UOp:
    """Every so manieth element along each axis."""
    stepped = [have for have, stride in zip(left, strides, strict=True) if stride > 1]
    if not all(isinstance(have, int) for have in stepped):
        axes = [
            WindowAxis(tensors.position(sizes, axis), have, stride=stride)
            for axis, (have, stride) in enumerate(zip(left, strides, strict=True))
        ]
        return elements(x, axes)[0]
    pairs: list[tuple[Dim, Dim]] = [
        (0, 0) if stride == 1 else (0, cast("int", size) * stride - cast("int", have))
        for size, stride, have in zip(sizes, strides, left, strict=True)
    ]
    rows: list[Dim] = []
    first: list[tuple[Dim, Dim]] = []
    for size, stride in zip(sizes, strides, strict=True):
        rows += (size, stride)
        first += ((0, size), (0, 1))
    return reshape(shrink(reshape(pad(x, pairs), tuple(rows)), tuple(rows), first), sizes)


def _reverse(tensors: Tensors, inst: Inst) -> UOp:
    return flip(tensors.values[inst.operands[0]], cast("ReverseAttrs", inst.attrs).axes)


# -- pad ---------------------------------------------------------------------------------------------------------------


def _is_plain(dims: Dims, attrs: PadAttrs) -> bool:
    """Whether movement ops suffice: what is cropped or spread has a size that is a number."""
    for dim, low, high, interior in zip(dims, attrs.low, attrs.high, attrs.interior, strict=True):
        if not isinstance(low, int) or not isinstance(high, int):
            return False
        if not isinstance(dim, int) and (low < 0 or high < 0 or interior):
            return False
    return True


def _spread(x: UOp, dims: Dims, attrs: PadAttrs) -> UOp:
    """The movements of a pad, with zeros wherever nothing of x is."""
    if any(attrs.interior):
        # each element at the start of a row of its own, the rest of which is padding
        rows: list[Dim] = []
        gaps: list[tuple[Dim, Dim]] = []
        long: list[Dim] = []
        sizes: list[Dim] = []
        for dim, gap in zip(dims, attrs.interior, strict=True):
            rows += (dim, 1)
            gaps += ((0, 0), (0, gap))
            long.append(dim * (gap + 1) if isinstance(dim, int) else dim)
            sizes.append(max(dim * (gap + 1) - gap, 0) if isinstance(dim, int) else dim)
        x = reshape(pad(reshape(x, tuple(rows)), gaps), tuple(long))
        dims = tuple(sizes)
        x = shrink(x, tuple(long), [(0, dim) for dim in dims])
    kept: list[tuple[Dim, Dim]] = []
    around: list[tuple[Dim, Dim]] = []
    for dim, low, high in zip(dims, cast("tuple[int, ...]", attrs.low), cast("tuple[int, ...]", attrs.high), strict=True):  # fmt: skip
        if not isinstance(dim, int):
            kept.append((0, dim))
            around.append((low, high))
            continue
        begin = min(max(-low, 0), dim)
        end = max(dim - max(-high, 0), begin)
        total = dim + low + high
        before = min(max(low + begin, 0), total - (end - begin))
        kept.append((begin, end))
        around.append((before, total - before - (end - begin)))
    return pad(shrink(x, dims, kept), around)


def _pad(tensors: Tensors, inst: Inst) -> UOp:
    x, value = (tensors.values[operand] for operand in inst.operands)
    attrs, dims = cast("PadAttrs", inst.attrs), tensors.dims_of(inst.operands[0])
    sizes = tensors.dims_of(inst.results[0])
    if not sizes:
        return full(x, dims)
    x, of = lying(tensors, full(x, dims))
    order = inverse(of)
    dims, sizes = (tuple(each[axis] for axis in order) for each in (dims, sizes))
    low, high, interior = attrs.low, attrs.high, attrs.interior
    attrs = PadAttrs(
        tuple(low[axis] for axis in order),
        tuple(high[axis] for axis in order),
        tuple(interior[axis] for axis in order),
    )
    fills = value is not value.const_like(False if value.dtype.is_bool else 0)
    if _is_plain(dims, attrs):
        padded = _spread(x, dims, attrs)
        # where x is: the same movements of a tensor that is true everywhere
        mask = _spread(tensors.filled(True, dtypes.bool_, dims), dims, attrs) if fills else None
    else:
        axes = [
            WindowAxis(
                tensors.position(sizes, axis),
                dim,
                low=tensors.dim(low),
                dilation=gap + 1,
                last=minus(sizes[axis], 1),
            )
            for axis, (dim, low, gap) in enumerate(zip(dims, attrs.low, attrs.interior, strict=True))
        ]
        padded, mask = elements(x, axes)
    if not fills or mask is None:
        return permute(padded, of)
    return permute(mask.where(padded, value if value.op is Ops.CONST else full(value, sizes)), of)


# -- concat ------------------------------------------------------------------------------------------------------------


def _concat(tensors: Tensors, inst: Inst) -> UOp:
    """Each operand padded to the whole, chosen by position: below the end of the first, of the second, …; in the order of one that lies otherwise.

    On a GPU, in the order in which a product reads it, if rows stay together in that: they are as easily written elsewhere, and a copy engine reads a matrix.
    """
    along = cast("ConcatAttrs", inst.attrs).axis
    given = [full(tensors.values[operand], tensors.dims_of(operand)) for operand in inst.operands]
    of = next((of for x in given if (of := lying(tensors, x)[1])[1:2] not in ((), (1,))), None)
    if of is None and tensors.target.is_gpu and (read := _read_by_products(inst.results[0])) is not None:
        of = inverse(read)
    order, axis = (None, along) if of is None else (inverse(of), of[along])
    sizes = _ordered(tensors.dims_of(inst.results[0]), order)
    result: UOp | None = None
    ends: list[DimLike] = [0]
    for operand in inst.operands:
        ends.append(ends[-1] + operand.type.dims[along])
    for each, start, end in reversed(list(zip(given, ends, ends[1:], strict=False))):
        dims = _ordered(shape(each), order)
        if same_dim(dims[axis], 0):
            continue
        around = _along(axis, dims, tensors.dim(start), minus(sizes[axis], tensors.dim(end)))
        x = pad(each if order is None else permute(each, order), around)
        if result is not None:
            below = (*sizes[:axis], tensors.dim(end), *sizes[axis + 1 :])
            rest = _along(axis, dims, 0, minus(sizes[axis], tensors.dim(end)))
            x = pad(tensors.filled(True, dtypes.bool_, below), rest).where(x, result)
        result = x
    if result is None:
        return tensors.table.const(0, inst.results[0].type.dtype)
    return result if of is None else permute(result, of)


def _read_by_products(value: Value) -> tuple[int, ...] | None:
    """The order of axes in which products of matrices read a value, its last axis being the last; None if none does, or in its own order."""
    for user in value.users:
        if user.op.name == "transpose":
            order = cast("TransposeAttrs", user.attrs).perm
            if order[-1] == len(order) - 1 and _is_multiplied(user.results[0]):
                return order
    return None


def _is_multiplied(value: Value) -> bool:
    """Whether a product of matrices reads a value as it is, or as rows of other lengths."""
    return any(
        user.op.name == "dot_general" or (user.op.name == "reshape" and _is_multiplied(user.results[0]))
        for user in value.users
    )


def _ordered(dims: Dims, order: Sequence[int] | None) -> Dims:
    return dims if order is None else tuple(dims[axis] for axis in order)


def _along(axis: int, dims: Sequence[Dim], before: Dim, after: Dim) -> list[tuple[Dim, Dim]]:
    return [(before, after) if each == axis else (0, 0) for each in range(len(dims))]


MOVEMENTS: Final[dict[str, Lowering]] = {
    "reshape": _reshape,
    "transpose": _transpose,
    "broadcast_to": _broadcast,
    "slice": _slice,
    "reverse": _reverse,
    "concat": _concat,
    "pad": _pad,
}
