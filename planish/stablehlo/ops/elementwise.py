"""Element by element: arithmetic, logic, comparison, choice."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from planish import dtypes
from planish.ptir.graph_value import GraphValue as V
from planish.stablehlo.registry import lowering
from planish.stablehlo.site import Site, together

Binary = Callable[[Site, V, V], V]


def _unary(change: Callable[[V], V], at: Site, x: V, *, result_accuracy: Any = None) -> V:
    return change(x)


def sign(x: V) -> V:
    """-1, 0 or 1; a zero keeps its sign."""
    return x.eq(0).select(x, x.sign()) if x.dtype.is_float else x.sign()


def half_away_from_zero(x: V) -> V:
    """The nearest integer, halves away from 0."""
    whole = x.trunc()
    far = x.sub(whole).abs().ge(0.5)
    return far.select(whole.add(x.graph.full(x.dims, 1.0, x.dtype).copysign(x)), whole)


def _cube_root(x: V) -> V:
    """The principal root of complex numbers."""
    return x.pow(x.graph.full(x.dims, 1 / 3, x.dtype)) if x.dtype.is_complex else x.cbrt()


def _is_finite(x: V) -> V:
    return x.is_finite() if x.dtype.is_float else x.graph.full(x.dims, True, dtypes.bool_)


_UNARY: Final[dict[str, Callable[[V], V]]] = {
    "abs": lambda x: x.abs() if x.dtype.is_signed or not x.dtype.is_int else x,
    "cbrt": _cube_root,
    "ceil": V.ceil,
    "cosine": V.cos,
    "count_leading_zeros": V.clz,
    "exponential": V.exp,
    "exponential_minus_one": V.expm1,
    "floor": V.floor,
    "imag": lambda x: x.imag() if x.dtype.is_complex else x.graph.full(x.dims, 0, x.dtype),
    "is_finite": _is_finite,
    "log": V.log,
    "log_plus_one": V.log1p,
    "logistic": lambda x: x.neg().exp().add(1).reciprocal(),
    "negate": lambda x: x if x.dtype.is_bool else x.neg(),
    "not": V.not_,
    "popcnt": V.popcount,
    "real": lambda x: x.real() if x.dtype.is_complex else x,
    "round_nearest_afz": half_away_from_zero,
    "round_nearest_even": V.round,
    "rsqrt": V.rsqrt,
    "sign": sign,
    "sine": V.sin,
    "sqrt": V.sqrt,
    "tan": V.tan,
    "tanh": V.tanh,
}
for _name, _change in _UNARY.items():
    lowering(f"stablehlo.{_name}", elementwise=True)(partial(_unary, _change))


# --- two operands -----------------------------------------------------------------------------------------


def _logical(x: V, y: V, of_bools: Callable[[V, V], V], of_numbers: Callable[[V, V], V]) -> V:
    return of_bools(x, y) if x.dtype.is_bool else of_numbers(x, y)


def divide(at: Site, x: V, y: V) -> V:
    """Integers toward zero; what is divided by 0 has all bits set, as XLA has it."""
    if not x.dtype.is_int:
        return x.div(y)
    quotient = x.trunc_div(y)
    return quotient if _nonzero(at) else y.eq(0).select(at.like(x, -1), quotient)


def remainder(at: Site, x: V, y: V) -> V:
    """With the sign of the first; of integers by 0 the first itself."""
    rest = x.trunc_mod(y)
    return rest if not x.dtype.is_int or _nonzero(at) else y.eq(0).select(x, rest)


def _nonzero(at: Site) -> bool:
    known = at.known(at.op.operands[1]) if len(at.op.operands) == 2 else None
    return bool(known)


def _atan2(at: Site, y: V, x: V) -> V:
    if not x.dtype.is_complex:
        return y.atan2(x)
    # -i log((x + iy) / sqrt(x² + y²))
    turn = at.full(x.dims, 1j, x.dtype)
    root = x.mul(x).add(y.mul(y)).sqrt()
    return x.add(y.mul(turn)).div(root).log().mul(turn).neg()


def _maximum(x: V, y: V, largest: bool) -> V:
    if not x.dtype.is_complex:
        return x.max(y) if largest else x.min(y)
    # in lexicographic order
    ahead = V.gt if largest else V.lt
    first = x.real().eq(y.real()).select(ahead(x.imag(), y.imag()), ahead(x.real(), y.real()))
    return first.select(x, y)


BINARY: Final[dict[str, Binary]] = {
    "add": lambda at, x, y: _logical(x, y, V.or_, V.add),
    "and": lambda at, x, y: x.and_(y),
    "atan2": _atan2,
    "divide": divide,
    "maximum": lambda at, x, y: _maximum(x, y, True),
    "minimum": lambda at, x, y: _maximum(x, y, False),
    "multiply": lambda at, x, y: _logical(x, y, V.and_, V.mul),
    "or": lambda at, x, y: x.or_(y),
    "power": lambda at, x, y: x.pow(y),
    "remainder": remainder,
    "shift_left": lambda at, x, y: x.shl(y),
    "shift_right_arithmetic": lambda at, x, y: x.shr_arithmetic(y),
    "shift_right_logical": lambda at, x, y: x.shr_logical(y),
    "subtract": lambda at, x, y: _logical(x, y, V.xor, V.sub),
    "xor": lambda at, x, y: x.xor(y),
}


def _binary(change: Binary, at: Site, x: V, y: V, *, result_accuracy: Any = None) -> V:
    x, y = together(x, y)
    return change(at, x, y)


for _name, _two in BINARY.items():
    lowering(f"stablehlo.{_name}", elementwise=True)(partial(_binary, _two))


@lowering("stablehlo.complex", elementwise=True)
def complex_(at: Site, x: V, y: V) -> V:
    x, y = together(x, y)
    return x.complex(y)


# --- comparison and choice --------------------------------------------------------------------------------

COMPARISONS: Final[dict[str, Callable[[V, V], V]]] = {
    "EQ": V.eq, "NE": V.ne, "LT": V.lt, "LE": V.le, "GT": V.gt, "GE": V.ge,
}  # fmt: skip
_INTEGERS: Final = {8: dtypes.int8, 16: dtypes.int16, 32: dtypes.int32, 64: dtypes.int64}


def total_order(x: V) -> V:
    """Integers in the order of IEEE 754: -NaN, -inf … -0, +0 … inf, NaN."""
    kind = _INTEGERS[x.dtype.bits]
    bits = x.bitcast(kind)
    # the bits of negative numbers count downwards
    turned = bits.xor(x.graph.full(x.dims, (1 << (kind.bits - 1)) - 1, kind))
    return bits.lt(0).select(turned, bits)


@lowering("stablehlo.compare", elementwise=True)
def compare(at: Site, x: V, y: V, *, comparison_direction: str, compare_type: str = "NOTYPE") -> V:
    if compare_type not in ("NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"):
        at.refuse(f"there is no comparison {compare_type}")
    x, y = together(x, y)
    if compare_type == "TOTALORDER" and x.dtype.is_float:
        x, y = total_order(x), total_order(y)
    return COMPARISONS[comparison_direction](x, y)


@lowering("stablehlo.select", elementwise=True)
def select(at: Site, predicate: V, x: V, y: V) -> V:
    predicate, x, y = together(predicate, x, y)
    return predicate.select(x, y)


@lowering("stablehlo.clamp", elementwise=True)
def clamp(at: Site, low: V, x: V, high: V) -> V:
    low, x, high = together(low, x, high)
    return x.max(low).min(high)


@lowering("stablehlo.map")
def map_(at: Site, *operands: V, dimensions: tuple[int, ...] = ()) -> tuple[V, ...]:
    return at.each(at.regions[0], operands)
