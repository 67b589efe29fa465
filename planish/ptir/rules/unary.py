"""Unary ops that undo, repeat or do not see each other, and what a sign does to them.

Even functions do not see a sign; odd functions pass it on, so that negations meet sums and products below.
"""

from __future__ import annotations

from planish.dtypes import value_preserving
from planish.ptir import ops
from planish.ptir.function import Inst
from planish.ptir.ops.definition import OpDef
from planish.ptir.rewrite import views as v
from planish.ptir.rules import draft as d
from planish.ptir.rules.lawful import laws
from planish.ptir.rules.numbers import filled
from planish.ptir.rules.rule import Answer, family, rule

by_law = laws(__name__)


ROUNDING: tuple[OpDef, ...] = (ops.floor, ops.ceil, ops.round, ops.trunc)
EVEN: tuple[OpDef, ...] = (ops.abs, ops.cos, ops.cosh)
"""f(-x) is f(x), f(|x|) is f(x); to the last bit."""
ODD: tuple[OpDef, ...] = (
    ops.sin,
    ops.tan,
    ops.asin,
    ops.atan,
    ops.sinh,
    ops.tanh,
    ops.asinh,
    ops.atanh,
    ops.erf,
    ops.erfinv,
    ops.cbrt,
    ops.round,
    ops.trunc,
    ops.reciprocal,
)
"""f(-x) is -f(x) for floats, zeros included; to the last bit."""
NOT_NEGATIVE: tuple[OpDef, ...] = (
    ops.abs,
    ops.exp,
    ops.exp2,
    ops.cosh,
    ops.erfc,
    ops.hypot,
    ops.popcount,
    ops.clz,
)
"""Never below zero, and never -0."""
CLASSES: tuple[OpDef, ...] = (ops.is_nan, ops.is_inf, ops.is_finite)


RemoveInvolution = by_law("RemoveInvolution", benefit=4)


@rule(benefit=3, roots=ROUNDING, operands=(ROUNDING,))
def RemoveRepeatedRounding(op: v.UnaryView) -> Answer:
    """floor(ceil(x)) -> ceil(x) and the like: an integer is rounded to itself."""
    return op.source


@rule(benefit=3, roots=ROUNDING, operands=(ops.cast,))
def RemoveRoundingOfInteger(op: v.UnaryView, inner: Inst) -> Answer:
    """floor(cast(x: integer)) -> cast(x): what comes of an integer is one, infinite or NaN."""
    if not (inner.operands[0].type.dtype.is_int or inner.operands[0].type.dtype.is_bool):
        return "the number may have a fraction"
    return op.source


RemoveRepeatedSign = by_law("RemoveRepeatedSign", benefit=3)


@rule(benefit=4, roots=(ops.abs,), operands=(NOT_NEGATIVE,))
def RemoveAbsOfNotNegative(op: v.UnaryView) -> Answer:
    """abs(f(x)) -> f(x) where f is never negative, as of exp and abs."""
    return "a complex number has no sign" if op.source.type.dtype.is_complex else op.source


RemoveAbsOfUnsigned = by_law("RemoveAbsOfUnsigned", benefit=4)
RemoveAbsOfSquare = by_law("RemoveAbsOfSquare", benefit=3)


@rule(benefit=3, roots=EVEN, operands=((ops.neg, ops.abs, ops.conj),))
def RemoveSignBelowEven(op: v.UnaryView, inner: Inst) -> Answer:
    """f(-x) -> f(x), f(|x|) -> f(x) for even f; abs(conj(z)) -> abs(z)."""
    if op.source.type.dtype.is_complex and op.op is not ops.abs:
        return "parts of a complex result may be zeros of another sign"
    if inner.op is ops.abs and op.op is ops.abs:
        return "the outer abs goes"
    return d.draft(op.op, (inner.operands[0],))


@rule(benefit=2, roots=ODD, operands=(ops.neg,))
def SinkNegBelowOdd(op: v.UnaryView, inner: Inst) -> Answer:
    """f(-x) -> -f(x) for odd f of floats."""
    if not op.dtype.is_float:
        return "complex results have signs of zero in two parts"
    return d.draft(ops.neg, (d.draft(op.op, (inner.operands[0],)),))


ReplaceNegOfSub = by_law("ReplaceNegOfSub", benefit=2)
FoldNegIntoConstant = by_law("FoldNegIntoConstant")


@rule(benefit=2, roots=CLASSES, operands=((ops.neg, ops.abs),))
def IgnoreSignInClass(op: v.UnaryView, inner: Inst) -> Answer:
    """is_nan(-x) -> is_nan(x), also of abs(x) of real numbers; is_inf and is_finite alike."""
    if inner.operands[0].type != op.source.type:
        return "the absolute value of a complex number may overflow"
    return d.draft(op.op, (inner.operands[0],))


@rule(benefit=2, roots=CLASSES, operands=(ops.cast,))
def FoldClassOfInteger(op: v.UnaryView) -> Answer:
    """is_nan(cast(x: integer)) -> False, is_finite -> True where the float holds every such integer."""
    inner = op.source.def_inst
    source = None if inner is None else inner.operands[0].type.dtype
    if source is None or not (source.is_int or source.is_bool):
        return "not the cast of an integer"
    if not value_preserving(source, op.source.type.dtype):
        return "the cast may overflow"
    return filled(op.type, op.op is ops.is_finite)


populate_canonicalization = family(__name__)
