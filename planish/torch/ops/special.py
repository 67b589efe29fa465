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
from planish.torch.registry import Lowering, lowering
from planish.torch.site import NodeSite, Operand, cast

_EULER: Final = 0.5772156649015329
_FAR: Final = 12.0
"""From here on 20 terms of an asymptotic expansion have less than 1e-10 left."""
_STEP: Final = 0.1
Function = Callable[[V], V]


def _each(number: float, like: V) -> V:
    return like.graph.full(like.dims, number, like.dtype)


def _horner(x: V, coefficients: Sequence[float]) -> V:
    """Σ cₖ xᵏ."""
    total = _each(coefficients[-1], x)
    for c in reversed(coefficients[:-1]):
        total = total.mul(x).add(c)
    return total


def _ascending(order: int, sign: int) -> list[float]:
    """Σ (±1)ᵏ / (k! (k + ν)!) tᵏ, with t = x²/4."""
    return [float(sign) ** k / (math.factorial(k) * math.factorial(k + order)) for k in range(40)]


def _hankel(order: float) -> list[float]:
    """aₖ(ν) of the expansions in 1/x."""
    found = [1.0]
    for k in range(1, 21):
        found.append(found[-1] * (4 * order * order - (2 * k - 1) ** 2) / (k * 8))
    return found


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


def _bessel_j(order: int) -> Function:
    def function(x: V) -> V:
        size = x.abs()
        near = _near(size)
        low = _horner(near.mul(near).mul(0.25), _ascending(order, -1)).mul(near.mul(0.5).pow(float(order)))
        far = _far(size)
        even, odd = _phases(far, order)
        angle = far.sub(math.pi / 4 + order * math.pi / 2)
        high = angle.cos().mul(even).sub(angle.sin().mul(odd)).mul(far.reciprocal().mul(2 / math.pi).sqrt())
        found = size.lt(_FAR).select(low, high)
        return x.lt(0).select(found.neg(), found) if order % 2 else found

    return function


def _harmonic(n: int) -> float:
    return sum(1 / k for k in range(1, n + 1))


def _bessel_y(order: int) -> Function:
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
        found = x.lt(_FAR).select(low, high)
        found = x.eq(0).select(_each(-math.inf, x), found)
        return x.lt(0).select(_each(math.nan, x), found)

    return function


def _bessel_i(order: int, scaled: bool) -> Function:
    def function(x: V) -> V:
        size = x.abs()
        near, far = _near(size), _far(size)
        low = _horner(near.mul(near).mul(0.25), _ascending(order, 1)).mul(near.mul(0.5).pow(float(order)))
        a = _hankel(order)
        tail = _horner(far.reciprocal(), [(-1) ** k * c for k, c in enumerate(a)])
        high = tail.div(far.mul(2 * math.pi).sqrt())
        low, high = (low.mul(near.neg().exp()), high) if scaled else (low, high.mul(far.exp()))
        found = size.lt(_FAR).select(low, high)
        return x.lt(0).select(found.neg(), found) if order % 2 else found

    return function


def _decaying(x: V, order: float) -> V:
    """∫ exp(-x (cosh t - 1)) cosh(ν t) dt over t ≥ 0, for x of 1 and more: by the trapezoidal rule, and far out by its expansion."""
    near, far = _near(x), _far(x)
    total = _each(0.5, x)
    for k in range(1, 46):
        t = k * _STEP
        total = total.add(near.mul(1 - math.cosh(t)).exp().mul(math.cosh(order * t)))
    tail = _horner(far.reciprocal(), _hankel(order)).mul(far.reciprocal().mul(math.pi / 2).sqrt())
    return x.lt(_FAR).select(total.mul(_STEP), tail)


def _bessel_k(order: int, scaled: bool) -> Function:
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
        found = x.lt(1.0).select(low, high)
        found = x.eq(0).select(_each(math.inf, x), found)
        return x.lt(0).select(_each(math.nan, x), found)

    return function


def _airy(x: V) -> V:
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


def _sinc(x: V) -> V:
    found = x.eq(0).select(_each(1.0, x), x.sin().div(x))
    return x.is_inf().select(_each(0.0, x), found)


def _erfcx(x: V) -> V:
    """exp(x²) erfc(x): as it stands, and far out, where its factors are infinite and 0, by its expansion."""
    near, far = x.min(5.0), x.max(5.0)
    inverse = far.mul(far).mul(2.0).reciprocal()
    terms = [1.0]
    for k in range(1, 16):
        terms.append(-terms[-1] * (2 * k - 1))
    tail = _horner(inverse, terms).div(far).mul(1 / math.sqrt(math.pi))
    return x.lt(5.0).select(near.mul(near).exp().mul(near.erfc()), tail)


def _wide(function: Function) -> Lowering:
    """Computed in float64, whatever is given."""

    def lower(at: NodeSite, x: V) -> V:
        value = cast(x, dtypes.float64)
        return cast(value.is_nan().select(value, function(value)), at.dtype)

    return lower


_ONE_VARIABLE: Final[dict[str, Function]] = {
    "prims.bessel_i0": _bessel_i(0, False), "prims.bessel_i0e": _bessel_i(0, True),
    "prims.bessel_i1": _bessel_i(1, False), "prims.bessel_i1e": _bessel_i(1, True),
    "prims.bessel_j0": _bessel_j(0), "prims.bessel_j1": _bessel_j(1),
    "aten.special_bessel_y0": _bessel_y(0), "aten.special_bessel_y1": _bessel_y(1),
    "aten.special_modified_bessel_i0": _bessel_i(0, False), "aten.special_modified_bessel_i1": _bessel_i(1, False),
    "aten.special_modified_bessel_k0": _bessel_k(0, False), "aten.special_modified_bessel_k1": _bessel_k(1, False),
    "aten.special_scaled_modified_bessel_k0": _bessel_k(0, True),
    "aten.special_scaled_modified_bessel_k1": _bessel_k(1, True),
    "aten.special_airy_ai": _airy,
    "prims.ndtri": lambda x: x.mul(2.0).sub(1.0).erfinv().mul(math.sqrt(2.0)),
    "prims.spherical_bessel_j0": _sinc,
    "prims.erfcx": _erfcx,
}  # fmt: skip
for _name, _function in _ONE_VARIABLE.items():
    lowering(_name)(_wide(_function))


# --- gamma and zeta ---------------------------------------------------------------------------------------

_BERNOULLI: Final = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)


def hurwitz(s: V, q: V) -> V:
    """Σ (k + q)⁻ˢ: terms up to a base of ten, and the rest by Euler and Maclaurin."""
    power = s.neg()
    # what has no end is not begun: the caller replaces it
    start = q.is_finite().select(q, _each(10.0, q))

    def more(a: V, _: V) -> V:
        return a.lt(10.0).reduce_or() if a.rank else a.lt(10.0)

    def term(a: V, total: V) -> tuple[V, V]:
        goes = a.lt(10.0)
        return goes.select(a.add(1.0), a), goes.select(total.add(a.pow(power)), total)

    a, total = q.graph.while_loop(more, term, start, _each(0.0, s))
    tail = a.pow(power)
    total = total.add(a.mul(tail).div(s.sub(1.0))).add(tail.mul(0.5))
    factor, rest = s, tail.div(a)
    for k, bernoulli in enumerate(_BERNOULLI, 1):
        total = total.add(factor.mul(rest).mul(bernoulli / math.factorial(2 * k)))
        factor = factor.mul(s.add(2.0 * k - 1)).mul(s.add(2.0 * k))
        rest = rest.div(a.mul(a))
    return total


@lowering("prims.zeta", "aten.special_zeta")
def zeta(at: NodeSite, x: Operand, y: Operand) -> V:
    s, q = at.together(x, y, dtype=dtypes.float64)
    whole = q.floor().eq(q)
    found = q.le(0).select(whole.select(_each(math.inf, q), _each(math.nan, q)), hurwitz(s, q))
    # below 0, where the base of a power is negative, only whole exponents have a value
    odd = q.lt(0).and_(whole.not_()).and_(s.floor().eq(s))
    found = odd.select(hurwitz(s, q), found)
    found = s.eq(1.0).select(_each(math.inf, s), found)
    return cast(s.lt(1.0).select(_each(math.nan, s), found), at.dtype)


@lowering("aten.polygamma")
def polygamma(at: NodeSite, n: int, x: V) -> V:
    value = cast(x, dtypes.float64)
    if n == 0:
        return cast(value.digamma(), at.dtype)
    if n == 1:
        # reflected, so that the series has a positive argument
        left = value.lt(0.5)
        found = hurwitz(_each(2.0, value), left.select(value.neg().add(1.0), value))
        sine = value.mul(math.pi).sin()
        turned = _each(math.pi**2, value).div(sine.mul(sine)).sub(found)
        return cast(left.select(turned, found), at.dtype)
    sign = 1.0 if n % 2 else -1.0
    found = hurwitz(_each(n + 1.0, value), value).mul(sign * math.gamma(n + 1))
    found = value.eq(0).select(_each(sign * math.inf, value), found)
    negative = value.lt(0).and_(value.floor().eq(value))
    return cast(negative.select(_each(sign * math.inf, value), found), at.dtype)


def _incomplete(a: V, x: V) -> tuple[V, V]:
    """The two incomplete gamma functions: a series where x is small, Lentz's continued fraction where it is large."""
    graph = a.graph
    one = _each(1.0, a)
    small = x.lt(a.add(1.0))
    inside = small.select(x, one)

    def series(total: V, term: V, k: V) -> tuple[V, V, V]:
        term = term.mul(inside).div(a.add(k.broadcast_to(a.dims)))
        return total.add(term), term, k.add(1.0)

    start = a.reciprocal()
    total = graph.scan(series, [start, start, graph.full((), 1.0, a.dtype)], length=200)[0]
    outside = small.select(a.add(2.0), x)
    tiny = 1e-300
    b = outside.add(1.0).sub(a)
    first = b.reciprocal()

    def fraction(h: V, c: V, d: V, k: V) -> tuple[V, V, V, V]:
        n = k.broadcast_to(a.dims)
        factor = n.mul(a.sub(n))
        here = b.add(n.mul(2.0))
        d = factor.mul(d).add(here)
        d = d.eq(0).select(_each(tiny, a), d).reciprocal()
        c = here.add(factor.div(c))
        c = c.eq(0).select(_each(tiny, a), c)
        return h.mul(d).mul(c), c, d, k.add(1.0)

    h = graph.scan(fraction, [first, _each(1 / tiny, a), first, graph.full((), 1.0, a.dtype)], length=200)[0]
    scale = a.mul(x.log()).sub(x).sub(a.lgamma()).exp()
    lower = small.select(total.mul(scale), one.sub(h.mul(scale)))
    upper = small.select(one.sub(total.mul(scale)), h.mul(scale))
    return lower, upper


def _gamma_part(upper: bool) -> Lowering:
    def lower(at: NodeSite, x: Operand, y: Operand) -> V:
        a, value = at.together(x, y, dtype=dtypes.float64)
        found = _incomplete(a, value)[1 if upper else 0]
        at_zero = _each(1.0 if upper else 0.0, a)
        at_end = _each(0.0 if upper else 1.0, a)
        found = value.eq(0).select(at_zero, found)
        found = a.eq(0).select(at_end, found)
        found = value.is_inf().select(at_end, found)
        found = a.is_inf().select(at_zero, found)
        nothing = a.lt(0).or_(value.lt(0)).or_(a.is_nan()).or_(value.is_nan())
        nothing = nothing.or_(a.eq(0).and_(value.eq(0))).or_(a.is_inf().and_(value.is_inf()))
        return cast(nothing.select(_each(math.nan, a), found), at.dtype)

    return lower


for _part, _upper in (("igamma", False), ("igammac", True)):
    lowering(f"prims.{_part}", f"aten.{_part}")(_gamma_part(_upper))
