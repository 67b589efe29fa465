"""Reshapes: composed, cancelled, and moved below what keeps the groups of axes that they keep."""

from __future__ import annotations

from planish.ptir import ops
from planish.ptir.dims import DimLike
from planish.ptir.function import Value
from planish.ptir.rewrite.prelude import (
    BroadcastView,
    ConcatView,
    OpRewritePattern,
    PadView,
    PatternSet,
    ProgramRewriter,
    ReshapeView,
)
from planish.ptir.rules import draft as d
from planish.ptir.rules.shapes import AxisGroup, match_axes, varies


class RemoveIdentityReshape(OpRewritePattern[ReshapeView]):
    """reshape(x: s, s) -> x."""

    benefit = 3
    radius = 0

    def match_and_rewrite(self, op: ReshapeView, rw: ProgramRewriter) -> bool:
        if op.source.type != op.type:
            return rw.fail(op.inst, "the shape changes")
        rw.replace_op(op.inst, op.source)
        return True


class FoldReshapeOfReshape(OpRewritePattern[ReshapeView]):
    """reshape(reshape(x, s), t) -> reshape(x, t)."""

    benefit = 2
    radius = 1
    operands = (ops.reshape,)

    def match_and_rewrite(self, op: ReshapeView, rw: ProgramRewriter) -> bool:
        inner = ReshapeView.of(op.source)
        if inner is None:
            return False
        return d.replace(rw, op.inst, d.reshaped(inner.source, op.dims))


class SinkBroadcastBelowReshape(OpRewritePattern[ReshapeView]):
    """reshape(broadcast_to(x, s), t) -> broadcast_to(reshape(x), t) where no axis mixes what repeats with what varies."""

    radius = 1
    operands = (ops.broadcast_to,)

    def match_and_rewrite(self, op: ReshapeView, rw: ProgramRewriter) -> bool:
        inner = BroadcastView.of(op.source)
        if inner is None:
            return False
        groups = match_axes(inner.dims, op.dims)
        if groups is None:
            return rw.fail(op.inst, "the reshape keeps no axes apart")
        dims: list[DimLike] = [1] * len(op.dims)
        for group in groups:
            varying = [varies(inner.inst, axis) for axis in group.source]
            if all(varying):
                for axis in group.target:
                    dims[axis] = op.dims[axis]
            elif any(varying):
                return rw.fail(op.inst, "an axis mixes what repeats with what varies")
        return d.replace(rw, op.inst, d.broadcasted(_trailing(inner.source, dims), op.dims))


def _trailing(x: Value, dims: list[DimLike]) -> d.Term | None:
    """x under a shape that broadcasts like `dims`: as it is if possible, else without leading axes of size 1."""
    lead = 0
    while lead < len(dims) and dims[lead] == 1:
        lead += 1
    for skip in range(lead + 1):
        if x.type.dims == tuple(dims[skip:]):
            return x
    return d.reshaped(x, dims[lead:])


class SinkPadBelowReshape(OpRewritePattern[ReshapeView]):
    """reshape(pad(x, v), t) -> pad(reshape(x), v) where padded axes stay axes, if nothing else needs the padded x."""

    radius = 1
    watch_uses = True
    operands = (ops.pad,)

    def match_and_rewrite(self, op: ReshapeView, rw: ProgramRewriter) -> bool:
        inner = PadView.of(op.source)
        if inner is None:
            return False
        if not op.source.has_one_use or inner.inst.parent is not op.inst.parent:
            return rw.fail(op.inst, "the padded value is used elsewhere")
        groups = match_axes(inner.dims, op.dims)
        if groups is None:
            return rw.fail(op.inst, "the reshape keeps no axes apart")
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
                return rw.fail(op.inst, f"padded axis {axis} does not stay an axis")
            dims[target] = inner.source.type.dims[axis]
            low[target], high[target] = attrs.low[axis], attrs.high[axis]
            interior[target] = attrs.interior[axis]
        moved = d.padded(d.reshaped(inner.source, dims), inner.padding, low, high, interior)
        return d.replace(rw, op.inst, moved)


class SinkReshapeBelowConcat(OpRewritePattern[ConcatView]):
    """concat(reshape(x), reshape(y); a) -> reshape(concat(x, y; b)) where axis b of x and y becomes axis a."""

    radius = 1
    operands = (ops.reshape,)

    def match_and_rewrite(self, op: ConcatView, rw: ProgramRewriter) -> bool:
        groups: list[AxisGroup] | None = None
        sources: list[Value] = []
        for part in op.parts:
            inner = ReshapeView.of(part)
            found = None if inner is None else match_axes(inner.source.type.dims, inner.dims)
            if inner is None or found is None or (groups is not None and found != groups):
                return rw.fail(op.inst, "a part is not reshaped, or in another way")
            groups = found
            sources.append(inner.source)
        axis = next((g.source[0] for g in groups or () if g.single and g.target[0] == op.attrs.axis), None)
        if axis is None:
            return rw.fail(op.inst, f"axis {op.attrs.axis} is not an axis of the sources")
        return d.replace(rw, op.inst, d.reshaped(d.joined(sources, axis), op.dims))


def populate_canonicalization(patterns: PatternSet) -> None:
    """Add the patterns rooted at reshapes."""
    patterns.add(
        RemoveIdentityReshape,
        FoldReshapeOfReshape,
        SinkBroadcastBelowReshape,
        SinkPadBelowReshape,
        SinkReshapeBelowConcat,
    )
