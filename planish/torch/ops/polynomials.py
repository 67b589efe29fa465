"""Orthogonal polynomials of an order that is data: their recurrences, as many steps as the highest order needs."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from planish import dtypes
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library.common import cast
from planish.torch.registry import lowering
from planish.torch.site import FxSite, Operand

Step = Callable[[V, V, V, V], V]


class Family(NamedTuple):
    """p₀ = 1, p₁, and pₖ₊₁ of x, k, pₖ and pₖ₋₁."""

    first: Callable[[V], V]
    step: Step


def _chebyshev(x: V, k: V, p: V, q: V) -> V:
    return x.mul(2.0).mul(p).sub(q)


_FAMILIES: Final[dict[str, Family]] = {
    "chebyshev_polynomial_t": Family(lambda x: x, _chebyshev),
    "chebyshev_polynomial_u": Family(lambda x: x.mul(2.0), _chebyshev),
    "chebyshev_polynomial_v": Family(lambda x: x.mul(2.0).sub(1.0), _chebyshev),
    "chebyshev_polynomial_w": Family(lambda x: x.mul(2.0).add(1.0), _chebyshev),
    "hermite_polynomial_h": Family(lambda x: x.mul(2.0), lambda x, k, p, q: x.mul(p).sub(k.mul(q)).mul(2.0)),
    "hermite_polynomial_he": Family(lambda x: x, lambda x, k, p, q: x.mul(p).sub(k.mul(q))),
    "laguerre_polynomial_l": Family(
        lambda x: x.neg().add(1.0),
        lambda x, k, p, q: k.mul(2.0).add(1.0).sub(x).mul(p).sub(k.mul(q)).div(k.add(1.0)),
    ),
    "legendre_polynomial_p": Family(
        lambda x: x, lambda x, k, p, q: k.mul(2.0).add(1.0).mul(x).mul(p).sub(k.mul(q)).div(k.add(1.0))
    ),
}


def _polynomial(family: Family, shifted: bool, at: FxSite, x: Operand, n: Operand) -> V:
    value, order = at.together(x, n, dtype=dtypes.float64)
    value = value.mul(2.0).sub(1.0) if shifted else value
    order = order.trunc()
    graph = at.graph
    one = graph.full(value.dims, 1.0, value.dtype)
    highest = order.reduce_max() if order.rank else order

    def more(k: V, _p: V, _q: V) -> V:
        return k.lt(highest)

    def step(k: V, p: V, q: V) -> tuple[V, V, V]:
        number = k.broadcast_to(value.dims)
        goes = number.lt(order)
        return k.add(1.0), goes.select(family.step(value, number, p, q), p), goes.select(p, q)

    start = graph.full((), 1.0, value.dtype)
    polynomial = graph.while_loop(more, step, start, family.first(value), one)[1]
    polynomial = order.eq(0).select(one, polynomial)
    polynomial = order.lt(0).select(graph.full(value.dims, 0.0, value.dtype), polynomial)
    nothing = value.is_nan().or_(order.is_nan())
    return cast(nothing.select(graph.full(value.dims, math.nan, value.dtype), polynomial), at.dtype)


for _name, _family in _FAMILIES.items():
    lowering(f"aten.special_{_name}")(partial(_polynomial, _family, False))
    if _name.startswith("chebyshev"):
        lowering(f"aten.special_shifted_{_name}")(partial(_polynomial, _family, True))
