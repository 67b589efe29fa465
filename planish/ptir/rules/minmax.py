"""Maxima and minima: bounds that do not bind, clamps in one order, and signs.

The order has -0 below +0 and NaN beyond both ends (semantics 3.3): a constant that is not NaN compares by its
place in it.
"""

from __future__ import annotations

import math

from planish.ptir import ops
from planish.ptir.function import Value
from planish.ptir.ops import numerics
from planish.ptir.rewrite.prelude import BinaryView, OpRewritePattern, PatternSet, ProgramRewriter
from planish.ptir.rules import draft as d
from planish.ptir.rules.numbers import CONSTANT, is_constant, number_of

Place = tuple[float | int, int]


def place_of(value: Value) -> Place | None:
    """Where a constant that is not NaN stands in the order of max and min."""
    number = number_of(value)
    if number is None or isinstance(number, complex) or math.isnan(number):
        return None
    return number, int(math.copysign(1.0, number)) if number == 0 and isinstance(number, float) else 0


class FoldUselessBound(OpRewritePattern[BinaryView]):
    """max(x, lowest) -> x, min(x, highest) -> x."""

    benefit = 4
    radius = 2
    roots = (ops.max, ops.min)
    any_operand = CONSTANT

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        bound = numerics.lowest(op.dtype) if op.op is ops.max else numerics.highest(op.dtype)
        if number_of(op.rhs) != bound:
            return rw.fail(op.inst, "the bound binds")
        return d.replace(rw, op.inst, op.lhs)


class FoldExtremeBound(OpRewritePattern[BinaryView]):
    """max(x, highest) -> highest, min(x, lowest) -> lowest; not of floats, where NaN wins."""

    benefit = 4
    radius = 2
    roots = (ops.max, ops.min)
    any_operand = CONSTANT

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        bound = numerics.highest(op.dtype) if op.op is ops.max else numerics.lowest(op.dtype)
        if op.dtype.is_float or number_of(op.rhs) != bound:
            return rw.fail(op.inst, "x may lie beyond the bound, or be NaN")
        return d.replace(rw, op.inst, op.rhs)


class NormalizeClamp(OpRewritePattern[BinaryView]):
    """max(min(x, high), low) -> min(max(x, low), high) where low <= high."""

    benefit = 2
    radius = 2
    roots = (ops.max,)
    operands = (ops.min, CONSTANT)

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        inner = op.lhs.def_inst
        if inner is None or is_constant(inner.operands[0]):
            return rw.fail(op.inst, "the inner one folds")
        high, low = place_of(inner.operands[1]), place_of(op.rhs)
        if inner.operands[1].literal is None or high is None or low is None or low > high:
            return rw.fail(op.inst, "not two constant bounds with room between them")
        raised = d.draft(ops.max, (inner.operands[0], op.rhs))
        return d.replace(rw, op.inst, d.draft(ops.min, (raised, inner.operands[1])))


class FoldEmptyClamp(OpRewritePattern[BinaryView]):
    """min(max(x, low), high) -> high where high <= low, max(min(x, high), low) -> low; not of floats (NaN)."""

    benefit = 3
    radius = 2
    roots = (ops.max, ops.min)
    operands = ((ops.min, ops.max), CONSTANT)

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        inner = op.lhs.def_inst
        if inner is None or inner.op is op.op or op.dtype.is_float:
            return rw.fail(op.inst, "not a clamp, or x may be NaN")
        first, second = place_of(inner.operands[1]), place_of(op.rhs)
        if inner.operands[1].literal is None or first is None or second is None:
            return rw.fail(op.inst, "not two constant bounds")
        if second > first if op.op is ops.min else second < first:
            return rw.fail(op.inst, "there is room between the bounds")
        return d.replace(rw, op.inst, op.rhs)


class ReplaceMaxOfOppositesByAbs(OpRewritePattern[BinaryView]):
    """max(x, -x) -> abs(x) of floats and signed integers."""

    benefit = 3
    radius = 2
    roots = (ops.max,)
    any_operand = ops.neg

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        if not (op.dtype.is_float or op.dtype.is_signed):
            return rw.fail(op.inst, "the negative of an unsigned integer wraps")
        for value, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            inner = value.def_inst
            if inner is not None and inner.op is ops.neg and inner.operands[0] is other:
                return d.replace(rw, op.inst, d.draft(ops.abs, (other,)))
        return rw.fail(op.inst, "the operands are not opposite")


class SinkNegBelowMinMax(OpRewritePattern[BinaryView]):
    """max(-x, -y) -> -min(x, y), min(-x, -y) -> -max(x, y) of floats, if nothing else needs the negatives."""

    radius = 2
    watch_uses = True
    roots = (ops.max, ops.min)
    operands = (ops.neg, ops.neg)

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        left, right = op.lhs.def_inst, op.rhs.def_inst
        if left is None or right is None or not op.dtype.is_float:
            return rw.fail(op.inst, "the negative of the lowest integer wraps")
        if not (op.lhs.has_one_use and op.rhs.has_one_use):
            return rw.fail(op.inst, "a negative is needed elsewhere")
        other = ops.min if op.op is ops.max else ops.max
        return d.replace(
            rw, op.inst, d.draft(ops.neg, (d.draft(other, (left.operands[0], right.operands[0])),))
        )


def populate_canonicalization(patterns: PatternSet) -> None:
    """Add the patterns of max and min."""
    patterns.add(
        FoldUselessBound,
        FoldExtremeBound,
        NormalizeClamp,
        FoldEmptyClamp,
        ReplaceMaxOfOppositesByAbs,
        SinkNegBelowMinMax,
    )
