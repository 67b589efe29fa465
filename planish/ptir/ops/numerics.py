"""Arithmetic on NumPy arrays with the meaning of docs/semantics.md: what every `evaluate` is made of.

Promises: one rounding per result (never through an intermediate format), saturating float → integer
conversion, a total order in which -0 < +0 and NaN is extreme, and no warnings or exceptions for any value.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numpy as np

from planish import dtypes
from planish.dtypes import DType
from planish.ptir.ops.literal import Array
from planish.scalars import conversion

_P = ParamSpec("_P")
_R = TypeVar("_R")


def quiet(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Division by zero, overflow and NaN are values here, not events: silence NumPy's warnings about them."""

    @functools.wraps(function)
    def silent(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        with np.errstate(all="ignore"):
            return function(*args, **kwargs)

    return silent


def dtype_of(array: Array) -> DType:
    return dtypes.from_numpy(array.dtype)


def part_dtype(dtype: DType) -> DType:
    """The float type of one part of a complex number; any other type is its own part."""
    return {dtypes.complex64: dtypes.float32, dtypes.complex128: dtypes.float64}.get(dtype, dtype)


def accumulator(dtype: DType) -> DType:
    """The dtype in which sums and products of `dtype` run (semantics 6.1)."""
    return dtypes.float32 if dtype.is_float and dtype.bits < 32 else dtype


@quiet
def widen(array: Array) -> Array:
    """The same values in a type NumPy computes in: narrow floats as float32, 4-bit integers as 8-bit ones."""
    dtype = dtype_of(array)
    if dtype.is_float and dtype.bits < 32:
        return array.astype(np.float32)
    if dtype.is_int and dtype.bits < 8:
        return array.astype(np.int8 if dtype.is_signed else np.uint8)
    return array


@quiet
def as_float64(array: Array) -> Array:
    """Reals as float64, complex numbers as complex128: enough to round float32 results once."""
    return array.astype(np.complex128 if dtype_of(array).is_complex else np.float64)


# --- conversions ------------------------------------------------------------------------------------------


@quiet
def convert(array: Array, target: DType) -> Array:
    """`cast` (semantics section 5)."""
    source = dtype_of(array)
    if source is target:
        return array
    values = conversion.convert(conversion.load(array, source), source, target)
    return np.asarray(conversion.store(values, target))


def bits_of(array: Array) -> Array:
    """The bits as an unsigned integer array of the same width (four-bit integers in the low nibble)."""
    dtype = dtype_of(array)
    if dtype.bits == 4:
        return array.astype(np.int8).view(np.uint8) & np.uint8(15)
    return np.ascontiguousarray(array).view(f"u{dtype.itemsize}").reshape(array.shape)


def from_bits(bits: Array, dtype: DType) -> Array:
    """The inverse of `bits_of`; bits beyond the width are dropped."""
    if dtype.bits == 4:
        return bits.astype(dtype.numpy)
    narrow = np.ascontiguousarray(bits.astype(f"u{dtype.itemsize}"))
    return narrow.view(dtype.numpy).reshape(bits.shape)


# --- order ------------------------------------------------------------------------------------------------


def order_key(array: Array, *, nan_high: bool = True, zeros_equal: bool = False) -> Array:
    """Integers that compare as the values do: -0 < +0 (or equal), NaN above or below everything."""
    dtype = dtype_of(array)
    if dtype.is_bool:
        return array.astype(np.uint8)
    values = widen(array)
    if not dtype.is_float:
        return values
    integer = np.int64 if values.dtype == np.float64 else np.int32
    info = np.iinfo(integer)
    if zeros_equal:
        values = np.where(values == 0, np.zeros((), values.dtype), values)
    bits: Array = np.ascontiguousarray(values).view(integer).reshape(values.shape)
    key = np.where(bits < 0, bits ^ info.max, bits)
    return np.where(np.isnan(values), info.max if nan_high else info.min, key).astype(integer)


def from_order_key(key: Array, dtype: DType) -> Array:
    """The values again (any NaN comes back as some NaN)."""
    if not dtype.is_float:
        return key.astype(dtype.numpy)
    info = np.iinfo(key.dtype)
    bits = np.where(key < 0, key ^ info.max, key).astype(key.dtype)
    wide = np.ascontiguousarray(bits).view(np.float64 if key.dtype == np.int64 else np.float32)
    return convert(wide.reshape(key.shape), dtype)


def maximum(left: Array, right: Array) -> Array:
    key = np.maximum(order_key(left), order_key(right))
    return from_order_key(np.asarray(key), dtype_of(left))


def minimum(left: Array, right: Array) -> Array:
    key = np.minimum(order_key(left, nan_high=False), order_key(right, nan_high=False))
    return from_order_key(np.asarray(key), dtype_of(left))


def lowest(dtype: DType) -> bool | int | float:
    """The identity of max."""
    return bool(dtype.min) if dtype.is_bool else (dtype.min if dtype.min is not None else 0)


def highest(dtype: DType) -> bool | int | float:
    """The identity of min."""
    return bool(dtype.max) if dtype.is_bool else (dtype.max if dtype.max is not None else 0)


def full(shape: tuple[int, ...], value: complex, dtype: DType) -> Array:
    """An array filled with a constant of the dtype."""
    return np.full(shape, np.asarray(dtype.const(value)).astype(dtype.numpy), dtype.numpy)


# --- neighbours ------------------------------------------------------------------------------------------


def next_after(left: Array, right: Array) -> Array:
    """One representable step from `left` toward `right`, in any float format."""
    dtype = dtype_of(left)
    a, b = widen(left), widen(right)
    bits = bits_of(left).astype(np.int64) if dtype.bits < 64 else bits_of(left).view(np.int64)
    sign = np.int64(-(1 << 63)) if dtype.bits == 64 else np.int64(1 << (dtype.bits - 1))
    from_zero = np.where(b < 0, sign | np.int64(1), np.int64(1))
    away = (b > a) == (a > 0)
    stepped = np.where(a == 0, from_zero, np.where(away, bits + 1, bits - 1))
    result = from_bits(stepped.astype(np.int64).view(np.uint64), dtype)
    unordered = np.isnan(a) | np.isnan(b)
    nan = np.asarray(np.nan, np.float32).astype(dtype.numpy)
    return np.where(unordered, nan, np.where(a == b, right, result)).astype(dtype.numpy)
