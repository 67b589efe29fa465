"""Quantised values: pairs that cancel, and constants."""

from __future__ import annotations

from planish.dtypes import DType, float_format
from planish.ptir import ops
from planish.ptir.function import Inst
from planish.ptir.ops.literal import Literal
from planish.ptir.rewrite import views as v
from planish.ptir.rewrite.folding import MAX_FOLDED_ELEMENTS
from planish.ptir.rules import draft as d
from planish.ptir.rules.rule import Answer, family, rule
from planish.ptir.types import Quant, TensorType


@rule(benefit=4, operands=(ops.dequantize,))
def RemoveQuantizeOfDequantize(op: v.QuantizeView, inner: Inst) -> Answer:
    """quantize(dequantize(q)) -> q with one scale and storage, where no rounding can reach the next step."""
    q = inner.operands[0]
    if q.type != op.type:
        return "the scales or the storage differ"
    return q if returns_exactly(op.dtype, op.attrs.quant) else "a step may be lost to rounding or overflow"


def returns_exactly(storage: DType, quant: Quant) -> bool:
    """Whether every stored integer survives being expressed and stored again.

    n steps become n * scale, rounded, and are divided by the scale, rounded: the error is below a half as long as
    n has two bits less than the expressed format, and every product is a normal, finite number of it.
    """
    form = float_format(quant.expressed)
    low, high = int(storage.min or 0), int(storage.max or 0)
    for scale, zero in zip(quant.scale, quant.zero_point, strict=True):
        steps = max(high - zero, zero - low)
        if steps > 2 ** (form.precision - 2):
            return False
        # The scale itself is rounded to the accumulation dtype; a relative margin of eps covers that.
        if scale * (1 - form.eps) < form.smallest_normal:
            return False
        if steps * scale * (1 + form.eps) >= form.largest:
            return False
    return True


@rule(benefit=3, operands=(ops.constant,))
def FoldQuantizeOfConstant(op: v.QuantizeView) -> Answer:
    """quantize(constant) -> quantised constant."""
    literal = op.source.literal
    evaluate = op.op.evaluate
    if literal is None or evaluate is None:
        return False
    uniform = literal.splat and op.attrs.quant.axis is None
    if literal.size > MAX_FOLDED_ELEMENTS and not uniform:
        return "the constant would be too large"
    array = literal.data if uniform else literal.array()
    (stored,) = evaluate([array], op.attrs, [TensorType(op.dtype, array.shape, op.type.quant)])
    folded = Literal(stored, dtype=op.dtype)
    return d.constant(folded.with_shape(literal.shape) if uniform else folded, op.type.quant)


populate_canonicalization = family(__name__)
