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
from planish.ptir.rewrite.prelude import ProgramRewriter
from planish.ptir.rules import draft as d
from planish.ptir.rules.lawful import by_laws
from planish.ptir.rules.numbers import CONSTANT, filled, is_constant, number_of
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


by_laws(__name__, FoldAddZero=4, FoldMulByOne=4)


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


by_laws(
    __name__, ReplaceDivOfOneByReciprocal=1, ReplaceSubOfConstantByAdd=2, ReplaceSubFromZeroByNeg=3,
    ReplaceAddOfNegBySub=2, ReplaceSubOfNegByAdd=2, CancelNegsInProduct=2, FoldSubOfSame=3,
    ReassociateAdd=2, ReassociateMul=1, CombineConstantsAroundSub=2, ReplaceAddOfSameByMul=1,
)  # fmt: skip


@rule(benefit=2, radius=2, roots=(ops.add,), operands=(ops.mul, ops.mul))
def CollectLikeTerms(op: v.BinaryView, left: Inst, right: Inst) -> Answer:
    """x * c + x * d -> x * (c + d), x * c + x -> x * (c + 1) of integers."""
    if not op.dtype.is_int:
        return "floats are not reassociated"
    one = filled(op.type, 1)
    for x, c in _readings(op.lhs, left, one):
        for y, e in _readings(op.rhs, right, one):
            if x is y and not (c is one and e is one):
                return d.draft(ops.mul, (x, d.draft(ops.add, (c, e))))
    return "the operands are no multiples of one value"


def _readings(value: Value, inst: Inst, one: d.Term | None) -> list[tuple[Value, d.Term | None]]:
    """How a product can be read as x * c: by its constant factor, and as itself times 1."""
    x, c = inst.operands
    return [(value, one)] if c.literal is None else [(x, c), (value, one)]


by_laws(
    __name__,
    CollectLikeTermsOfSub=2, CancelSubOfAdd=3, CancelAddOfSub=3, CancelSubOfSub=3, ReplaceSmallPower=1,
)  # fmt: skip

populate_canonicalization = family(__name__)
