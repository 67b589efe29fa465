"""Division, remainders and shifts of integers by constants (semantics section 2)."""

from __future__ import annotations

from planish.ptir import ops
from planish.ptir.ops.definition import OpDef
from planish.ptir.rewrite.prelude import BinaryView, OpRewritePattern, PatternSet, ProgramRewriter
from planish.ptir.rules import draft as d
from planish.ptir.rules.numbers import CONSTANT, direct_integer, filled, integer_of

DIVISIONS: tuple[OpDef, ...] = (ops.floor_div, ops.trunc_div)
REMAINDERS: tuple[OpDef, ...] = (ops.floor_mod, ops.trunc_mod)
SHIFTS: tuple[OpDef, ...] = (ops.shl, ops.shr_logical, ops.shr_arithmetic)


class NormalizeUnsignedDivision(OpRewritePattern[BinaryView]):
    """trunc_div(x, y) -> floor_div(x, y), trunc_mod -> floor_mod of unsigned integers: there they agree."""

    benefit = 2
    radius = 0
    roots = (ops.trunc_div, ops.trunc_mod)

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        if not op.dtype.is_unsigned:
            return rw.fail(op.inst, "they round negative quotients differently")
        floored = ops.floor_div if op.op is ops.trunc_div else ops.floor_mod
        return d.replace(rw, op.inst, d.draft(floored, op.operands))


class FoldDivisionByUnit(OpRewritePattern[BinaryView]):
    """x // 1 -> x, x // -1 -> -x, x // 0 -> 0 of integers."""

    benefit = 4
    radius = 2
    roots = DIVISIONS
    any_operand = CONSTANT

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        divisor = integer_of(op.rhs)
        if divisor == 1:
            return d.replace(rw, op.inst, op.lhs)
        if divisor == 0:
            return d.replace(rw, op.inst, op.rhs)
        if divisor == -1:
            return d.replace(rw, op.inst, d.draft(ops.neg, (op.lhs,)))
        return rw.fail(op.inst, "the divisor is not 1, -1 or 0")


class FoldRemainderByUnit(OpRewritePattern[BinaryView]):
    """x % 1 -> 0, x % -1 -> 0, x % 0 -> 0 of integers."""

    benefit = 4
    radius = 2
    roots = REMAINDERS
    any_operand = CONSTANT

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        if integer_of(op.rhs) not in (1, -1, 0):
            return rw.fail(op.inst, "the divisor is not 1, -1 or 0")
        return d.replace(rw, op.inst, filled(op.type, 0))


class FoldDivisionOfDivision(OpRewritePattern[BinaryView]):
    """(x // c) // d -> x // (c * d) for positive c and d whose product does not wrap."""

    benefit = 2
    radius = 2
    roots = DIVISIONS
    operands = (DIVISIONS, CONSTANT)

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        inner = op.lhs.def_inst
        if inner is None or inner.op is not op.op:
            return rw.fail(op.inst, "the divisions round differently")
        first, second = direct_integer(inner.operands[1]), integer_of(op.rhs)
        if first is None or second is None or first <= 0 or second <= 0:
            return rw.fail(op.inst, "not two positive constants")
        if op.dtype.wrap(first * second) != first * second:
            return rw.fail(op.inst, "the product of the divisors wraps")
        quotient = d.draft(op.op, (inner.operands[0], filled(op.type, first * second)))
        return d.replace(rw, op.inst, quotient)


class FoldRemainderOfRemainder(OpRewritePattern[BinaryView]):
    """(x % c) % d -> x % d where d divides c, -> x % c where c <= d, for positive c and d."""

    benefit = 2
    radius = 2
    roots = REMAINDERS
    operands = (REMAINDERS, CONSTANT)

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        inner = op.lhs.def_inst
        if inner is None or inner.op is not op.op:
            return rw.fail(op.inst, "the remainders have different signs")
        first, second = direct_integer(inner.operands[1]), integer_of(op.rhs)
        if first is None or second is None or first <= 0 or second <= 0:
            return rw.fail(op.inst, "not two positive constants")
        if first <= second:
            return d.replace(rw, op.inst, op.lhs)
        if first % second:
            return rw.fail(op.inst, "one divisor does not divide the other")
        return d.replace(rw, op.inst, d.draft(op.op, (inner.operands[0], op.rhs)))


class FoldDivisionOfRemainder(OpRewritePattern[BinaryView]):
    """floor_mod(x, c) // d -> 0 where 0 < c <= d."""

    benefit = 3
    radius = 2
    roots = DIVISIONS
    operands = (ops.floor_mod, CONSTANT)

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        inner = op.lhs.def_inst
        first = None if inner is None else direct_integer(inner.operands[1])
        second = integer_of(op.rhs)
        if first is None or second is None or not 0 < first <= second:
            return rw.fail(op.inst, "the remainder may reach the divisor")
        return d.replace(rw, op.inst, filled(op.type, 0))


# --- shifts ------------------------------------------------------------------------------------------------


class FoldShiftByConstant(OpRewritePattern[BinaryView]):
    """x << 0 -> x; an amount that moves every bit out gives 0, or the sign (semantics 2.4)."""

    benefit = 3
    radius = 2
    roots = SHIFTS
    any_operand = CONSTANT

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        amount, width = integer_of(op.rhs), op.dtype.bits
        if amount is None:
            return rw.fail(op.inst, "the amount is not constant")
        if amount == 0:
            return d.replace(rw, op.inst, op.lhs)
        if 0 < amount < width:
            return rw.fail(op.inst, "some bits stay")
        if op.op is not ops.shr_arithmetic:
            return d.replace(rw, op.inst, filled(op.type, 0))
        return d.replace(rw, op.inst, d.draft(op.op, (op.lhs, filled(op.type, width - 1))))


class FoldShiftOfShift(OpRewritePattern[BinaryView]):
    """(x << c) << d -> x << (c + d), in any one direction."""

    benefit = 2
    radius = 2
    roots = SHIFTS
    operands = (SHIFTS, CONSTANT)

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        inner = op.lhs.def_inst
        if inner is None or inner.op is not op.op:
            return rw.fail(op.inst, "the shifts differ")
        first, second, width = direct_integer(inner.operands[1]), integer_of(op.rhs), op.dtype.bits
        if first is None or second is None or not (0 < first < width and 0 < second < width):
            return rw.fail(op.inst, "not two constant amounts within the width")
        if first + second < width:
            amount = filled(op.type, first + second)
            return d.replace(rw, op.inst, d.draft(op.op, (inner.operands[0], amount)))
        if op.op is not ops.shr_arithmetic:
            return d.replace(rw, op.inst, filled(op.type, 0))
        amount = filled(op.type, width - 1)
        return d.replace(rw, op.inst, d.draft(op.op, (inner.operands[0], amount)))


class ReplaceShiftBackByMask(OpRewritePattern[BinaryView]):
    """shr_logical(x << c, c) -> x & low bits, shr_logical(x, c) << c -> x & high bits."""

    radius = 2
    roots = (ops.shl, ops.shr_logical)
    operands = (SHIFTS, CONSTANT)

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        inner = op.lhs.def_inst
        allowed = (ops.shl,) if op.op is ops.shr_logical else (ops.shr_logical, ops.shr_arithmetic)
        if inner is None or inner.op not in allowed:
            return rw.fail(op.inst, "the shifts do not go opposite ways")
        first, second, width = direct_integer(inner.operands[1]), integer_of(op.rhs), op.dtype.bits
        if first is None or first != second or not 0 < first < width:
            return rw.fail(op.inst, "the amounts differ")
        mask = (1 << width - first) - 1
        if op.op is ops.shl:
            mask <<= first
        return d.replace(rw, op.inst, d.draft(ops.and_, (inner.operands[0], filled(op.type, mask))))


def populate_canonicalization(patterns: PatternSet) -> None:
    """Add the patterns of integer division and shifts."""
    patterns.add(
        NormalizeUnsignedDivision,
        FoldDivisionByUnit,
        FoldRemainderByUnit,
        FoldDivisionOfDivision,
        FoldRemainderOfRemainder,
        FoldDivisionOfRemainder,
        FoldShiftByConstant,
        FoldShiftOfShift,
        ReplaceShiftBackByMask,
    )
