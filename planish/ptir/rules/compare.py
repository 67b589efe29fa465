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
from planish.ptir.rewrite.prelude import (
    BinaryView,
    CompareView,
    OpRewritePattern,
    PatternSet,
    ProgramRewriter,
    UnaryView,
)
from planish.ptir.rules import draft as d
from planish.ptir.rules.numbers import CONSTANT, filled, integer_of, is_constant, number_of

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
EQUALITIES: Final[tuple[OpDef, ...]] = (ops.eq, ops.ne)


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


class MoveConstantRightOfComparison(OpRewritePattern[CompareView]):
    """c < x -> x > c, and of <=, >, >=."""

    benefit = 5
    radius = 2
    roots = ORDERED
    operands = (CONSTANT,)

    def match_and_rewrite(self, op: CompareView, rw: ProgramRewriter) -> bool:
        if not is_constant(op.lhs) or is_constant(op.rhs):
            return rw.fail(op.inst, "the left operand is not constant, or both are")
        return d.replace(rw, op.inst, d.draft(SWAPPED[op.op], (op.rhs, op.lhs)))


class FoldComparisonOfSame(OpRewritePattern[CompareView]):
    """x < x -> False; x <= x -> True unless x may be NaN; x != x -> is_nan(x) of floats."""

    benefit = 4
    radius = 1
    same_operands = True

    def match_and_rewrite(self, op: CompareView, rw: ProgramRewriter) -> bool:
        dtype = op.lhs.type.dtype
        accepted = ACCEPTS[op.op]
        if not possible(dtype) & UNORDERED or not accepted & (EQUAL | UNORDERED):
            return d.replace(rw, op.inst, filled(op.type, bool(accepted & EQUAL)))
        if op.op is ops.ne:
            return d.replace(rw, op.inst, d.draft(ops.is_nan, (op.lhs,)))
        return rw.fail(op.inst, "False for NaN")


class InvertComparison(OpRewritePattern[UnaryView]):
    """not (x == y) -> x != y; not (x < y) -> x >= y unless one may be NaN."""

    benefit = 3
    radius = 1
    roots = (ops.not_,)
    operands = (OpKey.COMPARE,)

    def match_and_rewrite(self, op: UnaryView, rw: ProgramRewriter) -> bool:
        inner = op.source.def_inst
        if inner is None:
            return False
        dtype = inner.operands[0].type.dtype
        opposite = comparison(~ACCEPTS[inner.op] & possible(dtype), dtype)
        if not isinstance(opposite, OpDef):
            return rw.fail(op.inst, "no comparison is its opposite for NaN")
        return d.replace(rw, op.inst, d.draft(opposite, inner.operands))


class FoldComparisonOfBool(OpRewritePattern[CompareView]):
    """x == True -> x, x != False -> x, x == False -> not x, x != True -> not x."""

    benefit = 4
    radius = 2
    roots = EQUALITIES
    any_operand = CONSTANT

    def match_and_rewrite(self, op: CompareView, rw: ProgramRewriter) -> bool:
        truth = number_of(op.rhs)
        if not isinstance(truth, bool):
            return rw.fail(op.inst, "the right operand is not True or False")
        if truth is (op.op is ops.eq):
            return d.replace(rw, op.inst, op.lhs)
        return d.replace(rw, op.inst, d.draft(ops.not_, (op.lhs,)))


class FoldComparisonWithExtreme(OpRewritePattern[CompareView]):
    """x < MIN -> False, x >= MIN -> True, x > MAX -> False, x <= MAX -> True of integers."""

    benefit = 4
    radius = 2
    roots = ORDERED
    any_operand = CONSTANT

    def match_and_rewrite(self, op: CompareView, rw: ProgramRewriter) -> bool:
        bound, dtype = integer_of(op.rhs), op.lhs.type.dtype
        low = bound is not None and bound == dtype.min and op.op in (ops.lt, ops.ge)
        high = bound is not None and bound == dtype.max and op.op in (ops.gt, ops.le)
        if not (low or high):
            return rw.fail(op.inst, "the constant does not decide it")
        return d.replace(rw, op.inst, filled(op.type, op.op in (ops.ge, ops.le)))


class NormalizeComparisonWithInteger(OpRewritePattern[CompareView]):
    """x <= c -> x < c + 1, x >= c -> x > c - 1 of integers."""

    benefit = 2
    radius = 2
    roots = (ops.le, ops.ge)
    any_operand = CONSTANT

    def match_and_rewrite(self, op: CompareView, rw: ProgramRewriter) -> bool:
        bound, type = integer_of(op.rhs), op.rhs.type
        if bound is None or bound == (type.dtype.max if op.op is ops.le else type.dtype.min):
            return rw.fail(op.inst, "not an integer constant with a neighbour")
        if op.op is ops.le:
            return d.replace(rw, op.inst, d.draft(ops.lt, (op.lhs, filled(type, bound + 1))))
        return d.replace(rw, op.inst, d.draft(ops.gt, (op.lhs, filled(type, bound - 1))))


class MoveConstantAcrossEquality(OpRewritePattern[CompareView]):
    """x + c == d -> x == d - c, c - x == d -> x == c - d, x ^ c == d -> x == c ^ d of integers; wrapping is one to one."""

    benefit = 2
    radius = 2
    roots = EQUALITIES
    operands = ((ops.add, ops.sub, ops.xor), CONSTANT)

    def match_and_rewrite(self, op: CompareView, rw: ProgramRewriter) -> bool:
        inner = op.lhs.def_inst
        if inner is None or not op.rhs.type.dtype.is_int or not is_constant(op.rhs):
            return rw.fail(op.inst, "not an integer compared with a constant")
        x, c = reversed(inner.operands) if inner.op is ops.sub else inner.operands
        if c.literal is None or is_constant(x):
            return rw.fail(op.inst, "no constant to move")
        if inner.op is ops.add:
            moved = d.draft(ops.sub, (op.rhs, c))
        else:
            moved = d.draft(inner.op, (c, op.rhs))
        return d.replace(rw, op.inst, d.draft(op.op, (x, moved)))


class DropInverseFromEquality(OpRewritePattern[CompareView]):
    """-x == c -> x == -c, not x == c -> x == not c: both are one to one."""

    benefit = 2
    radius = 2
    roots = EQUALITIES
    operands = ((ops.neg, ops.not_), CONSTANT)

    def match_and_rewrite(self, op: CompareView, rw: ProgramRewriter) -> bool:
        inner = op.lhs.def_inst
        if inner is None or not is_constant(op.rhs) or is_constant(inner.operands[0]):
            return rw.fail(op.inst, "not compared with a constant")
        return d.replace(rw, op.inst, d.draft(op.op, (inner.operands[0], d.draft(inner.op, (op.rhs,)))))


class ReplaceComparisonOfDifference(OpRewritePattern[CompareView]):
    """x - y == 0 -> x == y of integers."""

    benefit = 3
    radius = 2
    roots = EQUALITIES
    operands = (ops.sub, CONSTANT)

    def match_and_rewrite(self, op: CompareView, rw: ProgramRewriter) -> bool:
        inner = op.lhs.def_inst
        if inner is None or integer_of(op.rhs) != 0:
            return rw.fail(op.inst, "not a difference of integers compared with 0")
        return d.replace(rw, op.inst, d.draft(op.op, inner.operands))


class CompareWithoutNegs(OpRewritePattern[CompareView]):
    """-x < -y -> x > y of floats; -x == -y -> x == y."""

    benefit = 2
    radius = 1
    operands = (ops.neg, ops.neg)

    def match_and_rewrite(self, op: CompareView, rw: ProgramRewriter) -> bool:
        left, right = op.lhs.def_inst, op.rhs.def_inst
        if left is None or right is None:
            return False
        if op.op in ORDERED and not op.lhs.type.dtype.is_float:
            return rw.fail(op.inst, "the negative of the lowest integer wraps")
        return d.replace(rw, op.inst, d.draft(SWAPPED[op.op], (left.operands[0], right.operands[0])))


class CompareWithoutCasts(OpRewritePattern[CompareView]):
    """cast(x: A, B) < cast(y: A, B) -> x < y where B holds every number of A."""

    benefit = 2
    radius = 1
    operands = (ops.cast, ops.cast)

    def match_and_rewrite(self, op: CompareView, rw: ProgramRewriter) -> bool:
        left, right = op.lhs.def_inst, op.rhs.def_inst
        if left is None or right is None:
            return False
        x, y = left.operands[0], right.operands[0]
        if x.type != y.type or not value_preserving(x.type.dtype, op.lhs.type.dtype):
            return rw.fail(op.inst, "the casts may change what is compared")
        return d.replace(rw, op.inst, d.draft(op.op, (x, y)))


class JoinComparisons(OpRewritePattern[BinaryView]):
    """x < y | x == y -> x <= y, x <= y & x != y -> x < y, x < y & x > y -> False, and all their like."""

    benefit = 2
    radius = 2
    roots = (ops.and_, ops.or_)
    operands = (OpKey.COMPARE, OpKey.COMPARE)

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        left, right = op.lhs.def_inst, op.rhs.def_inst
        if left is None or right is None:
            return False
        other = _as_comparison_of(right, left)
        if other is None:
            return rw.fail(op.inst, "they compare different values")
        first, second = ACCEPTS[left.op], ACCEPTS[other]
        dtype = left.operands[0].type.dtype
        joined = comparison(first & second if op.op is ops.and_ else first | second, dtype)
        if joined is None:
            return rw.fail(op.inst, "no comparison accepts just these outcomes")
        if isinstance(joined, bool):
            return d.replace(rw, op.inst, filled(op.type, joined))
        if joined is left.op or joined is other:
            return d.replace(rw, op.inst, op.lhs if joined is left.op else op.rhs)
        return d.replace(rw, op.inst, d.draft(joined, left.operands))


def _as_comparison_of(inst: Inst, model: Inst) -> OpDef | None:
    """The op that compares the operands of `model` as `inst` does."""
    if inst.operands == model.operands:
        return inst.op
    return SWAPPED[inst.op] if inst.operands == model.operands[::-1] else None


def populate_canonicalization(patterns: PatternSet) -> None:
    """Add the patterns of comparisons."""
    patterns.add(
        MoveConstantRightOfComparison,
        FoldComparisonOfSame,
        InvertComparison,
        FoldComparisonOfBool,
        FoldComparisonWithExtreme,
        NormalizeComparisonWithInteger,
        MoveConstantAcrossEquality,
        DropInverseFromEquality,
        ReplaceComparisonOfDifference,
        CompareWithoutNegs,
        CompareWithoutCasts,
        JoinComparisons,
    )
