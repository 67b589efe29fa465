"""Elementwise functions that NumPy has beyond the standard's."""

from __future__ import annotations

import builtins
import math

import numpy as np

from planish import dtypes
from planish.errors import DTypeError, ShapeError
from planish.frontend.control import while_loop
from planish.frontend.tensor import functions as api
from planish.frontend.tensor.array import Tensor
from planish.frontend.tensor.operands import Operand, cast_to, default_float, promoted, tensor, together
from planish.frontend.tensor.pointwise import real_floating


def divmod(x1: Operand, x2: Operand, /) -> tuple[Tensor, Tensor]:
    """Quotients rounded down, and what is left."""
    return api.floor_divide(x1, x2), api.remainder(x1, x2)


def fabs(x: Operand, /) -> Tensor:
    """Absolute values, as floats."""
    return api.abs(real_floating("fabs", default_float(tensor("fabs", x))))


def _known_first(name: str, x1: Operand, x2: Operand, greatest: bool) -> Tensor:
    left, right = together(name, x1, x2)
    chosen = api.maximum(left, right) if greatest else api.minimum(left, right)
    return api.where(api.isnan(left), right, api.where(api.isnan(right), left, chosen))


def fmax(x1: Operand, x2: Operand, /) -> Tensor:
    """The greater; a number where the other is NaN."""
    return _known_first("fmax", x1, x2, True)


def fmin(x1: Operand, x2: Operand, /) -> Tensor:
    """The smaller; a number where the other is NaN."""
    return _known_first("fmin", x1, x2, False)


def float_power(x1: Operand, x2: Operand, /) -> Tensor:
    """Powers in double precision."""
    both = promoted("float_power", x1, x2)
    wide = dtypes.complex128 if both[0].dtype.is_complex else dtypes.float64
    return api.pow(*[cast_to(x, wide) for x in both])


def gcd(x1: Operand, x2: Operand, /) -> Tensor:
    """The greatest common divisor, by Euclid's algorithm on all elements at once."""
    left, right = together("gcd", x1, x2)
    if not left.dtype.is_int:
        raise DTypeError.of("gcd", f"takes integers, not {left.dtype.name}")
    if left.size == 0:
        return left

    def step(pair: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        a, b = pair
        return api.where(b == 0, a, b), api.where(b == 0, b, api.remainder(a, api.where(b == 0, 1, b)))

    final: tuple[Tensor, Tensor] = while_loop(
        lambda pair: api.any(pair[1] != 0), step, (api.abs(left), api.abs(right))
    )
    return final[0]


def lcm(x1: Operand, x2: Operand, /) -> Tensor:
    """The least common multiple."""
    left, right = together("lcm", x1, x2)
    shared = gcd(left, right)
    return api.abs(api.floor_divide(left, api.where(shared == 0, 1, shared)) * right)


def heaviside(x1: Operand, x2: Operand, /) -> Tensor:
    """0 below zero, 1 above, x2 at it; NaN stays."""
    x, middle = [default_float(one) for one in together("heaviside", x1, x2)]
    return api.where(api.isnan(x), x, api.where(x == 0, middle, api.astype(x > 0, x.dtype)))


def ldexp(x1: Operand, x2: Operand, /) -> Tensor:
    """x1 * 2**x2, in three steps so that no power overflows on the way."""
    x, exponent = real_floating("ldexp", default_float(tensor("ldexp", x1))), tensor("ldexp", x2)
    if not exponent.dtype.is_int:
        raise DTypeError.of("ldexp", f"exponents are integers, not {exponent.dtype.name}")
    kind = api.finfo(x.dtype)
    # from the least number to the greatest: more makes no difference
    most = math.ceil(math.log2(kind.max) - math.log2(kind.smallest_normal) - math.log2(kind.eps)) + 1
    exponent = api.astype(api.clip(exponent, -most, most), dtypes.int32)
    third = exponent // 3
    power = api.exp2(cast_to(third, x.dtype))
    return x * power * power * api.exp2(cast_to(exponent - 2 * third, x.dtype))


def frexp(x: Operand, /) -> tuple[Tensor, Tensor]:
    """Mantissas in [0.5, 1) and exponents of 2."""
    given = real_floating("frexp", default_float(tensor("frexp", x)))
    plain = api.logical_and(api.isfinite(given), given != 0)
    lifted = 2.0 ** (api.finfo(given.dtype).bits)  # what is subnormal is counted from above
    small = api.abs(given) < float(api.finfo(given.dtype).smallest_normal)
    magnitude = api.where(plain, api.abs(given) * api.where(small, lifted, 1.0), 1.0)
    exponent = api.astype(api.floor(api.log2(magnitude)), dtypes.int32) + 1
    mantissa = ldexp(magnitude, -exponent)
    up, down = mantissa >= 1.0, mantissa < 0.5
    mantissa = api.where(up, mantissa * 0.5, api.where(down, mantissa * 2.0, mantissa))
    exponent = exponent + api.astype(up, dtypes.int32) - api.astype(down, dtypes.int32)
    exponent = exponent - api.where(small, api.finfo(given.dtype).bits, 0)
    signed = api.astype(api.copysign(mantissa, given), given.dtype)
    return api.where(plain, signed, given), api.astype(api.where(plain, exponent, 0), dtypes.int32)


def modf(x: Operand, /) -> tuple[Tensor, Tensor]:
    """The parts behind and before the point, both with the sign of x."""
    given = real_floating("modf", default_float(tensor("modf", x)))
    whole = api.trunc(given)
    return api.copysign(api.where(api.isinf(given), 0.0, given - whole), given), whole


def logaddexp2(x1: Operand, x2: Operand, /) -> Tensor:
    """log2(2**x1 + 2**x2) without overflow."""
    log_of_2 = 0.6931471805599453
    left, right = [default_float(one) for one in together("logaddexp2", x1, x2)]
    return api.logaddexp(left * log_of_2, right * log_of_2) / log_of_2


def rint(x: Operand, /) -> Tensor:
    """The nearest whole number, of two the even one, as a float."""
    return api.round(default_float(tensor("rint", x)))


def spacing(x: Operand, /) -> Tensor:
    """The distance to the next float away from zero."""
    given = real_floating("spacing", default_float(tensor("spacing", x)))
    magnitude, largest = api.abs(given), dtypes.float_format(given.dtype).largest
    if given.dtype is dtypes.float8_e4m3fn:  # above its largest number is NaN
        return api.copysign(
            api.where(magnitude < largest, api.nextafter(magnitude, largest) - magnitude, math.nan), given
        )
    return api.copysign(api.nextafter(magnitude, math.inf) - magnitude, given)


def isneginf(x: Operand, /) -> Tensor:
    """Which elements are minus infinity."""
    given = tensor("isneginf", x)
    return api.logical_and(api.isinf(given), given < 0)


def isposinf(x: Operand, /) -> Tensor:
    """Which elements are plus infinity."""
    given = tensor("isposinf", x)
    return api.logical_and(api.isinf(given), given > 0)


def iscomplex(x: Operand, /) -> Tensor:
    """Which elements have an imaginary part that is not zero."""
    return api.logical_not(isreal(x))


def isreal(x: Operand, /) -> Tensor:
    """Which elements have no imaginary part."""
    given = tensor("isreal", x)
    return api.imag(given) == 0 if given.dtype.is_complex else api.ones_like(given, dtype=dtypes.bool_)


def iscomplexobj(x: object, /) -> bool:
    """Whether the dtype is a complex one."""
    return tensor("iscomplexobj", x).dtype.is_complex


def isrealobj(x: object, /) -> bool:
    """Whether the dtype is not a complex one."""
    return not iscomplexobj(x)


def isscalar(x: object, /) -> bool:
    """Whether it is a number (or text), not an array of one."""
    return not isinstance(x, Tensor) and builtins.bool(np.isscalar(x))


def packbits(x: Tensor, /, axis: int | None = None, bitorder: str = "big") -> Tensor:
    """Eight truth values to a byte, the last byte filled with zeros."""
    given = tensor("packbits", x)
    line = api.reshape(given, (-1,)) if axis is None else api.moveaxis(given, axis, -1)
    *lead, size = line.shape
    line = api.astype(line != 0, dtypes.uint8)
    line = api.pad(line, [(0, 0)] * len(lead) + [(0, -size % 8)])
    line = api.reshape(line, (*lead, -(-size // 8), 8))
    weights = api.asarray([1 << bit for bit in _bits(bitorder)], dtype=dtypes.uint8)
    packed = api.sum(line * weights, axis=-1, dtype=dtypes.uint8)
    return packed if axis is None else api.moveaxis(packed, -1, axis)


def unpackbits(
    x: Tensor, /, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> Tensor:
    """The eight bits of each byte; `count` of them are kept."""
    given = tensor("unpackbits", x)
    if given.dtype is not dtypes.uint8:
        raise DTypeError.of("unpackbits", f"takes uint8, not {given.dtype.name}")
    line = api.reshape(given, (-1,)) if axis is None else api.moveaxis(given, axis, -1)
    shifts = api.asarray(list(_bits(bitorder)), dtype=dtypes.uint8)
    bits = api.bitwise_and(api.bitwise_right_shift(line[..., None], shifts), 1)
    bits = api.reshape(bits, (*line.shape[:-1], line.shape[-1] * 8))
    if count is not None:
        missing = count - bits.shape[-1]
        if -count > bits.shape[-1]:
            raise ShapeError.of("unpackbits", f"there are no {-count} of {bits.shape[-1]} bits to leave out")
        bits = (
            api.pad(bits, [(0, 0)] * (bits.ndim - 1) + [(0, missing)]) if missing > 0 else bits[..., :count]
        )
    return bits if axis is None else api.moveaxis(bits, -1, axis)


def _bits(order: str) -> range:
    if order not in ("big", "little"):
        raise DTypeError.of("packbits", f"there is no order {order!r}", "big or little")
    return range(7, -1, -1) if order == "big" else range(8)


__all__ = [
    "divmod", "fabs", "float_power", "fmax", "fmin", "frexp", "gcd", "heaviside", "iscomplex", "iscomplexobj", "isneginf",
    "isposinf", "isreal", "isrealobj", "isscalar", "lcm", "ldexp", "logaddexp2", "modf", "packbits", "rint", "spacing",
    "unpackbits",
]  # fmt: skip
