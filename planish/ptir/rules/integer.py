"""Division, remainders and shifts of integers by constants (semantics section 2)."""

from __future__ import annotations

from planish.ptir import ops
from planish.ptir.function import Inst
from planish.ptir.ops.definition import OpDef
from planish.ptir.rewrite import views as v
from planish.ptir.rules import draft as d
from planish.ptir.rules.lawful import laws
from planish.ptir.rules.numbers import CONSTANT, direct_integer, filled, integer_of
from planish.ptir.rules.rule import Answer, family, rule

by_law = laws(__name__)


DIVISIONS: tuple[OpDef, ...] = (ops.floor_div, ops.trunc_div)
SHIFTS: tuple[OpDef, ...] = (ops.shl, ops.shr_logical, ops.shr_arithmetic)


NormalizeUnsignedDivision = by_law("NormalizeUnsignedDivision", benefit=2)
FoldDivisionByUnit = by_law("FoldDivisionByUnit", benefit=4)
FoldRemainderByUnit = by_law("FoldRemainderByUnit", benefit=4)
FoldDivisionOfDivision = by_law("FoldDivisionOfDivision", benefit=2)
FoldRemainderOfRemainder = by_law("FoldRemainderOfRemainder", benefit=2)
FoldDivisionOfRemainder = by_law("FoldDivisionOfRemainder", benefit=3)


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
