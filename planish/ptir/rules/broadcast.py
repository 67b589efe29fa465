"""Broadcasts: composed, and moved below everything that need not see the repeated elements.

Uniform tensors have one form: a splat constant, or a scalar broadcast to a dynamic shape.
"""

from __future__ import annotations

from planish.ptir import ops
from planish.ptir.dims import DimLike
from planish.ptir.function import Value
from planish.ptir.ops.definition import Attrs, OpKey
from planish.ptir.rewrite import views as v
from planish.ptir.rules import draft as d
from planish.ptir.rules.rule import Answer, family, rule
from planish.ptir.rules.shapes import lead, source_axis, varies


class MovementView(
    v.SourceView[Attrs],
    roots=(
        OpKey.RESHAPE, OpKey.TRANSPOSE, OpKey.BROADCAST_TO, OpKey.SLICE, OpKey.REVERSE, OpKey.GATHER,
        OpKey.DYNAMIC_SLICE,
    ),
):  # fmt: skip
    """An op whose every result element is some element of its first operand."""


@rule(benefit=3)
def RemoveIdentityBroadcast(op: v.BroadcastView) -> Answer:
    """broadcast_to(x: s, s) -> x."""
    return op.source if op.source.type == op.type else "the shape changes"


@rule(benefit=2)
def FoldBroadcastOfBroadcast(op: v.BroadcastView, inner: v.BroadcastView) -> Answer:
    """broadcast_to(broadcast_to(x, s), t) -> broadcast_to(x, t)."""
    return d.broadcasted(inner.source, op.dims)


@rule()
def ReplaceBroadcastByReshape(op: v.BroadcastView) -> Answer:
    """broadcast_to(x, s) -> reshape(x, s) where nothing is repeated."""
    repeats = any(dim != 1 and not varies(op.inst, axis) for axis, dim in enumerate(op.dims))
    if repeats or op.dims == op.source.type.dims:
        return "elements are repeated, or the shape stays"
    return d.reshaped(op.source, op.dims)


@rule()
def DropLeadingUnitAxes(op: v.BroadcastView, inner: v.ReshapeView) -> Answer:
    """broadcast_to(reshape(x, (1, …, s)), t) -> broadcast_to(x: s, t): leading axes come by themselves."""
    first, second = inner.dims, inner.source.type.dims
    if first[lead(first) :] != second[lead(second) :]:
        return "the reshape changes more than leading axes of size 1"
    return d.broadcasted(inner.source, op.dims)


@rule(benefit=3, operands=(ops.constant,))
def FoldMovementOfSplat(op: MovementView) -> Answer:
    """move(splat) -> splat, however large; a dynamic shape gets a broadcast scalar."""
    literal = op.source.literal
    if literal is None or not literal.splat:
        return "the elements differ"
    if op.op is ops.broadcast_to and not literal.shape and not op.type.is_static:
        return "it is a scalar broadcast to a dynamic shape already"
    return d.splat(literal, op.dims, op.type.quant)


@rule()
def SinkBroadcastBelowPad(op: v.PadView, inner: v.BroadcastView) -> Answer:
    """pad(broadcast_to(x, s), v) -> broadcast_to(pad(x, v), t) where the padded axes are those of x."""
    x, attrs = inner.source, op.attrs
    rank = x.type.rank
    low: list[DimLike] = [0] * rank
    high: list[DimLike] = [0] * rank
    interior = [0] * rank
    for axis in range(len(op.dims)):
        if attrs.low[axis] == 0 and attrs.high[axis] == 0 and attrs.interior[axis] == 0:
            continue
        source = source_axis(inner.inst, axis)
        if source is None or not varies(inner.inst, axis):
            return f"axis {axis} is repeated and padded"
        low[source], high[source] = attrs.low[axis], attrs.high[axis]
        interior[source] = attrs.interior[axis]
    return d.broadcasted(d.padded(x, op.padding, low, high, interior), op.dims)


@rule(operands=(ops.broadcast_to,))
def SinkBroadcastBelowConcat(op: v.ConcatView) -> Answer:
    """concat(broadcast_to(x), broadcast_to(y); a) -> broadcast_to(concat(x, y)) where x and y have the axis a."""
    axis = op.attrs.axis
    sources: list[Value] = []
    for part in op.parts:
        inner = v.BroadcastView.of(part)
        if inner is None or not varies(inner.inst, axis):
            return f"a part is not broadcast, or along axis {axis}"
        sources.append(inner.source)
    inner_axis = axis - (len(op.dims) - sources[0].type.rank)
    return d.broadcasted(d.joined(sources, inner_axis), op.dims)


populate_canonicalization = family(__name__)
