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
from planish.ptir.rewrite import views as v
from planish.ptir.rewrite.prelude import MINUS_ONE, ONE, ZERO, ProgramRewriter
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
from planish.ptir.rules.rule import Answer, family, rule


@rule(
    benefit=5,
    radius=2,
    roots=(ops.add, ops.mul, ops.max, ops.min, ops.and_, ops.or_, ops.xor, ops.hypot, ops.eq, ops.ne),
    operands=(CONSTANT,),
)
def MoveConstantRight(op: v.BinaryView | v.CompareView, rw: ProgramRewriter) -> Answer:
    """f(c, x) -> f(x, c) for commutative f."""
    if not is_constant(op.lhs) or is_constant(op.rhs):
        return "the left operand is not constant, or both are"
    if op.op is ops.mul and op.dtype.is_complex:
        return "the roundings of a complex product depend on the order of its factors"
    rw.set_operands(op.inst, (op.rhs, op.lhs))
    return True


# --- units and zeros ---------------------------------------------------------------------------------------


@rule(benefit=4, radius=2, roots=(ops.add,), operands=(None, (ZERO, ops.broadcast_to)))
def FoldAddZero(op: v.BinaryView) -> Answer:
    """x + 0 -> x; of floats x + -0.0 -> x, because -0.0 + 0.0 is 0.0."""
    number = number_of(op.inst.operands[1])
    if number is None or number or not signed_zero(number, -1.0):
        return "nothing is added that leaves every number as it is"
    return op.inst.operands[0]


@rule(benefit=4, radius=2, roots=(ops.mul,), operands=(None, (ONE, ZERO, MINUS_ONE, ops.broadcast_to)))
def FoldMulByOne(op: v.BinaryView) -> Answer:
    """x * 1 -> x, x * -1 -> -x of real numbers, x * 0 -> 0 of integers.

    Not of complex numbers: an infinity times 1 has a NaN part. One rule for the three, because products with constants
    are many and most of them are none of these.
    """
    x, factor = op.inst.operands
    number = number_of(factor)
    dtype = x.type.dtype
    if number is None or dtype.is_complex:
        return "the factor is not a real constant"
    if number == 1:
        return x
    if number == 0 and dtype.is_int:
        return factor
    if number == -1:
        return d.draft(ops.neg, (x,))
    return "the factor is not 1, -1, or an integer 0"


@rule(benefit=2, radius=2, roots=(ops.div,), any_operand=CONSTANT)
def ReplaceDivByPowerOfTwo(op: v.BinaryView) -> Answer:
    """x / c -> x * (1/c) where 1/c is exact: both are the same number, rounded once."""
    number = number_of(op.rhs)
    if not isinstance(number, float) or not has_exact_reciprocal(number, op.dtype):
        return "the reciprocal of the divisor is not exact"
    return d.draft(ops.mul, (op.lhs, filled(op.type, 1 / number)))


def has_exact_reciprocal(number: float, dtype: DType) -> bool:
    """Whether 1/number is a finite number of the dtype, to the last bit."""
    if not dtype.is_float or number == 0 or not math.isfinite(number) or abs(math.frexp(number)[0]) != 0.5:
        return False
    exponent = 1 - math.frexp(number)[1]
    form = float_format(dtype)
    return form.least <= exponent < math.frexp(form.largest)[1]


@rule(radius=2, roots=(ops.div,), operands=(CONSTANT,))
def ReplaceDivOfOneByReciprocal(op: v.BinaryView) -> Answer:
    """1 / x -> reciprocal(x) of floats."""
    if number_of(op.lhs) != 1 or not op.dtype.is_float:
        return "the dividend is not 1, or complex"
    return d.draft(ops.reciprocal, (op.rhs,))


# --- signs -------------------------------------------------------------------------------------------------


@rule(benefit=2, radius=2, roots=(ops.sub,), any_operand=CONSTANT)
def ReplaceSubOfConstantByAdd(op: v.BinaryView) -> Answer:
    """x - c -> x + -c: exact for every dtype, and sums are what other rules know."""
    if not will_fold(constant_of(op.rhs)) or is_constant(op.lhs):
        return "what is subtracted is not constant, or too large to be negated now"
    return d.draft(ops.add, (op.lhs, d.draft(ops.neg, (op.rhs,))))


@rule(benefit=3, radius=2, roots=(ops.sub,), operands=(CONSTANT,))
def ReplaceSubFromZeroByNeg(op: v.BinaryView) -> Answer:
    """0 - x -> -x; of floats -0.0 - x -> -x, because 0.0 - 0.0 is 0.0."""
    number = number_of(op.lhs)
    if number is None or not signed_zero(number, -1.0):
        return "the left operand is not the zero that negates"
    return d.draft(ops.neg, (op.rhs,))


@rule(benefit=2, radius=2, roots=(ops.add,), any_operand=ops.neg)
def ReplaceAddOfNegBySub(op: v.BinaryView) -> Answer:
    """x + -y -> x - y, -x + y -> y - x: exact for every dtype."""
    # The negative of a constant is a constant as soon as it is folded; until then a sum is its normal form.
    for value, other in ((op.rhs, op.lhs), (op.lhs, op.rhs)):
        x = _negated(value)
        if x is not None and not is_constant(x):
            return d.draft(ops.sub, (other, x))
    return "the negated operand is constant"


@rule(benefit=2, radius=2, roots=(ops.sub,), any_operand=ops.neg)
def ReplaceSubOfNegByAdd(op: v.BinaryView) -> Answer:
    """x - -y -> x + y: exact for every dtype."""
    y = _negated(op.rhs)
    if y is None or is_constant(y):
        return "what is subtracted is not negated"
    return d.draft(ops.add, (op.lhs, y))


@rule(benefit=2, radius=2, roots=(ops.mul, ops.div), operands=(ops.neg, (ops.neg, *CONSTANT)))
def CancelNegsInProduct(op: v.BinaryView) -> Answer:
    """-x * -y -> x * y, -x * c -> x * -c, and the like with / of real numbers: exact."""
    x, y = _negated(op.lhs), _negated(op.rhs)
    if x is None or op.dtype.is_complex:
        return "complex products and quotients are not symmetric in signs of zero"
    if y is not None:
        return d.draft(op.op, (x, y))
    if not is_constant(op.rhs) or is_constant(x):
        return "the right operand is neither negated nor constant"
    return d.draft(op.op, (x, d.draft(ops.neg, (op.rhs,))))


def _negated(value: Value) -> Value | None:
    inst = value.def_inst
    return inst.operands[0] if inst is not None and inst.op is ops.neg else None


# --- the ring of integers ----------------------------------------------------------------------------------


@rule(benefit=3, roots=(ops.sub,), same_operands=True)
def FoldSubOfSame(op: v.BinaryView) -> Answer:
    """x - x -> 0 of integers."""
    if not op.dtype.is_int:
        return "infinities and NaN do not cancel"
    return filled(op.type, 0)


@rule(benefit=2, radius=2, roots=(ops.add,), operands=(ops.add, CONSTANT))
def ReassociateAdd(op: v.BinaryView, rw: ProgramRewriter) -> Answer:
    """(x + c) + d -> x + (c + d) of integers."""
    return reassociate(op.inst, rw, integers_only=True)


@rule(radius=2, roots=(ops.mul,), operands=(ops.mul, CONSTANT))
def ReassociateMul(op: v.BinaryView, rw: ProgramRewriter) -> Answer:
    """(x * c) * d -> x * (c * d) of integers."""
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


@rule(benefit=2, radius=2, roots=(ops.add, ops.sub), operands=((ops.sub, *CONSTANT), (ops.add, *CONSTANT)))
def CombineConstantsAroundSub(op: v.BinaryView) -> Answer:
    """(c - x) + d -> (c + d) - x and c - (x + d) -> (c - d) - x of integers."""
    inner = (op.lhs if op.op is ops.add else op.rhs).def_inst
    outer = op.rhs if op.op is ops.add else op.lhs
    wanted = ops.sub if op.op is ops.add else ops.add
    if inner is None or inner.op is not wanted or not op.dtype.is_int:
        return "not a sum and a difference of integers"
    constant, x = inner.operands if wanted is ops.sub else reversed(inner.operands)
    if constant.literal is None or not is_constant(outer) or is_constant(x):
        return "not two constants"
    pair = (constant, outer) if op.op is ops.add else (outer, constant)
    return d.draft(ops.sub, (d.draft(op.op, pair), x))


@rule(roots=(ops.add,), same_operands=True)
def ReplaceAddOfSameByMul(op: v.BinaryView) -> Answer:
    """x + x -> x * 2 of integers: a like term for others."""
    if not op.dtype.is_int:
        return "only integer terms are collected"
    return d.draft(ops.mul, (op.lhs, filled(op.type, 2)))


@rule(benefit=2, radius=2, roots=(ops.add,), operands=(ops.mul, ops.mul))
def CollectLikeTerms(op: v.BinaryView, rw: ProgramRewriter) -> Answer:
    """x * c + x * d -> x * (c + d), x * c - x -> x * (c - 1) and the like, of integers."""
    return _collect(op, rw)


@rule(benefit=2, radius=2, roots=(ops.sub,), any_operand=ops.mul)
def CollectLikeTermsOfSub(op: v.BinaryView, rw: ProgramRewriter) -> Answer:
    """x * c - x * d -> x * (c - d), x * c - x -> x * (c - 1), x - x * c -> x * (1 - c) of integers."""
    return _collect(op, rw)


def _collect(op: v.BinaryView, rw: ProgramRewriter) -> bool:
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


@rule(benefit=3, radius=2, roots=(ops.sub,), operands=(ops.add,))
def CancelSubOfAdd(op: v.BinaryView, inner: Inst) -> Answer:
    """(x + y) - y -> x, (x + y) - x -> y of integers."""
    if not op.dtype.is_int:
        return "floats are not reassociated"
    x, y = inner.operands
    if op.rhs is not x and op.rhs is not y:
        return "what is subtracted was not added"
    return x if op.rhs is y else y


@rule(benefit=3, radius=2, roots=(ops.add,), any_operand=ops.sub)
def CancelAddOfSub(op: v.BinaryView) -> Answer:
    """(x - y) + y -> x, y + (x - y) -> x of integers."""
    if not op.dtype.is_int:
        return "floats are not reassociated"
    for value, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        inner = value.def_inst
        if inner is not None and inner.op is ops.sub and inner.operands[1] is other:
            return inner.operands[0]
    return "what is added was not subtracted"


@rule(benefit=3, radius=2, roots=(ops.sub,), any_operand=ops.sub)
def CancelSubOfSub(op: v.BinaryView) -> Answer:
    """x - (x - y) -> y, (x - y) - x -> -y of integers."""
    left, right = op.lhs.def_inst, op.rhs.def_inst
    if not op.dtype.is_int:
        return "floats are not reassociated"
    if right is not None and right.op is ops.sub and right.operands[0] is op.lhs:
        return right.operands[1]
    if left is not None and left.op is ops.sub and left.operands[0] is op.rhs:
        return d.draft(ops.neg, (left.operands[1],))
    return "nothing cancels"


# --- powers ------------------------------------------------------------------------------------------------


@rule(radius=2, roots=(ops.pow,), any_operand=CONSTANT)
def ReplaceSmallPower(op: v.BinaryView) -> Answer:
    """pow(x, 0) -> 1, pow(x, 1) -> x, pow(x, 2) -> x * x, of real numbers (semantics 2.5 and 3.5)."""
    exponent = number_of(op.rhs)
    if op.dtype.is_complex or exponent not in (0, 1, 2):
        return "the exponent is not 0, 1 or 2, or complex"
    if exponent == 0:
        return filled(op.type, 1)
    if exponent == 1:
        return op.lhs
    return d.draft(ops.mul, (op.lhs, op.lhs))


populate_canonicalization = family(__name__)
