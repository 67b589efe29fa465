"""Float ops that a machine may lack beside the smooth functions: remainder, extrema, signs, narrow formats."""

from __future__ import annotations

import math

from planish.stages.linearizer.decompositions.reals import Reals, decomposes
from planish.uop.node import UOp
from planish.uop.ops import Ops


def _modular_product(m: Reals, x: UOp, y: UOp, modulus: UOp) -> UOp:
    """x y mod modulus, for integers 0 <= x, y < modulus held in floats; exact."""
    high, low = m.product(x, y)
    rest = m.rest((high / modulus).alu(Ops.ROUND), modulus, high)
    # |rest|, |low| <= modulus: made to differ in sign, their sum is within it too, hence exact.
    rest = (
        (rest < 0.0).alu(Ops.XOR, low < 0.0).where(rest, (rest < 0.0).where(rest + modulus, rest - modulus))
    )
    total = rest + low
    return (total < 0.0).where(total + modulus, total)


@decomposes(Ops.FMOD, "fmod(x, y) -> (a 2**d mod b) 2**f")
def fmod(m: Reals, x: UOp, y: UOp) -> UOp:
    """x - y trunc(x/y), exact: a 2**e mod b 2**f = (a 2**(e-f) mod b) 2**f, the power by repeated squaring.

    With d = e - f at most the span of exponents, 2**(d >> k) is below every b, and k squarings make 2**d of it.
    """
    size, step = m.magnitude(x), m.magnitude(y)
    mantissa = m.format.mantissa
    lifted_x, shift_x = m.lift_subnormal(size)
    lifted_y, shift_y = m.lift_subnormal(step)
    a, e = m.split(lifted_x, 1.0)
    b, f = m.split(lifted_y, 1.0)
    scale = 2.0**mantissa
    a, b = a * scale, b * scale  # integers of the full precision
    e, f = e + shift_x, f + shift_y
    smaller = size < step
    distance = smaller.where(m.int(0), e - f)
    squarings = 4 if m.format.bits == 32 else 6
    power = m.power(distance >> squarings)
    for k in reversed(range(squarings)):
        power = _modular_product(m, power, power, b)
        doubled = power + power
        reduced = (doubled >= b).where(power - (b - power), doubled)
        power = (distance & (1 << k)).ne(0).where(reduced, power)
    first = (a >= b).where(a - b, a)
    rest = _modular_product(m, first, power, b)
    result = m.with_sign(m.scale(rest, f - mantissa), m.sign(x))
    result = smaller.where(x, result)  # an infinite y too
    return m.nan_where(step.eq(0.0) | (size < math.inf).logical_not() | y.ne(y), result)


@decomposes(Ops.SCALE, "scale(x, y) -> x 2**floor(y), the exponents added")
def scale(m: Reals, x: UOp, y: UOp) -> UOp:
    """x 2**floor(y), rounded once: the exponent of x joins the other before anything rounds."""
    size, reach = m.magnitude(x), m.magnitude(y)
    lifted, shift = m.lift_subnormal(size)
    mantissa, exponent = m.split(lifted, 1.0)
    end = 2 * m.format.bias
    whole = m.clamp(y, -2.0 * end, 2.0 * end).alu(Ops.FLOOR)
    total = exponent + shift + whole.cast(m.format.signed)
    total = (total > end).where(m.int(end), (total < -end).where(m.int(-end), total))
    result = m.with_sign(m.scale(mantissa, total), m.sign(x))
    result = (size.eq(0.0) | (size < math.inf).logical_not()).where(x, result)
    power = (y > 0.0).where(m.const(math.inf), 0.0)
    endless = x.ne(x).where(power, x * power)
    return m.nan_where(y.ne(y), reach.eq(math.inf).where(endless, result))


@decomposes(Ops.MAX, "float: max(x, y) -> x > y ? x : y, NaN and ±0 told apart")
def maximum(m: Reals, x: UOp, y: UOp) -> UOp:
    """The greater; NaN if either is; +0 above -0: where x = y the conjunction of the sign bits."""
    zeros = m.from_bits(m.bits(x) & m.bits(y))
    chosen = x.eq(y).where(zeros, (x > y).where(x, y))
    return x.ne(x).where(x, chosen)


@decomposes(Ops.MIN, "float: min(x, y) -> x < y ? x : y, NaN and ±0 told apart")
def minimum(m: Reals, x: UOp, y: UOp) -> UOp:
    """The smaller; NaN if either is; -0 below +0: where x = y the disjunction of the sign bits."""
    zeros = m.from_bits(m.bits(x) | m.bits(y))
    chosen = x.eq(y).where(zeros, (x < y).where(x, y))
    return x.ne(x).where(x, chosen)
