"""Division, remainders and shifts of integers by constants (semantics section 2)."""

from __future__ import annotations

from planish.ptir import ops
from planish.ptir.function import Inst
from planish.ptir.ops.definition import OpDef
from planish.ptir.rewrite import views as v
from planish.ptir.rules import draft as d
from planish.ptir.rules.numbers import CONSTANT, direct_integer, filled, integer_of
from planish.ptir.rules.rule import Answer, family, rule

DIVISIONS: tuple[OpDef, ...] = (ops.floor_div, ops.trunc_div)
REMAINDERS: tuple[OpDef, ...] = (ops.floor_mod, ops.trunc_mod)
SHIFTS: tuple[OpDef, ...] = (ops.shl, ops.shr_logical, ops.shr_arithmetic)


@rule(benefit=2, roots=(ops.trunc_div, ops.trunc_mod))
def NormalizeUnsignedDivision(op: v.BinaryView) -> Answer:
    """trunc_div(x, y) -> floor_div(x, y), trunc_mod -> floor_mod of unsigned integers: there they agree."""
    if not op.dtype.is_unsigned:
        return "they round negative quotients differently"
    floored = ops.floor_div if op.op is ops.trunc_div else ops.floor_mod
    return d.draft(floored, op.operands)


@rule(benefit=4, radius=2, roots=DIVISIONS, any_operand=CONSTANT)
def FoldDivisionByUnit(op: v.BinaryView) -> Answer:
    """x // 1 -> x, x // -1 -> -x, x // 0 -> 0 of integers."""
    divisor = integer_of(op.rhs)
    if divisor == 1:
        return op.lhs
    if divisor == 0:
        return op.rhs
    if divisor == -1:
        return d.draft(ops.neg, (op.lhs,))
    return "the divisor is not 1, -1 or 0"


@rule(benefit=4, radius=2, roots=REMAINDERS, any_operand=CONSTANT)
def FoldRemainderByUnit(op: v.BinaryView) -> Answer:
    """x % 1 -> 0, x % -1 -> 0, x % 0 -> 0 of integers."""
    if integer_of(op.rhs) not in (1, -1, 0):
        return "the divisor is not 1, -1 or 0"
    return filled(op.type, 0)


@rule(benefit=2, radius=2, roots=DIVISIONS, operands=(DIVISIONS, CONSTANT))
def FoldDivisionOfDivision(op: v.BinaryView, inner: Inst) -> Answer:
    """(x // c) // d -> x // (c * d) for positive c and d whose product does not wrap."""
    if inner.op is not op.op:
        return "the divisions round differently"
    first, second = direct_integer(inner.operands[1]), integer_of(op.rhs)
    if first is None or second is None or first <= 0 or second <= 0:
        return "not two positive constants"
    if op.dtype.wrap(first * second) != first * second:
        return "the product of the divisors wraps"
    return d.draft(op.op, (inner.operands[0], filled(op.type, first * second)))


@rule(benefit=2, radius=2, roots=REMAINDERS, operands=(REMAINDERS, CONSTANT))
def FoldRemainderOfRemainder(op: v.BinaryView, inner: Inst) -> Answer:
    """(x % c) % d -> x % d where d divides c, -> x % c where c <= d, for positive c and d."""
    if inner.op is not op.op:
        return "the remainders have different signs"
    first, second = direct_integer(inner.operands[1]), integer_of(op.rhs)
    if first is None or second is None or first <= 0 or second <= 0:
        return "not two positive constants"
    if first <= second:
        return op.lhs
    if first % second:
        return "one divisor does not divide the other"
    return d.draft(op.op, (inner.operands[0], op.rhs))


@rule(benefit=3, radius=2, roots=DIVISIONS, operands=(ops.floor_mod, CONSTANT))
def FoldDivisionOfRemainder(op: v.BinaryView) -> Answer:
    """floor_mod(x, c) // d -> 0 where 0 < c <= d."""
    inner = op.lhs.def_inst
    first = None if inner is None else direct_integer(inner.operands[1])
    second = integer_of(op.rhs)
    if first is None or second is None or not 0 < first <= second:
        return "the remainder may reach the divisor"
    return filled(op.type, 0)


# --- shifts ------------------------------------------------------------------------------------------------


@rule(benefit=3, radius=2, roots=SHIFTS, any_operand=CONSTANT)
def FoldShiftByConstant(op: v.BinaryView) -> Answer:
    """x << 0 -> x; an amount that moves every bit out gives 0, or the sign (semantics 2.4)."""
    amount, width = integer_of(op.rhs), op.dtype.bits
    if amount is None:
        return "the amount is not constant"
    if amount == 0:
        return op.lhs
    if 0 < amount < width:
        return "some bits stay"
    if op.op is not ops.shr_arithmetic:
        return filled(op.type, 0)
    return d.draft(op.op, (op.lhs, filled(op.type, width - 1)))


@rule(benefit=2, radius=2, roots=SHIFTS, operands=(SHIFTS, CONSTANT))
def FoldShiftOfShift(op: v.BinaryView, inner: Inst) -> Answer:
    """(x << c) << d -> x << (c + d), in any one direction."""
    if inner.op is not op.op:
        return "the shifts differ"
    first, second, width = direct_integer(inner.operands[1]), integer_of(op.rhs), op.dtype.bits
    if first is None or second is None or not (0 < first < width and 0 < second < width):
        return "not two constant amounts within the width"
    if first + second < width:
        amount = filled(op.type, first + second)
        return d.draft(op.op, (inner.operands[0], amount))
    if op.op is not ops.shr_arithmetic:
        return filled(op.type, 0)
    amount = filled(op.type, width - 1)
    return d.draft(op.op, (inner.operands[0], amount))


@rule(radius=2, roots=(ops.shl, ops.shr_logical), operands=(SHIFTS, CONSTANT))
def ReplaceShiftBackByMask(op: v.BinaryView) -> Answer:
    """shr_logical(x << c, c) -> x & low bits, shr_logical(x, c) << c -> x & high bits."""
    inner = op.lhs.def_inst
    allowed = (ops.shl,) if op.op is ops.shr_logical else (ops.shr_logical, ops.shr_arithmetic)
    if inner is None or inner.op not in allowed:
        return "the shifts do not go opposite ways"
    first, second, width = direct_integer(inner.operands[1]), integer_of(op.rhs), op.dtype.bits
    if first is None or first != second or not 0 < first < width:
        return "the amounts differ"
    mask = (1 << width - first) - 1
    if op.op is ops.shl:
        mask <<= first
    return d.draft(ops.and_, (inner.operands[0], filled(op.type, mask)))


populate_canonicalization = family(__name__)
