"""Broadcasts: composed, and moved below everything that need not see the repeated elements.

Uniform tensors have one form: a splat constant, or a scalar broadcast to a dynamic shape.
"""

from __future__ import annotations

from typing import ClassVar

from planish.ptir import ops
from planish.ptir.dims import DimLike
from planish.ptir.function import Value
from planish.ptir.ops.definition import Attrs, OpKey
from planish.ptir.rewrite.pattern import Root
from planish.ptir.rewrite.prelude import (
    BroadcastView,
    ConcatView,
    OpRewritePattern,
    PadView,
    PatternSet,
    ProgramRewriter,
    ReshapeView,
    SourceView,
)
from planish.ptir.rules import draft as d
from planish.ptir.rules.shapes import source_axis, varies


class MovementView(SourceView[Attrs]):
    """An op whose every result element is some element of its first operand."""

    __slots__ = ()
    roots: ClassVar[tuple[Root, ...]] = (
        OpKey.RESHAPE,
        OpKey.TRANSPOSE,
        OpKey.BROADCAST_TO,
        OpKey.SLICE,
        OpKey.REVERSE,
        OpKey.GATHER,
        OpKey.DYNAMIC_SLICE,
    )


class RemoveIdentityBroadcast(OpRewritePattern[BroadcastView]):
    """broadcast_to(x: s, s) -> x."""

    benefit = 3
    radius = 0

    def match_and_rewrite(self, op: BroadcastView, rw: ProgramRewriter) -> bool:
        if op.source.type != op.type:
            return rw.fail(op.inst, "the shape changes")
        rw.replace_op(op.inst, op.source)
        return True


class FoldBroadcastOfBroadcast(OpRewritePattern[BroadcastView]):
    """broadcast_to(broadcast_to(x, s), t) -> broadcast_to(x, t)."""

    benefit = 2
    radius = 1
    operands = (ops.broadcast_to,)

    def match_and_rewrite(self, op: BroadcastView, rw: ProgramRewriter) -> bool:
        inner = BroadcastView.of(op.source)
        if inner is None:
            return False
        return d.replace(rw, op.inst, d.broadcasted(inner.source, op.dims))


class ReplaceBroadcastByReshape(OpRewritePattern[BroadcastView]):
    """broadcast_to(x, s) -> reshape(x, s) where nothing is repeated."""

    radius = 0

    def match_and_rewrite(self, op: BroadcastView, rw: ProgramRewriter) -> bool:
        repeats = any(dim != 1 and not varies(op.inst, axis) for axis, dim in enumerate(op.dims))
        if repeats or op.dims == op.source.type.dims:
            return rw.fail(op.inst, "elements are repeated, or the shape stays")
        return d.replace(rw, op.inst, d.reshaped(op.source, op.dims))


class DropLeadingUnitAxes(OpRewritePattern[BroadcastView]):
    """broadcast_to(reshape(x, (1, …, s)), t) -> broadcast_to(x: s, t): leading axes come by themselves."""

    radius = 1
    operands = (ops.reshape,)

    def match_and_rewrite(self, op: BroadcastView, rw: ProgramRewriter) -> bool:
        inner = ReshapeView.of(op.source)
        if inner is None:
            return False
        if _without_lead(inner.dims) != _without_lead(inner.source.type.dims):
            return rw.fail(op.inst, "the reshape changes more than leading axes of size 1")
        return d.replace(rw, op.inst, d.broadcasted(inner.source, op.dims))


def _without_lead(dims: tuple[DimLike, ...]) -> tuple[DimLike, ...]:
    lead = 0
    while lead < len(dims) and dims[lead] == 1:
        lead += 1
    return dims[lead:]


class FoldMovementOfSplat(OpRewritePattern[MovementView]):
    """move(splat) -> splat, however large; a dynamic shape gets a broadcast scalar."""

    benefit = 3
    radius = 1
    operands = (ops.constant,)

    def match_and_rewrite(self, op: MovementView, rw: ProgramRewriter) -> bool:
        literal = op.source.literal
        if literal is None or not literal.splat:
            return rw.fail(op.inst, "the elements differ")
        if op.op is ops.broadcast_to and not literal.shape and not op.type.is_static:
            return rw.fail(op.inst, "it is a scalar broadcast to a dynamic shape already")
        return d.replace(rw, op.inst, d.splat(literal, op.dims, op.type.quant))


class SinkBroadcastBelowPad(OpRewritePattern[PadView]):
    """pad(broadcast_to(x, s), v) -> broadcast_to(pad(x, v), t) where the padded axes are those of x."""

    radius = 1
    operands = (ops.broadcast_to,)

    def match_and_rewrite(self, op: PadView, rw: ProgramRewriter) -> bool:
        inner = BroadcastView.of(op.source)
        if inner is None:
            return False
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
                return rw.fail(op.inst, f"axis {axis} is repeated and padded")
            low[source], high[source] = attrs.low[axis], attrs.high[axis]
            interior[source] = attrs.interior[axis]
        return d.replace(rw, op.inst, d.broadcasted(d.padded(x, op.padding, low, high, interior), op.dims))


class SinkBroadcastBelowConcat(OpRewritePattern[ConcatView]):
    """concat(broadcast_to(x), broadcast_to(y); a) -> broadcast_to(concat(x, y)) where x and y have the axis a."""

    radius = 1
    operands = (ops.broadcast_to,)

    def match_and_rewrite(self, op: ConcatView, rw: ProgramRewriter) -> bool:
        axis = op.attrs.axis
        sources: list[Value] = []
        for part in op.parts:
            inner = BroadcastView.of(part)
            if inner is None or not varies(inner.inst, axis):
                return rw.fail(op.inst, f"a part is not broadcast, or along axis {axis}")
            sources.append(inner.source)
        inner_axis = axis - (len(op.dims) - sources[0].type.rank)
        return d.replace(rw, op.inst, d.broadcasted(d.joined(sources, inner_axis), op.dims))


def populate_canonicalization(patterns: PatternSet) -> None:
    """Add the patterns rooted at broadcasts, and of uniform tensors."""
    patterns.add(
        RemoveIdentityBroadcast,
        FoldBroadcastOfBroadcast,
        ReplaceBroadcastByReshape,
        DropLeadingUnitAxes,
        FoldMovementOfSplat,
        SinkBroadcastBelowPad,
        SinkBroadcastBelowConcat,
    )
