"""Special functions of one variable: Bessel, Airy, gamma and zeta, as series, integrals and asymptotic expansions in float64.

Each is computed in two or three ranges, whichever form is exact there to float32 with room to spare: power series near 0, the trapezoidal
rule where the integrand decays doubly exponentially (it then converges like a series), Hankel's expansions far out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from planish import dtypes
from planish.ptir.graph_value import GraphValue as V

_EULER: Final = 0.5772156649015329
_FAR: Final = 12.0
"""From here on 20 terms of an asymptotic expansion have less than 1e-10 left."""
_STEP: Final = 0.1
Function = Callable[[V], V]


def each(number: float, like: V) -> V:
    return like.graph.full(like.dims, number, like.dtype)


def _horner(x: V, coefficients: Sequence[float]) -> V:
    """Σ cₖ xᵏ."""
    total = each(coefficients[-1], x)
    for c in reversed(coefficients[:-1]):
        total = total.mul(x).add(c)
    return total


def _ascending(order: int, sign: int) -> list[float]:
    """Σ (±1)ᵏ / (k! (k + ν)!) tᵏ, with t = x²/4."""
    return [float(sign) ** k / (math.factorial(k) * math.factorial(k + order)) for k in range(40)]


def _hankel(order: float) -> list[float]:
    """aₖ(ν) of the expansions in 1/x."""
    coefficients = [1.0]
    for k in range(1, 21):
        coefficients.append(coefficients[-1] * (4 * order * order - (2 * k - 1) ** 2) / (k * 8))
    return coefficients


def _near(x: V) -> V:
    """x, held where a series is used: what lies beyond takes another branch, and must not overflow on the way."""
    return x.min(_FAR)


def _far(x: V) -> V:
    return x.max(_FAR)


def _phases(x: V, order: float) -> tuple[V, V]:
    """P and Q of Hankel's expansion."""
    a = _hankel(order)
    inverse = x.mul(x).reciprocal()
    even = _horner(inverse, [(-1) ** (k // 2) * a[k] for k in range(0, 21, 2)])
    odd = _horner(inverse, [(-1) ** (k // 2) * a[k] for k in range(1, 20, 2)]).div(x)
    return even, odd


def bessel_j(order: int) -> Function:
    def function(x: V) -> V:
        size = x.abs()
        near = _near(size)
        low = _horner(near.mul(near).mul(0.25), _ascending(order, -1)).mul(near.mul(0.5).pow(float(order)))
        far = _far(size)
        even, odd = _phases(far, order)
        angle = far.sub(math.pi / 4 + order * math.pi / 2)
        high = angle.cos().mul(even).sub(angle.sin().mul(odd)).mul(far.reciprocal().mul(2 / math.pi).sqrt())
        value = size.lt(_FAR).select(low, high)
        return x.lt(0).select(value.neg(), value) if order % 2 else value

    return function


def _harmonic(n: int) -> float:
    return sum(1 / k for k in range(1, n + 1))


def bessel_y(order: int) -> Function:
    def function(x: V) -> V:
        near = _near(x)
        t = near.mul(near).mul(0.25)
        logarithm = near.mul(0.5).log().add(_EULER)
        j = _horner(t, _ascending(order, -1)).mul(near.mul(0.5).pow(float(order)))
        if order == 0:
            rest = _horner(t, [-c * _harmonic(k) for k, c in enumerate(_ascending(0, -1))])
            low = j.mul(logarithm).add(rest).mul(2 / math.pi)
        else:
            terms = [c * (_harmonic(k) + _harmonic(k + 1)) for k, c in enumerate(_ascending(1, -1))]
            rest = _horner(t, terms).mul(near.mul(0.5)).add(near.reciprocal().mul(2.0))
            low = j.mul(logarithm).mul(2 / math.pi).sub(rest.mul(1 / math.pi))
        far = _far(x)
        even, odd = _phases(far, order)
        angle = far.sub(math.pi / 4 + order * math.pi / 2)
        high = angle.sin().mul(even).add(angle.cos().mul(odd)).mul(far.reciprocal().mul(2 / math.pi).sqrt())
        value = x.lt(_FAR).select(low, high)
        value = x.eq(0).select(each(-math.inf, x), value)
        return x.lt(0).select(each(math.nan, x), value)

    return function


def bessel_i(order: int, scaled: bool) -> Function:
    def function(x: V) -> V:
        size = x.abs()
        near, far = _near(size), _far(size)
        low = _horner(near.mul(near).mul(0.25), _ascending(order, 1)).mul(near.mul(0.5).pow(float(order)))
        a = _hankel(order)
        tail = _horner(far.reciprocal(), [(-1) ** k * c for k, c in enumerate(a)])
        high = tail.div(far.mul(2 * math.pi).sqrt())
        low, high = (low.mul(near.neg().exp()), high) if scaled else (low, high.mul(far.exp()))
        value = size.lt(_FAR).select(low, high)
        return x.lt(0).select(value.neg(), value) if order % 2 else value

    return function


def _decaying(x: V, order: float) -> V:
    """∫ exp(-x (cosh t - 1)) cosh(ν t) dt over t ≥ 0, for x of 1 and more: by the trapezoidal rule, and far out by its expansion."""
    near, far = _near(x), _far(x)
    total = each(0.5, x)
    for k in range(1, 46):
        t = k * _STEP
        total = total.add(near.mul(1 - math.cosh(t)).exp().mul(math.cosh(order * t)))
    tail = _horner(far.reciprocal(), _hankel(order)).mul(far.reciprocal().mul(math.pi / 2).sqrt())
    return x.lt(_FAR).select(total.mul(_STEP), tail)


def bessel_k(order: int, scaled: bool) -> Function:
    def function(x: V) -> V:
        near = x.min(1.0)
        t = near.mul(near).mul(0.25)
        logarithm = near.mul(0.5).log().add(_EULER)
        i = _horner(t, _ascending(order, 1)).mul(near.mul(0.5).pow(float(order)))
        if order == 0:
            low = _horner(t, [c * _harmonic(k) for k, c in enumerate(_ascending(0, 1))]).sub(i.mul(logarithm))
        else:
            terms = [c * (_harmonic(k) + _harmonic(k + 1)) / 2 for k, c in enumerate(_ascending(1, 1))]
            low = i.mul(logarithm).sub(_horner(t, terms).mul(near.mul(0.5))).add(near.reciprocal())
        far = x.max(1.0)
        high = _decaying(far, order)
        low, high = (low.mul(near.exp()), high) if scaled else (low, high.mul(far.neg().exp()))
        value = x.lt(1.0).select(low, high)
        value = x.eq(0).select(each(math.inf, x), value)
        return x.lt(0).select(each(math.nan, x), value)

    return function


def airy(x: V) -> V:
    """A power series between -6 and 2, K of order 1/3 above, Hankel's expansion below."""
    near = x.max(-6.0).min(2.0)
    cube = near.mul(near).mul(near)
    first, second = [1.0], [1.0]
    for k in range(1, 40):
        first.append(first[-1] / ((3 * k - 1) * (3 * k)))
        second.append(second[-1] / ((3 * k) * (3 * k + 1)))
    low = (
        _horner(cube, first)
        .mul(0.355028053887817239)
        .sub(_horner(cube, second).mul(near).mul(0.258819403792806798))
    )
    above = x.max(2.0)
    zeta = above.mul(above.sqrt()).mul(2 / 3)
    high = above.div(3.0).sqrt().mul(1 / math.pi).mul(_decaying(zeta, 1 / 3)).mul(zeta.neg().exp())
    below = x.min(-6.0).neg()
    turn = below.mul(below.sqrt()).mul(2 / 3)
    even, odd = _phases(turn, 1 / 3)
    angle = turn.sub(math.pi / 4)
    # J and Y of order 1/3, combined
    wave = angle.cos().mul(even).sub(angle.sin().mul(odd)).mul(below.sqrt().sqrt().reciprocal())
    deep = wave.mul(1 / math.sqrt(math.pi))
    return x.gt(2.0).select(high, x.lt(-6.0).select(deep, low))


def sinc(x: V) -> V:
    value = x.eq(0).select(each(1.0, x), x.sin().div(x))
    return x.is_inf().select(each(0.0, x), value)


def erfcx(x: V) -> V:
    """exp(x²) erfc(x): as it stands, and far out, where its factors are infinite and 0, by its expansion."""
    near, far = x.min(5.0), x.max(5.0)
    inverse = far.mul(far).mul(2.0).reciprocal()
    terms = [1.0]
    for k in range(1, 16):
        terms.append(-terms[-1] * (2 * k - 1))
    tail = _horner(inverse, terms).div(far).mul(1 / math.sqrt(math.pi))
    return x.lt(5.0).select(near.mul(near).exp().mul(near.erfc()), tail)


# --- zeta -------------------------------------------------------------------------------------------------

_BERNOULLI: Final = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)


def hurwitz(s: V, q: V) -> V:
    """Σ (k + q)⁻ˢ: terms up to a base of ten, and the rest by Euler and Maclaurin."""
    power = s.neg()
    # what has no end is not begun: the caller replaces it
    start = q.is_finite().select(q, each(10.0, q))

    def more(a: V, _: V) -> V:
        return a.lt(10.0).reduce_or() if a.rank else a.lt(10.0)

    def term(a: V, total: V) -> tuple[V, V]:
        goes = a.lt(10.0)
        return goes.select(a.add(1.0), a), goes.select(total.add(a.pow(power)), total)

    a, total = q.graph.while_loop(more, term, start, each(0.0, s))
    tail = a.pow(power)
    total = total.add(a.mul(tail).div(s.sub(1.0))).add(tail.mul(0.5))
    factor, rest = s, tail.div(a)
    for k, bernoulli in enumerate(_BERNOULLI, 1):
        total = total.add(factor.mul(rest).mul(bernoulli / math.factorial(2 * k)))
        factor = factor.mul(s.add(2.0 * k - 1)).mul(s.add(2.0 * k))
        rest = rest.div(a.mul(a))
    return total


def zeta(s: V, q: V) -> V:
    """Hurwitz' zeta function of float64, with its poles."""
    whole = q.floor().eq(q)
    value = q.le(0).select(whole.select(each(math.inf, q), each(math.nan, q)), hurwitz(s, q))
    # below 0, where the base of a power is negative, only whole exponents have a value
    odd = q.lt(0).and_(whole.not_()).and_(s.floor().eq(s))
    value = odd.select(hurwitz(s, q), value)
    value = s.eq(1.0).select(each(math.inf, s), value)
    return s.lt(1.0).select(each(math.nan, s), value)


def in_float64(function: Function) -> Function:
    """A function of float64, of any floats; NaN stays NaN."""

    def call(x: V) -> V:
        value = x if x.dtype is dtypes.float64 else x.cast(dtypes.float64)
        result = value.is_nan().select(value, function(value))
        return result if x.dtype is dtypes.float64 else result.cast(x.dtype)

    return call
