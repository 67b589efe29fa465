"""Reverses: composed, freed of axes that hold one element, and kept right below the slices."""

from __future__ import annotations

from planish.ptir import ops
from planish.ptir.rewrite import views as v
from planish.ptir.rules import draft as d
from planish.ptir.rules.rule import Answer, family, rule
from planish.ptir.rules.shapes import axis_groups, source_axis, varies


@rule(benefit=3)
def DropUnitReverseAxes(op: v.ReverseView) -> Answer:
    """reverse(x, a) -> reverse(x, a without axes of size 1), or x."""
    axes = [axis for axis in op.attrs.axes if op.dims[axis] != 1]
    if len(axes) == len(op.attrs.axes) and axes:
        return "every axis may hold several elements"
    return d.backwards(op.source, axes)


@rule(benefit=2)
def FoldReverseOfReverse(op: v.ReverseView, inner: v.ReverseView) -> Answer:
    """reverse(reverse(x, a), b) -> reverse(x, axes in one of a and b)."""
    axes = set(inner.attrs.axes) ^ set(op.attrs.axes)
    return d.backwards(inner.source, sorted(axes))


@rule()
def SinkTransposeBelowReverse(op: v.ReverseView, inner: v.TransposeView) -> Answer:
    """reverse(transpose(x, p), a) -> transpose(reverse(x, p[a]), p)."""
    axes = [inner.perm[axis] for axis in op.attrs.axes]
    return d.transposed(d.backwards(inner.source, axes), inner.perm)


@rule()
def SinkReshapeBelowReverse(op: v.ReverseView, inner: v.ReshapeView) -> Answer:
    """reverse(reshape(x, s), a) -> reshape(reverse(x, b), s) where groups of axes are reversed as a whole."""
    groups = axis_groups(inner.source.type.dims, inner.dims)
    axes: list[int] = []
    for group in groups:
        turned = [axis in op.attrs.axes for axis in group.target]
        if all(turned):
            axes += group.source
        elif any(turned):
            return "part of what one axis was split into is reversed"
    return d.reshaped(d.backwards(inner.source, axes), op.dims)


@rule()
def SinkBroadcastBelowReverse(op: v.ReverseView, inner: v.BroadcastView) -> Answer:
    """reverse(broadcast_to(x, s), a) -> broadcast_to(reverse(x, the axes of a that x has), s)."""
    axes = [
        source
        for axis in op.attrs.axes
        if varies(inner.inst, axis) and (source := source_axis(inner.inst, axis)) is not None
    ]
    return d.broadcasted(d.backwards(inner.source, axes), op.dims)


@rule(alone=True)
def SinkPadBelowReverse(op: v.ReverseView, inner: v.PadView) -> Answer:
    """reverse(pad(x, v, low, high), a) -> pad(reverse(x, a), v, high, low), if nothing else needs the padded x."""
    attrs, axes = inner.attrs, op.attrs.axes
    ends = list(zip(attrs.low, attrs.high, strict=True))
    ends = [end[::-1] if axis in axes else end for axis, end in enumerate(ends)]
    return d.padded(
        d.backwards(inner.source, axes),
        inner.padding,
        [low for low, _ in ends],
        [high for _, high in ends],
        attrs.interior,
    )


@rule()
def FoldReverseOfIota(op: v.ReverseView, inner: v.IotaView) -> Answer:
    """reverse(iota(n)) -> (n - 1) - iota(n), for integers."""
    size = op.dims[inner.attrs.axis]
    if len(op.dims) != 1 or not op.dtype.is_int or not isinstance(size, int):
        return "not a line of integers of known length"
    return d.draft(ops.sub, (d.number(size - 1, op.type), op.source))


populate_canonicalization = family(__name__)
