"""Sums and products within the float contract.

Integers wrap, so they form a ring: constants are collected, like terms joined, opposites cancelled. Floats are never
reassociated; what is left for them is exact: true units (x * 1, x + -0.0), signs, and division by a power of two.
Constants stand on the right of commutative ops, and subtracting a constant is adding its negative.
"""

from __future__ import annotations

import math

from planish.dtypes import DType, float_format
from planish.ptir import ops
from planish.ptir.function import Inst, Value
from planish.ptir.rewrite.prelude import (
    MINUS_ONE,
    ONE,
    ZERO,
    BinaryView,
    CompareView,
    OpRewritePattern,
    PatternSet,
    ProgramRewriter,
)
from planish.ptir.rules import draft as d
from planish.ptir.rules.numbers import (
    CONSTANT,
    constant_of,
    filled,
    is_constant,
    number_of,
    signed_zero,
    will_fold,
)


class MoveConstantRight(OpRewritePattern[BinaryView | CompareView]):
    """f(c, x) -> f(x, c) for commutative f."""

    benefit = 5
    radius = 2
    roots = (ops.add, ops.mul, ops.max, ops.min, ops.and_, ops.or_, ops.xor, ops.hypot, ops.eq, ops.ne)
    operands = (CONSTANT,)

    def match_and_rewrite(self, op: BinaryView | CompareView, rw: ProgramRewriter) -> bool:
        if not is_constant(op.lhs) or is_constant(op.rhs):
            return rw.fail(op.inst, "the left operand is not constant, or both are")
        if op.op is ops.mul and op.dtype.is_complex:
            return rw.fail(op.inst, "the roundings of a complex product depend on the order of its factors")
        rw.set_operands(op.inst, (op.rhs, op.lhs))
        return True


# --- units and zeros ---------------------------------------------------------------------------------------


class FoldAddZero(OpRewritePattern[BinaryView]):
    """x + 0 -> x; of floats x + -0.0 -> x, because -0.0 + 0.0 is 0.0."""

    benefit = 4
    radius = 2
    roots = (ops.add,)
    operands = (None, (ZERO, ops.broadcast_to))

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        number = number_of(op.inst.operands[1])
        if number is None or number or not signed_zero(number, -1.0):
            return rw.fail(op.inst, "nothing is added that leaves every number as it is")
        rw.replace_op(op.inst, op.inst.operands[0])
        return True


class FoldMulByOne(OpRewritePattern[BinaryView]):
    """x * 1 -> x, x * -1 -> -x of real numbers, x * 0 -> 0 of integers.

    Not of complex numbers: an infinity times 1 has a NaN part. One rule for the three, because products with constants
    are many and most of them are none of these.
    """

    benefit = 4
    radius = 2
    roots = (ops.mul,)
    operands = (None, (ONE, ZERO, MINUS_ONE, ops.broadcast_to))

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        x, factor = op.inst.operands
        number = number_of(factor)
        dtype = x.type.dtype
        if number is None or dtype.is_complex:
            return rw.fail(op.inst, "the factor is not a real constant")
        if number == 1:
            rw.replace_op(op.inst, x)
            return True
        if number == 0 and dtype.is_int:
            rw.replace_op(op.inst, factor)
            return True
        if number == -1:
            return d.replace(rw, op.inst, d.draft(ops.neg, (x,)))
        return rw.fail(op.inst, "the factor is not 1, -1, or an integer 0")


class ReplaceDivByPowerOfTwo(OpRewritePattern[BinaryView]):
    """x / c -> x * (1/c) where 1/c is exact: both are the same number, rounded once."""

    benefit = 2
    radius = 2
    roots = (ops.div,)
    any_operand = CONSTANT

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        number = number_of(op.rhs)
        if not isinstance(number, float) or not has_exact_reciprocal(number, op.dtype):
            return rw.fail(op.inst, "the reciprocal of the divisor is not exact")
        return d.replace(rw, op.inst, d.draft(ops.mul, (op.lhs, filled(op.type, 1 / number))))


def has_exact_reciprocal(number: float, dtype: DType) -> bool:
    """Whether 1/number is a finite number of the dtype, to the last bit."""
    if not dtype.is_float or number == 0 or not math.isfinite(number) or abs(math.frexp(number)[0]) != 0.5:
        return False
    exponent = 1 - math.frexp(number)[1]
    form = float_format(dtype)
    return form.least <= exponent < math.frexp(form.largest)[1]


class ReplaceDivOfOneByReciprocal(OpRewritePattern[BinaryView]):
    """1 / x -> reciprocal(x) of floats."""

    benefit = 1
    radius = 2
    roots = (ops.div,)
    operands = (CONSTANT,)

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        if number_of(op.lhs) != 1 or not op.dtype.is_float:
            return rw.fail(op.inst, "the dividend is not 1, or complex")
        return d.replace(rw, op.inst, d.draft(ops.reciprocal, (op.rhs,)))


# --- signs -------------------------------------------------------------------------------------------------


class ReplaceSubOfConstantByAdd(OpRewritePattern[BinaryView]):
    """x - c -> x + -c: exact for every dtype, and sums are what other rules know."""

    benefit = 2
    radius = 2
    roots = (ops.sub,)
    any_operand = CONSTANT

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        if not will_fold(constant_of(op.rhs)) or is_constant(op.lhs):
            return rw.fail(op.inst, "what is subtracted is not constant, or too large to be negated now")
        return d.replace(rw, op.inst, d.draft(ops.add, (op.lhs, d.draft(ops.neg, (op.rhs,)))))


class ReplaceSubFromZeroByNeg(OpRewritePattern[BinaryView]):
    """0 - x -> -x; of floats -0.0 - x -> -x, because 0.0 - 0.0 is 0.0."""

    benefit = 3
    radius = 2
    roots = (ops.sub,)
    operands = (CONSTANT,)

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        number = number_of(op.lhs)
        if number is None or not signed_zero(number, -1.0):
            return rw.fail(op.inst, "the left operand is not the zero that negates")
        return d.replace(rw, op.inst, d.draft(ops.neg, (op.rhs,)))


class ReplaceAddOfNegBySub(OpRewritePattern[BinaryView]):
    """x + -y -> x - y, -x + y -> y - x: exact for every dtype."""

    benefit = 2
    radius = 2
    roots = (ops.add,)
    any_operand = ops.neg

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        # The negative of a constant is a constant as soon as it is folded; until then a sum is its normal form.
        for value, other in ((op.rhs, op.lhs), (op.lhs, op.rhs)):
            x = _negated(value)
            if x is not None and not is_constant(x):
                return d.replace(rw, op.inst, d.draft(ops.sub, (other, x)))
        return rw.fail(op.inst, "the negated operand is constant")


class ReplaceSubOfNegByAdd(OpRewritePattern[BinaryView]):
    """x - -y -> x + y: exact for every dtype."""

    benefit = 2
    radius = 2
    roots = (ops.sub,)
    any_operand = ops.neg

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        y = _negated(op.rhs)
        if y is None or is_constant(y):
            return rw.fail(op.inst, "what is subtracted is not negated")
        return d.replace(rw, op.inst, d.draft(ops.add, (op.lhs, y)))


class CancelNegsInProduct(OpRewritePattern[BinaryView]):
    """-x * -y -> x * y, -x * c -> x * -c, and the like with / of real numbers: exact."""

    benefit = 2
    radius = 2
    roots = (ops.mul, ops.div)
    operands = (ops.neg, (ops.neg, *CONSTANT))

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        x, y = _negated(op.lhs), _negated(op.rhs)
        if x is None or op.dtype.is_complex:
            return rw.fail(op.inst, "complex products and quotients are not symmetric in signs of zero")
        if y is not None:
            return d.replace(rw, op.inst, d.draft(op.op, (x, y)))
        if not is_constant(op.rhs) or is_constant(x):
            return rw.fail(op.inst, "the right operand is neither negated nor constant")
        return d.replace(rw, op.inst, d.draft(op.op, (x, d.draft(ops.neg, (op.rhs,)))))


def _negated(value: Value) -> Value | None:
    inst = value.def_inst
    return inst.operands[0] if inst is not None and inst.op is ops.neg else None


# --- the ring of integers ----------------------------------------------------------------------------------


class FoldSubOfSame(OpRewritePattern[BinaryView]):
    """x - x -> 0 of integers."""

    benefit = 3
    radius = 1
    roots = (ops.sub,)
    same_operands = True

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        if not op.dtype.is_int:
            return rw.fail(op.inst, "infinities and NaN do not cancel")
        return d.replace(rw, op.inst, filled(op.type, 0))


class ReassociateAdd(OpRewritePattern[BinaryView]):
    """(x + c) + d -> x + (c + d) of integers."""

    benefit = 2
    radius = 2
    roots = (ops.add,)
    operands = (ops.add, CONSTANT)

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        return reassociate(op.inst, rw, integers_only=True)


class ReassociateMul(OpRewritePattern[BinaryView]):
    """(x * c) * d -> x * (c * d) of integers."""

    benefit = 1
    radius = 2
    roots = (ops.mul,)
    operands = (ops.mul, CONSTANT)

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        return reassociate(op.inst, rw, integers_only=True)


def reassociate(inst: Inst, rw: ProgramRewriter, *, integers_only: bool) -> bool:
    """Replace f(f(x, c), d) by f(x, f(c, d))."""
    if integers_only and not inst.results[0].type.dtype.is_int:
        return rw.fail(inst, "floats are not reassociated")
    inner = inst.operands[0].def_inst
    if inner is None or inner.op is not inst.op:
        return rw.fail(inst, f"the left operand is no {inst.op.name}")
    first, second = inner.operands[1], inst.operands[1]
    if first.literal is None or constant_of(second) is None:
        return rw.fail(inst, "not two constants")
    x = inner.operands[0]
    if is_constant(x):
        return rw.fail(inst, "the inner one folds")
    return d.replace(rw, inst, d.draft(inst.op, (x, d.draft(inst.op, (first, second)))))


class CombineConstantsAroundSub(OpRewritePattern[BinaryView]):
    """(c - x) + d -> (c + d) - x and c - (x + d) -> (c - d) - x of integers."""

    benefit = 2
    radius = 2
    roots = (ops.add, ops.sub)
    operands = ((ops.sub, *CONSTANT), (ops.add, *CONSTANT))

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        inner = (op.lhs if op.op is ops.add else op.rhs).def_inst
        outer = op.rhs if op.op is ops.add else op.lhs
        wanted = ops.sub if op.op is ops.add else ops.add
        if inner is None or inner.op is not wanted or not op.dtype.is_int:
            return rw.fail(op.inst, "not a sum and a difference of integers")
        constant, x = inner.operands if wanted is ops.sub else reversed(inner.operands)
        if constant.literal is None or not is_constant(outer) or is_constant(x):
            return rw.fail(op.inst, "not two constants")
        pair = (constant, outer) if op.op is ops.add else (outer, constant)
        return d.replace(rw, op.inst, d.draft(ops.sub, (d.draft(op.op, pair), x)))


class ReplaceAddOfSameByMul(OpRewritePattern[BinaryView]):
    """x + x -> x * 2 of integers: a like term for others."""

    radius = 1
    roots = (ops.add,)
    same_operands = True

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        if not op.dtype.is_int:
            return rw.fail(op.inst, "only integer terms are collected")
        return d.replace(rw, op.inst, d.draft(ops.mul, (op.lhs, filled(op.type, 2))))


class CollectLikeTerms(OpRewritePattern[BinaryView]):
    """x * c + x * d -> x * (c + d), x * c - x -> x * (c - 1) and the like, of integers."""

    benefit = 2
    radius = 2
    roots = (ops.add,)
    operands = (ops.mul, ops.mul)

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        return _collect(op, rw)


class CollectLikeTermsOfSub(OpRewritePattern[BinaryView]):
    """x * c - x * d -> x * (c - d), x * c - x -> x * (c - 1), x - x * c -> x * (1 - c) of integers."""

    benefit = 2
    radius = 2
    roots = (ops.sub,)
    any_operand = ops.mul

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        return _collect(op, rw)


def _collect(op: BinaryView, rw: ProgramRewriter) -> bool:
    if not op.dtype.is_int:
        return rw.fail(op.inst, "floats are not reassociated")
    for x, c in _term(op.lhs):
        for y, e in _term(op.rhs):
            if x is y and (c is not None or e is not None):
                one = filled(op.type, 1)
                factor = d.draft(op.op, (one if c is None else c, one if e is None else e))
                return d.replace(rw, op.inst, d.draft(ops.mul, (x, factor)))
    return rw.fail(op.inst, "the operands are no multiples of one value")


def _term(value: Value) -> list[tuple[Value, Value | None]]:
    """How a value can be read as x * c: a product with a constant, and itself times 1."""
    readings: list[tuple[Value, Value | None]] = [(value, None)]
    inst = value.def_inst
    if inst is not None and inst.op is ops.mul and inst.operands[1].literal is not None:
        readings.insert(0, (inst.operands[0], inst.operands[1]))
    return readings


class CancelSubOfAdd(OpRewritePattern[BinaryView]):
    """(x + y) - y -> x, (x + y) - x -> y of integers."""

    benefit = 3
    radius = 2
    roots = (ops.sub,)
    operands = (ops.add,)

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        inner = op.lhs.def_inst
        if inner is None or not op.dtype.is_int:
            return rw.fail(op.inst, "floats are not reassociated")
        x, y = inner.operands
        if op.rhs is not x and op.rhs is not y:
            return rw.fail(op.inst, "what is subtracted was not added")
        rw.replace_op(op.inst, x if op.rhs is y else y)
        return True


class CancelAddOfSub(OpRewritePattern[BinaryView]):
    """(x - y) + y -> x, y + (x - y) -> x of integers."""

    benefit = 3
    radius = 2
    roots = (ops.add,)
    any_operand = ops.sub

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        if not op.dtype.is_int:
            return rw.fail(op.inst, "floats are not reassociated")
        for value, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            inner = value.def_inst
            if inner is not None and inner.op is ops.sub and inner.operands[1] is other:
                rw.replace_op(op.inst, inner.operands[0])
                return True
        return rw.fail(op.inst, "what is added was not subtracted")


class CancelSubOfSub(OpRewritePattern[BinaryView]):
    """x - (x - y) -> y, (x - y) - x -> -y of integers."""

    benefit = 3
    radius = 2
    roots = (ops.sub,)
    any_operand = ops.sub

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        left, right = op.lhs.def_inst, op.rhs.def_inst
        if not op.dtype.is_int:
            return rw.fail(op.inst, "floats are not reassociated")
        if right is not None and right.op is ops.sub and right.operands[0] is op.lhs:
            rw.replace_op(op.inst, right.operands[1])
            return True
        if left is not None and left.op is ops.sub and left.operands[0] is op.rhs:
            return d.replace(rw, op.inst, d.draft(ops.neg, (left.operands[1],)))
        return rw.fail(op.inst, "nothing cancels")


# --- powers ------------------------------------------------------------------------------------------------


class ReplaceSmallPower(OpRewritePattern[BinaryView]):
    """pow(x, 0) -> 1, pow(x, 1) -> x, pow(x, 2) -> x * x, of real numbers (semantics 2.5 and 3.5)."""

    radius = 2
    roots = (ops.pow,)
    any_operand = CONSTANT

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        exponent = number_of(op.rhs)
        if op.dtype.is_complex or exponent not in (0, 1, 2):
            return rw.fail(op.inst, "the exponent is not 0, 1 or 2, or complex")
        if exponent == 0:
            return d.replace(rw, op.inst, filled(op.type, 1))
        if exponent == 1:
            return d.replace(rw, op.inst, op.lhs)
        return d.replace(rw, op.inst, d.draft(ops.mul, (op.lhs, op.lhs)))


def populate_canonicalization(patterns: PatternSet) -> None:
    """Add the patterns of sums, products and powers."""
    patterns.add(
        MoveConstantRight,
        FoldAddZero,
        FoldMulByOne,
        ReplaceDivByPowerOfTwo,
        ReplaceDivOfOneByReciprocal,
        ReplaceSubOfConstantByAdd,
        ReplaceSubFromZeroByNeg,
        ReplaceAddOfNegBySub,
        ReplaceSubOfNegByAdd,
        CancelNegsInProduct,
        FoldSubOfSame,
        ReassociateAdd,
        ReassociateMul,
        CombineConstantsAroundSub,
        ReplaceAddOfSameByMul,
        CollectLikeTerms,
        CollectLikeTermsOfSub,
        CancelSubOfAdd,
        CancelAddOfSub,
        CancelSubOfSub,
        ReplaceSmallPower,
    )
