"""Bits and lattices: and, or, xor, not, and the laws that max and min share with them.

`and`/`or` of bools and integers and `min`/`max` of whatever has no NaN form lattices: absorption holds. Idempotence
and repetition hold for floats too.
"""

from __future__ import annotations

from typing import Final

from planish.ptir import ops
from planish.ptir.function import Value
from planish.ptir.ops.definition import OpDef
from planish.ptir.rewrite.prelude import BinaryView, OpRewritePattern, PatternSet, ProgramRewriter
from planish.ptir.rules import draft as d
from planish.ptir.rules.arithmetic import reassociate
from planish.ptir.rules.numbers import CONSTANT, all_ones, constant_of, filled, no_bits, number_of

BITS: Final[tuple[OpDef, ...]] = (ops.and_, ops.or_, ops.xor)
LATTICE: Final[tuple[OpDef, ...]] = (ops.and_, ops.or_, ops.max, ops.min)
DUAL: Final[dict[OpDef, OpDef]] = {
    ops.and_: ops.or_,
    ops.or_: ops.and_,
    ops.max: ops.min,
    ops.min: ops.max,
}


class FoldBitUnit(OpRewritePattern[BinaryView]):
    """x & 11…1 -> x, x | 0 -> x, x ^ 0 -> x."""

    benefit = 4
    radius = 2
    roots = BITS
    any_operand = CONSTANT

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        unit = all_ones(op.dtype) if op.op is ops.and_ else no_bits(op.dtype)
        if number_of(op.rhs) != unit:
            return rw.fail(op.inst, "the constant is not the unit")
        return d.replace(rw, op.inst, op.lhs)


class FoldBitZero(OpRewritePattern[BinaryView]):
    """x & 0 -> 0, x | 11…1 -> 11…1."""

    benefit = 4
    radius = 2
    roots = (ops.and_, ops.or_)
    any_operand = CONSTANT

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        zero = no_bits(op.dtype) if op.op is ops.and_ else all_ones(op.dtype)
        if number_of(op.rhs) != zero:
            return rw.fail(op.inst, "the constant does not decide the result")
        return d.replace(rw, op.inst, op.rhs)


class ReplaceXorOfOnesByNot(OpRewritePattern[BinaryView]):
    """x ^ 11…1 -> not x."""

    benefit = 3
    radius = 2
    roots = (ops.xor,)
    any_operand = CONSTANT

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        if number_of(op.rhs) != all_ones(op.dtype):
            return rw.fail(op.inst, "not every bit changes")
        return d.replace(rw, op.inst, d.draft(ops.not_, (op.lhs,)))


class FoldXorOfSame(OpRewritePattern[BinaryView]):
    """x ^ x -> 0."""

    benefit = 4
    radius = 1
    roots = (ops.xor,)
    same_operands = True

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        if op.lhs is not op.rhs:
            return rw.fail(op.inst, "two operands")
        return d.replace(rw, op.inst, filled(op.type, no_bits(op.dtype)))


class CancelXorOfXor(OpRewritePattern[BinaryView]):
    """(x ^ y) ^ y -> x."""

    benefit = 3
    radius = 2
    roots = (ops.xor,)
    any_operand = ops.xor

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        for value, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            inner = value.def_inst
            if inner is not None and inner.op is ops.xor and other in inner.operands:
                x, y = inner.operands
                return d.replace(rw, op.inst, x if other is y else y)
        return rw.fail(op.inst, "no operand recurs")


class FoldIdempotentOfSame(OpRewritePattern[BinaryView]):
    """x & x -> x, x | x -> x, max(x, x) -> x, min(x, x) -> x."""

    benefit = 4
    radius = 1
    roots = LATTICE
    same_operands = True

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        return d.replace(rw, op.inst, op.lhs)


class FoldRepeatedOperand(OpRewritePattern[BinaryView]):
    """f(f(x, y), y) -> f(x, y) for and, or, max and min."""

    benefit = 3
    radius = 2
    roots = LATTICE
    any_operand = LATTICE

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        for value, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            inner = value.def_inst
            if inner is not None and inner.op is op.op and other in inner.operands:
                return d.replace(rw, op.inst, value)
        return rw.fail(op.inst, "no operand recurs")


class FoldAbsorption(OpRewritePattern[BinaryView]):
    """x & (x | y) -> x, x | (x & y) -> x, max(x, min(x, y)) -> x, min(x, max(x, y)) -> x; not of floats (NaN)."""

    benefit = 3
    radius = 2
    roots = LATTICE
    any_operand = LATTICE

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        if op.dtype.is_float:
            return rw.fail(op.inst, "the absorbed operand may be NaN")
        for value, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            inner = value.def_inst
            if inner is not None and inner.op is DUAL[op.op] and other in inner.operands:
                return d.replace(rw, op.inst, other)
        return rw.fail(op.inst, "no operand recurs")


class FoldComplement(OpRewritePattern[BinaryView]):
    """x & not x -> 0, x | not x -> 11…1, x ^ not x -> 11…1."""

    benefit = 3
    radius = 2
    roots = BITS
    any_operand = ops.not_

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        if inverted(op.lhs) is not op.rhs and inverted(op.rhs) is not op.lhs:
            return rw.fail(op.inst, "no operand is the inverse of the other")
        bits = no_bits(op.dtype) if op.op is ops.and_ else all_ones(op.dtype)
        return d.replace(rw, op.inst, filled(op.type, bits))


class CancelNotsOfXor(OpRewritePattern[BinaryView]):
    """not x ^ not y -> x ^ y, not x ^ c -> x ^ not c."""

    benefit = 2
    radius = 2
    roots = (ops.xor,)
    operands = (ops.not_, (ops.not_, *CONSTANT))

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        x, y = inverted(op.lhs), inverted(op.rhs)
        if x is None or constant_of(x) is not None:
            return rw.fail(op.inst, "the left operand is constant")
        if y is not None:
            return d.replace(rw, op.inst, d.draft(ops.xor, (x, y)))
        if constant_of(op.rhs) is None:
            return rw.fail(op.inst, "the right operand is neither inverted nor constant")
        return d.replace(rw, op.inst, d.draft(ops.xor, (x, d.draft(ops.not_, (op.rhs,)))))


class JoinNots(OpRewritePattern[BinaryView]):
    """not x & not y -> not (x | y), not x | not y -> not (x & y), if nothing else needs the inverses."""

    radius = 2
    watch_uses = True
    roots = (ops.and_, ops.or_)
    operands = (ops.not_, ops.not_)

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        x, y = inverted(op.lhs), inverted(op.rhs)
        if x is None or y is None or not (op.lhs.has_one_use and op.rhs.has_one_use):
            return rw.fail(op.inst, "an inverse is needed elsewhere")
        return d.replace(rw, op.inst, d.draft(ops.not_, (d.draft(DUAL[op.op], (x, y)),)))


class ReassociateBits(OpRewritePattern[BinaryView]):
    """(x & c) & d -> x & (c & d), and of or, xor, max and min: none of them rounds."""

    benefit = 2
    radius = 2
    roots = (*BITS, ops.max, ops.min)
    operands = ((*BITS, ops.max, ops.min), CONSTANT)

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        return reassociate(op.inst, rw, integers_only=False)


def inverted(value: Value) -> Value | None:
    """x where a value is `not x`."""
    inst = value.def_inst
    return inst.operands[0] if inst is not None and inst.op is ops.not_ else None


def populate_canonicalization(patterns: PatternSet) -> None:
    """Add the patterns of bits and lattices."""
    patterns.add(
        FoldBitUnit,
        FoldBitZero,
        ReplaceXorOfOnesByNot,
        FoldXorOfSame,
        CancelXorOfXor,
        FoldIdempotentOfSame,
        FoldRepeatedOperand,
        FoldAbsorption,
        FoldComplement,
        CancelNotsOfXor,
        JoinNots,
        ReassociateBits,
    )
