"""Elementwise functions: the standard's chapter of that name, and what people know beside it.

Most are one PTIR op each, and stand in tables; those of real numbers are made from their records in `scalar_functions`.
"""

from __future__ import annotations

import builtins
import math
from typing import Final, overload

from planish import dtypes
from planish.dtypes import DType
from planish.errors import DTypeError
from planish.frontend.tensor.array import Tensor
from planish.frontend.tensor.composite import composite
from planish.frontend.tensor.operands import (
    Operand,
    broadcast_all,
    cast_to,
    constant,
    default_float,
    promoted,
    tensor,
    together,
)
from planish.frontend.tensor.pointwise import (
    anything,
    binary,
    bits,
    floating,
    integers,
    numeric,
    ordered,
    predicate,
    real_floating,
    real_numeric,
    rounding,
    truth,
    unary,
)
from planish.frontend.tensor.recipes import remembered
from planish.frontend.tensor.scalar_functions import cos, exp, log, sin
from planish.ptir import ops
from planish.ptir.library import cumulative

abs: Final = unary("abs", ops.abs, numeric, "|x|; the modulus of complex numbers.")
bitwise_invert: Final = unary("bitwise_invert", ops.not_, bits, "Every bit the other way; not, for bools.")
logical_not: Final = unary("logical_not", ops.not_, truth, "Whether x is zero.")
negative: Final = unary("negative", ops.neg, numeric, "-x.")
sign: Final = unary("sign", ops.sign, numeric, "-1, 0 or 1; x / |x| for complex numbers.")

ceil: Final = rounding("ceil", ops.ceil, "The next integer above.")
floor: Final = rounding("floor", ops.floor, "The next integer below.")
trunc: Final = rounding("trunc", ops.trunc, "The next integer toward zero.")

isfinite: Final = predicate("isfinite", ops.is_finite, True, "Neither infinite nor NaN.")
isinf: Final = predicate("isinf", ops.is_inf, False, "Infinite.")
isnan: Final = predicate("isnan", ops.is_nan, False, "Not a number.")

add: Final = binary("add", ops.add, numeric, "x1 + x2; or, for bools.", ops.or_)
atan2: Final = binary("atan2", ops.atan2, real_floating, "The angle of the point (x2, x1).")
bitwise_and: Final = binary("bitwise_and", ops.and_, bits, "x1 & x2; and, for bools.")
bitwise_left_shift: Final = binary("bitwise_left_shift", ops.shl, integers, "x1 << x2.")
bitwise_or: Final = binary("bitwise_or", ops.or_, bits, "x1 | x2; or, for bools.")
bitwise_xor: Final = binary("bitwise_xor", ops.xor, bits, "x1 ^ x2; exclusive or, for bools.")
copysign: Final = binary("copysign", ops.copysign, real_floating, "|x1| with the sign of x2.")
divide: Final = binary("divide", ops.div, floating, "x1 / x2.")
equal: Final = binary("equal", ops.eq, anything, "x1 == x2.")
fmod: Final = binary("fmod", ops.trunc_mod, real_numeric, "The remainder with the sign of x1.")
greater: Final = binary("greater", ops.gt, ordered, "x1 > x2.")
greater_equal: Final = binary("greater_equal", ops.ge, ordered, "x1 >= x2.")
hypot: Final = binary("hypot", ops.hypot, real_floating, "sqrt(x1**2 + x2**2) without overflow.")
less: Final = binary("less", ops.lt, ordered, "x1 < x2.")
less_equal: Final = binary("less_equal", ops.le, ordered, "x1 <= x2.")
logical_and: Final = binary("logical_and", ops.and_, truth, "Whether both are true.")
logical_or: Final = binary("logical_or", ops.or_, truth, "Whether one is true.")
logical_xor: Final = binary("logical_xor", ops.xor, truth, "Whether exactly one is true.")
maximum: Final = binary("maximum", ops.max, ordered, "The greater of each pair; NaN if either is.")
minimum: Final = binary("minimum", ops.min, ordered, "The smaller of each pair; NaN if either is.")
multiply: Final = binary("multiply", ops.mul, numeric, "x1 * x2; and, for bools.", ops.and_)
nextafter: Final = binary("nextafter", ops.nextafter, real_floating, "The next number from x1 toward x2.")
not_equal: Final = binary("not_equal", ops.ne, anything, "x1 != x2.")
remainder: Final = binary("remainder", ops.floor_mod, real_numeric, "The remainder with the sign of x2.")
subtract: Final = binary("subtract", ops.sub, numeric, "x1 - x2.")


# --- the ones that are more than an op --------------------------------------------------------------------


@remembered
def bitwise_count(x: Tensor, /) -> Tensor:
    """The number of one bits of |x|."""
    given = integers("bitwise_count", tensor("bitwise_count", x))
    size = Tensor.apply(ops.abs, given) if given.dtype.is_signed else given
    return cast_to(Tensor.apply(ops.popcount, size), dtypes.uint8)


@remembered
def bitwise_right_shift(x1: Operand, x2: Operand, /) -> Tensor:
    """x1 >> x2; the sign stays."""
    left, right = together("bitwise_right_shift", x1, x2)
    left = integers("bitwise_right_shift", left)
    return Tensor.apply(ops.shr_arithmetic if left.dtype.is_signed else ops.shr_logical, left, right)


def pow(x1: Operand, x2: Operand, /) -> Tensor:
    """x1 ** x2."""
    if x2.__class__ is int and x2 < 0 and isinstance(x1, Tensor) and x1.dtype.is_int:
        raise DTypeError.of("pow", f"{x1.dtype.name} ** {x2} is a fraction", f"x ** {x2}.0 gives floats")
    return _pow(x1, x2)


_pow: Final = binary("pow", ops.pow, numeric, "x1 ** x2.")
_tanh: Final = unary("tanh", ops.tanh, floating, "The hyperbolic tangent.")
_expm1: Final = unary("expm1", ops.expm1, floating, "e ** x - 1, accurate near 0.")
_floor_divide: Final = binary("floor_divide", ops.floor_div, real_numeric, "x1 / x2, rounded down.")


@remembered
def tanh(x: Tensor, /) -> Tensor:
    """The hyperbolic tangent."""
    given = tensor("tanh", x)
    tangent = _tanh(given)
    if not given.dtype.is_complex:
        return tangent
    # at the far ends C gives the imaginary zero the sign of sin(2b), the standard that of b
    a, b = real(given), imag(given)
    ends = complex(copysign(1.0, a), copysign(0.0, b))
    return where(Tensor.apply(ops.and_, isinf(a), isfinite(b)), ends, tangent)


def expm1(x: Tensor, /) -> Tensor:
    """e ** x - 1, accurate near 0."""
    given = tensor("expm1", x)
    if not given.dtype.is_complex:
        return _expm1(given)
    # NumPy's has other special values than exp, and than the standard asks for
    grown, a, b = exp(given), real(given), imag(given)
    # the zero makes -0 of no real part
    near = _expm1(a) * cos(b) + (0.0 - 2.0 * square(sin(0.5 * b)))
    return complex(where(isfinite(given), near, real(grown) - 1.0), imag(grown))


@remembered
def floor_divide(x1: Operand, x2: Operand, /) -> Tensor:
    """x1 / x2, rounded down; an infinity by a number is infinite."""
    result = _floor_divide(x1, x2)
    if not result.dtype.is_float:
        return result
    left, right = together("floor_divide", x1, x2)
    endless = Tensor.apply(ops.and_, isinf(left), isfinite(right))
    return Tensor.apply(ops.select, endless, left * copysign(1.0, right), result)


def positive(x: Tensor, /) -> Tensor:
    """+x."""
    return numeric("positive", tensor("positive", x)).snapshot()


@remembered
def square(x: Tensor, /) -> Tensor:
    """x * x."""
    given = numeric("square", tensor("square", x))
    return Tensor.apply(ops.mul, given, given)


def conj(x: Tensor, /) -> Tensor:
    """The complex conjugate."""
    given = tensor("conj", x)
    return Tensor.apply(ops.conj, given) if given.dtype.is_complex else given.snapshot()


def real(x: Tensor, /) -> Tensor:
    """The real parts."""
    given = tensor("real", x)
    return Tensor.apply(ops.real, given) if given.dtype.is_complex else given.snapshot()


def imag(x: Tensor, /) -> Tensor:
    """The imaginary parts; zeros for real numbers."""
    given = tensor("imag", x)
    return Tensor.apply(ops.imag, given) if given.dtype.is_complex else constant(0, given.dtype, given.shape)


def angle(x: Tensor, /, deg: bool = False) -> Tensor:
    """The argument of complex numbers."""
    given = floating("angle", tensor("angle", x))
    radians = atan2(imag(given), real(given))
    return rad2deg(radians) if deg else radians


@remembered
def log10(x: Tensor, /) -> Tensor:
    """The logarithm to base 10."""
    natural = log(x)
    if natural.dtype.is_complex:  # part by part: a product of complex numbers makes NaN of an infinite part
        return complex(_in_tens(real(natural)), _in_tens(imag(natural)))
    return _in_tens(natural)


def _in_tens(natural: Tensor) -> Tensor:
    return Tensor.apply(
        ops.mul, *broadcast_all("log10", [natural, constant(1 / math.log(10), natural.dtype)])
    )


@remembered
def logaddexp(x1: Operand, x2: Operand, /) -> Tensor:
    """log(exp(x1) + exp(x2)) without overflow."""
    left, right = together("logaddexp", x1, x2)
    return composite(
        cumulative.logaddexp, real_floating("logaddexp", left), real_floating("logaddexp", right)
    )


def signbit(x: Tensor, /) -> Tensor:
    """Whether the sign is negative, that of zeros and NaN included."""
    given = ordered("signbit", tensor("signbit", x))
    if not given.dtype.is_float:
        return (
            less(given, 0)
            if given.dtype.is_int and given.dtype.is_signed
            else constant(False, dtypes.bool_, given.shape)
        )
    unsigned = dtypes.parse(f"u{given.dtype.bits}")
    stored = Tensor.apply(ops.bitcast, given, attrs=ops.BitcastAttrs(unsigned))
    return greater_equal(stored, 1 << (given.dtype.bits - 1))


@remembered
def round(x: Tensor, /, decimals: int = 0) -> Tensor:
    """The nearest integer (or multiple of 10**-decimals), half to even."""
    given = tensor("round", x)
    if given.dtype.is_complex:
        return complex(round(real(given), decimals), round(imag(given), decimals))
    if decimals == 0 or given.dtype.is_bool:
        return Tensor.apply(ops.round, given) if given.dtype.is_float else given.snapshot()
    if given.dtype.is_int:
        if decimals > 0:
            return given.snapshot()
        unit = 10**-decimals
        return cast_to(round(cast_to(given, dtypes.float64) / unit) * unit, given.dtype)
    unit = 10.0 ** builtins.abs(decimals)
    scaled = given * unit if decimals > 0 else given / unit
    whole = Tensor.apply(ops.round, scaled)
    return whole / unit if decimals > 0 else whole * unit


def complex(real: Operand, imag: Operand, /) -> Tensor:
    """The numbers real + i·imag."""
    parts = [real_floating("complex", x) for x in together("complex", real, imag)]
    dtype = dtypes.float64 if parts[0].dtype.bits == 64 else dtypes.float32
    return Tensor.apply(ops.complex, *[cast_to(x, dtype) for x in parts])


@remembered
def clip(x: Tensor, /, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """Elements moved into a range; NaN where the element or a bound is.

    Written as choices: an element that lies on a bound is its own, as far as derivatives are concerned.
    """
    given = result = real_numeric("clip", tensor("clip", x))
    if given.dtype.is_int and any(isinstance(bound, float) and bound % 1 for bound in (min, max)):
        given = result = default_float(given)  # a whole number may be none that lies between
    for outside, bound in ((less, min), (greater, max)):
        if bound is not None:
            edge = tensor("clip", _bound(result.dtype, bound))
            beyond = outside(result, edge)
            is_number = isinstance(bound, bool | int | float) and bound == bound  # noqa: PLR0124 # a NaN is not
            if edge.dtype.is_float and not is_number:
                beyond = logical_or(beyond, isnan(edge))
            result = where(beyond, edge, result)
    if result is given:
        return given.snapshot()
    return cast_to(result, given.dtype)


def _bound(dtype: DType, bound: Operand) -> Operand:
    """A number takes the dtype; outside the range of an integer dtype it is as good as its end."""
    if isinstance(bound, Tensor) or not isinstance(bound, bool | int | float):
        return bound
    if dtype.is_int and isinstance(bound, int) and dtype.min is not None and dtype.max is not None:
        return constant(builtins.max(int(dtype.min), builtins.min(bound, int(dtype.max))), dtype)
    return bound if dtype.is_int else constant(bound, dtype)


@remembered
def isclose(
    x1: Operand, x2: Operand, /, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    """|x1 - x2| <= atol + rtol * |x2|; infinities only equal themselves."""
    left, right = together("isclose", x1, x2)
    if left.dtype.is_bool:
        return equal(left, right)
    near = less_equal(abs(floating("isclose", left) - right), atol + rtol * abs(right))
    close = logical_or(equal(left, right), logical_and(near, logical_and(isfinite(left), isfinite(right))))
    return logical_or(close, logical_and(isnan(left), isnan(right))) if equal_nan else close


def nan_to_num(
    x: Tensor, /, *, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """NaN and infinities replaced, by default by 0 and the extreme finite numbers."""
    given = tensor("nan_to_num", x)
    if given.dtype.is_complex:
        parts = [
            nan_to_num(part, nan=nan, posinf=posinf, neginf=neginf) for part in (real(given), imag(given))
        ]
        return complex(*parts)
    if not given.dtype.is_float:
        return given.snapshot()
    largest = dtypes.float_format(given.dtype).largest
    high = constant(largest if posinf is None else posinf, given.dtype, given.shape)
    low = constant(-largest if neginf is None else neginf, given.dtype, given.shape)
    bounded = Tensor.apply(ops.select, equal(given, math.inf), high, given)
    bounded = Tensor.apply(ops.select, equal(given, -math.inf), low, bounded)
    return Tensor.apply(ops.select, isnan(given), constant(nan, given.dtype, given.shape), bounded)


def sinc(x: Tensor, /) -> Tensor:
    """sin(πx) / (πx), and 1 at 0."""
    given = real_floating("sinc", tensor("sinc", x))
    is_zero = equal(given, 0)
    one = constant(1, given.dtype, given.shape)
    scaled = Tensor.apply(ops.select, is_zero, one, given) * math.pi
    return Tensor.apply(ops.select, is_zero, one, sin(scaled) / scaled)


def deg2rad(x: Tensor, /) -> Tensor:
    """Degrees as radians."""
    return real_floating("deg2rad", tensor("deg2rad", x)) * (math.pi / 180)


def rad2deg(x: Tensor, /) -> Tensor:
    """Radians as degrees."""
    return real_floating("rad2deg", tensor("rad2deg", x)) * (180 / math.pi)


@remembered
def lerp(x1: Operand, x2: Operand, weight: Operand, /) -> Tensor:
    """x1 + weight * (x2 - x1)."""
    start, end, share = [floating("lerp", x) for x in promoted("lerp", x1, x2, weight)]
    return start + share * (end - start)


@overload
def where(condition: Tensor, /) -> tuple[Tensor, ...]: ...
@overload
def where(condition: Tensor, x1: Operand, x2: Operand, /) -> Tensor: ...
@remembered
def where(
    condition: Tensor, x1: Operand | None = None, x2: Operand | None = None, /
) -> Tensor | tuple[Tensor, ...]:
    """x1 where the condition is true, else x2; with the condition alone, the positions where it is true."""
    if x1 is None or x2 is None:
        if x1 is not x2:
            raise DTypeError.of("where", "one of two choices is missing", "where(c, x1, x2), or where(c)")
        from planish.frontend.tensor.searching import nonzero

        return nonzero(tensor("where", condition))
    chosen, other = promoted("where", x1, x2)
    decided = truth("where", tensor("where", condition))
    return Tensor.apply(ops.select, *broadcast_all("where", [decided, chosen, other]))


__all__ = [
    "abs", "add", "angle", "atan2", "bitwise_and", "bitwise_count", "bitwise_invert", "bitwise_left_shift",
    "bitwise_or", "bitwise_right_shift", "bitwise_xor", "ceil", "clip", "complex", "conj", "copysign",
    "deg2rad", "divide", "equal", "expm1", "floor", "floor_divide", "fmod", "greater", "greater_equal",
    "hypot", "imag", "isclose", "isfinite", "isinf", "isnan", "lerp", "less", "less_equal", "log10",
    "logaddexp", "logical_and", "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "multiply",
    "nan_to_num", "negative", "nextafter", "not_equal", "positive", "pow", "rad2deg", "real", "remainder",
    "round", "sign", "signbit", "sinc", "square", "subtract", "tanh", "trunc", "where",
]  # fmt: skip
