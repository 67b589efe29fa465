"""What integer ops and powers mean, on NumPy arrays in carriers: for whichever IR has them (docs/semantics.md 2).

Results are not brought into the dtype yet: `conversion.settle` wraps them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from planish.dtypes import DType
from planish.scalars.record import Array

Function = Callable[..., Array]
"""Called with the dtype and the operands."""
_INDEX_BITS: Final = 64


def _width(dtype: DType) -> int:
    """The bits that shifts and bit counts see."""
    return dtype.bits or _INDEX_BITS


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
    inside = (y >= 0) & (y < _width(d))
    return np.asarray(np.where(inside, x << np.where(inside, y, y.dtype.type(0)), x.dtype.type(0)))


def _int_shr(d: DType, x: Array, y: Array) -> Array:
    inside = (y >= 0) & (y < _width(d))
    fill = -(x < 0).astype(np.int8)
    return np.asarray(np.where(inside, x >> np.where(inside, y, y.dtype.type(0)), fill.astype(x.dtype)))


def _pattern(d: DType, x: Array) -> Array:
    """The bits as uint64."""
    mask = (1 << _width(d)) - 1
    return np.asarray(x.astype(np.int64) if d.is_signed or d.is_index else x).astype(np.uint64) & np.uint64(
        mask
    )


def _int_popcount(d: DType, x: Array) -> Array:
    return np.asarray(np.bitwise_count(_pattern(d, x)))


def _int_clz(d: DType, x: Array) -> Array:
    bits = _pattern(d, x)
    for distance in (1, 2, 4, 8, 16, 32):
        bits = bits | (bits >> np.uint64(distance))
    return np.asarray(_width(d) - np.bitwise_count(bits).astype(np.int64))


_ROTATIONS: Final = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY: Final = np.uint32(0x1BD11BDA)


def threefry2x32(key: Sequence[Array] | Array, x0: Array, x1: Array) -> tuple[Array, Array]:
    """Encipher the blocks (x0, x1) of uint32 under a key of two uint32: Threefry-2x32 with 20 rounds (semantics 11.1)."""
    schedule = [key[0], key[1], key[0] ^ key[1] ^ _PARITY]
    x0 = x0 + schedule[0]
    x1 = x1 + schedule[1]
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            x0 = x0 + x1
            x1 = (x1 << np.uint32(rotation)) | (x1 >> np.uint32(32 - rotation))
            x1 = x1 ^ x0
        x0 = x0 + schedule[(group + 1) % 3]
        x1 = x1 + schedule[(group + 2) % 3] + np.uint32(group + 1)
    return x0, x1


def _words(x: Array) -> tuple[Array, Array]:
    """The halves of uint64, the high one first."""
    return (x >> np.uint64(32)).astype(np.uint32), x.astype(np.uint32)


def _threefry(d: DType, x: Array, key: Array) -> Array:
    """The high half of counter, key and result is word 0."""
    with np.errstate(over="ignore"):
        high, low = threefry2x32(_words(key), *_words(x))
    return np.asarray(high.astype(np.uint64) << np.uint64(32) | low)


def plain(function: Callable[..., Any]) -> Function:
    """A NumPy function that does not care about the dtype."""
    return lambda d, *x: np.asarray(function(*x))


def multiply_add(x: Array, y: Array, z: Array) -> Array:
    return np.asarray(x * y + z)


INTEGER: Final[dict[str, Function]] = {
    "neg": plain(np.negative), "not": plain(np.invert), "abs": plain(np.abs),
    "popcount": _int_popcount, "clz": _int_clz, "add": plain(np.add), "sub": plain(np.subtract),
    "mul": plain(np.multiply), "mulacc": plain(multiply_add), "floordiv": _int_floordiv,
    "floormod": _int_floormod, "truncdiv": _int_truncdiv, "truncmod": _int_truncmod, "pow": _int_pow,
    "max": plain(np.maximum), "min": plain(np.minimum), "and": plain(np.bitwise_and),
    "or": plain(np.bitwise_or), "xor": plain(np.bitwise_xor), "shl": _int_shl, "shr": _int_shr,
    "threefry": _threefry,
}  # fmt: skip


def float_power(x: Array, y: Array) -> Array:
    power = np.power(x, y)
    if np.iscomplexobj(power):
        return np.asarray(power)
    # A lone exponent of 0.5 makes NumPy take the square root, which differs from a power at -0 and -inf.
    return np.where((y == 0.5) & ((x == 0) | np.isinf(x)), np.abs(x), power)
