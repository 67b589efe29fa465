"""Cumulative scans and windows: trivial ones, and movement across them.

A window sum begins with the identity 0, so that a window of a single -0 is +0: float window sums are left alone.
"""

from __future__ import annotations

from planish.ptir import ops
from planish.ptir.dims import DimLike
from planish.ptir.ops import numerics
from planish.ptir.ops.definition import Attrs, OpKey, find
from planish.ptir.ops.literal import Literal
from planish.ptir.ops.reduce import MONOIDS
from planish.ptir.rewrite import views as v
from planish.ptir.rules import draft as d
from planish.ptir.rules.numbers import CONSTANT, filled
from planish.ptir.rules.rule import Answer, family, rule
from planish.ptir.rules.shapes import source_axis, uniform, varies


@rule(benefit=4)
def FoldUnitCumulative(op: v.CumulativeView) -> Answer:
    """cumsum(x) -> x along an axis of size 1; the identity if exclusive."""
    if op.dims[op.attrs.axis] != 1:
        return "there may be something to accumulate"
    if not op.attrs.exclusive:
        return op.source
    return filled(op.type, MONOIDS[op.op.name.removeprefix("cum")].identity(op.dtype))


@rule(benefit=3, radius=2, roots=(ops.cummax, ops.cummin), operands=(CONSTANT,))
def FoldCumulativeExtremeOfUniform(op: v.CumulativeView) -> Answer:
    """cummax(x) -> x, cummin(x) -> x where x is the same everywhere."""
    if op.attrs.exclusive or not uniform(op.source):
        return "it begins with the identity, or the elements differ"
    return op.source


@rule(benefit=3, roots=(ops.cummax, ops.cummin), operands=((ops.cummax, ops.cummin),))
def FoldRepeatedCumulativeExtreme(op: v.CumulativeView, inner: v.CumulativeView) -> Answer:
    """cummax(cummax(x)) -> cummax(x) along the same axis, in the same direction."""
    if inner.op is not op.op or op.attrs.exclusive:
        return "not the same, or exclusive"
    if (inner.attrs.axis, inner.attrs.reverse) != (op.attrs.axis, op.attrs.reverse):
        return "they run differently"
    return op.source


@rule(benefit=2)
def SinkReverseBelowCumulative(op: v.CumulativeView, inner: v.ReverseView) -> Answer:
    """cumsum(reverse(x, b); a) -> reverse(cumsum(x; a), b), running the other way if a is in b."""
    attrs = op.attrs
    turned = attrs.reverse != (attrs.axis in inner.attrs.axes)
    running = d.draft(op.op, (inner.source,), ops.CumulativeAttrs(attrs.axis, turned, attrs.exclusive))
    return d.backwards(running, inner.attrs.axes)


@rule(benefit=2)
def SinkTransposeBelowCumulative(op: v.CumulativeView, inner: v.TransposeView) -> Answer:
    """cumsum(transpose(x, p); a) -> transpose(cumsum(x; p[a]), p)."""
    attrs = op.attrs
    running = d.draft(
        op.op, (inner.source,), ops.CumulativeAttrs(inner.perm[attrs.axis], attrs.reverse, attrs.exclusive)
    )
    return d.transposed(running, inner.perm)


@rule(benefit=2)
def SinkBroadcastBelowCumulative(op: v.CumulativeView, spread: v.BroadcastView) -> Answer:
    """cumsum(broadcast_to(x, s); a) -> broadcast_to(cumsum(x), s) where a is an axis of x."""
    attrs = op.attrs
    axis = source_axis(spread.inst, attrs.axis)
    if axis is None or not varies(spread.inst, attrs.axis):
        return "the elements repeat along the axis"
    running = d.draft(op.op, (spread.source,), ops.CumulativeAttrs(axis, attrs.reverse, attrs.exclusive))
    return d.broadcasted(running, op.dims)


# --- windows -----------------------------------------------------------------------------------------------


@rule(benefit=3)
def ReplaceUnitWindowByPad(op: v.ReduceWindowView) -> Answer:
    """reduce_window(x) -> slice(pad(x, identity)) where every window holds one element; not float sums."""
    attrs = op.attrs
    if any(size != 1 for size in attrs.window):
        return "windows hold several elements"
    if attrs.kind == "sum" and not op.dtype.is_int:
        return "0 + -0 is 0"
    number = Literal(numerics.full((), MONOIDS[attrs.kind].identity(op.dtype), op.dtype), dtype=op.dtype)
    interior = [dilation - 1 for dilation in attrs.base_dilation]
    padded = d.padded(op.source, d.constant(number), attrs.low, attrs.high, interior)
    if padded is None:
        return "the padding cannot be proved well-typed"
    starts: list[DimLike] = [0] * len(op.dims)
    return d.sliced(padded, starts, padded.type.dims, attrs.strides)


@rule(benefit=2)
def ReplaceFullWindowByReduce(op: v.ReduceWindowView) -> Answer:
    """reduce_window(x) -> reduce(x) where windows span whole axes or one element; not float sums."""
    attrs = op.attrs
    dims = op.source.type.dims
    if attrs.kind == "sum" and not op.dtype.is_int:
        return "0 + -0 is 0"
    plain = all(v == 0 for v in (*attrs.low, *attrs.high)) and all(v == 1 for v in attrs.base_dilation)
    full = [axis for axis, size in enumerate(attrs.window) if size == dims[axis] and size != 1]
    rest = [axis for axis in range(len(dims)) if axis not in full]
    if not plain or not full or any(attrs.window_dilation[axis] != 1 for axis in full):
        return "no window spans an axis as it is"
    if any(attrs.window[axis] != 1 or attrs.strides[axis] != 1 for axis in rest):
        return "a window spans part of an axis"
    total = d.draft(find(f"reduce_{attrs.kind}"), (op.source,), ops.ReduceAttrs(tuple(full)))
    return d.reshaped(total, op.dims)


class ComputedView(
    v.SourceView[Attrs],
    roots=(
        OpKey.REDUCE, OpKey.ARG_REDUCE, OpKey.CUMULATIVE, OpKey.REDUCE_WINDOW, OpKey.DOT_GENERAL,
        OpKey.CONVOLUTION,
    ),
):  # fmt: skip
    """An op that computes much from its operands, elementwise ops excluded."""


@rule(benefit=6, when=lambda op: 0 in op.dims)
def ReplaceEmptyComputationByConstant(op: ComputedView) -> Answer:
    """f(x) -> constant where the result has no elements."""
    return d.empty(op.type)


populate_canonicalization = family(__name__)
