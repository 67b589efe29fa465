"""Inverse trigonometric and hyperbolic functions of complex numbers, and powers, on pairs of reals.

Kahan's formulas ("Branch cuts for complex elementary functions"), which take every sign of zero to the right side of a cut.
Far out, where squares leave the range, the first term of the expansion at infinity is exact.
"""

from __future__ import annotations

import math

from planish.ptir.graph_value import GraphValue
from planish.ptir.library.complex_numbers import (
    Pair,
    by_i,
    by_minus_i,
    choose,
    choose_pair,
    conj,
    exp,
    log,
    log_modulus,
    modulus,
    mul,
    reciprocal,
    sign_of,
    sqrt,
)

# From here on 1 - z and 1 + z are z to the last bit of every formula.
_FAR = 1e18


def _shifted(z: Pair) -> tuple[Pair, Pair]:
    """The roots of 1 - z and 1 + z."""
    x, y = z
    one = x.graph.full(x.dims, 1.0, x.dtype)
    return sqrt((one.sub(x), y.neg())), sqrt((x.add(1.0), y))


def _is_far(z: Pair) -> GraphValue:
    return z[0].abs().gt(_FAR).or_(z[1].abs().gt(_FAR))


def _far_log(z: Pair) -> GraphValue:
    """log 2|z|."""
    return log_modulus(z).add(math.log(2.0))


def asin(z: Pair) -> Pair:
    x, y = z
    below, above = _shifted(z)
    near = (x.atan2(mul(below, above)[0]), mul(conj(below), above)[1].asinh())
    far = (x.atan2(y.abs()), _far_log(z).copysign(y))
    body = choose_pair(_is_far(z), far, near)
    # On the imaginary axis nothing is lost to a NaN on it.
    return choose_pair(x.eq(0.0).and_(y.is_nan()), (x, y), body)


def acos(z: Pair) -> Pair:
    x, y = z
    below, above = _shifted(z)
    near = (below[0].atan2(above[0]).mul(2.0), mul(conj(above), below)[1].asinh())
    far = (y.abs().atan2(x), _far_log(z).copysign(y).neg())
    body = choose_pair(_is_far(z), far, near)
    return choose_pair(x.eq(0.0).and_(y.is_nan()), (math.pi / 2, y), body)


def acosh(z: Pair) -> Pair:
    x, y = z
    below, above = sqrt((x.sub(1.0), y)), sqrt((x.add(1.0), y))
    near = (mul(conj(below), above)[0].asinh(), below[1].atan2(above[0]).mul(2.0))
    far = (_far_log(z), y.atan2(x))
    body = choose_pair(_is_far(z), far, near)
    return choose_pair(x.eq(0.0).and_(y.is_nan()), (y, math.pi / 2), body)


def asinh(z: Pair) -> Pair:
    return by_minus_i(asin(by_i(z)))


def atanh(z: Pair) -> Pair:
    """(log((1+z)/(1-z)))/2 by parts."""
    x, y = z
    size = x.abs()
    gap = size.neg().add(1.0)
    ratio = size.mul(4.0).div(gap.mul(gap).add(y.mul(y)))
    # So near to ±1 the gap's square would vanish.
    pole = gap.eq(0.0).and_(y.abs().lt(1e-100))
    steep = y.abs().log().sub(math.log(2.0)).mul(-0.5)
    re = pole.select(steep, ratio.log1p().mul(0.25)).copysign(x)
    whole = size.add(1.0).mul(gap).sub(y.mul(y))
    im = y.add(y).atan2(whole).mul(0.5)
    length = modulus(z)
    lost = y.is_nan().or_(x.is_nan().and_(y.is_inf().not_()))
    far = (
        choose(length.eq(math.inf), 0.0, size.div(length).div(length), x).copysign(x),
        choose(lost, math.nan, sign_of(y, math.pi / 2), y),
    )
    body = choose_pair(_is_far(z), far, (re, im))
    return choose_pair(x.eq(0.0).and_(y.is_nan()), (x, y), body)


def atan(z: Pair) -> Pair:
    return by_minus_i(atanh(by_i(z)))


# Whole exponents below this are multiplied out.
_WHOLE = 100.0


def power(a: Pair, b: Pair) -> Pair:
    """a ** b: 1 for b = 0, products for whole exponents below 100, else exp(b·log a).

    The error of the last grows with |b·log a|. With infinite or NaN operands only the cases b = 0 and a = 0 are pinned down.
    """
    x, y = a
    general = exp(mul(b, log(a)))
    size = b[0].abs()
    whole = b[1].eq(0.0).and_(size.eq(size.trunc())).and_(size.lt(_WHOLE))
    nothing, one = x.graph.full(x.dims, 0.0, x.dtype), x.graph.full(x.dims, 1.0, x.dtype)
    product: Pair = (one, nothing)
    square = a
    left = choose(whole, size, 0.0, size)
    started = whole.and_(whole.not_())
    for bit in range(7):
        square = mul(square, square) if bit else square
        half = left.mul(0.5).floor()
        odd = left.ne(half.add(half))
        # The first factor is taken as it is: 1·a would make NaN of an infinite part.
        longer = choose_pair(started, mul(product, square), square)
        product = choose_pair(odd, longer, product)
        started = started.or_(odd)
        left = half
    product = choose_pair(b[0].lt(0.0), reciprocal(product), product)
    body = choose_pair(whole, product, general)
    at_zero = x.eq(0.0).and_(y.eq(0.0))
    positive = b[0].gt(0.0)
    rising = choose_pair(at_zero.and_(positive), (0.0, 0.0), body)
    falling = choose_pair(at_zero.and_(positive.not_()), (math.nan, math.nan), rising)
    return choose_pair(b[0].eq(0.0).and_(b[1].eq(0.0)), (1.0, 0.0), falling)
