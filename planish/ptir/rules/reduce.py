"""Reductions: fewer axes, less data, and one form for kept axes.

A reduction is exact over bits, for max and min, and over integers, which wrap: there nested ones merge and factors leave.
Float sums and products round, in an order that is unspecified (semantics 1.7): their axes may be moved and their
repetitions dropped, but two roundings are never made one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from planish.dtypes import DType, float_format
from planish.ptir import ops
from planish.ptir.dims import DimLike, bounds
from planish.ptir.ops import numerics
from planish.ptir.ops.definition import OpDef
from planish.ptir.ops.literal import Literal, Scalar
from planish.ptir.ops.reduce import MONOIDS
from planish.ptir.rewrite.prelude import (
    ArgReduceView,
    BroadcastView,
    ConcatView,
    OpRewritePattern,
    PadView,
    PatternSet,
    ProgramRewriter,
    ReduceView,
    ReshapeView,
    ReverseView,
    TransposeView,
    fastmath,
)
from planish.ptir.rules import draft as d
from planish.ptir.rules.numbers import filled, number_of
from planish.ptir.rules.shapes import match_axes, resized, uniform, varies

KIND: Final[dict[OpDef, str]] = {
    ops.reduce_sum: "sum",
    ops.reduce_prod: "prod",
    ops.reduce_max: "max",
    ops.reduce_min: "min",
    ops.reduce_and: "and",
    ops.reduce_or: "or",
}
COMBINE: Final[dict[OpDef, OpDef]] = {
    ops.reduce_sum: ops.add,
    ops.reduce_prod: ops.mul,
    ops.reduce_max: ops.max,
    ops.reduce_min: ops.min,
    ops.reduce_and: ops.and_,
    ops.reduce_or: ops.or_,
}
IDEMPOTENT: Final[tuple[OpDef, ...]] = (ops.reduce_max, ops.reduce_min, ops.reduce_and, ops.reduce_or)


def is_exact(op: OpDef, dtype: DType) -> bool:
    """Whether elements may be combined in any order and grouping without a change of the result."""
    return op in IDEMPOTENT or dtype.is_int or fastmath()


def identity(op: OpDef, dtype: DType) -> Scalar:
    return MONOIDS[KIND[op]].identity(dtype)


def reduced(op: OpDef, x: d.Term | None, axes: Sequence[int]) -> d.Term | None:
    """A reduction over some axes, or what it reduces if there are none."""
    if x is None or not axes:
        return x
    return d.draft(op, (x,), ops.ReduceAttrs(tuple(sorted(axes))))


# --- one form ----------------------------------------------------------------------------------------------


class RemoveReduceOfNoAxes(OpRewritePattern[ReduceView]):
    """reduce(x; no axes) -> x."""

    benefit = 5
    radius = 0

    def match_and_rewrite(self, op: ReduceView, rw: ProgramRewriter) -> bool:
        if op.attrs.axes:
            return rw.fail(op.inst, "it has axes")
        return d.replace(rw, op.inst, op.source)


class SplitKeptAxes(OpRewritePattern[ReduceView]):
    """reduce(x; keepdims) -> reshape(reduce(x)): axes of size 1 are the business of reshapes."""

    benefit = 4
    radius = 0

    def match_and_rewrite(self, op: ReduceView, rw: ProgramRewriter) -> bool:
        if not op.attrs.keepdims or not op.attrs.axes:
            return rw.fail(op.inst, "the axes are gone already")
        return d.replace(rw, op.inst, d.reshaped(reduced(op.op, op.source, op.attrs.axes), op.dims))


class SplitKeptAxisOfArgReduce(OpRewritePattern[ArgReduceView]):
    """argmax(x; keepdims) -> reshape(argmax(x))."""

    benefit = 4
    radius = 0

    def match_and_rewrite(self, op: ArgReduceView, rw: ProgramRewriter) -> bool:
        attrs = op.attrs
        if not attrs.keepdims:
            return rw.fail(op.inst, "the axis is gone already")
        found = d.draft(op.op, (op.source,), ops.ArgReduceAttrs(attrs.axis, False, attrs.dtype))
        return d.replace(rw, op.inst, d.reshaped(found, op.dims))


class DropUnitAxesOfReduce(OpRewritePattern[ReduceView]):
    """reduce(x) over an axis of size 1 -> the reduction of reshape(x) without it."""

    benefit = 4
    radius = 0

    def match_and_rewrite(self, op: ReduceView, rw: ProgramRewriter) -> bool:
        axes, dims = op.attrs.axes, op.source.type.dims
        unit = [axis for axis in axes if dims[axis] == 1]
        if not unit or op.attrs.keepdims:
            return rw.fail(op.inst, "no axis of size 1")
        left = [axis for axis in range(len(dims)) if axis not in unit]
        x = d.reshaped(op.source, [dims[axis] for axis in left])
        return d.replace(rw, op.inst, reduced(op.op, x, [left.index(a) for a in axes if a not in unit]))


class FoldUnitArgReduce(OpRewritePattern[ArgReduceView]):
    """argmax(x) over an axis of size 1 -> 0."""

    benefit = 5
    radius = 0

    def match_and_rewrite(self, op: ArgReduceView, rw: ProgramRewriter) -> bool:
        if op.source.type.dims[op.attrs.axis] != 1:
            return rw.fail(op.inst, "there is more than one element to choose from")
        return d.replace(rw, op.inst, filled(op.type, 0))


class FoldReduceOfNothing(OpRewritePattern[ReduceView]):
    """reduce(x) -> identity where an axis that goes has size 0 (semantics 6.2)."""

    benefit = 5
    radius = 0

    def match_and_rewrite(self, op: ReduceView, rw: ProgramRewriter) -> bool:
        if not any(op.source.type.dims[axis] == 0 for axis in op.attrs.axes):
            return rw.fail(op.inst, "there may be something to reduce")
        return d.replace(rw, op.inst, filled(op.type, identity(op.op, op.dtype)))


# --- what is reduced was moved -----------------------------------------------------------------------------


class MergeReduces(OpRewritePattern[ReduceView]):
    """reduce(reduce(x; a); b) -> reduce(x; a and b), if nothing else needs the inner one; exact reductions only."""

    benefit = 3
    radius = 1
    watch_uses = True
    operands = (tuple(KIND),)

    def match_and_rewrite(self, op: ReduceView, rw: ProgramRewriter) -> bool:
        inner = ReduceView.of(op.source)
        if inner is None or inner.op is not op.op or inner.attrs.keepdims or op.attrs.keepdims:
            return rw.fail(op.inst, "two different reductions")
        if not is_exact(op.op, op.dtype):
            return rw.fail(op.inst, "float sums and products are not reassociated")
        if not op.source.has_one_use:
            return rw.fail(op.inst, "the inner result is needed elsewhere")
        first = inner.attrs.axes
        left = [axis for axis in range(inner.source.type.rank) if axis not in first]
        axes = [*first, *(left[axis] for axis in op.attrs.axes)]
        return d.replace(rw, op.inst, reduced(op.op, inner.source, axes))


class SinkTransposeBelowReduce(OpRewritePattern[ReduceView]):
    """reduce(transpose(x, p); a) -> transpose(reduce(x; p[a]), q)."""

    benefit = 3
    radius = 1
    operands = (ops.transpose,)

    def match_and_rewrite(self, op: ReduceView, rw: ProgramRewriter) -> bool:
        inner = TransposeView.of(op.source)
        if inner is None or op.attrs.keepdims:
            return rw.fail(op.inst, "the axes are kept")
        perm = inner.perm
        axes = [perm[axis] for axis in op.attrs.axes]
        kept = [axis for axis in perm if axis not in axes]
        order = sorted(kept)
        x = reduced(op.op, inner.source, axes)
        return d.replace(rw, op.inst, d.transposed(x, [order.index(axis) for axis in kept]))


class SinkTransposeBelowArgReduce(OpRewritePattern[ArgReduceView]):
    """argmax(transpose(x, p); a) -> transpose(argmax(x; p[a]), q)."""

    benefit = 3
    radius = 1
    operands = (ops.transpose,)

    def match_and_rewrite(self, op: ArgReduceView, rw: ProgramRewriter) -> bool:
        inner = TransposeView.of(op.source)
        if inner is None or op.attrs.keepdims:
            return rw.fail(op.inst, "the axis is kept")
        axis = inner.perm[op.attrs.axis]
        kept = [a for a in inner.perm if a != axis]
        order = sorted(kept)
        found = d.draft(op.op, (inner.source,), ops.ArgReduceAttrs(axis, False, op.attrs.dtype))
        return d.replace(rw, op.inst, d.transposed(found, [order.index(a) for a in kept]))


class SinkReshapeBelowReduce(OpRewritePattern[ReduceView]):
    """reduce(reshape(x, s); a) -> reshape(reduce(x; b)) where the reshape keeps a apart from the other axes."""

    benefit = 3
    radius = 1
    operands = (ops.reshape,)

    def match_and_rewrite(self, op: ReduceView, rw: ProgramRewriter) -> bool:
        inner = ReshapeView.of(op.source)
        if inner is None or op.attrs.keepdims:
            return rw.fail(op.inst, "the axes are kept")
        axes, source = op.attrs.axes, inner.source.type.dims
        groups = match_axes(source, inner.dims)
        if groups is None:
            return rw.fail(op.inst, "the reshape keeps no axes apart")
        if any(inner.dims[axis] == 1 for axis in axes):
            return rw.fail(op.inst, "an axis of size 1 goes first")
        gone: list[int] = []
        for group in groups:
            inside = [axis in axes for axis in group.target]
            if all(inside):
                gone += group.source
            elif any(inside):
                return rw.fail(
                    op.inst, "some elements of an axis of x are reduced with each other, some are not"
                )
        return d.replace(rw, op.inst, d.reshaped(reduced(op.op, inner.source, gone), op.dims))


class DropReverseBelowReduce(OpRewritePattern[ReduceView]):
    """reduce(reverse(x, b); a) -> reverse(reduce(x; a), b without a): the order of elements does not matter."""

    benefit = 3
    radius = 1
    operands = (ops.reverse,)

    def match_and_rewrite(self, op: ReduceView, rw: ProgramRewriter) -> bool:
        inner = ReverseView.of(op.source)
        if inner is None or op.attrs.keepdims:
            return rw.fail(op.inst, "the axes are kept")
        left = [axis for axis in range(op.source.type.rank) if axis not in op.attrs.axes]
        turned = [left.index(axis) for axis in inner.attrs.axes if axis in left]
        return d.replace(rw, op.inst, d.backwards(reduced(op.op, inner.source, op.attrs.axes), turned))


class SinkBroadcastBelowReduce(OpRewritePattern[ReduceView]):
    """reduce(broadcast_to(x)) -> broadcast_to(reduce(x)); along an axis that goes, max(x, x, …) is x and x + x + … is x * n.

    The latter of integers only: a float would be rounded at every step.
    """

    benefit = 3
    radius = 1
    operands = (ops.broadcast_to,)

    def match_and_rewrite(self, op: ReduceView, rw: ProgramRewriter) -> bool:
        spread = BroadcastView.of(op.source)
        if spread is None or op.attrs.keepdims:
            return rw.fail(op.inst, "the axes are kept")
        count: DimLike = 1
        repeated = 0
        for axis in op.attrs.axes:
            if varies(spread.inst, axis):
                continue
            repeated += 1
            count = count * spread.dims[axis]
            if bounds(spread.dims[axis])[0] < 1:
                return rw.fail(op.inst, f"axis {axis} may be empty")
        summed = repeated > 0 and op.op not in IDEMPOTENT
        if summed and (op.op is not ops.reduce_sum or not op.dtype.is_int or not isinstance(count, int)):
            return rw.fail(op.inst, "a float is rounded at every step, a dynamic count is not known")
        kept = [axis for axis in range(len(spread.dims)) if axis not in op.attrs.axes]
        if not repeated and all(varies(spread.inst, axis) for axis in kept):
            return rw.fail(op.inst, "nothing repeats")
        # First x without the axes that only repeat; then what is left of it is reduced and spread again.
        x = spread.source
        lead = len(spread.dims) - x.type.rank
        gone = [axis - lead for axis in op.attrs.axes if axis >= lead]
        repeats = [axis for axis in gone if x.type.dims[axis] == 1]
        left = [axis for axis in range(x.type.rank) if axis not in repeats]
        narrow = d.reshaped(x, [x.type.dims[axis] for axis in left])
        small = reduced(op.op, narrow, [left.index(axis) for axis in gone if axis not in repeats])
        # Axes of x that stay keep their place from the right, so they spread as before.
        if small is not None and summed and isinstance(count, int):
            small = d.draft(ops.mul, (small, filled(small.type, count)))
        return d.replace(rw, op.inst, d.broadcasted(small, op.dims))


class FoldFloatSumOfSplat(OpRewritePattern[ReduceView]):
    """reduce_sum(splat c) -> splat n * c of floats where every partial sum is exact."""

    benefit = 4
    radius = 2
    roots = (ops.reduce_sum,)
    operands = (ops.broadcast_to,)

    def match_and_rewrite(self, op: ReduceView, rw: ProgramRewriter) -> bool:
        number = number_of(op.source)
        count: DimLike = 1
        for axis in op.attrs.axes:
            count = count * op.source.type.dims[axis]
        if not isinstance(number, float) or not isinstance(count, int) or op.attrs.keepdims:
            return rw.fail(op.inst, "not a known number of equal floats")
        if not sums_exactly(number, count, numerics.accumulator(op.dtype)):
            return rw.fail(op.inst, "a partial sum is rounded")
        total = numerics.convert(np.asarray(number * count, np.float64), op.dtype)
        return d.replace(rw, op.inst, d.splat(Literal(total, dtype=op.dtype), op.dims))


def sums_exactly(number: float, count: int, dtype: DType) -> bool:
    """Whether every multiple of a float up to `count` times is a float of a dtype."""
    if not math.isfinite(number) or number == 0 or count < 1:
        return False
    odd = abs(number.as_integer_ratio()[0])
    odd //= odd & -odd
    form = float_format(dtype)
    return odd * count <= 2**form.precision and abs(number) * count <= form.largest


class SplitReduceOfConcat(OpRewritePattern[ReduceView]):
    """reduce(concat(x, y; b); a) -> concat(reduce(x), reduce(y)), or their combination where b goes.

    Only if nothing else needs the concatenation; combining needs an exact reduction.
    """

    benefit = 2
    radius = 1
    watch_uses = True
    operands = (ops.concat,)

    def match_and_rewrite(self, op: ReduceView, rw: ProgramRewriter) -> bool:
        inner = ConcatView.of(op.source)
        if inner is None or op.attrs.keepdims or not op.source.has_one_use:
            return rw.fail(op.inst, "the axes are kept, or the concatenation is needed elsewhere")
        axes, axis = op.attrs.axes, inner.attrs.axis
        parts = [reduced(op.op, part, axes) for part in inner.parts]
        if axis not in axes:
            left = [a for a in range(op.source.type.rank) if a not in axes]
            return d.replace(rw, op.inst, d.joined(parts, left.index(axis)))
        if not is_exact(op.op, op.dtype):
            return rw.fail(op.inst, "float sums and products are not reassociated")
        total = parts[0]
        for part in parts[1:]:
            total = d.draft(COMBINE[op.op], (total, part))
        return d.replace(rw, op.inst, total)


class DropPaddingBelowReduce(OpRewritePattern[ReduceView]):
    """reduce(pad(x, identity)) -> reduce(x) where all padded axes go; not float sums, which may be -0."""

    benefit = 3
    radius = 2
    operands = (ops.pad,)

    def match_and_rewrite(self, op: ReduceView, rw: ProgramRewriter) -> bool:
        inner = PadView.of(op.source)
        if inner is None or op.attrs.keepdims:
            return rw.fail(op.inst, "the axes are kept")
        if inner.padding.literal is None or number_of(inner.padding) != identity(op.op, op.dtype):
            return rw.fail(op.inst, "the padding is not the identity")
        if op.op is ops.reduce_sum and not op.dtype.is_int:
            return rw.fail(op.inst, "the sum of -0 and a padding of 0 is not -0")
        attrs = inner.attrs
        for axis in range(op.source.type.rank):
            ends = (attrs.low[axis], attrs.high[axis])
            if axis not in op.attrs.axes and (ends != (0, 0) or attrs.interior[axis]):
                return rw.fail(op.inst, f"axis {axis} is padded and stays")
            if any(bounds(end)[0] < 0 for end in ends):
                return rw.fail(op.inst, f"axis {axis} may be cropped")
        return d.replace(rw, op.inst, reduced(op.op, inner.source, op.attrs.axes))


# --- what is reduced was computed --------------------------------------------------------------------------


class HoistNegOutOfReduce(OpRewritePattern[ReduceView]):
    """reduce_sum(-x) -> -reduce_sum(x) of integers, reduce_max(-x) -> -reduce_min(x) of floats, and of min."""

    benefit = 2
    radius = 1
    watch_uses = True
    roots = (ops.reduce_sum, ops.reduce_max, ops.reduce_min)
    operands = (ops.neg,)

    def match_and_rewrite(self, op: ReduceView, rw: ProgramRewriter) -> bool:
        inner = op.source.def_inst
        if inner is None or not op.source.has_one_use or op.attrs.keepdims:
            return rw.fail(op.inst, "the negative is needed elsewhere")
        if op.op is ops.reduce_sum:
            if not op.dtype.is_int:
                return rw.fail(op.inst, "a sum of zero would change its sign")
            other = op.op
        elif not op.dtype.is_float:
            return rw.fail(op.inst, "the negative of the lowest integer wraps")
        else:
            other = ops.reduce_min if op.op is ops.reduce_max else ops.reduce_max
        return d.replace(rw, op.inst, d.draft(ops.neg, (reduced(other, inner.operands[0], op.attrs.axes),)))


class HoistNotOutOfReduce(OpRewritePattern[ReduceView]):
    """reduce_and(not x) -> not reduce_or(x), reduce_or(not x) -> not reduce_and(x)."""

    benefit = 2
    radius = 1
    watch_uses = True
    roots = (ops.reduce_and, ops.reduce_or)
    operands = (ops.not_,)

    def match_and_rewrite(self, op: ReduceView, rw: ProgramRewriter) -> bool:
        inner = op.source.def_inst
        if inner is None or not op.source.has_one_use or op.attrs.keepdims:
            return rw.fail(op.inst, "the inverse is needed elsewhere")
        other = ops.reduce_or if op.op is ops.reduce_and else ops.reduce_and
        return d.replace(rw, op.inst, d.draft(ops.not_, (reduced(other, inner.operands[0], op.attrs.axes),)))


class HoistFactorOutOfSum(OpRewritePattern[ReduceView]):
    """reduce_sum(x * c) -> reduce_sum(x) * c of integers where c is the same everywhere."""

    benefit = 2
    radius = 2
    watch_uses = True
    roots = (ops.reduce_sum,)
    operands = (ops.mul,)

    def match_and_rewrite(self, op: ReduceView, rw: ProgramRewriter) -> bool:
        inner = op.source.def_inst
        if inner is None or not op.source.has_one_use or op.attrs.keepdims:
            return rw.fail(op.inst, "the product is needed elsewhere")
        if not is_exact(op.op, op.dtype):
            return rw.fail(op.inst, "a float product would be rounded at another time")
        x, c = inner.operands
        if not uniform(c):
            x, c = c, x
        if not uniform(c) or uniform(x):
            return rw.fail(op.inst, "no factor is the same everywhere")
        total = reduced(op.op, x, op.attrs.axes)
        return d.replace(rw, op.inst, d.draft(ops.mul, (total, resized(c, op.dims))))


class ReplaceArgReduceOfNeg(OpRewritePattern[ArgReduceView]):
    """argmax(-x) -> argmin(x), argmin(-x) -> argmax(x) of floats."""

    benefit = 2
    radius = 1
    operands = (ops.neg,)

    def match_and_rewrite(self, op: ArgReduceView, rw: ProgramRewriter) -> bool:
        inner = op.source.def_inst
        if inner is None or not op.source.type.dtype.is_float:
            return rw.fail(op.inst, "the negative of the lowest integer wraps")
        other = ops.argmin if op.op is ops.argmax else ops.argmax
        return d.replace(rw, op.inst, d.draft(other, (inner.operands[0],), op.attrs))


def populate_canonicalization(patterns: PatternSet) -> None:
    """Add the patterns of reductions."""
    patterns.add(
        RemoveReduceOfNoAxes,
        SplitKeptAxes,
        SplitKeptAxisOfArgReduce,
        DropUnitAxesOfReduce,
        FoldUnitArgReduce,
        FoldReduceOfNothing,
        MergeReduces,
        SinkTransposeBelowReduce,
        SinkTransposeBelowArgReduce,
        SinkReshapeBelowReduce,
        DropReverseBelowReduce,
        SinkBroadcastBelowReduce,
        FoldFloatSumOfSplat,
        SplitReduceOfConcat,
        DropPaddingBelowReduce,
        HoistNegOutOfReduce,
        HoistNotOutOfReduce,
        HoistFactorOutOfSum,
        ReplaceArgReduceOfNeg,
    )
