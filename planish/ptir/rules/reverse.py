"""Reverses: composed, freed of axes that hold one element, and kept right below the slices."""

from __future__ import annotations

from planish.ptir import ops
from planish.ptir.rewrite.prelude import (
    BroadcastView,
    IotaView,
    OpRewritePattern,
    PadView,
    PatternSet,
    ProgramRewriter,
    ReshapeView,
    ReverseView,
    TransposeView,
)
from planish.ptir.rules import draft as d
from planish.ptir.rules.shapes import match_axes, source_axis, varies


class DropUnitReverseAxes(OpRewritePattern[ReverseView]):
    """reverse(x, a) -> reverse(x, a without axes of size 1), or x."""

    benefit = 3
    radius = 0

    def match_and_rewrite(self, op: ReverseView, rw: ProgramRewriter) -> bool:
        axes = [axis for axis in op.attrs.axes if op.dims[axis] != 1]
        if len(axes) == len(op.attrs.axes) and axes:
            return rw.fail(op.inst, "every axis may hold several elements")
        return d.replace(rw, op.inst, d.backwards(op.source, axes))


class FoldReverseOfReverse(OpRewritePattern[ReverseView]):
    """reverse(reverse(x, a), b) -> reverse(x, axes in one of a and b)."""

    benefit = 2
    radius = 1
    operands = (ops.reverse,)

    def match_and_rewrite(self, op: ReverseView, rw: ProgramRewriter) -> bool:
        inner = ReverseView.of(op.source)
        if inner is None:
            return False
        axes = set(inner.attrs.axes) ^ set(op.attrs.axes)
        return d.replace(rw, op.inst, d.backwards(inner.source, sorted(axes)))


class SinkTransposeBelowReverse(OpRewritePattern[ReverseView]):
    """reverse(transpose(x, p), a) -> transpose(reverse(x, p[a]), p)."""

    radius = 1
    operands = (ops.transpose,)

    def match_and_rewrite(self, op: ReverseView, rw: ProgramRewriter) -> bool:
        inner = TransposeView.of(op.source)
        if inner is None:
            return False
        axes = [inner.perm[axis] for axis in op.attrs.axes]
        return d.replace(rw, op.inst, d.transposed(d.backwards(inner.source, axes), inner.perm))


class SinkReshapeBelowReverse(OpRewritePattern[ReverseView]):
    """reverse(reshape(x, s), a) -> reshape(reverse(x, b), s) where groups of axes are reversed as a whole."""

    radius = 1
    operands = (ops.reshape,)

    def match_and_rewrite(self, op: ReverseView, rw: ProgramRewriter) -> bool:
        inner = ReshapeView.of(op.source)
        if inner is None:
            return False
        groups = match_axes(inner.source.type.dims, inner.dims)
        if groups is None:
            return rw.fail(op.inst, "the reshape keeps no axes apart")
        axes: list[int] = []
        for group in groups:
            turned = [axis in op.attrs.axes for axis in group.target]
            if all(turned):
                axes += group.source
            elif any(turned):
                return rw.fail(op.inst, "part of what one axis was split into is reversed")
        return d.replace(rw, op.inst, d.reshaped(d.backwards(inner.source, axes), op.dims))


class SinkBroadcastBelowReverse(OpRewritePattern[ReverseView]):
    """reverse(broadcast_to(x, s), a) -> broadcast_to(reverse(x, the axes of a that x has), s)."""

    radius = 1
    operands = (ops.broadcast_to,)

    def match_and_rewrite(self, op: ReverseView, rw: ProgramRewriter) -> bool:
        inner = BroadcastView.of(op.source)
        if inner is None:
            return False
        axes = [
            source
            for axis in op.attrs.axes
            if varies(inner.inst, axis) and (source := source_axis(inner.inst, axis)) is not None
        ]
        return d.replace(rw, op.inst, d.broadcasted(d.backwards(inner.source, axes), op.dims))


class SinkPadBelowReverse(OpRewritePattern[ReverseView]):
    """reverse(pad(x, v, low, high), a) -> pad(reverse(x, a), v, high, low), if nothing else needs the padded x."""

    radius = 1
    watch_uses = True
    operands = (ops.pad,)

    def match_and_rewrite(self, op: ReverseView, rw: ProgramRewriter) -> bool:
        inner = PadView.of(op.source)
        if inner is None:
            return False
        if not op.source.has_one_use or inner.inst.parent is not op.inst.parent:
            return rw.fail(op.inst, "the padded value is used elsewhere")
        attrs, axes = inner.attrs, op.attrs.axes
        ends = list(zip(attrs.low, attrs.high, strict=True))
        ends = [end[::-1] if axis in axes else end for axis, end in enumerate(ends)]
        moved = d.padded(
            d.backwards(inner.source, axes),
            inner.padding,
            [low for low, _ in ends],
            [high for _, high in ends],
            attrs.interior,
        )
        return d.replace(rw, op.inst, moved)


class FoldReverseOfIota(OpRewritePattern[ReverseView]):
    """reverse(iota(n)) -> (n - 1) - iota(n), for integers."""

    radius = 1
    operands = (ops.iota,)

    def match_and_rewrite(self, op: ReverseView, rw: ProgramRewriter) -> bool:
        inner = IotaView.of(op.source)
        if inner is None:
            return False
        size = op.dims[inner.attrs.axis]
        if len(op.dims) != 1 or not op.dtype.is_int or not isinstance(size, int):
            return rw.fail(op.inst, "not a line of integers of known length")
        return d.replace(rw, op.inst, d.draft(ops.sub, (d.number(size - 1, op.type), op.source)))


def populate_canonicalization(patterns: PatternSet) -> None:
    """Add the patterns rooted at reverses."""
    patterns.add(
        DropUnitReverseAxes,
        FoldReverseOfReverse,
        SinkTransposeBelowReverse,
        SinkReshapeBelowReverse,
        SinkBroadcastBelowReverse,
        SinkPadBelowReverse,
        FoldReverseOfIota,
    )
