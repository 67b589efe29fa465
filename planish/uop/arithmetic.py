"""The meaning of every ALU op and conversion, on NumPy arrays: what docs/semantics.md says, obviously.

Values travel in carriers (`planish.scalars.conversion`). Floats below 32 bits are computed in float32 and rounded once; integers
wrap after every op. No value traps or warns.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

import numpy as np

from planish.dtypes import DType
from planish.scalars.conversion import carrier, compact, convert, load, settle, store, wide
from planish.uop.bounds import width
from planish.uop.functions import FUNCTION_OPS
from planish.uop.ops import Ops

Array = np.ndarray[Any, np.dtype[Any]]
Function = Callable[..., Array]

# -- exact integers: Python's, for index values beyond 64 bits -------------------------------------------------


def _floordiv(x: int, y: int) -> int:
    return x // y if y else 0


def _floormod(x: int, y: int) -> int:
    return x % y if y else 0


def _truncdiv(x: int, y: int) -> int:
    if not y:
        return 0
    return x // y if (x < 0) == (y < 0) else -(-x // y)


def _truncmod(x: int, y: int) -> int:
    return x - y * _truncdiv(x, y) if y else 0


def _pow(x: int, y: int) -> int:
    if y >= 0:
        return int(x**y)
    return int(x ** (y & 1)) if abs(x) == 1 else 0


def _shl(x: int, y: int) -> int:
    return x << y if 0 <= y < 64 else 0


def _shr(x: int, y: int) -> int:
    return x >> y if 0 <= y < 64 else -(x < 0)


_EXACT: Final[dict[Ops, Callable[..., int]]] = {
    Ops.NEG: operator.neg, Ops.NOT: operator.invert, Ops.ABS: abs,
    Ops.POPCOUNT: lambda x: (x % (1 << 64)).bit_count(), Ops.CLZ: lambda x: 64 - (x % (1 << 64)).bit_length(),
    Ops.ADD: operator.add, Ops.SUB: operator.sub, Ops.MUL: operator.mul, Ops.MULACC: lambda x, y, z: x * y + z,
    Ops.FLOORDIV: _floordiv, Ops.FLOORMOD: _floormod, Ops.TRUNCDIV: _truncdiv, Ops.TRUNCMOD: _truncmod,
    Ops.POW: _pow, Ops.MAX: max, Ops.MIN: min, Ops.AND: operator.and_, Ops.OR: operator.or_, Ops.XOR: operator.xor,
    Ops.SHL: _shl, Ops.SHR: _shr,
}  # fmt: skip
_EXACT_ARRAYS: Final[dict[Ops, Function]] = {
    op: np.frompyfunc(function, op.min_sources, 1) for op, function in _EXACT.items()
}


# -- integers of a width ---------------------------------------------------------------------------------------


def _int_truncdiv(d: DType, x: Array, y: Array) -> Array:
    down = np.floor_divide(x, y)
    inexact = (np.remainder(x, y) != 0) & ((x < 0) != (y < 0))
    return np.asarray(down + inexact.astype(down.dtype))


def _int_truncmod(d: DType, x: Array, y: Array) -> Array:
    return np.asarray(np.where(y == 0, x.dtype.type(0), x - y * _int_truncdiv(d, x, y)))


def _int_floordiv(d: DType, x: Array, y: Array) -> Array:
    return np.asarray(np.floor_divide(x, y))


def _int_floormod(d: DType, x: Array, y: Array) -> Array:
    return np.asarray(np.remainder(x, y))


def _int_pow(d: DType, x: Array, y: Array) -> Array:
    negative = y < 0
    power = np.power(x, np.where(negative, y.dtype.type(0), y))
    odd = (y & y.dtype.type(1)) != 0
    inverse = np.where(x == 1, 1, np.where(x == -1, np.where(odd, -1, 1), 0))
    # uint64 beside int64 would become float64: one dtype before the choice.
    return np.where(negative, inverse.astype(x.dtype), power)


def _int_shl(d: DType, x: Array, y: Array) -> Array:
    inside = (y >= 0) & (y < width(d))
    return np.asarray(np.where(inside, x << np.where(inside, y, y.dtype.type(0)), x.dtype.type(0)))


def _int_shr(d: DType, x: Array, y: Array) -> Array:
    inside = (y >= 0) & (y < width(d))
    fill = -(x < 0).astype(np.int8)
    return np.asarray(np.where(inside, x >> np.where(inside, y, y.dtype.type(0)), fill.astype(x.dtype)))


def _pattern(d: DType, x: Array) -> Array:
    """The bits as uint64."""
    mask = (1 << width(d)) - 1
    return np.asarray(x.astype(np.int64) if d.is_signed or d.is_index else x).astype(np.uint64) & np.uint64(
        mask
    )


def _int_popcount(d: DType, x: Array) -> Array:
    return np.asarray(np.bitwise_count(_pattern(d, x)))


def _int_clz(d: DType, x: Array) -> Array:
    bits = _pattern(d, x)
    for distance in (1, 2, 4, 8, 16, 32):
        bits = bits | (bits >> np.uint64(distance))
    return np.asarray(width(d) - np.bitwise_count(bits).astype(np.int64))


def _threefry(d: DType, x: Array, key: Array) -> Array:
    """Threefry-2x32 with 20 rounds; the high half of counter, key and result is word 0 (semantics 11.1)."""
    mask = np.uint64(0xFFFFFFFF)
    k0, k1 = key >> np.uint64(32), key & mask
    keys = (k0, k1, k0 ^ k1 ^ np.uint64(0x1BD11BDA))
    x0, x1 = ((x >> np.uint64(32)) + k0) & mask, ((x & mask) + k1) & mask
    rotations = (13, 15, 26, 6, 17, 29, 16, 24)
    for number in range(20):
        turn = rotations[number % 8]
        x0 = (x0 + x1) & mask
        x1 = ((x1 << np.uint64(turn)) | (x1 >> np.uint64(32 - turn))) & mask ^ x0
        if number % 4 == 3:
            block = number // 4 + 1
            x0 = (x0 + keys[block % 3]) & mask
            x1 = (x1 + keys[(block + 1) % 3] + np.uint64(block)) & mask
    return np.asarray(x0 << np.uint64(32) | x1)


def _plain(function: Callable[..., Any]) -> Function:
    """A NumPy function that does not care about the dtype."""
    return lambda d, *x: np.asarray(function(*x))


def _mulacc(x: Array, y: Array, z: Array) -> Array:
    return np.asarray(x * y + z)


_INTEGER: Final[dict[Ops, Function]] = {
    Ops.NEG: _plain(np.negative), Ops.NOT: _plain(np.invert), Ops.ABS: _plain(np.abs),
    Ops.POPCOUNT: _int_popcount, Ops.CLZ: _int_clz, Ops.ADD: _plain(np.add), Ops.SUB: _plain(np.subtract),
    Ops.MUL: _plain(np.multiply), Ops.MULACC: _plain(_mulacc), Ops.FLOORDIV: _int_floordiv,
    Ops.FLOORMOD: _int_floormod, Ops.TRUNCDIV: _int_truncdiv, Ops.TRUNCMOD: _int_truncmod, Ops.POW: _int_pow,
    Ops.MAX: _plain(np.maximum), Ops.MIN: _plain(np.minimum), Ops.AND: _plain(np.bitwise_and),
    Ops.OR: _plain(np.bitwise_or), Ops.XOR: _plain(np.bitwise_xor), Ops.SHL: _int_shl, Ops.SHR: _int_shr,
    Ops.THREEFRY: _threefry,
}  # fmt: skip
_BOOL: Final[dict[Ops, Function]] = {
    Ops.NOT: _plain(np.logical_not), Ops.AND: _plain(np.logical_and), Ops.OR: _plain(np.logical_or),
    Ops.XOR: _plain(np.logical_xor), Ops.MAX: _plain(np.logical_or), Ops.MIN: _plain(np.logical_and),
    # Arithmetic needs a cast in programs; in the algebra a product is a conjunction and a sum a disjunction.
    Ops.MUL: _plain(np.logical_and), Ops.ADD: _plain(np.logical_or),
}  # fmt: skip


# -- floats ----------------------------------------------------------------------------------------------------


def _exact(function: Callable[..., Any]) -> Function:
    """Correctly rounded by NumPy in the carrier, so the carrier's result is the float32 or float64 one."""
    return lambda d, *x: np.asarray(function(*x))


def _smooth(function: Callable[..., Any]) -> Function:
    """Computed in float64 (complex128) and rounded to the dtype once."""

    def compute(d: DType, *x: Array) -> Array:
        return np.asarray(function(*(v.astype(np.complex128 if d.is_complex else np.float64) for v in x)))

    return compute


def _float_pow(x: Array, y: Array) -> Array:
    power = np.power(x, y)
    if np.iscomplexobj(power):
        return np.asarray(power)
    # A lone exponent of 0.5 makes NumPy take the square root, which differs from a power at -0 and -inf.
    return np.where((y == 0.5) & ((x == 0) | np.isinf(x)), np.abs(x), power)


def _float_max(d: DType, x: Array, y: Array) -> Array:
    zero = np.where(np.signbit(x) & np.signbit(y), x.dtype.type(-0.0), x.dtype.type(0))
    return np.asarray(np.where((x == 0) & (y == 0), zero, np.maximum(x, y)))


def _float_min(d: DType, x: Array, y: Array) -> Array:
    zero = np.where(np.signbit(x) | np.signbit(y), x.dtype.type(-0.0), x.dtype.type(0))
    return np.asarray(np.where((x == 0) & (y == 0), zero, np.minimum(x, y)))


def _fused(x: float, y: float, z: float) -> float:
    """x * y + z in float64, rounded once."""
    if not (math.isfinite(x) and math.isfinite(y) and math.isfinite(z)):
        return x * y + z
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact == 0:
        return x * y + z  # the sign of zero: as the unfused sum of an exact product has it
    try:
        return exact.numerator / exact.denominator  # Python divides integers with one rounding
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _float_mulacc(d: DType, x: Array, y: Array, z: Array) -> Array:
    if d.is_complex:
        return _mulacc(x, y, z)
    if d.bits == 64:
        return np.asarray(np.frompyfunc(_fused, 3, 1)(x, y, z)).astype(np.float64)
    # The product is exact in float64. The error of the sum decides whether its last bit has to be made odd, so
    # that rounding to the shorter format comes out as if from the exact value.
    product, addend = x.astype(np.float64) * y.astype(np.float64), z.astype(np.float64)
    total = product + addend
    virtual = total - product
    error = (product - (total - virtual)) + (addend - virtual)
    pattern = np.asarray(total).view(np.int64)
    toward_zero = np.where(error * np.sign(total) < 0, pattern - 1, pattern)
    odd = np.where((error != 0) & np.isfinite(total), toward_zero | 1, pattern).view(np.float64)
    return np.asarray(odd.astype(np.float32) if d.bits == 32 else odd)


def _scale(d: DType, x: Array, y: Array) -> Array:
    """2**inf is inf, 2**-inf is 0; they hide a NaN, as in the instruction that there is for it."""
    whole = np.floor(np.clip(np.nan_to_num(y, nan=0.0), -1e5, 1e5)).astype(np.int32)
    scaled = np.ldexp(x, whole)
    lost = np.isnan(y) | ((x == 0) & (y == np.inf)) | (np.isinf(x) & (y == -np.inf))
    scaled = np.where(lost, x.dtype.type(np.nan), scaled)
    return np.asarray(np.where(np.isnan(x) & np.isinf(y), np.maximum(y, 0), scaled))


_FLOAT: Final[dict[Ops, Function]] = {
    Ops.NEG: _exact(np.negative), Ops.ABS: _exact(np.abs), Ops.ADD: _exact(np.add), Ops.SUB: _exact(np.subtract),
    Ops.MUL: _exact(np.multiply), Ops.FDIV: _exact(np.divide), Ops.FMOD: _exact(np.fmod), Ops.MAX: _float_max,
    Ops.MIN: _float_min, Ops.MULACC: _float_mulacc, Ops.SCALE: _scale, Ops.POW: _smooth(_float_pow),
    **{op: (_exact if of.exact else _smooth)(of.compute) for op, of in FUNCTION_OPS.items()},
}  # fmt: skip

_COMPARE: Final[dict[Ops, Callable[..., Any]]] = {
    Ops.CMPLT: np.less, Ops.CMPLE: np.less_equal, Ops.CMPEQ: np.equal, Ops.CMPNE: np.not_equal
}  # fmt: skip


def apply(op: Ops, dtype: DType, *sources: Array, exact: bool = False) -> Array:
    """An ALU op on carriers. `dtype` is the operands'; `exact` computes an index in Python integers."""
    if op is Ops.WHERE:
        condition, x, y = sources
        return np.asarray(np.where(condition, x, y))
    if op in _COMPARE:
        return np.asarray(_COMPARE[op](*(wide(dtype, s) for s in sources))).astype(np.bool_)
    if dtype.is_index and (exact or any(s.dtype == object for s in sources)):
        whole = [s.astype(object) for s in sources]
        return compact(np.asarray(_EXACT_ARRAYS[op](*whole), dtype=object))
    table = _BOOL if dtype.is_bool else _FLOAT if dtype.is_float or dtype.is_complex else _INTEGER
    function = table.get(op)
    if function is None:
        raise KeyError(f"{op.name} has no meaning on {dtype}")
    return settle(dtype, function(dtype, *(wide(dtype, s) for s in sources)))


__all__ = ["Array", "apply", "carrier", "convert", "load", "settle", "store"]
