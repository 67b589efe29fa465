"""The error function and its complement, and powers.

erfc x = e**(-x²) G(t) / (1 + 2x)     x >= 3/4; t = (x - 3)/(x + 3) maps all of it to an interval on which G is smooth
x ** y = e**(y log x)                 log x to about 1.3 times the precision, as a pair
"""

from __future__ import annotations

import math

from planish.stages.linearizer.decompositions import coefficients
from planish.stages.linearizer.decompositions.exp_log import exp_pair, exp_parts, exp_plain
from planish.stages.linearizer.decompositions.reals import LN2_HIGH, LN2_LOW, Pair, Reals
from planish.uop.node import UOp
from planish.uop.ops import Ops


def _near(m: Reals, x: UOp) -> UOp:
    """erf(x) - x for |x| <= 1."""
    return x * m.polynomial(x * x, coefficients.ERF)


def _tail(m: Reals, size: UOp) -> UOp:
    """erfc(size) for 3/4 <= size."""
    # Past the end the result rounds to 0; the square is to stay in reach of the exponential.
    x = m.clamp(size, 0.75, m.pick(10.5, 27.5))
    t = (x - 3.0) / (x + 3.0)
    square, square_low = m.product(x, x)
    parts = exp_parts(m, -square, -square_low)
    smooth = m.ordered_sum(m.const(1.25), m.polynomial(t, coefficients.ERFCX))
    quotient = m.divide(smooth, m.ordered_sum(x * 2.0, m.const(1.0)))
    product = m.multiply(exp_pair(m, parts), quotient)
    return m.scale(product.hi + product.lo, parts.n)


def _small_tail(m: Reals, size: UOp) -> UOp:
    """erfc(size) for 1 <= size, in plain arithmetic and with one division: enough for what is taken from 1."""
    x = m.clamp(size, 0.75, m.pick(4.5, 6.5))
    a, b = x + 3.0, x + x + 1.0
    inverse = m.const(1.0) / (a * b)
    smooth = m.polynomial((x - 3.0) * (b * inverse), coefficients.ERFCX) + 1.25
    power, n = exp_plain(m, -(x * x))
    return power * m.power(n) * (smooth * (a * inverse))


def erf(m: Reals, x: UOp) -> UOp:
    size = m.magnitude(x)
    far = m.const(1.0) - _small_tail(m, size)
    result = (size < 1.0).where(size + _near(m, size), far)
    return m.with_sign(result, m.sign(x))


def erfc(m: Reals, x: UOp) -> UOp:
    size = m.magnitude(x)
    tail = _tail(m, size)
    beyond = (m.bits(x) < 0).where(m.const(2.0) - tail, tail)
    # 1 - erf(x), the x taken off first, exactly.
    first, lost = m.ordered_sum(m.const(1.0), -x)
    return (size < 0.75).where(first + (lost - _near(m, x)), beyond)


# -- powers ---------------------------------------------------------------------------------------------------------


def _log(m: Reals, x: UOp) -> Pair:
    """log x as a pair; x > 0 and finite."""
    bits = m.format.bits
    lifted, shift = m.lift_subnormal(x)
    mantissa, exponent = m.split(lifted, math.sqrt(0.5))
    n = m.from_int(exponent + shift)
    one, zero = m.const(1.0), m.const(0.0)
    # log m = 2 (s + s³/3 + s⁵/5 + s⁷ T(s²))
    s = m.divide(Pair(mantissa - 1.0, zero), m.sum(mantissa, one))
    z = m.multiply(s, s)
    fifth = m.constant_pair(
        m.pick(0.20000000298023224, 0.2), m.pick(-2.9802322831784522e-09, -1.1102230246251566e-17)
    )
    third = m.constant_pair(
        m.pick(0.3333333432674408, 1 / 3), m.pick(-9.934107758624577e-09, 1.850371707708594e-17)
    )
    tail = m.ordered_sum(fifth.hi, m.fma(z.hi, m.polynomial(z.hi, coefficients.LOG_TAIL), fifth.lo))
    series = m.multiply(z, m.add(third, m.multiply(z, tail)))
    log_mantissa = m.add(s, m.multiply(s, series))
    high, lost = m.ordered_sum(n * LN2_HIGH[bits], log_mantissa.hi * 2.0)
    return m.ordered_sum(high, lost + m.fma(n, m.const(LN2_LOW[bits]), log_mantissa.lo * 2.0))


def _positive_power(m: Reals, x: UOp, y: UOp) -> UOp:
    """x ** y for x > 0 and finite, y finite."""
    largest = m.pick(2.0**40, 2.0**70)  # beyond it every power of a base but 1 is 0 or infinite
    high, low = _log(m, x)
    exponent = m.clamp(y, -largest, largest)
    product, lost = m.product(exponent, high)
    tail = m.fma(exponent, low, lost)
    bound = m.pick(110.0, 760.0)
    inside = m.magnitude(product) < bound
    r, rest, n = exp_parts(m, m.clamp(product, -bound, bound), inside.where(tail, m.const(0.0)))
    return m.scale(r + rest + 1.0, n)


def pow_(m: Reals, x: UOp, y: UOp) -> UOp:
    size, reach = m.magnitude(x), m.magnitude(y)
    zero, one, infinity = m.const(0.0), m.const(1.0), m.const(math.inf)
    whole = y.alu(Ops.TRUNC).eq(y)
    half = y * 0.5
    odd = whole & half.alu(Ops.TRUNC).ne(half)
    falls = m.bits(y) < 0
    result = _positive_power(m, size, y)
    # At the ends of the base, and of the exponent: 0 or infinity.
    result = size.eq(0.0).where(falls.where(infinity, zero), result)
    result = size.eq(math.inf).where(falls.where(zero, infinity), result)
    vanishes = (size < 1.0) ^ falls
    result = reach.eq(math.inf).where(vanishes.where(zero, infinity), result)
    negative = m.bits(x) < 0
    result = (negative & odd).where(-result, result)
    # A negative finite base has no real power of a fraction.
    fractional = (x < 0.0) & (size < math.inf) & whole.logical_not()
    result = m.nan_where(fractional | x.ne(x) | y.ne(y), result)
    unit = y.eq(0.0) | x.eq(1.0) | (x.eq(-1.0) & reach.eq(math.inf))
    return unit.where(one, result)
