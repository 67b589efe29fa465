"""The error function and its complement, and powers.

erf x = 1 - e**-y                     fused float32; y = -log(erfc x) is smooth, one polynomial serves every x
erfc x = e**(-x²) G(t) / (1 + 2x)     x >= 3/4; t = (x - 3)/(x + 3) maps all of it to an interval on which G is smooth
x ** y = e**(y log x)                 log x to about 1.3 times the precision, as a pair
"""

from __future__ import annotations

import math
from typing import cast

from planish.stages.linearizer.decompositions import coefficients
from planish.stages.linearizer.decompositions.exp_log import exp_pair, exp_parts, exp_plain, exp_table
from planish.stages.linearizer.decompositions.powers import is_short, short_power
from planish.stages.linearizer.decompositions.reals import LN2_HIGH, LN2_LOW, Pair, Reals, decomposes
from planish.uop.node import UOp
from planish.uop.ops import Ops

_SQRT_HALF = math.sqrt(0.5)


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
    factor = smooth * (a * inverse)
    if m.tables:
        value, w = exp_table(m, -(x * x))
        return (value * factor).alu(Ops.SCALE, w)
    value, power = exp_plain(m, -(x * x))
    return value * power * factor


def _erf_single(m: Reals, x: UOp) -> UOp:
    """1 - e**-y, y = x + x L(x), for all x: one polynomial, and e**-y - 1 = 2**n (e**-s - 1) + (2**n - 1) exact at 0."""
    size = m.magnitude(x)
    size = (size > 4.0).where(m.const(4.0), size)
    y = m.fma(m.polynomial(size, coefficients.LOG_ERFC), size, size)
    whole, power = m.near_power(y, -1 / math.log(2))
    s = m.fma(whole, m.const(math.log(2)), y)  # the error of a ln 2 in one part vanishes in what is added
    fall = m.fma(-(s * s), m.polynomial(-s, coefficients.EXPM1), s)
    return m.with_sign(m.fma(power, fall, m.const(1.0) - power), m.sign(x))


@decomposes(Ops.ERF, "erf(x) -> 1 - exp(-y), y = -log(erfc(x))")
def erf(m: Reals, x: UOp) -> UOp:
    if m.format.bits == 32 and m.fused:
        return _erf_single(m, x)
    size = m.magnitude(x)
    far = m.const(1.0) - _small_tail(m, size)
    result = (size < 1.0).where(size + _near(m, size), far)
    return m.with_sign(result, m.sign(x))


@decomposes(Ops.ERFC, "erfc(x) -> exp(-x²) G(x)")
def erfc(m: Reals, x: UOp) -> UOp:
    size = m.magnitude(x)
    tail = _tail(m, size)
    beyond = (m.bits(x) < 0).where(m.const(2.0) - tail, tail)
    # 1 - erf(x), the x taken off first, exactly.
    first, lost = m.ordered_sum(m.const(1.0), -x)
    return (size < 0.75).where(first + (lost - _near(m, x)), beyond)


# -- powers ---------------------------------------------------------------------------------------------------------


def _log(m: Reals, mantissa: UOp, exponent: UOp) -> Pair:
    """log of a number as a pair, given its mantissa, sqrt(1/2) <= m < sqrt(2), and its exponent, an integer node."""
    bits = m.format.bits
    n = m.from_int(exponent)
    # log m = 2 (s + s z (1/3 + z (1/5 + z T(z)))), z = s²: each term is below the one before by so much that only s, z and
    # the factor of s z need a second part, and none of them an exact last bit of it
    f, (bottom, bottom_low) = mantissa - 1.0, m.sum(mantissa, m.const(1.0))
    inverse = m.const(1.0) / bottom
    s = f * inverse
    s_low = (m.rest(s, bottom, f) - s * bottom_low) * inverse
    z, z_lost = m.product(s, s)
    z_low = m.fma(s + s, s_low, z_lost)
    third = m.constant_pair(
        m.pick(0.3333333432674408, 1 / 3), m.pick(-9.934107758624577e-09, 1.850371707708594e-17)
    )
    inner = z * m.fma(z, m.polynomial(z, coefficients.LOG_TAIL), m.const(0.2))
    factor, factor_lost = m.ordered_sum(third.hi, inner)
    cube, cube_lost = m.product(s, z)
    cube_low = m.fma(s, z_low, m.fma(s_low, z, cube_lost))
    more, more_lost = m.product(cube, factor)
    more_low = m.fma(cube, factor_lost + third.lo, m.fma(cube_low, factor, more_lost))
    top, lost = m.ordered_sum(s, more)
    log_mantissa = Pair(top, lost + (s_low + more_low))
    high, lost = m.ordered_sum(n * LN2_HIGH[bits], log_mantissa.hi * 2.0)
    return m.ordered_sum(high, lost + m.fma(n, m.const(LN2_LOW[bits]), log_mantissa.lo * 2.0))


def _positive_power(m: Reals, x: UOp, y: UOp) -> UOp:
    """x ** y for x > 0 and finite, y finite."""
    largest = m.pick(2.0**40, 2.0**70)  # beyond it every power of a base but 1 is 0 or infinite
    lifted, shift = m.lift_subnormal(x)
    mantissa, n = m.split(lifted, _SQRT_HALF)
    high, low = _log(m, mantissa, n + shift)
    exponent = m.clamp(y, -largest, largest)
    product, lost = m.product(exponent, high)
    tail = m.fma(exponent, low, lost)
    bound = m.pick(110.0, 760.0)
    inside = m.magnitude(product) < bound
    r, rest, n = exp_parts(m, m.clamp(product, -bound, bound), inside.where(tail, m.const(0.0)))
    return m.scale(r + rest + 1.0, n)


@decomposes(Ops.POW, "x ** y -> exp(y log(x))")
def pow_(m: Reals, x: UOp, y: UOp) -> UOp:
    """The power of a normal base, where it is a normal number too: everything else is rare."""
    if m.fused and y.op is Ops.CONST and is_short(y.arg):
        return short_power(m, x, cast("float", y.arg))
    if not m.branches:
        return _any_power(m, x, y)
    size = m.magnitude(x)
    high, low = _log(m, *m.split(size, _SQRT_HALF))
    product, lost = m.product(y, high)
    r, rest, n = exp_parts(m, product, m.fma(y, low, lost))
    near = _of_base(m, x, y, (r + rest + 1.0) * m.power(n))
    # an exponent that is infinite or NaN has no finite product
    ordinary = m.is_normal(size) & (m.magnitude(product) < m.pick(87.0, 708.0))
    if not m.fused:  # a large one cannot be halved, though the logarithm may be 0
        ordinary = ordinary & (m.magnitude(y) < m.pick(2.0**100, 2.0**900))
    return m.rare(ordinary.logical_not(), _any_power(m, x, y), near)


def _of_base(m: Reals, x: UOp, y: UOp, power: UOp) -> UOp:
    """The power of a finite base, given that of its size: negative of odd numbers, of fractions there is none."""
    whole, half = y.alu(Ops.TRUNC).eq(y), y * 0.5
    odd = whole & half.alu(Ops.TRUNC).ne(half)
    negative = m.bits(x) < 0
    power = (negative & odd).where(-power, power)
    return m.nan_where(negative & whole.logical_not(), power)


def _any_power(m: Reals, x: UOp, y: UOp) -> UOp:
    """x ** y for any two numbers."""
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
