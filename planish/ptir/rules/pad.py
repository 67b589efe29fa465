"""Pads: composed, freed of cropping (a slice does that), and recognised where they pad nothing or with itself."""

from __future__ import annotations

from planish.ptir import ops
from planish.ptir.dims import DimLike, bounds
from planish.ptir.rewrite.prelude import BroadcastView, OpRewritePattern, PadView, PatternSet, ProgramRewriter
from planish.ptir.rules import draft as d
from planish.ptir.rules.shapes import at_most, same_scalar


class RemoveZeroPad(OpRewritePattern[PadView]):
    """pad(x, v, 0, 0, 0) -> x."""

    benefit = 3
    radius = 0

    def match_and_rewrite(self, op: PadView, rw: ProgramRewriter) -> bool:
        attrs = op.attrs
        if any(dim != 0 for dim in (*attrs.low, *attrs.high)) or any(attrs.interior):
            return rw.fail(op.inst, "elements are added or cropped")
        return d.replace(rw, op.inst, op.source)


class FoldPadOfPad(OpRewritePattern[PadView]):
    """pad(pad(x, v), v) -> pad(x, v, sum of both), where neither crops or spreads."""

    benefit = 2
    radius = 2
    operands = (ops.pad,)

    def match_and_rewrite(self, op: PadView, rw: ProgramRewriter) -> bool:
        inner = PadView.of(op.source)
        if inner is None:
            return False
        if not same_scalar(op.padding, inner.padding):
            return rw.fail(op.inst, "they pad with different values")
        outer, first = op.attrs, inner.attrs
        amounts = (*outer.low, *outer.high, *first.low, *first.high)
        if any(outer.interior) or any(first.interior) or not all(at_most(0, dim) for dim in amounts):
            return rw.fail(op.inst, "one of them may crop or spreads")
        low = [a + b for a, b in zip(first.low, outer.low, strict=True)]
        high = [a + b for a, b in zip(first.high, outer.high, strict=True)]
        return d.replace(rw, op.inst, d.padded(inner.source, op.padding, low, high, outer.interior))


class ReplaceCroppingBySlice(OpRewritePattern[PadView]):
    """pad(x, v, low < 0 or high < 0) -> pad(slice(x), v, max(low, 0), max(high, 0))."""

    radius = 0

    def match_and_rewrite(self, op: PadView, rw: ProgramRewriter) -> bool:
        attrs, sizes = op.attrs, op.source.type.dims
        starts: list[DimLike] = [0] * len(sizes)
        limits: list[DimLike] = list(sizes)
        low, high = list(attrs.low), list(attrs.high)
        crops = False
        for axis, gap in enumerate(attrs.interior):
            for ends, cut in ((low, starts), (high, limits)):
                least, most = bounds(ends[axis])
                if least >= 0:
                    continue
                if most > 0 or gap:
                    return rw.fail(
                        op.inst, f"axis {axis} may be padded or cropped, or is spread before it is cropped"
                    )
                crops = True
                cut[axis] = -ends[axis] if cut is starts else sizes[axis] + ends[axis]
                ends[axis] = 0
        if not crops:
            return rw.fail(op.inst, "nothing is cropped")
        kept = d.sliced(op.source, starts, limits, (1,) * len(sizes))
        return d.replace(rw, op.inst, d.padded(kept, op.padding, low, high, attrs.interior))


class DropUnitInterior(OpRewritePattern[PadView]):
    """pad(x, v, interior) -> pad(x, v, 0) along axes of size 1, which have no neighbours."""

    radius = 0

    def match_and_rewrite(self, op: PadView, rw: ProgramRewriter) -> bool:
        attrs = op.attrs
        interior = [0 if op.source.type.dims[axis] == 1 else gap for axis, gap in enumerate(attrs.interior)]
        if tuple(interior) == attrs.interior:
            return rw.fail(op.inst, "no axis of size 1 is spread")
        return d.replace(rw, op.inst, d.padded(op.source, op.padding, attrs.low, attrs.high, interior))


class FoldPadOfUniform(OpRewritePattern[PadView]):
    """pad(broadcast_to(v), v) -> broadcast_to(v); likewise pad(splat v, v)."""

    benefit = 2
    radius = 2
    operands = ((ops.broadcast_to, ops.constant),)

    def match_and_rewrite(self, op: PadView, rw: ProgramRewriter) -> bool:
        literal = op.source.literal
        if literal is not None:
            value = op.padding.literal
            alike = value is not None and literal.splat and literal.with_shape(()) == value
        else:
            spread = BroadcastView.of(op.source)
            alike = spread is not None and spread.source is op.padding
        if not alike:
            return rw.fail(op.inst, "the padding differs from what is padded")
        return d.replace(rw, op.inst, d.broadcasted(op.padding, op.dims))


class ReplacePadOfEmpty(OpRewritePattern[PadView]):
    """pad(x without elements, v) -> broadcast_to(v)."""

    benefit = 2
    radius = 0

    def match_and_rewrite(self, op: PadView, rw: ProgramRewriter) -> bool:
        if 0 not in op.source.type.dims:
            return rw.fail(op.inst, "there may be elements to pad")
        return d.replace(rw, op.inst, d.broadcasted(op.padding, op.dims))


def populate_canonicalization(patterns: PatternSet) -> None:
    """Add the patterns rooted at pads."""
    patterns.add(
        RemoveZeroPad,
        FoldPadOfPad,
        ReplaceCroppingBySlice,
        DropUnitInterior,
        FoldPadOfUniform,
        ReplacePadOfEmpty,
    )
