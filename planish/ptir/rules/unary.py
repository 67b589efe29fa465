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
from planish.ptir.rules.numbers import filled, is_constant, will_fold
from planish.ptir.rules.rule import Answer, family, rule
from planish.scalars import FUNCTIONS

ROUNDING: tuple[OpDef, ...] = (ops.floor, ops.ceil, ops.round, ops.trunc)
EVEN: tuple[OpDef, ...] = (ops.abs, *(ops.find(f.name) for f in FUNCTIONS.values() if f.parity == "even"))
"""f(-x) is f(x), f(|x|) is f(x); to the last bit."""
ODD: tuple[OpDef, ...] = tuple(ops.find(f.name) for f in FUNCTIONS.values() if f.parity == "odd")
"""f(-x) is -f(x) for floats, zeros included; to the last bit."""
NOT_NEGATIVE: tuple[OpDef, ...] = (
    ops.abs, ops.popcount, ops.clz, *(ops.find(f.name) for f in FUNCTIONS.values() if f.positive)
)  # fmt: skip
"""Never below zero, and never -0."""
CLASSES: tuple[OpDef, ...] = (ops.is_nan, ops.is_inf, ops.is_finite)


@rule(benefit=4, roots=(ops.neg, ops.not_, ops.conj), operands=((ops.neg, ops.not_, ops.conj),))
def RemoveInvolution(op: v.UnaryView, inner: Inst) -> Answer:
    """f(f(x)) -> x for neg, not and conj."""
    if inner.op is not op.op:
        return "two different ops"
    return inner.operands[0]


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


@rule(benefit=3, roots=(ops.sign,), operands=(ops.sign,))
def RemoveRepeatedSign(op: v.UnaryView) -> Answer:
    """sign(sign(x)) -> sign(x) of real numbers."""
    if op.dtype.is_complex:
        return "z/|z| rounds"
    return op.source


@rule(benefit=4, roots=(ops.abs,), operands=(NOT_NEGATIVE,))
def RemoveAbsOfNotNegative(op: v.UnaryView) -> Answer:
    """abs(f(x)) -> f(x) where f is never negative, as of exp and abs."""
    if op.source.type.dtype.is_complex:
        return "a complex number has no sign"
    return op.source


@rule(benefit=4, roots=(ops.abs,))
def RemoveAbsOfUnsigned(op: v.UnaryView) -> Answer:
    """abs(x) -> x of unsigned integers."""
    if not op.dtype.is_unsigned:
        return "x may be negative"
    return op.source


@rule(benefit=3, radius=2, roots=(ops.abs,), operands=(ops.mul,))
def RemoveAbsOfSquare(op: v.UnaryView, inner: Inst) -> Answer:
    """abs(x * x) -> x * x of floats."""
    if not op.source.type.dtype.is_float or inner.operands[0] is not inner.operands[1]:
        return "not the square of a float"
    return op.source


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


@rule(benefit=2, roots=(ops.neg,), operands=(ops.sub,))
def ReplaceNegOfSub(op: v.UnaryView, inner: Inst) -> Answer:
    """-(x - y) -> y - x of integers; of floats 1 - 1 and its negative are different zeros."""
    if not op.dtype.is_int:
        return "zero would change its sign"
    return d.draft(ops.sub, (inner.operands[1], inner.operands[0]))


@rule(radius=2, roots=(ops.neg,), operands=((ops.mul, ops.add, ops.div),), watch_uses=True)
def FoldNegIntoConstant(op: v.UnaryView, inner: Inst) -> Answer:
    """-(x * c) -> x * -c of real numbers, -(x + c) -> -c - x of integers, if nothing else needs the operand."""
    if op.dtype.is_complex or not op.source.has_one_use:
        return "complex, or needed elsewhere"
    x, c = inner.operands
    if not will_fold(c.literal) or is_constant(x):
        return "no constant operand"
    negative = d.draft(ops.neg, (c,))
    if inner.op is not ops.add:
        return d.draft(inner.op, (x, negative))
    if not op.dtype.is_int:
        return "zero would change its sign"
    return d.draft(ops.sub, (negative, x))


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
