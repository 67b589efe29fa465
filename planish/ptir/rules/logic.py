"""Bits and lattices: and, or, xor, not, and the laws that max and min share with them.

`and`/`or` of bools and integers and `min`/`max` of whatever has no NaN form lattices: absorption holds. Idempotence
and repetition hold for floats too.
"""

from __future__ import annotations

from typing import Final

from planish.ptir import ops
from planish.ptir.function import Value
from planish.ptir.ops.definition import OpDef
from planish.ptir.rewrite import views as v
from planish.ptir.rewrite.prelude import ProgramRewriter
from planish.ptir.rules import draft as d
from planish.ptir.rules.arithmetic import reassociate
from planish.ptir.rules.numbers import CONSTANT, all_ones, constant_of, filled, no_bits, number_of
from planish.ptir.rules.rule import Answer, family, rule

BITS: Final[tuple[OpDef, ...]] = (ops.and_, ops.or_, ops.xor)
LATTICE: Final[tuple[OpDef, ...]] = (ops.and_, ops.or_, ops.max, ops.min)
DUAL: Final[dict[OpDef, OpDef]] = {
    ops.and_: ops.or_,
    ops.or_: ops.and_,
    ops.max: ops.min,
    ops.min: ops.max,
}


@rule(benefit=4, radius=2, roots=BITS, any_operand=CONSTANT)
def FoldBitUnit(op: v.BinaryView) -> Answer:
    """x & 11…1 -> x, x | 0 -> x, x ^ 0 -> x."""
    unit = all_ones(op.dtype) if op.op is ops.and_ else no_bits(op.dtype)
    if number_of(op.rhs) != unit:
        return "the constant is not the unit"
    return op.lhs


@rule(benefit=4, radius=2, roots=(ops.and_, ops.or_), any_operand=CONSTANT)
def FoldBitZero(op: v.BinaryView) -> Answer:
    """x & 0 -> 0, x | 11…1 -> 11…1."""
    zero = no_bits(op.dtype) if op.op is ops.and_ else all_ones(op.dtype)
    if number_of(op.rhs) != zero:
        return "the constant does not decide the result"
    return op.rhs


@rule(benefit=3, radius=2, roots=(ops.xor,), any_operand=CONSTANT)
def ReplaceXorOfOnesByNot(op: v.BinaryView) -> Answer:
    """x ^ 11…1 -> not x."""
    if number_of(op.rhs) != all_ones(op.dtype):
        return "not every bit changes"
    return d.draft(ops.not_, (op.lhs,))


@rule(benefit=4, roots=(ops.xor,), same_operands=True)
def FoldXorOfSame(op: v.BinaryView) -> Answer:
    """x ^ x -> 0."""
    if op.lhs is not op.rhs:
        return "two operands"
    return filled(op.type, no_bits(op.dtype))


@rule(benefit=3, radius=2, roots=(ops.xor,), any_operand=ops.xor)
def CancelXorOfXor(op: v.BinaryView) -> Answer:
    """(x ^ y) ^ y -> x."""
    for value, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        inner = value.def_inst
        if inner is not None and inner.op is ops.xor and other in inner.operands:
            x, y = inner.operands
            return x if other is y else y
    return "no operand recurs"


@rule(benefit=4, roots=LATTICE, same_operands=True)
def FoldIdempotentOfSame(op: v.BinaryView) -> Answer:
    """x & x -> x, x | x -> x, max(x, x) -> x, min(x, x) -> x."""
    return op.lhs


@rule(benefit=3, radius=2, roots=LATTICE, any_operand=LATTICE)
def FoldRepeatedOperand(op: v.BinaryView) -> Answer:
    """f(f(x, y), y) -> f(x, y) for and, or, max and min."""
    for value, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        inner = value.def_inst
        if inner is not None and inner.op is op.op and other in inner.operands:
            return value
    return "no operand recurs"


@rule(benefit=3, radius=2, roots=LATTICE, any_operand=LATTICE)
def FoldAbsorption(op: v.BinaryView) -> Answer:
    """x & (x | y) -> x, x | (x & y) -> x, max(x, min(x, y)) -> x, min(x, max(x, y)) -> x; not of floats (NaN)."""
    if op.dtype.is_float:
        return "the absorbed operand may be NaN"
    for value, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        inner = value.def_inst
        if inner is not None and inner.op is DUAL[op.op] and other in inner.operands:
            return other
    return "no operand recurs"


@rule(benefit=3, radius=2, roots=BITS, any_operand=ops.not_)
def FoldComplement(op: v.BinaryView) -> Answer:
    """x & not x -> 0, x | not x -> 11…1, x ^ not x -> 11…1."""
    if inverted(op.lhs) is not op.rhs and inverted(op.rhs) is not op.lhs:
        return "no operand is the inverse of the other"
    bits = no_bits(op.dtype) if op.op is ops.and_ else all_ones(op.dtype)
    return filled(op.type, bits)


@rule(benefit=2, radius=2, roots=(ops.xor,), operands=(ops.not_, (ops.not_, *CONSTANT)))
def CancelNotsOfXor(op: v.BinaryView) -> Answer:
    """not x ^ not y -> x ^ y, not x ^ c -> x ^ not c."""
    x, y = inverted(op.lhs), inverted(op.rhs)
    if x is None or constant_of(x) is not None:
        return "the left operand is constant"
    if y is not None:
        return d.draft(ops.xor, (x, y))
    if constant_of(op.rhs) is None:
        return "the right operand is neither inverted nor constant"
    return d.draft(ops.xor, (x, d.draft(ops.not_, (op.rhs,))))


@rule(radius=2, roots=(ops.and_, ops.or_), operands=(ops.not_, ops.not_), watch_uses=True)
def JoinNots(op: v.BinaryView) -> Answer:
    """not x & not y -> not (x | y), not x | not y -> not (x & y), if nothing else needs the inverses."""
    x, y = inverted(op.lhs), inverted(op.rhs)
    if x is None or y is None or not (op.lhs.has_one_use and op.rhs.has_one_use):
        return "an inverse is needed elsewhere"
    return d.draft(ops.not_, (d.draft(DUAL[op.op], (x, y)),))


@rule(benefit=2, radius=2, roots=(*BITS, ops.max, ops.min), operands=((*BITS, ops.max, ops.min), CONSTANT))
def ReassociateBits(op: v.BinaryView, rw: ProgramRewriter) -> Answer:
    """(x & c) & d -> x & (c & d), and of or, xor, max and min: none of them rounds."""
    return reassociate(op.inst, rw, integers_only=False)


def inverted(value: Value) -> Value | None:
    """x where a value is `not x`."""
    inst = value.def_inst
    return inst.operands[0] if inst is not None and inst.op is ops.not_ else None


populate_canonicalization = family(__name__)
