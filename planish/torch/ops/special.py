"""Special functions of torch: Bessel, Airy, gamma and zeta, computed in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Final

from planish import dtypes
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library import special
from planish.ptir.library.common import cast
from planish.torch.registry import lowering
from planish.torch.site import FxSite, Operand

Function = Callable[[V], V]


def _wide(function: Function, at: FxSite, x: V) -> V:
    """Computed in float64, whatever is given."""
    value = cast(x, dtypes.float64)
    return cast(value.is_nan().select(value, function(value)), at.dtype)


_ONE_VARIABLE: Final[dict[str, Function]] = {
    "prims.bessel_i0": special.bessel_i(0, False), "prims.bessel_i0e": special.bessel_i(0, True),
    "prims.bessel_i1": special.bessel_i(1, False), "prims.bessel_i1e": special.bessel_i(1, True),
    "prims.bessel_j0": special.bessel_j(0), "prims.bessel_j1": special.bessel_j(1),
    "aten.special_bessel_y0": special.bessel_y(0), "aten.special_bessel_y1": special.bessel_y(1),
    "aten.special_modified_bessel_i0": special.bessel_i(0, False), "aten.special_modified_bessel_i1": special.bessel_i(1, False),
    "aten.special_modified_bessel_k0": special.bessel_k(0, False), "aten.special_modified_bessel_k1": special.bessel_k(1, False),
    "aten.special_scaled_modified_bessel_k0": special.bessel_k(0, True),
    "aten.special_scaled_modified_bessel_k1": special.bessel_k(1, True),
    "aten.special_airy_ai": special.airy,
    "prims.ndtri": lambda x: x.mul(2.0).sub(1.0).erfinv().mul(math.sqrt(2.0)),
    "prims.spherical_bessel_j0": special.sinc,
    "prims.erfcx": special.erfcx,
}  # fmt: skip
for _name, _function in _ONE_VARIABLE.items():
    lowering(_name)(partial(_wide, _function))


# --- gamma and zeta ---------------------------------------------------------------------------------------


@lowering("prims.zeta", "aten.special_zeta")
def zeta(at: FxSite, x: Operand, y: Operand) -> V:
    s, q = at.together(x, y, dtype=dtypes.float64)
    return cast(special.zeta(s, q), at.dtype)


@lowering("aten.polygamma")
def polygamma(at: FxSite, n: int, x: V) -> V:
    value = cast(x, dtypes.float64)
    if n == 0:
        return cast(value.digamma(), at.dtype)
    if n == 1:
        # reflected, so that the series has a positive argument
        left = value.lt(0.5)
        series = special.hurwitz(special.each(2.0, value), left.select(value.neg().add(1.0), value))
        sine = value.mul(math.pi).sin()
        turned = special.each(math.pi**2, value).div(sine.mul(sine)).sub(series)
        return cast(left.select(turned, series), at.dtype)
    sign = 1.0 if n % 2 else -1.0
    series = special.hurwitz(special.each(n + 1.0, value), value).mul(sign * math.gamma(n + 1))
    series = value.eq(0).select(special.each(sign * math.inf, value), series)
    negative = value.lt(0).and_(value.floor().eq(value))
    return cast(negative.select(special.each(sign * math.inf, value), series), at.dtype)


def _incomplete(a: V, x: V) -> tuple[V, V]:
    """The two incomplete gamma functions: a series where x is small, Lentz's continued fraction where it is large."""
    graph = a.graph
    one = special.each(1.0, a)
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
        d = d.eq(0).select(special.each(tiny, a), d).reciprocal()
        c = here.add(factor.div(c))
        c = c.eq(0).select(special.each(tiny, a), c)
        return h.mul(d).mul(c), c, d, k.add(1.0)

    h = graph.scan(
        fraction, [first, special.each(1 / tiny, a), first, graph.full((), 1.0, a.dtype)], length=200
    )[0]
    scale = a.mul(x.log()).sub(x).sub(a.lgamma()).exp()
    lower = small.select(total.mul(scale), one.sub(h.mul(scale)))
    upper = small.select(one.sub(total.mul(scale)), h.mul(scale))
    return lower, upper


def _gamma_part(upper: bool, at: FxSite, x: Operand, y: Operand) -> V:
    a, value = at.together(x, y, dtype=dtypes.float64)
    part = _incomplete(a, value)[1 if upper else 0]
    at_zero = special.each(1.0 if upper else 0.0, a)
    at_end = special.each(0.0 if upper else 1.0, a)
    part = value.eq(0).select(at_zero, part)
    part = a.eq(0).select(at_end, part)
    part = value.is_inf().select(at_end, part)
    part = a.is_inf().select(at_zero, part)
    nothing = a.lt(0).or_(value.lt(0)).or_(a.is_nan()).or_(value.is_nan())
    nothing = nothing.or_(a.eq(0).and_(value.eq(0))).or_(a.is_inf().and_(value.is_inf()))
    return cast(nothing.select(special.each(math.nan, a), part), at.dtype)


for _part, _upper in (("igamma", False), ("igammac", True)):
    lowering(f"prims.{_part}", f"aten.{_part}")(partial(_gamma_part, _upper))
