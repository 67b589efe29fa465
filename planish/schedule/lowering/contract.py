"""Contractions: dot_general and convolution, as products summed over axes (docs/semantics.md 7)."""

from __future__ import annotations

from typing import Final, cast

from planish.dtypes import DType
from planish.ptir.function import Inst
from planish.ptir.ops.contract import ConvolutionAttrs, DotGeneralAttrs, convolution_axes
from planish.schedule.lowering.positions import Axis, elements
from planish.schedule.lowering.reduce import combined
from planish.schedule.lowering.rules import Lowering, accumulator, convert
from planish.schedule.tensors import (
    Dims,
    Tensors,
    divided,
    expand,
    full,
    is_empty,
    minus,
    permute,
    plus,
    reshape,
    times,
)
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.shape import shape


def _sum_of_products(x: UOp, y: UOp, axes: tuple[int, ...], accum: DType, out: DType) -> UOp:
    """Both converted, multiplied and added in the accumulation dtype. Over bools: any of ands."""
    wide = accumulator(accum)
    x, y = (convert(convert(value, accum), wide) for value in (x, y))
    if wide.is_bool:
        return combined(x & y, Ops.OR, axes)
    return convert(convert(combined(x * y, Ops.ADD, axes), accum), out)


def _dot(tensors: Tensors, inst: Inst) -> UOp:
    """Both sides brought to (batch, lhs free, rhs free, contracted), multiplied and summed over the last."""
    attrs = cast("DotGeneralAttrs", inst.attrs)
    sides = []
    for operand, batch, contract in (
        (inst.operands[0], attrs.lhs_batch, attrs.lhs_contract),
        (inst.operands[1], attrs.rhs_batch, attrs.rhs_contract),
    ):
        dims = tensors.dims_of(operand)
        free = tuple(axis for axis in range(len(dims)) if axis not in (*batch, *contract))
        sides.append((tensors.values[operand], dims, batch, free, contract))
    (_, ldims, lbatch, lfree, lcontract), (_, rdims, _, rfree, _) = sides
    b, m, n, k = (
        tuple(ldims[axis] for axis in lbatch),
        tuple(ldims[axis] for axis in lfree),
        tuple(rdims[axis] for axis in rfree),
        tuple(ldims[axis] for axis in lcontract),
    )
    factors = []
    for position, (value, dims, batch, free, contract) in enumerate(sides):
        kept = (*m, *(1,) * len(n)) if position == 0 else (*(1,) * len(m), *n)
        x = reshape(permute(full(value, dims), (*batch, *free, *contract)), (*b, *kept, *k))
        factors.append(expand(x, (*b, *m, *n, *k)))
    rank = len(b) + len(m) + len(n)
    axes = tuple(range(rank, rank + len(k)))
    total = _sum_of_products(factors[0], factors[1], axes, attrs.accum_dtype, attrs.out_dtype)
    return reshape(total, (*b, *m, *n))


def _convolution(tensors: Tensors, inst: Inst) -> UOp:
    """Axes (N, groups, outputs per group, space …, inputs per group, kernel …), summed over the inputs and the kernel.

    The operand is read by position, at·stride + tap·dilation - low; the kernel is only reshaped.
    """
    attrs = cast("ConvolutionAttrs", inst.attrs)
    lhs_axes, rhs_axes, out_axes = convolution_axes(attrs, inst.operands[0].type.rank)
    x, kernel = (
        permute(full(tensors.values[operand], tensors.dims_of(operand)), axes)
        for operand, axes in zip(inst.operands, (lhs_axes, rhs_axes), strict=True)
    )
    batch, _, *extent = shape(x)
    outputs, features, *window = shape(kernel)
    result = tensors.dims_of(inst.results[0])
    space = [result[axis] for axis in out_axes[2:]]
    groups = attrs.groups
    if is_empty(result) or is_empty(shape(x)) or is_empty(shape(kernel)):
        return tensors.filled(0, attrs.out_dtype, result)
    per_group = divided(outputs, groups)
    # the operand is the same for all outputs of a group
    read: Dims = (batch, groups, 1, *space, features, *window)
    whole: Dims = (batch, groups, per_group, *space, features, *window)
    rank = 3 + len(space)
    feature = tensors.position(read, rank)
    if groups > 1:
        feature = tensors.position(read, 1) * features + feature
    axes = [Axis(tensors.position(read, 0), batch), Axis(feature, times(features, groups))]
    for i, (size, count, taps) in enumerate(zip(extent, space, window, strict=True)):
        many = cast("int", taps)
        axes.append(
            Axis(
                tensors.position(read, 3 + i),
                size,
                attrs.strides[i],
                tensors.position(read, rank + 1 + i) if many > 1 else None,
                attrs.rhs_dilation[i],
                attrs.low[i],
                attrs.lhs_dilation[i],
                plus(times(minus(count, 1), attrs.strides[i]), (many - 1) * attrs.rhs_dilation[i]),
            )
        )
    found, _ = elements(x, axes)
    line: Dims = (1, groups, per_group, *(1,) * len(space), features, *window)
    total = _sum_of_products(
        expand(found, whole),
        expand(reshape(kernel, line), whole),
        tuple(range(rank, len(whole))),
        attrs.accum_dtype,
        attrs.out_dtype,
    )
    placed = reshape(total, (batch, outputs, *space))
    return permute(placed, sorted(range(len(out_axes)), key=out_axes.__getitem__))


CONTRACT: Final[dict[str, Lowering]] = {"dot_general": _dot, "convolution": _convolution}
