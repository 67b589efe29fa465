"""Pads: composed, freed of cropping (a slice does that), and recognised where they pad nothing or with itself."""

from __future__ import annotations

from planish.ptir import ops
from planish.ptir.dims import DimLike, bounds
from planish.ptir.ops.checking import at_most
from planish.ptir.rewrite import views as v
from planish.ptir.rules import draft as d
from planish.ptir.rules.rule import Answer, family, rule
from planish.ptir.rules.shapes import same_scalar


@rule(benefit=3)
def RemoveZeroPad(op: v.PadView) -> Answer:
    """pad(x, v, 0, 0, 0) -> x."""
    attrs = op.attrs
    if any(dim != 0 for dim in (*attrs.low, *attrs.high)) or any(attrs.interior):
        return "elements are added or cropped"
    return op.source


@rule(benefit=2, radius=2)
def FoldPadOfPad(op: v.PadView, inner: v.PadView) -> Answer:
    """pad(pad(x, v), v) -> pad(x, v, sum of both), where neither crops or spreads."""
    if not same_scalar(op.padding, inner.padding):
        return "they pad with different values"
    outer, first = op.attrs, inner.attrs
    amounts = (*outer.low, *outer.high, *first.low, *first.high)
    if any(outer.interior) or any(first.interior) or not all(at_most(0, dim) for dim in amounts):
        return "one of them may crop or spreads"
    low = [a + b for a, b in zip(first.low, outer.low, strict=True)]
    high = [a + b for a, b in zip(first.high, outer.high, strict=True)]
    return d.padded(inner.source, op.padding, low, high, outer.interior)


@rule()
def ReplaceCroppingBySlice(op: v.PadView) -> Answer:
    """pad(x, v, low < 0 or high < 0) -> pad(slice(x), v, max(low, 0), max(high, 0))."""
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
                return f"axis {axis} may be padded or cropped, or is spread before it is cropped"
            crops = True
            cut[axis] = -ends[axis] if cut is starts else sizes[axis] + ends[axis]
            ends[axis] = 0
    if not crops:
        return "nothing is cropped"
    kept = d.sliced(op.source, starts, limits, (1,) * len(sizes))
    return d.padded(kept, op.padding, low, high, attrs.interior)


@rule()
def DropUnitInterior(op: v.PadView) -> Answer:
    """pad(x, v, interior) -> pad(x, v, 0) along axes of size 1, which have no neighbours."""
    attrs = op.attrs
    interior = [0 if op.source.type.dims[axis] == 1 else gap for axis, gap in enumerate(attrs.interior)]
    if tuple(interior) == attrs.interior:
        return "no axis of size 1 is spread"
    return d.padded(op.source, op.padding, attrs.low, attrs.high, interior)


@rule(benefit=2, radius=2, operands=((ops.broadcast_to, ops.constant),))
def FoldPadOfUniform(op: v.PadView) -> Answer:
    """pad(broadcast_to(v), v) -> broadcast_to(v); likewise pad(splat v, v)."""
    literal = op.source.literal
    if literal is not None:
        value = op.padding.literal
        alike = value is not None and literal.splat and literal.with_shape(()) == value
    else:
        spread = v.BroadcastView.of(op.source)
        alike = spread is not None and spread.source is op.padding
    return d.broadcasted(op.padding, op.dims) if alike else "the padding differs from what is padded"


@rule(benefit=2)
def ReplacePadOfEmpty(op: v.PadView) -> Answer:
    """pad(x without elements, v) -> broadcast_to(v)."""
    return d.broadcasted(op.padding, op.dims) if 0 in op.source.type.dims else "there may be elements to pad"


populate_canonicalization = family(__name__)
