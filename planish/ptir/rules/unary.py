"""Unary ops that undo, repeat or do not see each other, and what a sign does to them.

Even functions do not see a sign; odd functions pass it on, so that negations meet sums and products below.
"""

from __future__ import annotations

from planish.algebra import scalar
from planish.dtypes import value_preserving
from planish.ptir import ops
from planish.ptir.function import Inst
from planish.ptir.ops.definition import OpDef
from planish.ptir.rewrite import views as v
from planish.ptir.rules import draft as d
from planish.ptir.rules.lawful import by_laws, named_ops
from planish.ptir.rules.numbers import filled
from planish.ptir.rules.rule import Answer, family, rule

ROUNDING: tuple[OpDef, ...] = named_ops(scalar.ROUNDING)
EVEN: tuple[OpDef, ...] = (ops.abs, *named_ops(scalar.EVEN))
ODD: tuple[OpDef, ...] = named_ops(scalar.ODD)
NOT_NEGATIVE: tuple[OpDef, ...] = (ops.hypot, *named_ops(scalar.NOT_NEGATIVE))
CLASSES: tuple[OpDef, ...] = (ops.is_nan, ops.is_inf, ops.is_finite)


by_laws(__name__, RemoveInvolution=4, RemoveRepeatedRounding=3)


@rule(benefit=3, roots=ROUNDING, operands=(ops.cast,))
def RemoveRoundingOfInteger(op: v.UnaryView, inner: Inst) -> Answer:
    """floor(cast(x: integer)) -> cast(x): what comes of an integer is one, infinite or NaN."""
    if not (inner.operands[0].type.dtype.is_int or inner.operands[0].type.dtype.is_bool):
        return "the number may have a fraction"
    return op.source


by_laws(
    __name__, RemoveRepeatedSign=3, RemoveAbsOfNotNegative=4, RemoveAbsOfUnsigned=4, RemoveAbsOfSquare=3,
    RemoveSignBelowEven=3, SinkNegBelowOdd=2, ReplaceNegOfSub=2, FoldNegIntoConstant=1,
)  # fmt: skip


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
