"""CHLO: what jax writes beside StableHLO. Functions of one variable, and operations that broadcast."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from planish import dtypes
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library import special
from planish.ptir.library.common import placed, spread
from planish.ptir.library.shaping import broadcast_dims
from planish.stablehlo.ops.elementwise import BINARY, Binary, compare
from planish.stablehlo.registry import lowering
from planish.stablehlo.site import Site, cast, together
from planish.stablehlo.syntax import Dense


def _infinite(sign: int) -> Callable[[V], V]:
    return lambda x: x.eq(math.inf * sign)


_UNARY: Final[dict[str, Callable[[V], V]]] = {
    "acos": V.acos,
    "acosh": V.acosh,
    "asin": V.asin,
    "asinh": V.asinh,
    "atan": V.atan,
    "atanh": V.atanh,
    "bessel_i1e": special.in_float64(special.bessel_i(1, True)),
    "conj": lambda x: x.conj() if x.dtype.is_complex else x,
    "cosh": V.cosh,
    "digamma": V.digamma,
    "erf": V.erf,
    "erf_inv": V.erfinv,
    "erfc": V.erfc,
    "is_inf": V.is_inf,
    "is_neg_inf": _infinite(-1),
    "is_pos_inf": _infinite(1),
    "lgamma": V.lgamma,
    "sinh": V.sinh,
    "square": lambda x: x.mul(x),
    "tan": V.tan,
}


def _unary(change: Callable[[V], V], at: Site, x: V, *, result_accuracy: Any = None) -> V:
    return change(x)


for _name, _change in _UNARY.items():
    lowering(f"chlo.{_name}", elementwise=True)(partial(_unary, _change))


@lowering("chlo.constant_like", elementwise=True)
def constant_like(at: Site, x: V, *, value: Any) -> V:
    number = value.array.item() if isinstance(value, Dense) else value
    return at.like(x, number)


def _next_after(at: Site, x: V, y: V) -> V:
    return x.nextafter(y)


def _zeta(at: Site, x: V, q: V) -> V:
    return cast(special.zeta(cast(x, dtypes.float64), cast(q, dtypes.float64)), x.dtype)


def _polygamma(at: Site, n: V, x: V) -> V:
    """(-1)ⁿ⁺¹ n! ζ(n + 1, x); digamma for n = 0."""
    order, value = cast(n, dtypes.float64), cast(x, dtypes.float64)
    higher = special.zeta(order.add(1.0), value).mul(order.add(1.0).lgamma().exp())
    odd = order.mul(0.5).floor().mul(2.0).ne(order)
    signed = odd.select(higher, higher.neg())
    derivative = order.eq(0).select(value.digamma(), signed)
    fits = order.ge(0).and_(order.floor().eq(order))
    return cast(fits.select(derivative, at.full(value.dims, math.nan, dtypes.float64)), x.dtype)


_TWO: Final[dict[str, Binary]] = {"next_after": _next_after, "polygamma": _polygamma, "zeta": _zeta}


def _binary(change: Binary, at: Site, x: V, y: V) -> V:
    return change(at, *together(x, y))


for _name, _two in _TWO.items():
    lowering(f"chlo.{_name}", elementwise=True)(partial(_binary, _two))


@lowering("chlo.mulhi", elementwise=True)
def mulhi(at: Site, x: V, y: V) -> V:
    """The upper half of a product of twice the width."""
    x, y = together(x, y)
    bits = x.dtype.bits
    if bits <= 32:
        wide = dtypes.int64 if x.dtype.is_signed else dtypes.uint64
        return cast(x.cast(wide).mul(y.cast(wide)).shr_arithmetic(bits), x.dtype)
    # in halves; of signed numbers what the unsigned product has too much is taken off
    a, b = x.cast(dtypes.uint64), y.cast(dtypes.uint64)
    low = 0xFFFFFFFF
    a0, a1, b0, b1 = a.and_(low), a.shr_logical(32), b.and_(low), b.shr_logical(32)
    middle = a0.mul(b0).shr_logical(32).add(a1.mul(b0).and_(low)).add(a0.mul(b1).and_(low))
    high = (
        a1.mul(b1).add(a1.mul(b0).shr_logical(32)).add(a0.mul(b1).shr_logical(32)).add(middle.shr_logical(32))
    )
    if x.dtype.is_signed:
        zero = at.like(high, 0)
        high = high.sub(x.lt(0).select(b, zero)).sub(y.lt(0).select(a, zero))
    return cast(high, x.dtype)


# --- with broadcasting ------------------------------------------------------------------------------------


def _joined(x: V, y: V, axes: Sequence[int] | None) -> list[V]:
    """Both in one shape: axes of the smaller at given places, else from the back."""
    if axes is not None and x.rank != y.rank:
        small, large = (x, y) if x.rank < y.rank else (y, x)
        beside = placed(
            small, axes, [small.dims[list(axes).index(a)] if a in axes else 1 for a in range(large.rank)]
        )
        x, y = (beside, large) if small is x else (large, beside)
    dims = broadcast_dims(x.dims, y.dims)
    return [spread(x, dims), spread(y, dims)]


def _broadcasting(
    change: Binary, at: Site, x: V, y: V, *, broadcast_dimensions: Sequence[int] | None = None
) -> V:
    return change(at, *_joined(x, y, broadcast_dimensions))


for _name, _two in {**BINARY, **_TWO, "complex": lambda at, x, y: x.complex(y)}.items():
    lowering(f"chlo.broadcast_{_name}")(partial(_broadcasting, _two))


@lowering("chlo.broadcast_compare")
def broadcast_compare(
    at: Site,
    x: V,
    y: V,
    *,
    comparison_direction: str,
    compare_type: str = "NOTYPE",
    broadcast_dimensions: Sequence[int] | None = None,
) -> V:
    x, y = _joined(x, y, broadcast_dimensions)
    return compare(at, x, y, comparison_direction=comparison_direction, compare_type=compare_type)


@lowering("chlo.broadcast_select")
def broadcast_select(at: Site, predicate: V, x: V, y: V) -> V:
    dims = broadcast_dims(predicate.dims, x.dims, y.dims)
    return spread(predicate, dims).select(spread(x, dims), spread(y, dims))
