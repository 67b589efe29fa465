"""Comparisons: constants on the right, decided ones folded, and several of one pair joined.

A comparison of two numbers has one of four outcomes: less, equal, greater, or unordered if one is NaN. Each op accepts
a set of them, so that `and`, `or` and `not` of comparisons are sets too.
"""

from __future__ import annotations

from typing import Final

from planish.dtypes import DType, value_preserving
from planish.ptir import ops
from planish.ptir.function import Inst
from planish.ptir.ops.definition import OpDef, OpKey
from planish.ptir.rewrite import views as v
from planish.ptir.rules import draft as d
from planish.ptir.rules.lawful import laws
from planish.ptir.rules.numbers import CONSTANT, filled, integer_of, is_constant
from planish.ptir.rules.rule import Answer, family, rule

by_law = laws(__name__)


LESS, EQUAL, GREATER, UNORDERED = 1, 2, 4, 8
ACCEPTS: Final[dict[OpDef, int]] = {
    ops.eq: EQUAL,
    ops.ne: LESS | GREATER | UNORDERED,
    ops.lt: LESS,
    ops.le: LESS | EQUAL,
    ops.gt: GREATER,
    ops.ge: GREATER | EQUAL,
}
SWAPPED: Final[dict[OpDef, OpDef]] = {
    ops.eq: ops.eq,
    ops.ne: ops.ne,
    ops.lt: ops.gt,
    ops.le: ops.ge,
    ops.gt: ops.lt,
    ops.ge: ops.le,
}
ORDERED: Final[tuple[OpDef, ...]] = (ops.lt, ops.le, ops.gt, ops.ge)


def possible(dtype: DType) -> int:
    """The outcomes that two numbers of a dtype can have."""
    return LESS | EQUAL | GREATER | (UNORDERED if dtype.is_float or dtype.is_complex else 0)


def comparison(outcomes: int, dtype: DType) -> OpDef | bool | None:
    """What accepts exactly these outcomes: an op, always or never; None if nothing does."""
    within = possible(dtype)
    if outcomes & within in (0, within):
        return bool(outcomes & within)
    for op, accepted in ACCEPTS.items():
        if accepted & within == outcomes & within:
            return op
    return None


@rule(benefit=5, radius=2, roots=ORDERED, operands=(CONSTANT,))
def MoveConstantRightOfComparison(op: v.CompareView) -> Answer:
    """c < x -> x > c, and of <=, >, >=."""
    if not is_constant(op.lhs) or is_constant(op.rhs):
        return "the left operand is not constant, or both are"
    return d.draft(SWAPPED[op.op], (op.rhs, op.lhs))


@rule(benefit=4, same_operands=True)
def FoldComparisonOfSame(op: v.CompareView) -> Answer:
    """x < x -> False; x <= x -> True unless x may be NaN; x != x -> is_nan(x) of floats."""
    dtype = op.lhs.type.dtype
    accepted = ACCEPTS[op.op]
    if not possible(dtype) & UNORDERED or not accepted & (EQUAL | UNORDERED):
        return filled(op.type, bool(accepted & EQUAL))
    if op.op is ops.ne:
        return d.draft(ops.is_nan, (op.lhs,))
    return "False for NaN"


@rule(benefit=3, roots=(ops.not_,), operands=(OpKey.COMPARE,))
def InvertComparison(op: v.UnaryView, inner: Inst) -> Answer:
    """not (x == y) -> x != y; not (x < y) -> x >= y unless one may be NaN."""
    dtype = inner.operands[0].type.dtype
    opposite = comparison(~ACCEPTS[inner.op] & possible(dtype), dtype)
    if not isinstance(opposite, OpDef):
        return "no comparison is its opposite for NaN"
    return d.draft(opposite, inner.operands)


FoldComparisonOfBool = by_law("FoldComparisonOfBool", benefit=4)


@rule(benefit=4, radius=2, roots=ORDERED, any_operand=CONSTANT)
def FoldComparisonWithExtreme(op: v.CompareView) -> Answer:
    """x < MIN -> False, x >= MIN -> True, x > MAX -> False, x <= MAX -> True of integers."""
    bound, dtype = integer_of(op.rhs), op.lhs.type.dtype
    low = bound is not None and bound == dtype.min and op.op in (ops.lt, ops.ge)
    high = bound is not None and bound == dtype.max and op.op in (ops.gt, ops.le)
    return filled(op.type, op.op in (ops.ge, ops.le)) if low or high else "the constant does not decide it"


@rule(benefit=2, radius=2, roots=(ops.le, ops.ge), any_operand=CONSTANT)
def NormalizeComparisonWithInteger(op: v.CompareView) -> Answer:
    """x <= c -> x < c + 1, x >= c -> x > c - 1 of integers."""
    bound, type = integer_of(op.rhs), op.rhs.type
    if bound is None or bound == (type.dtype.max if op.op is ops.le else type.dtype.min):
        return "not an integer constant with a neighbour"
    if op.op is ops.le:
        return d.draft(ops.lt, (op.lhs, filled(type, bound + 1)))
    return d.draft(ops.gt, (op.lhs, filled(type, bound - 1)))


MoveConstantAcrossEquality = by_law("MoveConstantAcrossEquality", benefit=2)
DropInverseFromEquality = by_law("DropInverseFromEquality", benefit=2)
ReplaceComparisonOfDifference = by_law("ReplaceComparisonOfDifference", benefit=3)


@rule(benefit=2, operands=(ops.neg, ops.neg))
def CompareWithoutNegs(op: v.CompareView, left: Inst, right: Inst) -> Answer:
    """-x < -y -> x > y of floats; -x == -y -> x == y."""
    if op.op in ORDERED and not op.lhs.type.dtype.is_float:
        return "the negative of the lowest integer wraps"
    return d.draft(SWAPPED[op.op], (left.operands[0], right.operands[0]))


@rule(benefit=2, operands=(ops.cast, ops.cast))
def CompareWithoutCasts(op: v.CompareView, left: Inst, right: Inst) -> Answer:
    """cast(x: A, B) < cast(y: A, B) -> x < y where B holds every number of A."""
    x, y = left.operands[0], right.operands[0]
    if x.type != y.type or not value_preserving(x.type.dtype, op.lhs.type.dtype):
        return "the casts may change what is compared"
    return d.draft(op.op, (x, y))


@rule(benefit=2, radius=2, roots=(ops.and_, ops.or_), operands=(OpKey.COMPARE, OpKey.COMPARE))
def JoinComparisons(op: v.BinaryView, left: Inst, right: Inst) -> Answer:
    """x < y | x == y -> x <= y, x <= y & x != y -> x < y, x < y & x > y -> False, and all their like."""
    other = _as_comparison_of(right, left)
    if other is None:
        return "they compare different values"
    first, second = ACCEPTS[left.op], ACCEPTS[other]
    dtype = left.operands[0].type.dtype
    joined = comparison(first & second if op.op is ops.and_ else first | second, dtype)
    if joined is None:
        return "no comparison accepts just these outcomes"
    if isinstance(joined, bool):
        return filled(op.type, joined)
    if joined is left.op or joined is other:
        return op.lhs if joined is left.op else op.rhs
    return d.draft(joined, left.operands)


def _as_comparison_of(inst: Inst, model: Inst) -> OpDef | None:
    """The op that compares the operands of `model` as `inst` does."""
    if inst.operands == model.operands:
        return inst.op
    return SWAPPED[inst.op] if inst.operands == model.operands[::-1] else None


populate_canonicalization = family(__name__)
