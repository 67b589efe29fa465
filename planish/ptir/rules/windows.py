"""Cumulative scans and windows: trivial ones, and movement across them.

A window sum begins with the identity 0, so that a window of a single -0 is +0: float window sums are left alone.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from planish.ptir import ops
from planish.ptir.dims import DimLike
from planish.ptir.ops import numerics
from planish.ptir.ops.definition import Attrs, OpDef, OpKey
from planish.ptir.ops.literal import Literal
from planish.ptir.ops.reduce import MONOIDS
from planish.ptir.rewrite.pattern import Root
from planish.ptir.rewrite.prelude import (
    BroadcastView,
    CumulativeView,
    OpRewritePattern,
    PatternSet,
    ProgramRewriter,
    ReduceWindowView,
    ReverseView,
    SourceView,
    TransposeView,
)
from planish.ptir.rules import draft as d
from planish.ptir.rules.numbers import CONSTANT, filled
from planish.ptir.rules.shapes import source_axis, uniform, varies

RUNNING: dict[OpDef, str] = {ops.cumsum: "sum", ops.cumprod: "prod", ops.cummax: "max", ops.cummin: "min"}
REDUCTIONS: dict[str, OpDef] = {
    "sum": ops.reduce_sum,
    "prod": ops.reduce_prod,
    "max": ops.reduce_max,
    "min": ops.reduce_min,
}


class FoldUnitCumulative(OpRewritePattern[CumulativeView]):
    """cumsum(x) -> x along an axis of size 1; the identity if exclusive."""

    benefit = 4
    radius = 0

    def match_and_rewrite(self, op: CumulativeView, rw: ProgramRewriter) -> bool:
        if op.dims[op.attrs.axis] != 1:
            return rw.fail(op.inst, "there may be something to accumulate")
        if not op.attrs.exclusive:
            return d.replace(rw, op.inst, op.source)
        return d.replace(rw, op.inst, filled(op.type, MONOIDS[RUNNING[op.op]].identity(op.dtype)))


class FoldCumulativeExtremeOfUniform(OpRewritePattern[CumulativeView]):
    """cummax(x) -> x, cummin(x) -> x where x is the same everywhere."""

    benefit = 3
    radius = 2
    roots = (ops.cummax, ops.cummin)
    operands = (CONSTANT,)

    def match_and_rewrite(self, op: CumulativeView, rw: ProgramRewriter) -> bool:
        if op.attrs.exclusive or not uniform(op.source):
            return rw.fail(op.inst, "it begins with the identity, or the elements differ")
        return d.replace(rw, op.inst, op.source)


class FoldRepeatedCumulativeExtreme(OpRewritePattern[CumulativeView]):
    """cummax(cummax(x)) -> cummax(x) along the same axis, in the same direction."""

    benefit = 3
    radius = 1
    roots = (ops.cummax, ops.cummin)
    operands = ((ops.cummax, ops.cummin),)

    def match_and_rewrite(self, op: CumulativeView, rw: ProgramRewriter) -> bool:
        inner = CumulativeView.of(op.source)
        if inner is None or inner.op is not op.op or op.attrs.exclusive:
            return rw.fail(op.inst, "not the same, or exclusive")
        if (inner.attrs.axis, inner.attrs.reverse) != (op.attrs.axis, op.attrs.reverse):
            return rw.fail(op.inst, "they run differently")
        return d.replace(rw, op.inst, op.source)


class SinkReverseBelowCumulative(OpRewritePattern[CumulativeView]):
    """cumsum(reverse(x, b); a) -> reverse(cumsum(x; a), b), running the other way if a is in b."""

    benefit = 2
    radius = 1
    operands = (ops.reverse,)

    def match_and_rewrite(self, op: CumulativeView, rw: ProgramRewriter) -> bool:
        inner = ReverseView.of(op.source)
        if inner is None:
            return False
        attrs = op.attrs
        turned = attrs.reverse != (attrs.axis in inner.attrs.axes)
        running = d.draft(op.op, (inner.source,), ops.CumulativeAttrs(attrs.axis, turned, attrs.exclusive))
        return d.replace(rw, op.inst, d.backwards(running, inner.attrs.axes))


class SinkTransposeBelowCumulative(OpRewritePattern[CumulativeView]):
    """cumsum(transpose(x, p); a) -> transpose(cumsum(x; p[a]), p)."""

    benefit = 2
    radius = 1
    operands = (ops.transpose,)

    def match_and_rewrite(self, op: CumulativeView, rw: ProgramRewriter) -> bool:
        inner = TransposeView.of(op.source)
        if inner is None:
            return False
        attrs = op.attrs
        running = d.draft(
            op.op,
            (inner.source,),
            ops.CumulativeAttrs(inner.perm[attrs.axis], attrs.reverse, attrs.exclusive),
        )
        return d.replace(rw, op.inst, d.transposed(running, inner.perm))


class SinkBroadcastBelowCumulative(OpRewritePattern[CumulativeView]):
    """cumsum(broadcast_to(x, s); a) -> broadcast_to(cumsum(x), s) where a is an axis of x."""

    benefit = 2
    radius = 1
    operands = (ops.broadcast_to,)

    def match_and_rewrite(self, op: CumulativeView, rw: ProgramRewriter) -> bool:
        spread = BroadcastView.of(op.source)
        if spread is None:
            return False
        attrs = op.attrs
        axis = source_axis(spread.inst, attrs.axis)
        if axis is None or not varies(spread.inst, attrs.axis):
            return rw.fail(op.inst, "the elements repeat along the axis")
        running = d.draft(op.op, (spread.source,), ops.CumulativeAttrs(axis, attrs.reverse, attrs.exclusive))
        return d.replace(rw, op.inst, d.broadcasted(running, op.dims))


# --- windows -----------------------------------------------------------------------------------------------


class ReplaceUnitWindowByPad(OpRewritePattern[ReduceWindowView]):
    """reduce_window(x) -> slice(pad(x, identity)) where every window holds one element; not float sums."""

    benefit = 3
    radius = 0

    def match_and_rewrite(self, op: ReduceWindowView, rw: ProgramRewriter) -> bool:
        attrs = op.attrs
        if any(size != 1 for size in attrs.window):
            return rw.fail(op.inst, "windows hold several elements")
        if attrs.kind == "sum" and not op.dtype.is_int:
            return rw.fail(op.inst, "0 + -0 is 0")
        number = Literal(numerics.full((), MONOIDS[attrs.kind].identity(op.dtype), op.dtype), dtype=op.dtype)
        interior = [dilation - 1 for dilation in attrs.base_dilation]
        padded = d.padded(op.source, d.constant(number), attrs.low, attrs.high, interior)
        if padded is None:
            return rw.fail(op.inst, "the padding cannot be proved well-typed")
        starts: list[DimLike] = [0] * len(op.dims)
        return d.replace(rw, op.inst, d.sliced(padded, starts, padded.type.dims, attrs.strides))


class ReplaceFullWindowByReduce(OpRewritePattern[ReduceWindowView]):
    """reduce_window(x) -> reduce(x) where windows span whole axes or one element; not float sums."""

    benefit = 2
    radius = 0

    def match_and_rewrite(self, op: ReduceWindowView, rw: ProgramRewriter) -> bool:
        attrs = op.attrs
        dims = op.source.type.dims
        if attrs.kind == "sum" and not op.dtype.is_int:
            return rw.fail(op.inst, "0 + -0 is 0")
        plain = all(v == 0 for v in (*attrs.low, *attrs.high)) and all(v == 1 for v in attrs.base_dilation)
        full = [axis for axis, size in enumerate(attrs.window) if size == dims[axis] and size != 1]
        rest = [axis for axis in range(len(dims)) if axis not in full]
        if not plain or not full or any(attrs.window_dilation[axis] != 1 for axis in full):
            return rw.fail(op.inst, "no window spans an axis as it is")
        if any(attrs.window[axis] != 1 or attrs.strides[axis] != 1 for axis in rest):
            return rw.fail(op.inst, "a window spans part of an axis")
        total = d.draft(REDUCTIONS[attrs.kind], (op.source,), ops.ReduceAttrs(tuple(full)))
        return d.replace(rw, op.inst, d.reshaped(total, op.dims))


class ComputedView(SourceView[Attrs]):
    """An op that computes much from its operands, elementwise ops excluded."""

    __slots__ = ()
    roots: ClassVar[tuple[Root, ...]] = (
        OpKey.REDUCE,
        OpKey.ARG_REDUCE,
        OpKey.CUMULATIVE,
        OpKey.REDUCE_WINDOW,
        OpKey.DOT_GENERAL,
        OpKey.CONVOLUTION,
    )


class ReplaceEmptyComputationByConstant(OpRewritePattern[ComputedView]):
    """f(x) -> constant where the result has no elements."""

    benefit = 6
    radius = 0

    def may_match(self, op: ComputedView, rw: ProgramRewriter) -> bool:
        return 0 in op.dims

    def match_and_rewrite(self, op: ComputedView, rw: ProgramRewriter) -> bool:
        if not op.type.is_static:
            return rw.fail(op.inst, "a constant needs a static shape")
        empty = Literal(np.empty(op.type.shape, op.dtype.numpy), dtype=op.dtype)
        return d.replace(rw, op.inst, d.constant(empty))


def populate_canonicalization(patterns: PatternSet) -> None:
    """Add the patterns of cumulative scans and windows."""
    patterns.add(
        FoldUnitCumulative,
        FoldCumulativeExtremeOfUniform,
        FoldRepeatedCumulativeExtreme,
        SinkReverseBelowCumulative,
        SinkTransposeBelowCumulative,
        SinkBroadcastBelowCumulative,
        ReplaceUnitWindowByPad,
        ReplaceFullWindowByReduce,
        ReplaceEmptyComputationByConstant,
    )
