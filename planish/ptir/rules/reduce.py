"""Reductions: fewer axes, less data, and one form for kept axes.

A reduction is exact over bits, for max and min, and over integers, which wrap: there nested ones merge and factors leave.
Float sums and products round, in an order that is unspecified (semantics 1.7): their axes may be moved and their
repetitions dropped, but two roundings are never made one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np

from planish.dtypes import DType, float_format
from planish.ptir import ops
from planish.ptir.dims import DimLike, bounds, product
from planish.ptir.function import Inst
from planish.ptir.ops import numerics
from planish.ptir.ops.definition import OpDef
from planish.ptir.ops.literal import Literal, Scalar
from planish.ptir.ops.reduce import MONOIDS
from planish.ptir.rewrite import views as v
from planish.ptir.rewrite.prelude import fastmath
from planish.ptir.rules import draft as d
from planish.ptir.rules.numbers import filled, number_of
from planish.ptir.rules.rule import Answer, family, rule
from planish.ptir.rules.shapes import axis_groups, others, ranks, resized, uniform, varies

COMBINE: Final[dict[OpDef, OpDef]] = {
    ops.reduce_sum: ops.add, ops.reduce_prod: ops.mul, ops.reduce_max: ops.max, ops.reduce_min: ops.min,
    ops.reduce_and: ops.and_, ops.reduce_or: ops.or_,
}  # fmt: skip
"""What a reduction does with two elements."""
IDEMPOTENT: Final[tuple[OpDef, ...]] = (ops.reduce_max, ops.reduce_min, ops.reduce_and, ops.reduce_or)


def is_exact(op: OpDef, dtype: DType) -> bool:
    """Whether elements may be combined in any order and grouping without a change of the result."""
    return op in IDEMPOTENT or dtype.is_int or fastmath()


def identity(op: OpDef, dtype: DType) -> Scalar:
    return MONOIDS[op.name.removeprefix("reduce_")].identity(dtype)


def reduced(op: OpDef, x: d.Term | None, axes: Sequence[int]) -> d.Term | None:
    """A reduction over some axes, or what it reduces if there are none."""
    if x is None or not axes:
        return x
    return d.draft(op, (x,), ops.ReduceAttrs(tuple(sorted(axes))))


reducing: Final = partial(rule, when=lambda op: not op.attrs.keepdims)
"""Rules of reductions whose axes go; those that keep them are split first."""


# --- one form ----------------------------------------------------------------------------------------------


@rule(benefit=5)
def RemoveReduceOfNoAxes(op: v.ReduceView) -> Answer:
    """reduce(x; no axes) -> x."""
    return "it has axes" if op.attrs.axes else op.source


@rule(benefit=4)
def SplitKeptAxes(op: v.ReduceView) -> Answer:
    """reduce(x; keepdims) -> reshape(reduce(x)): axes of size 1 are the business of reshapes."""
    if not op.attrs.keepdims or not op.attrs.axes:
        return "the axes are gone already"
    return d.reshaped(reduced(op.op, op.source, op.attrs.axes), op.dims)


@rule(benefit=4)
def SplitKeptAxisOfArgReduce(op: v.ArgReduceView) -> Answer:
    """argmax(x; keepdims) -> reshape(argmax(x))."""
    attrs = op.attrs
    if not attrs.keepdims:
        return "the axis is gone already"
    places = d.draft(op.op, (op.source,), ops.ArgReduceAttrs(attrs.axis, False, attrs.dtype))
    return d.reshaped(places, op.dims)


@reducing(benefit=4)
def DropUnitAxesOfReduce(op: v.ReduceView) -> Answer:
    """reduce(x) over an axis of size 1 -> the reduction of reshape(x) without it."""
    axes, dims = op.attrs.axes, op.source.type.dims
    unit = [axis for axis in axes if dims[axis] == 1]
    if not unit:
        return "no axis of size 1"
    left = others(dims, unit)
    x = d.reshaped(op.source, [dims[axis] for axis in left])
    return reduced(op.op, x, [left.index(a) for a in axes if a not in unit])


@rule(benefit=5)
def FoldUnitArgReduce(op: v.ArgReduceView) -> Answer:
    """argmax(x) over an axis of size 1 -> 0."""
    if op.source.type.dims[op.attrs.axis] != 1:
        return "there is more than one element to choose from"
    return filled(op.type, 0)


@rule(benefit=5)
def FoldReduceOfNothing(op: v.ReduceView) -> Answer:
    """reduce(x) -> identity where an axis that goes has size 0 (semantics 6.2)."""
    if not any(op.source.type.dims[axis] == 0 for axis in op.attrs.axes):
        return "there may be something to reduce"
    return filled(op.type, identity(op.op, op.dtype))


# --- what is reduced was moved -----------------------------------------------------------------------------


@reducing(benefit=3, operands=(tuple(COMBINE),), watch_uses=True)
def MergeReduces(op: v.ReduceView, inner: v.ReduceView) -> Answer:
    """reduce(reduce(x; a); b) -> reduce(x; a and b), if nothing else needs the inner one; exact reductions only."""
    if inner.op is not op.op or inner.attrs.keepdims:
        return "two different reductions"
    if not is_exact(op.op, op.dtype):
        return "float sums and products are not reassociated"
    if not op.source.has_one_use:
        return "the inner result is needed elsewhere"
    first = inner.attrs.axes
    left = others(inner.source.type.dims, first)
    return reduced(op.op, inner.source, [*first, *(left[axis] for axis in op.attrs.axes)])


@reducing(benefit=3)
def SinkTransposeBelowReduce(op: v.ReduceView, inner: v.TransposeView) -> Answer:
    """reduce(transpose(x, p); a) -> transpose(reduce(x; p[a]), q)."""
    axes = [inner.perm[axis] for axis in op.attrs.axes]
    kept = [axis for axis in inner.perm if axis not in axes]
    return d.transposed(reduced(op.op, inner.source, axes), ranks(kept))


@reducing(benefit=3)
def SinkTransposeBelowArgReduce(op: v.ArgReduceView, inner: v.TransposeView) -> Answer:
    """argmax(transpose(x, p); a) -> transpose(argmax(x; p[a]), q)."""
    axis = inner.perm[op.attrs.axis]
    places = d.draft(op.op, (inner.source,), ops.ArgReduceAttrs(axis, False, op.attrs.dtype))
    return d.transposed(places, ranks([other for other in inner.perm if other != axis]))


@reducing(benefit=3)
def SinkReshapeBelowReduce(op: v.ReduceView, inner: v.ReshapeView) -> Answer:
    """reduce(reshape(x, s); a) -> reshape(reduce(x; b)) where the reshape keeps a apart from the other axes."""
    axes, source = op.attrs.axes, inner.source.type.dims
    groups = axis_groups(source, inner.dims)
    if any(inner.dims[axis] == 1 for axis in axes):
        return "an axis of size 1 goes first"
    gone: list[int] = []
    for group in groups:
        inside = [axis in axes for axis in group.target]
        if all(inside):
            gone += group.source
        elif any(inside):
            return "some elements of an axis of x are reduced with each other, some are not"
    return d.reshaped(reduced(op.op, inner.source, gone), op.dims)


@reducing(benefit=3)
def DropReverseBelowReduce(op: v.ReduceView, inner: v.ReverseView) -> Answer:
    """reduce(reverse(x, b); a) -> reverse(reduce(x; a), b without a): the order of elements does not matter."""
    left = others(op.source.type.dims, op.attrs.axes)
    turned = [left.index(axis) for axis in inner.attrs.axes if axis in left]
    return d.backwards(reduced(op.op, inner.source, op.attrs.axes), turned)


@reducing(benefit=3)
def SinkBroadcastBelowReduce(op: v.ReduceView, spread: v.BroadcastView) -> Answer:
    """reduce(broadcast_to(x)) -> broadcast_to(reduce(x)); along an axis that goes, max(x, x, …) is x and x + x + … is x * n.

    The latter of integers only: a float would be rounded at every step.
    """
    count: DimLike = 1
    repeated = 0
    for axis in op.attrs.axes:
        if varies(spread.inst, axis):
            continue
        repeated += 1
        count = count * spread.dims[axis]
        if bounds(spread.dims[axis])[0] < 1:
            return f"axis {axis} may be empty"
    summed = repeated > 0 and op.op not in IDEMPOTENT
    if summed and (op.op is not ops.reduce_sum or not op.dtype.is_int or not isinstance(count, int)):
        return "a float is rounded at every step, a dynamic count is not known"
    if not repeated and all(varies(spread.inst, axis) for axis in others(spread.dims, op.attrs.axes)):
        return "nothing repeats"
    # First x without the axes that only repeat; then what is left of it is reduced and spread again.
    x = spread.source
    lead = len(spread.dims) - x.type.rank
    gone = [axis - lead for axis in op.attrs.axes if axis >= lead]
    repeats = [axis for axis in gone if x.type.dims[axis] == 1]
    left = others(x.type.dims, repeats)
    narrow = d.reshaped(x, [x.type.dims[axis] for axis in left])
    small = reduced(op.op, narrow, [left.index(axis) for axis in gone if axis not in repeats])
    # Axes of x that stay keep their place from the right, so they spread as before.
    if small is not None and summed and isinstance(count, int):
        small = d.draft(ops.mul, (small, filled(small.type, count)))
    return d.broadcasted(small, op.dims)


@reducing(benefit=4, radius=2, roots=(ops.reduce_sum,), operands=(ops.broadcast_to,))
def FoldFloatSumOfSplat(op: v.ReduceView) -> Answer:
    """reduce_sum(splat c) -> splat n * c of floats where every partial sum is exact."""
    number = number_of(op.source)
    count = product(op.source.type.dims[axis] for axis in op.attrs.axes)
    if not isinstance(number, float) or not isinstance(count, int):
        return "not a known number of equal floats"
    if not sums_exactly(number, count, numerics.accumulator(op.dtype)):
        return "a partial sum is rounded"
    total = numerics.convert(np.asarray(number * count, np.float64), op.dtype)
    return d.splat(Literal(total, dtype=op.dtype), op.dims)


def sums_exactly(number: float, count: int, dtype: DType) -> bool:
    """Whether every multiple of a float up to `count` times is a float of a dtype."""
    if not math.isfinite(number) or number == 0 or count < 1:
        return False
    odd = abs(number.as_integer_ratio()[0])
    odd //= odd & -odd
    form = float_format(dtype)
    return odd * count <= 2**form.precision and abs(number) * count <= form.largest


@reducing(benefit=2, watch_uses=True)
def SplitReduceOfConcat(op: v.ReduceView, inner: v.ConcatView) -> Answer:
    """reduce(concat(x, y; b); a) -> concat(reduce(x), reduce(y)), or their combination where b goes.

    Only if nothing else needs the concatenation; combining needs an exact reduction.
    """
    if not op.source.has_one_use:
        return "the concatenation is needed elsewhere"
    axes, axis = op.attrs.axes, inner.attrs.axis
    parts = [reduced(op.op, part, axes) for part in inner.parts]
    if axis not in axes:
        return d.joined(parts, others(op.source.type.dims, axes).index(axis))
    if not is_exact(op.op, op.dtype):
        return "float sums and products are not reassociated"
    total = parts[0]
    for part in parts[1:]:
        total = d.draft(COMBINE[op.op], (total, part))
    return total


@reducing(benefit=3, radius=2)
def DropPaddingBelowReduce(op: v.ReduceView, inner: v.PadView) -> Answer:
    """reduce(pad(x, identity)) -> reduce(x) where all padded axes go; not float sums, which may be -0."""
    if inner.padding.literal is None or number_of(inner.padding) != identity(op.op, op.dtype):
        return "the padding is not the identity"
    if op.op is ops.reduce_sum and not op.dtype.is_int:
        return "the sum of -0 and a padding of 0 is not -0"
    attrs = inner.attrs
    for axis in range(op.source.type.rank):
        ends = (attrs.low[axis], attrs.high[axis])
        if axis not in op.attrs.axes and (ends != (0, 0) or attrs.interior[axis]):
            return f"axis {axis} is padded and stays"
        if any(bounds(end)[0] < 0 for end in ends):
            return f"axis {axis} may be cropped"
    return reduced(op.op, inner.source, op.attrs.axes)


# --- what is reduced was computed --------------------------------------------------------------------------


@reducing(
    benefit=2, roots=(ops.reduce_sum, ops.reduce_max, ops.reduce_min), operands=(ops.neg,), watch_uses=True
)
def HoistNegOutOfReduce(op: v.ReduceView, inner: Inst) -> Answer:
    """reduce_sum(-x) -> -reduce_sum(x) of integers, reduce_max(-x) -> -reduce_min(x) of floats, and of min."""
    if not op.source.has_one_use:
        return "the negative is needed elsewhere"
    if op.op is ops.reduce_sum:
        if not op.dtype.is_int:
            return "a sum of zero would change its sign"
        other = op.op
    elif not op.dtype.is_float:
        return "the negative of the lowest integer wraps"
    else:
        other = ops.reduce_min if op.op is ops.reduce_max else ops.reduce_max
    return d.draft(ops.neg, (reduced(other, inner.operands[0], op.attrs.axes),))


@reducing(benefit=2, roots=(ops.reduce_and, ops.reduce_or), operands=(ops.not_,), watch_uses=True)
def HoistNotOutOfReduce(op: v.ReduceView, inner: Inst) -> Answer:
    """reduce_and(not x) -> not reduce_or(x), reduce_or(not x) -> not reduce_and(x)."""
    if not op.source.has_one_use:
        return "the inverse is needed elsewhere"
    other = ops.reduce_or if op.op is ops.reduce_and else ops.reduce_and
    return d.draft(ops.not_, (reduced(other, inner.operands[0], op.attrs.axes),))


@reducing(benefit=2, radius=2, roots=(ops.reduce_sum,), operands=(ops.mul,), watch_uses=True)
def HoistFactorOutOfSum(op: v.ReduceView, inner: Inst) -> Answer:
    """reduce_sum(x * c) -> reduce_sum(x) * c of integers where c is the same everywhere."""
    if not op.source.has_one_use:
        return "the product is needed elsewhere"
    if not is_exact(op.op, op.dtype):
        return "a float product would be rounded at another time"
    x, c = inner.operands
    if not uniform(c):
        x, c = c, x
    if not uniform(c) or uniform(x):
        return "no factor is the same everywhere"
    total = reduced(op.op, x, op.attrs.axes)
    return d.draft(ops.mul, (total, resized(c, op.dims)))


@rule(benefit=2, operands=(ops.neg,))
def ReplaceArgReduceOfNeg(op: v.ArgReduceView, inner: Inst) -> Answer:
    """argmax(-x) -> argmin(x), argmin(-x) -> argmax(x) of floats."""
    if not op.source.type.dtype.is_float:
        return "the negative of the lowest integer wraps"
    other = ops.argmin if op.op is ops.argmax else ops.argmax
    return d.draft(other, (inner.operands[0],), op.attrs)


populate_canonicalization = family(__name__)
