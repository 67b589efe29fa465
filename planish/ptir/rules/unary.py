"""Unary ops that undo, repeat or do not see each other, and what a sign does to them.

Even functions do not see a sign; odd functions pass it on, so that negations meet sums and products below.
"""

from __future__ import annotations

from planish.dtypes import value_preserving
from planish.ptir import ops
from planish.ptir.ops.definition import OpDef
from planish.ptir.rewrite.prelude import OpRewritePattern, PatternSet, ProgramRewriter, UnaryView
from planish.ptir.rules import draft as d
from planish.ptir.rules.numbers import filled, is_constant, will_fold

ROUNDING: tuple[OpDef, ...] = (ops.floor, ops.ceil, ops.round, ops.trunc)
EVEN: tuple[OpDef, ...] = (ops.abs, ops.cos, ops.cosh)
"""f(-x) is f(x), f(|x|) is f(x); to the last bit."""
ODD: tuple[OpDef, ...] = (
    ops.sin,
    ops.tan,
    ops.asin,
    ops.atan,
    ops.sinh,
    ops.tanh,
    ops.asinh,
    ops.atanh,
    ops.erf,
    ops.erfinv,
    ops.cbrt,
    ops.round,
    ops.trunc,
    ops.reciprocal,
)
"""f(-x) is -f(x) for floats, zeros included; to the last bit."""
NOT_NEGATIVE: tuple[OpDef, ...] = (
    ops.abs,
    ops.exp,
    ops.exp2,
    ops.cosh,
    ops.erfc,
    ops.hypot,
    ops.popcount,
    ops.clz,
)
"""Never below zero, and never -0."""
CLASSES: tuple[OpDef, ...] = (ops.is_nan, ops.is_inf, ops.is_finite)


class RemoveInvolution(OpRewritePattern[UnaryView]):
    """f(f(x)) -> x for neg, not and conj."""

    benefit = 4
    radius = 1
    roots = (ops.neg, ops.not_, ops.conj)
    operands = ((ops.neg, ops.not_, ops.conj),)

    def match_and_rewrite(self, op: UnaryView, rw: ProgramRewriter) -> bool:
        inner = op.source.def_inst
        if inner is None or inner.op is not op.op:
            return rw.fail(op.inst, "two different ops")
        return d.replace(rw, op.inst, inner.operands[0])


class RemoveRepeatedRounding(OpRewritePattern[UnaryView]):
    """floor(ceil(x)) -> ceil(x) and the like: an integer is rounded to itself."""

    benefit = 3
    radius = 1
    roots = ROUNDING
    operands = (ROUNDING,)

    def match_and_rewrite(self, op: UnaryView, rw: ProgramRewriter) -> bool:
        return d.replace(rw, op.inst, op.source)


class RemoveRoundingOfInteger(OpRewritePattern[UnaryView]):
    """floor(cast(x: integer)) -> cast(x): what comes of an integer is one, infinite or NaN."""

    benefit = 3
    radius = 1
    roots = ROUNDING
    operands = (ops.cast,)

    def match_and_rewrite(self, op: UnaryView, rw: ProgramRewriter) -> bool:
        inner = op.source.def_inst
        if inner is None or not (inner.operands[0].type.dtype.is_int or inner.operands[0].type.dtype.is_bool):
            return rw.fail(op.inst, "the number may have a fraction")
        return d.replace(rw, op.inst, op.source)


class RemoveRepeatedSign(OpRewritePattern[UnaryView]):
    """sign(sign(x)) -> sign(x) of real numbers."""

    benefit = 3
    radius = 1
    roots = (ops.sign,)
    operands = (ops.sign,)

    def match_and_rewrite(self, op: UnaryView, rw: ProgramRewriter) -> bool:
        if op.dtype.is_complex:
            return rw.fail(op.inst, "z/|z| rounds")
        return d.replace(rw, op.inst, op.source)


class RemoveAbsOfNotNegative(OpRewritePattern[UnaryView]):
    """abs(f(x)) -> f(x) where f is never negative, as of exp and abs."""

    benefit = 4
    radius = 1
    roots = (ops.abs,)
    operands = (NOT_NEGATIVE,)

    def match_and_rewrite(self, op: UnaryView, rw: ProgramRewriter) -> bool:
        if op.source.type.dtype.is_complex:
            return rw.fail(op.inst, "a complex number has no sign")
        return d.replace(rw, op.inst, op.source)


class RemoveAbsOfUnsigned(OpRewritePattern[UnaryView]):
    """abs(x) -> x of unsigned integers."""

    benefit = 4
    radius = 0
    roots = (ops.abs,)

    def match_and_rewrite(self, op: UnaryView, rw: ProgramRewriter) -> bool:
        if not op.dtype.is_unsigned:
            return rw.fail(op.inst, "x may be negative")
        return d.replace(rw, op.inst, op.source)


class RemoveAbsOfSquare(OpRewritePattern[UnaryView]):
    """abs(x * x) -> x * x of floats."""

    benefit = 3
    radius = 2
    roots = (ops.abs,)
    operands = (ops.mul,)

    def match_and_rewrite(self, op: UnaryView, rw: ProgramRewriter) -> bool:
        inner = op.source.def_inst
        if inner is None or not op.source.type.dtype.is_float or inner.operands[0] is not inner.operands[1]:
            return rw.fail(op.inst, "not the square of a float")
        return d.replace(rw, op.inst, op.source)


class RemoveSignBelowEven(OpRewritePattern[UnaryView]):
    """f(-x) -> f(x), f(|x|) -> f(x) for even f; abs(conj(z)) -> abs(z)."""

    benefit = 3
    radius = 1
    roots = EVEN
    operands = ((ops.neg, ops.abs, ops.conj),)

    def match_and_rewrite(self, op: UnaryView, rw: ProgramRewriter) -> bool:
        inner = op.source.def_inst
        if inner is None or (op.source.type.dtype.is_complex and op.op is not ops.abs):
            return rw.fail(op.inst, "parts of a complex result may be zeros of another sign")
        if inner.op is ops.abs and op.op is ops.abs:
            return rw.fail(op.inst, "the outer abs goes")
        return d.replace(rw, op.inst, d.draft(op.op, (inner.operands[0],)))


class SinkNegBelowOdd(OpRewritePattern[UnaryView]):
    """f(-x) -> -f(x) for odd f of floats."""

    benefit = 2
    radius = 1
    roots = ODD
    operands = (ops.neg,)

    def match_and_rewrite(self, op: UnaryView, rw: ProgramRewriter) -> bool:
        inner = op.source.def_inst
        if inner is None or not op.dtype.is_float:
            return rw.fail(op.inst, "complex results have signs of zero in two parts")
        return d.replace(rw, op.inst, d.draft(ops.neg, (d.draft(op.op, (inner.operands[0],)),)))


class ReplaceNegOfSub(OpRewritePattern[UnaryView]):
    """-(x - y) -> y - x of integers; of floats 1 - 1 and its negative are different zeros."""

    benefit = 2
    radius = 1
    roots = (ops.neg,)
    operands = (ops.sub,)

    def match_and_rewrite(self, op: UnaryView, rw: ProgramRewriter) -> bool:
        inner = op.source.def_inst
        if inner is None or not op.dtype.is_int:
            return rw.fail(op.inst, "zero would change its sign")
        return d.replace(rw, op.inst, d.draft(ops.sub, (inner.operands[1], inner.operands[0])))


class FoldNegIntoConstant(OpRewritePattern[UnaryView]):
    """-(x * c) -> x * -c of real numbers, -(x + c) -> -c - x of integers, if nothing else needs the operand."""

    radius = 2
    watch_uses = True
    roots = (ops.neg,)
    operands = ((ops.mul, ops.add, ops.div),)

    def match_and_rewrite(self, op: UnaryView, rw: ProgramRewriter) -> bool:
        inner = op.source.def_inst
        if inner is None or op.dtype.is_complex or not op.source.has_one_use:
            return rw.fail(op.inst, "complex, or needed elsewhere")
        x, c = inner.operands
        if not will_fold(c.literal) or is_constant(x):
            return rw.fail(op.inst, "no constant operand")
        negative = d.draft(ops.neg, (c,))
        if inner.op is not ops.add:
            return d.replace(rw, op.inst, d.draft(inner.op, (x, negative)))
        if not op.dtype.is_int:
            return rw.fail(op.inst, "zero would change its sign")
        return d.replace(rw, op.inst, d.draft(ops.sub, (negative, x)))


class IgnoreSignInClass(OpRewritePattern[UnaryView]):
    """is_nan(-x) -> is_nan(x), also of abs(x) of real numbers; is_inf and is_finite alike."""

    benefit = 2
    radius = 1
    roots = CLASSES
    operands = ((ops.neg, ops.abs),)

    def match_and_rewrite(self, op: UnaryView, rw: ProgramRewriter) -> bool:
        inner = op.source.def_inst
        if inner is None or inner.operands[0].type != op.source.type:
            return rw.fail(op.inst, "the absolute value of a complex number may overflow")
        return d.replace(rw, op.inst, d.draft(op.op, (inner.operands[0],)))


class FoldClassOfInteger(OpRewritePattern[UnaryView]):
    """is_nan(cast(x: integer)) -> False, is_finite -> True where the float holds every such integer."""

    benefit = 2
    radius = 1
    roots = CLASSES
    operands = (ops.cast,)

    def match_and_rewrite(self, op: UnaryView, rw: ProgramRewriter) -> bool:
        inner = op.source.def_inst
        source = None if inner is None else inner.operands[0].type.dtype
        if source is None or not (source.is_int or source.is_bool):
            return rw.fail(op.inst, "not the cast of an integer")
        if not value_preserving(source, op.source.type.dtype):
            return rw.fail(op.inst, "the cast may overflow")
        return d.replace(rw, op.inst, filled(op.type, op.op is ops.is_finite))


def populate_canonicalization(patterns: PatternSet) -> None:
    """Add the patterns of unary ops."""
    patterns.add(
        RemoveInvolution,
        RemoveRepeatedRounding,
        RemoveRoundingOfInteger,
        RemoveRepeatedSign,
        RemoveAbsOfNotNegative,
        RemoveAbsOfUnsigned,
        RemoveAbsOfSquare,
        RemoveSignBelowEven,
        SinkNegBelowOdd,
        ReplaceNegOfSub,
        FoldNegIntoConstant,
        IgnoreSignInClass,
        FoldClassOfInteger,
    )
