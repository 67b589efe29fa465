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
from planish.ptir.rules.lawful import by_laws
from planish.ptir.rules.numbers import filled
from planish.ptir.rules.rule import Answer, family, rule

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


by_laws(
    __name__,
    MoveConstantRightOfComparison=5, FoldComparisonOfSame=4, InvertComparison=3, FoldComparisonOfBool=4,
    FoldComparisonWithExtreme=4, NormalizeComparisonWithInteger=2, MoveConstantAcrossEquality=2,
    DropInverseFromEquality=2, ReplaceComparisonOfDifference=3, CompareWithoutNegs=2,
)  # fmt: skip


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
