"""Arithmetic element by element: tables where an op is one op, functions where it is several."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from planish import dtypes
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library import activations
from planish.ptir.library.common import cast, spread
from planish.ptir.library.cumulative import logaddexp
from planish.ptir.library.shaping import broadcast_dims
from planish.torch.registry import lowering
from planish.torch.site import FxSite, Operand, wide_kind

_UNARY: Final = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "digamma", "erf", "erfc", "erfinv", "exp", "exp2",
    "expm1", "lgamma", "log", "log1p", "log2", "neg", "reciprocal", "rsqrt", "sin", "sinh", "sqrt", "tan", "tanh",
)  # fmt: skip
"""Computed in the dtype of the result."""
_ROUNDING: Final = ("floor", "ceil", "trunc")
_BINARY: Final = {
    "maximum": "max", "minimum": "min", "atan2": "atan2", "hypot": "hypot", "copysign": "copysign",
    "nextafter": "nextafter", "bitwise_and": "and_", "bitwise_or": "or_", "bitwise_xor": "xor",
    "remainder": "floor_mod", "fmod": "trunc_mod",
}  # fmt: skip
_COMPARE: Final = ("eq", "ne", "lt", "le", "gt", "ge")
_LIBRARY: Final = ("relu", "sigmoid", "silu", "log_sigmoid", "mish")

_FORMULAS: Final[dict[str, Callable[[FxSite, V], V]]] = {
    "aten.abs prims.abs": lambda at, x: x if x.dtype.is_bool or x.dtype.is_unsigned else cast(x.abs(), at.dtype),
    "aten.bitwise_not prims.bitwise_not": lambda at, x: x.not_(),
    "aten.frac": lambda at, x: x.sub(x.trunc()),
    "aten.log10 prims.log10": lambda at, x: at.of(x, at.dtype).log().mul(1 / math.log(10)),
    "aten.logical_not": lambda at, x: cast(x, dtypes.bool_).not_(),
    "aten.square": lambda at, x: x.mul(x),
    "prims.isfinite": lambda at, x: x.is_finite() if _may_be_endless(x) else at.full(x.dims, True),
}  # fmt: skip


def _unary(method: str, at: FxSite, x: Operand) -> V:
    result: V = getattr(at.of(x, at.dtype), method)()
    return result


def _rounding(method: str, at: FxSite, x: V) -> V:
    return getattr(x, method)() if x.dtype.is_float else x


def _binary(method: str, at: FxSite, x: Operand, y: Operand) -> V:
    left, right = at.together(x, y)
    result: V = getattr(left, method)(right)
    return result


def _compare(method: str, at: FxSite, x: Operand, y: Operand) -> V:
    left, right = at.promoted(x, y)
    result: V = getattr(left, method)(right)
    return result


def _library(name: str, at: FxSite, x: V) -> V:
    """Narrow floats are computed wide, and rounded once, as torch does."""
    own = at.dtype
    result: V = getattr(activations, name)(cast(x, wide_kind(own)))
    return cast(result, own)


def _may_be_endless(x: V) -> bool:
    return x.dtype.is_float or x.dtype.is_complex


for _names, _formula in _FORMULAS.items():
    lowering(*_names.split())(_formula)
for _name in _UNARY:
    lowering(f"aten.{_name}", f"prims.{_name}")(partial(_unary, _name))
for _name in _ROUNDING:
    lowering(f"aten.{_name}", f"prims.{_name}")(partial(_rounding, _name))
for _name, _method in _BINARY.items():
    lowering(f"aten.{_name}", f"prims.{_name}")(partial(_binary, _method))
lowering("prims.erf_inv")(partial(_unary, "erfinv"))
lowering("prims.cbrt")(partial(_unary, "cbrt"))
lowering("aten.float_power")(partial(_binary, "pow"))
lowering("aten.bitwise_left_shift", "aten.__lshift__", "prims.shift_left")(partial(_binary, "shl"))
for _name in _COMPARE:
    lowering(f"aten.{_name}", f"prims.{_name}")(partial(_compare, _name))
for _name in _LIBRARY:
    lowering(f"aten.{_name}")(partial(_library, _name))


# --- arithmetic -------------------------------------------------------------------------------------------


@lowering("aten.add", "prims.add")
def add(at: FxSite, x: Operand, y: Operand, *, alpha: Any = 1) -> V:
    left, right = at.together(x, y)
    if alpha != 1:
        right = right.mul(alpha) if not right.dtype.is_bool else right.and_(bool(alpha))
    return left.or_(right) if left.dtype.is_bool else left.add(right)


@lowering("aten.mul", "prims.mul")
def mul(at: FxSite, x: Operand, y: Operand) -> V:
    left, right = at.together(x, y)
    return left.and_(right) if left.dtype.is_bool else left.mul(right)


@lowering("aten.sub", "prims.sub")
def sub(at: FxSite, x: Operand, y: Operand, *, alpha: Any = 1) -> V:
    left, right = at.together(x, y)
    return left.sub(right if alpha == 1 else right.mul(alpha))


@lowering("aten.rsub")
def rsub(at: FxSite, x: Operand, y: Operand, alpha: Any = 1) -> V:
    left, right = at.together(x, y)
    return right.sub(left if alpha == 1 else left.mul(alpha))


@lowering("aten.div", "aten.true_divide")
def div(at: FxSite, x: Operand, y: Operand, *, rounding_mode: str | None = None) -> V:
    left, right = at.together(x, y)
    if rounding_mode is None:
        return left.div(right)
    if rounding_mode == "floor":
        return _floor_divided(at, left, right)
    return left.div(right).trunc() if left.dtype.is_float else left.trunc_div(right)


@lowering("aten.floor_divide")
def floor_divide(at: FxSite, x: Operand, y: Operand) -> V:
    return _floor_divided(at, *at.together(x, y))


def _floor_divided(at: FxSite, x: V, y: V) -> V:
    """Through the remainder, which rounding cannot push over the next whole number; by zero it is the quotient."""
    if not x.dtype.is_float:
        return x.floor_div(y)
    mod = x.trunc_mod(y)
    quotient = x.sub(mod).div(y)
    below = mod.ne(0).and_(y.lt(0).ne(mod.lt(0)))
    quotient = below.select(quotient.sub(1), quotient)
    whole = quotient.floor()
    whole = quotient.sub(whole).gt(0.5).select(whole.add(1), whole)
    zero = at.full((), 0.0, x.dtype).broadcast_to(x.dims).copysign(x.div(y))
    return y.eq(0).select(x.div(y), quotient.eq(0).select(zero, whole))


@lowering("aten.pow", "prims.pow")
def pow(at: FxSite, x: Operand, y: Operand) -> V:
    own = at.dtype
    if isinstance(y, int | float) and not isinstance(y, bool) and isinstance(x, V) and not own.is_bool:
        known = _known_power(at, cast(x, own), y)
        if known is not None:
            return known
    left, right = at.together(x, y)
    return left.pow(right)


def _known_power(at: FxSite, x: V, y: float) -> V | None:
    """Powers that are cheaper as products and roots; torch computes them so too."""
    if y == 0:
        return at.full(x.dims, 1, x.dtype)
    if y == 1:
        return x
    if y == 2:
        return x.mul(x)
    if y == 3:
        return x.mul(x).mul(x)
    if not x.dtype.is_float:
        return None
    if y == 0.5:
        return x.sqrt()
    if y == -0.5:
        return x.rsqrt()
    if y == -1:
        return x.reciprocal()
    return x.mul(x).reciprocal() if y == -2 else None


def _without_nan(method: str, at: FxSite, x: V, y: V) -> V:
    """The extreme of what is a number."""
    left, right = at.together(x, y)
    chosen: V = getattr(left, method)(right)
    return left.is_nan().select(right, right.is_nan().select(left, chosen)) if left.dtype.is_float else chosen


lowering("aten.fmax", "prims.fmax")(partial(_without_nan, "max"))
lowering("aten.fmin", "prims.fmin")(partial(_without_nan, "min"))


@lowering("aten.gcd", "prims.gcd")
def gcd(at: FxSite, x: V, y: V) -> V:
    """Euclid, until every pair has ended."""
    left, right = at.together(x, y)

    def more(_: V, b: V) -> V:
        return b.ne(0).reduce_or()

    def step(a: V, b: V) -> tuple[V, V]:
        done = b.eq(0)
        return done.select(a, b), done.select(b, a.trunc_mod(done.select(at.full(b.dims, 1, b.dtype), b)))

    return at.graph.while_loop(more, step, left.abs(), right.abs())[0]


@lowering("aten.sign", "prims.sign", "aten.sgn")
def sign(at: FxSite, x: V) -> V:
    if x.dtype.is_bool:
        return x
    if x.dtype.is_float:  # of NaN it is 0
        return x.is_nan().select(at.full(x.dims, 0), x.sign())
    return x.sign()


@lowering("aten.signbit", "prims.signbit")
def signbit(at: FxSite, x: V) -> V:
    if not x.dtype.is_float:
        return x.lt(0) if x.dtype.is_signed else at.full(x.dims, False)
    return at.full(x.dims, 1.0, x.dtype).copysign(x).lt(0)


@lowering("aten.round", "prims.round")
def round(at: FxSite, x: V, *, decimals: int = 0) -> V:
    if not x.dtype.is_float:
        return x
    if decimals == 0:
        return x.round()
    scale = 10.0 ** max(decimals, -decimals)
    return x.mul(scale).round().div(scale) if decimals > 0 else x.div(scale).round().mul(scale)


@lowering("aten.logaddexp")
def log_add_exp(at: FxSite, x: V, y: V) -> V:
    left, right = at.together(x, y)
    if left.dtype.is_complex:
        raise at.refuse("of complex numbers")
    return logaddexp(left, right)


@lowering("prims.fma")
def fma(at: FxSite, x: V, y: V, z: V) -> V:
    a, b, c = at.together(x, y, z)
    return a.mul(b).add(c)


@lowering("prims.frexp", "aten.frexp")
def frexp(at: FxSite, x: V) -> tuple[V, V]:
    """Mantissa in [0.5, 1) and exponent, from the bits; subnormal numbers are scaled up first."""
    if x.dtype not in (dtypes.float32, dtypes.float64):
        raise at.refuse(f"of {x.dtype.name}")
    bits, width, kind = (23, 8, dtypes.int32) if x.dtype is dtypes.float32 else (52, 11, dtypes.int64)
    bias = (1 << (width - 1)) - 2
    tiny = x.abs().lt(2.0 ** (1 - bias)).and_(x.ne(0))
    scaled = tiny.select(x.mul(2.0 ** (bits + 1)), x)
    word = scaled.bitcast(kind)
    field = word.shr_logical(bits).and_((1 << width) - 1)
    exponent = field.sub(bias).sub(tiny.cast(kind).mul(bits + 1))
    kept = word.and_(~(((1 << width) - 1) << bits)).or_(bias << bits)
    plain = x.is_finite().and_(x.ne(0))
    mantissa = plain.select(kept.bitcast(x.dtype), x)
    return mantissa, plain.select(exponent, at.full(x.dims, 0, kind)).cast(dtypes.int32)


# --- bits and truth ---------------------------------------------------------------------------------------


def _logical(method: str, at: FxSite, x: Operand, y: Operand) -> V:
    left, right = at.together(x, y, dtype=dtypes.bool_)
    result: V = getattr(left, method)(right)
    return result


for _name, _method in (("and", "and_"), ("or", "or_"), ("xor", "xor")):
    lowering(f"aten.logical_{_name}")(partial(_logical, _method))


@lowering("aten.bitwise_right_shift", "aten.__rshift__", "prims.shift_right_arithmetic")
def right_shift(at: FxSite, x: Operand, y: Operand) -> V:
    left, right = at.together(x, y)
    return left.shr_arithmetic(right) if left.dtype.is_signed else left.shr_logical(right)


def _class(method: str, at: FxSite, x: V) -> V:
    return getattr(x, method)() if _may_be_endless(x) else at.full(x.dims, False)


for _name in ("nan", "inf"):
    lowering(f"aten.is{_name}")(partial(_class, f"is_{_name}"))


# --- choice -----------------------------------------------------------------------------------------------


@lowering("aten.where", "prims.where")
def choose(at: FxSite, condition: V, x: Operand, y: Operand) -> V:
    """x where the condition holds, else y, all in one shape."""
    left, right = at.of(x, at.dtype), at.of(y, at.dtype)
    dims = broadcast_dims(condition.dims, left.dims, right.dims)
    picks, left, right = (spread(value, dims) for value in (cast(condition, dtypes.bool_), left, right))
    return picks.select(left, right)


@lowering("aten.clamp", "aten.clamp_min")
def clamp(at: FxSite, x: V, min: Operand | None = None, max: Operand | None = None) -> V:
    clamped = cast(x, at.dtype)
    if min is not None:
        left, right = at.together(clamped, min)
        clamped = left.max(right)
    if max is not None:
        left, right = at.together(clamped, max)
        clamped = left.min(right)
    return clamped


@lowering("aten.clamp_max")
def clamp_max(at: FxSite, x: V, max: Operand) -> V:
    return clamp(at, x, None, max)


@lowering("aten.masked_fill")
def masked_fill(at: FxSite, x: V, mask: V, value: Operand) -> V:
    return choose(at, mask, value, x)
