"""Reshapes: composed, cancelled, and moved below what keeps the groups of axes that they keep."""

from __future__ import annotations

from planish.ptir import ops
from planish.ptir.dims import DimLike
from planish.ptir.function import Value
from planish.ptir.rewrite import views as v
from planish.ptir.rules import draft as d
from planish.ptir.rules.rule import Answer, family, rule
from planish.ptir.rules.shapes import AxisGroup, axis_groups, lead, match_axes, varies


@rule(benefit=3)
def RemoveIdentityReshape(op: v.ReshapeView) -> Answer:
    """reshape(x: s, s) -> x."""
    return op.source if op.source.type == op.type else "the shape changes"


@rule(benefit=2)
def FoldReshapeOfReshape(op: v.ReshapeView, inner: v.ReshapeView) -> Answer:
    """reshape(reshape(x, s), t) -> reshape(x, t)."""
    return d.reshaped(inner.source, op.dims)


@rule()
def SinkBroadcastBelowReshape(op: v.ReshapeView, inner: v.BroadcastView) -> Answer:
    """reshape(broadcast_to(x, s), t) -> broadcast_to(reshape(x), t) where no axis mixes what repeats with what varies."""
    groups = axis_groups(inner.dims, op.dims)
    dims: list[DimLike] = [1] * len(op.dims)
    for group in groups:
        varying = [varies(inner.inst, axis) for axis in group.source]
        if all(varying):
            for axis in group.target:
                dims[axis] = op.dims[axis]
        elif any(varying):
            return "an axis mixes what repeats with what varies"
    return d.broadcasted(_trailing(inner.source, dims), op.dims)


def _trailing(x: Value, dims: list[DimLike]) -> d.Term | None:
    """x under a shape that broadcasts like `dims`: as it is if possible, else without leading axes of size 1."""
    most = lead(dims)
    for skip in range(most + 1):
        if x.type.dims == tuple(dims[skip:]):
            return x
    return d.reshaped(x, dims[most:])


@rule(alone=True)
def SinkPadBelowReshape(op: v.ReshapeView, inner: v.PadView) -> Answer:
    """reshape(pad(x, v), t) -> pad(reshape(x), v) where padded axes stay axes, if nothing else needs the padded x."""
    groups = axis_groups(inner.dims, op.dims)
    target_of = {group.source[0]: group.target[0] for group in groups if group.single}
    attrs, rank = inner.attrs, len(op.dims)
    dims = list(op.dims)
    low: list[DimLike] = [0] * rank
    high: list[DimLike] = [0] * rank
    interior = [0] * rank
    for axis in range(inner.source.type.rank):
        if attrs.low[axis] == 0 and attrs.high[axis] == 0 and attrs.interior[axis] == 0:
            continue
        target = target_of.get(axis)
        if target is None:
            return f"padded axis {axis} does not stay an axis"
        dims[target] = inner.source.type.dims[axis]
        low[target], high[target] = attrs.low[axis], attrs.high[axis]
        interior[target] = attrs.interior[axis]
    return d.padded(d.reshaped(inner.source, dims), inner.padding, low, high, interior)


@rule(operands=(ops.reshape,))
def SinkReshapeBelowConcat(op: v.ConcatView) -> Answer:
    """concat(reshape(x), reshape(y); a) -> reshape(concat(x, y; b)) where axis b of x and y becomes axis a."""
    groups: list[AxisGroup] | None = None
    sources: list[Value] = []
    for part in op.parts:
        inner = v.ReshapeView.of(part)
        own_groups = None if inner is None else match_axes(inner.source.type.dims, inner.dims)
        if inner is None or own_groups is None or (groups is not None and own_groups != groups):
            return "a part is not reshaped, or in another way"
        groups = own_groups
        sources.append(inner.source)
    axis = next((g.source[0] for g in groups or () if g.single and g.target[0] == op.attrs.axis), None)
    if axis is None:
        return f"axis {op.attrs.axis} is not an axis of the sources"
    return d.reshaped(d.joined(sources, axis), op.dims)


populate_canonicalization = family(__name__)
