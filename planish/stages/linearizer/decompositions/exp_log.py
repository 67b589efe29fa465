"""Exponentials and logarithms.

    e**x = 2**n e**r             n = round(x / ln 2), |r| <= ln2 / 2 by Cody and Waite's two-part ln 2; e**r a polynomial
    log x = n ln 2 + log m       x = m 2**n, sqrt(1/2) <= m < sqrt(2); f = m - 1, s = f / (2 + f),
                                 log(1 + f) = f - f²/2 + s (f²/2 + R(s²)), the first two terms exact as a pair;
                                 fused float32: f + f² p(f), 2/3 <= m < 4/3, without a division

The kernels (`exp_parts`, `log_pair`) serve the hyperbolic functions, erfc and pow too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from planish.stages.linearizer.decompositions import coefficients
from planish.stages.linearizer.decompositions.reals import LN2_HIGH, LN2_LOW, Pair, Reals, decomposes
from planish.uop.node import UOp
from planish.uop.ops import Ops

_SQRT_HALF = 0.7071067811865476


class ExpParts(NamedTuple):
    """e**x = (1 + r + tail) * 2**n."""

    r: UOp
    tail: UOp
    n: UOp


def exp_range(m: Reals) -> tuple[float, float]:
    """Below the first e**x rounds to 0, above the second it overflows."""
    return (-104.0, 89.0) if m.format.bits == 32 else (-746.0, 710.0)


def exp_plain(m: Reals, x: UOp) -> tuple[UOp, UOp]:
    """p and 2**n with e**x = p 2**n, p rounded to about one unit while n is small; 2**n a normal number."""
    bits = m.format.bits
    whole, power = m.near_power(x, 1 / math.log(2))
    tail, one = coefficients.EXP, m.const(1.0)
    if m.fused:
        # one part of ln 2 does: what is far from 0 is added to, or taken from, 1
        r = m.fma(whole, m.const(-math.log(2)), x)
        return m.fma(m.fma(m.polynomial(r, tail), r, one), r, one), power
    r = (x - whole * LN2_HIGH[bits]) - whole * LN2_LOW[bits]
    return (r * r * m.polynomial(r, tail) + r) + one, power


def exp_parts(m: Reals, x: UOp, low: UOp | None = None) -> ExpParts:
    """The parts of e**(x + low), with what the reduction rounds off."""
    bits = m.format.bits
    whole, n = m.nearest(x * (1 / math.log(2)))
    first = m.fma(whole, m.const(-LN2_HIGH[bits]), x)  # exact
    second = whole * LN2_LOW[bits]
    r = first - second
    lost = (first - r) - second
    if low is not None:
        r, lost = m.sum(r, lost + low)
    return ExpParts(r, m.fma(r * r, m.polynomial(r, coefficients.EXP), m.fma(lost, r, lost)), n)


def exp_pair(m: Reals, parts: ExpParts) -> Pair:
    """1 + r + tail."""
    small, rest = m.ordered_sum(parts.r, parts.tail)
    high, lost = m.ordered_sum(m.const(1.0), small)
    return Pair(high, lost + rest)


def _within(m: Reals, x: UOp, low: float, high: float) -> tuple[UOp, UOp]:
    """Whether x is below all exponents, and x brought where its power is a normal number or too large for one.

    Masks fill rows with -inf: its power must not cost what the machine takes for results below the normal numbers.
    """
    below = x < low
    least = (x > high).where(m.const(high), x)  # one instruction of a machine that has a minimum
    return below, below.where(m.const(0.0), least)


def _far_within(m: Reals, x: UOp, low: float, high: float) -> UOp:
    """x; what is below all exponents far below them."""
    # SCALE makes 0 of a power far out of reach at once, but takes its time for those near the smallest number
    least = (x > high).where(m.const(high), x)
    return (x < low).where(m.const(low * 10.0), least)


def _power_table(m: Reals) -> list[float]:
    """2 ** (k / entries)."""
    return [2.0 ** (k / m.entries) for k in range(m.entries)]


def exp_table(m: Reals, x: UOp) -> tuple[UOp, UOp]:
    """p and w with e**x = p 2**floor(w): 2**(k/entries) from a table, times a short polynomial."""
    bits = m.format.bits
    w, place = m.nearest_entry(x, 1 / math.log(2))
    r = m.fma(w, m.const(-LN2_LOW[bits]), m.fma(w, m.const(-LN2_HIGH[bits]), x))
    power = m.lookup(_power_table(m), place)
    row = coefficients.EXP_16 if bits == 32 else coefficients.EXP_8
    return m.fma(power, m.fma(r * r, m.polynomial(r, row), r), power), w


@decomposes(Ops.EXP, "exp(x) -> 2**n exp(x - n ln2)")
def exp(m: Reals, x: UOp) -> UOp:
    bits = m.format.bits
    if m.estimates:
        return x.alu(Ops.EXP_ESTIMATE)
    if m.tables:
        value, w = exp_table(m, _far_within(m, x, *exp_range(m)))
        return value.alu(Ops.SCALE, w)
    below, clamped = _within(m, x, *exp_range(m))
    whole, power = m.nearest_power(clamped, 1 / math.log(2))
    r = m.fma(whole, m.const(-LN2_LOW[bits]), m.fma(whole, m.const(-LN2_HIGH[bits]), clamped))
    tail = m.polynomial(r, coefficients.EXP)
    # 1 + r (1 + r tail) saves an op; without a fused one it would round once too often
    value = m.fma(m.fma(tail, r, m.const(1.0)), r, m.const(1.0)) if m.fused else (r * r * tail + r) + 1.0
    return below.where(m.const(0.0), m.times_power(value, power))


@decomposes(Ops.EXP2, "exp2(x) -> 2**n exp((x - n) ln2)")
def exp2(m: Reals, x: UOp) -> UOp:
    """2**x = 2**n e**((x - n) ln 2), x - n exact."""
    if m.estimates:
        return m.power_estimate(x)
    ends = (-151.0, 129.0) if m.format.bits == 32 else (-1076.0, 1025.0)
    if m.tables:
        within = _far_within(m, x, *ends)
        w, place = m.nearest_entry(within)
        fraction, power = within - w, m.lookup(_power_table(m), place)
        row = coefficients.EXP2_16 if m.format.bits == 32 else coefficients.EXP2_8
        return m.fma(power, fraction * m.polynomial(fraction, row), power).alu(Ops.SCALE, w)
    below, clamped = _within(m, x, *ends)
    whole, n = m.nearest_power(clamped)
    fraction = clamped - whole
    ln2_high, ln2_low = (
        m.pick(0.6931471824645996, math.log(2)),
        m.pick(-1.9046542121259336e-09, 2.3190468138462996e-17),
    )
    r, lost = m.product(fraction, m.const(ln2_high))
    lost = m.fma(fraction, m.const(ln2_low), lost)
    power = m.fma(r * r, m.polynomial(r, coefficients.EXP), lost) + r + 1.0
    return below.where(m.const(0.0), m.times_power(power, n))


@decomposes(Ops.EXP2_ESTIMATE, "about exp2(x) -> exp2(x)")
def exp2_estimate(m: Reals, x: UOp) -> UOp:
    return x.alu(Ops.EXP2)


@decomposes(Ops.EXP_ESTIMATE, "about exp(x) -> exp(x)")
def exp_estimate(m: Reals, x: UOp) -> UOp:
    return x.alu(Ops.EXP)


@decomposes(Ops.EXPM1, "expm1(x) -> 2**n (exp(r) - 1) + (2**n - 1)")
def expm1(m: Reals, x: UOp) -> UOp:
    """2**n (e**r - 1) + (2**n - 1), halved and doubled so that 2**n stays finite."""
    clamped = m.clamp(x, m.pick(-20.0, -40.0), exp_range(m)[1])
    r, tail, n = exp_parts(m, clamped)
    half = m.power(n - 1)
    whole, lost = m.sum(half - 0.5, r * half)
    result = (whole + m.fma(tail, half, lost)) * 2.0
    return (m.magnitude(x) < 2.0 ** -(m.format.precision + 1)).where(x, result)


# -- logarithms -----------------------------------------------------------------------------------------------------


def log_pair(m: Reals, f: UOp, low: UOp | None = None) -> Pair:
    """log(1 + f + low) for sqrt(1/2) <= 1 + f < sqrt(2), with low far below f's last place or 1's."""
    s = f / (f + 2.0)
    z = s * s
    half_square, square_low = m.product(f, f * 0.5)
    high, lost = m.ordered_sum(f, -half_square)
    tail = m.fma(s, m.fma(z, m.polynomial(z, coefficients.LOG), half_square), lost - square_low)
    if low is not None:
        tail = tail + m.fma(low, f * f - f, low)  # low / (1 + f)
    return Pair(high, tail)


def log_sum(m: Reals, n: UOp, value: Pair) -> UOp:
    """n ln 2 + value, n a float; the rounding of the last sum is the only one that counts."""
    bits = m.format.bits
    high, lost = m.ordered_sum(n * LN2_HIGH[bits], value.hi)
    return high + (lost + m.fma(n, m.const(LN2_LOW[bits]), value.lo))


def _by_exponent(m: Reals, x: UOp, function: Callable[[Reals, UOp, UOp], UOp], low: float) -> UOp:
    """A logarithm, given as a function of m and n (an integer node) with x = m 2**n and low <= m < 2 low.

    Where a lane is no positive normal number, which is rare, the subnormal ones are lifted first, and the others have values of
    their own.
    """
    lifted, shift = m.lift_subnormal(x)
    mantissa, n = m.split(lifted, low)
    result = function(m, mantissa, n + shift)
    result = (x < math.inf).where(result, x)
    anywhere = x.eq(0.0).where(m.const(-math.inf), m.nan_where(x < 0.0, result))
    if not m.branches:
        return anywhere
    return m.rare(m.is_normal(x).logical_not(), anywhere, function(m, *m.split(x, low)))


def _log_single(m: Reals, mantissa: UOp, n: UOp) -> UOp:
    """n ln 2 + f + f² p(f), 2/3 <= 1 + f < 4/3: fused sums round once each, and no division."""
    f = mantissa - 1.0
    near = m.fma(f * f, m.polynomial(f, coefficients.LOG1P), f)
    return m.fma(n.cast(m.dtype), m.const(math.log(2)), near)


_CENTRES = (1.0, 1.125, 1.25, 1.375, 0.75, 0.8125, 0.875, 0.9375)
"""By the three bits of a mantissa behind the first, rounded, from 23/32 on: what it is divided by."""


class _LogTable(NamedTuple):
    """By centre c: 1/c as a float, and minus the logarithm of that float in two parts."""

    inverse: tuple[float, ...]
    coarse: tuple[float, ...]
    fine: tuple[float, ...]


@cache
def _log_tables() -> _LogTable:
    from decimal import Context, Decimal, localcontext  # who takes no logarithm of float64 needs none

    # multiples of 2**-42, as n times the first part of ln 2 is: their sum is exact
    step, inverses = Decimal(2) ** -42, tuple(1 / c for c in _CENTRES)
    with localcontext(Context(prec=60)):
        logs = [-Decimal(inverse).ln() for inverse in inverses]
        coarse = [(value / step).to_integral_value() * step for value in logs]
        fine = [value - part for value, part in zip(logs, coarse, strict=True)]
    return _LogTable(inverses, tuple(map(float, coarse)), tuple(map(float, fine)))


def _log_table(m: Reals, mantissa: UOp, n: UOp) -> UOp:
    """n ln 2 + log c + log(1 + r), m = c (1 + r), in float64: the inverse of c and its logarithm in two parts from tables."""
    place = (m.bits(mantissa) + (1 << 48)) >> 49
    inverse, coarse, fine = (m.lookup(entries, place) for entries in _log_tables())
    r = m.fma(mantissa, inverse, m.const(-1.0))
    power = m.from_int(n)
    high, lost = m.ordered_sum(m.fma(power, m.const(LN2_HIGH[64]), coarse), r)
    tail = lost + m.fma(power, m.const(LN2_LOW[64]), fine)
    return high + m.fma(r * r, m.polynomial(r, coefficients.LOG_8), tail)


def _log(m: Reals, mantissa: UOp, n: UOp) -> UOp:
    return log_sum(m, m.from_int(n), log_pair(m, mantissa - 1.0))


@decomposes(Ops.LOG, "log(m 2**n) -> n ln2 + log(m)")
def log(m: Reals, x: UOp) -> UOp:
    if m.format.bits == 32 and m.fused:
        return _by_exponent(m, x, _log_single, 2 / 3)
    if m.tables:
        return _by_exponent(m, x, _log_table, 23 / 32)
    return _by_exponent(m, x, _log, _SQRT_HALF)


@decomposes(Ops.LOG2, "log2(m 2**n) -> n + log(m) log2(e)")
def log2(m: Reals, x: UOp) -> UOp:
    return _by_exponent(m, x, _log2, _SQRT_HALF)


def _log2(m: Reals, mantissa: UOp, n: UOp) -> UOp:
    high, low = log_pair(m, mantissa - 1.0)
    scale_high = m.pick(1.4426950216293335, 1 / math.log(2))
    scale_low = m.pick(1.925963033500011e-08, 2.0355273740931033e-17)
    product, lost = m.product(high, m.const(scale_high))
    tail = m.fma(low, m.const(scale_high), m.fma(high, m.const(scale_low), lost))
    total, more = m.ordered_sum(m.from_int(n), product)
    return total + (more + tail)


def log_of_pair(m: Reals, u: Pair, extra: UOp | None = None) -> UOp:
    """log(u * 2**extra), u at least about the smallest distance of floats from 1, finite; extra an integer node."""
    mantissa, n = m.split(u.hi, _SQRT_HALF)
    low = u.lo * 0.5 * m.power(-n + 1)  # for the greatest n, 2**-n is no normal number
    exponent = n if extra is None else n + extra
    return log_sum(m, m.from_int(exponent), log_pair(m, mantissa - 1.0, low))


@decomposes(Ops.LOG1P, "log1p(x) -> log of the pair 1 + x")
def log1p(m: Reals, x: UOp) -> UOp:
    """log of the pair 1 + x."""
    result = log_of_pair(m, m.sum(x, m.const(1.0)))
    infinity = m.const(math.inf)
    result = x.eq(infinity).where(infinity, m.nan_where((x >= -1.0).logical_not(), result))
    result = x.eq(-1.0).where(m.const(-math.inf), result)
    return (m.magnitude(x) < 2.0 ** -(m.format.precision + 1)).where(x, result)
