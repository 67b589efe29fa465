"""Numbers of every dtype on NumPy arrays: what carries them, and how one becomes another (docs/semantics.md 5).

Values travel in *carriers*: arrays that hold the dtype's values exactly. A 4-bit integer is carried by 8 bits, an index
by int64 or, where its values may be larger, by Python integers in an object array, everything else by its own NumPy
type (so moving data keeps every bit of it, NaNs included).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from planish import dtypes
from planish.dtypes import DType
from planish.scalars.record import Array

_WIDE_RANGE: Final = frozenset({dtypes.bfloat16, dtypes.tfloat32})
"""Narrow floats in which every integer is finite."""
_INT64: Final = np.iinfo(np.int64)


def carrier(dtype: DType) -> np.dtype[Any]:
    """The NumPy dtype that values travel in (an index: usually)."""
    if dtype.is_index:
        return np.dtype(np.int64)
    if dtype.bits == 4:
        return np.dtype(np.int8 if dtype.is_signed else np.uint8)
    return dtype.numpy


def wide(dtype: DType, values: Array) -> Array:
    """What an op computes with: narrow floats as float32."""
    return values.astype(np.float32) if dtype.is_float and dtype.bits < 32 else values


def settle(dtype: DType, values: Array) -> Array:
    """Results of an op brought into the dtype: integers wrap, narrow floats are rounded once."""
    if dtype.is_index:
        return compact(values)
    if dtype.bits == 4:
        low = values.astype(np.int64) & 15
        return (low - ((low & 8) << 1) if dtype.is_signed else low).astype(carrier(dtype))
    if dtype.is_float and dtype.bits < 32:
        return _to_narrow(values, dtype)
    return values.astype(carrier(dtype), copy=False)


def compact(values: Array) -> Array:
    """An index array, as int64 wherever its values allow."""
    if values.dtype != object:
        return values.astype(np.int64, copy=False)
    fits = all(_INT64.min <= int(v) <= _INT64.max for v in values.ravel())
    return values.astype(np.int64) if fits else values


def _to_narrow(values: Array, dtype: DType) -> Array:
    if values.dtype == np.float64 and dtype is not dtypes.float16:
        values = _to_odd(values)  # ml_dtypes goes through float32, which would round twice
    return _to_tensor32(values) if dtype.scalar is dtypes.tfloat32 else values.astype(dtype.numpy, copy=False)


def _to_tensor32(values: Array) -> Array:
    """float32 values with 13 bits fewer, to nearest, ties to even."""
    single = np.ascontiguousarray(values.astype(np.float32)).reshape(values.shape)
    bits = single.view(np.uint32)
    nudged = bits + np.uint32(0xFFF) + (bits >> np.uint32(13) & np.uint32(1)) & np.uint32(0xFFFFE000)
    quiet = bits & np.uint32(0xFFFFE000) | np.uint32(1 << 22)
    return np.where(np.isnan(single), quiet, nudged).astype(np.uint32).view(np.float32)


def _to_odd(values: Array) -> Array:
    """float64 → float32 toward zero, with the last bit set where something was lost.

    Rounding that to a shorter format ends where rounding the original would.
    """
    nearest = values.astype(np.float32)
    back = nearest.astype(np.float64)
    lost = (back != values) & ~np.isnan(values)
    inward = np.where(np.abs(back) > np.abs(values), np.nextafter(nearest, np.float32(0)), nearest)
    pattern = inward.astype(np.float32).view(np.uint32)
    return np.where(lost, pattern | np.uint32(1), pattern).astype(np.uint32).view(np.float32)


def convert(values: Array, source: DType, target: DType) -> Array:
    """CAST, from carrier to carrier: floats to integers saturate (NaN gives 0), integers wrap, floats round once."""
    if target.is_bool:
        return np.asarray(values != 0).astype(np.bool_)
    if source.is_float and (target.is_int or target.is_index):
        return _float_to_int(values, target)
    if target.is_complex:
        part = dtypes.float32 if target.bits == 64 else dtypes.float64
        real = values if source.is_complex else convert(values, source, part)
        return real.astype(target.numpy)
    values = wide(source, values)
    if target.is_float:
        if source.is_int or source.is_index:
            return _int_to_float(values, target)
        return settle(target, values if not source.is_bool else values.astype(np.float32))
    if values.dtype == object:
        if target.is_index:
            return compact(values)
        wrapped = np.frompyfunc(target.scalar.wrap, 1, 1)(values)
        return np.asarray(wrapped).astype(carrier(target))
    if target.is_index:
        return compact(values.astype(object) if values.dtype == np.uint64 else values)
    return settle(target, values)


def _float_to_int(values: Array, target: DType) -> Array:
    whole = np.trunc(values.astype(np.float64))
    low = int(target.min) if target.min is not None else _INT64.min
    high = int(target.max) if target.max is not None else _INT64.max
    result = np.zeros(whole.shape, np.uint64 if target.is_unsigned else np.int64)
    inside = (whole >= float(low)) & (whole < float(high + 1))
    result[inside] = whole[inside].astype(result.dtype)
    result[whole >= float(high + 1)] = high
    result[whole < float(low)] = low
    return result.astype(carrier(target))


def _int_to_float(values: Array, target: DType) -> Array:
    if values.dtype == object:
        round_once = np.frompyfunc(lambda v: dtypes.float_format(target).round(int(v)), 1, 1)
        return settle(target, np.asarray(round_once(values)).astype(np.float64))
    if target.scalar not in _WIDE_RANGE or values.dtype.itemsize < 4:
        # Wide formats convert directly; in the others everything beyond float32's 24 bits overflows anyway.
        return settle(target, values.astype(np.float32 if target.bits < 32 else carrier(target)))
    if values.dtype.itemsize < 8:
        return settle(target, values.astype(np.float64))
    negative = values < 0
    magnitude = np.where(negative, ~values.astype(np.uint64) + np.uint64(1), values.astype(np.uint64))
    # The low bits only matter as "something is there": fold them into one, and float64 holds the rest exactly.
    low = np.uint64(0xFFF)
    folded = (magnitude & ~low) | (((magnitude & low) != 0).astype(np.uint64) << np.uint64(12))
    exact = np.where(magnitude < np.uint64(1 << 52), magnitude, folded).astype(np.float64)
    return settle(target, np.where(negative, -exact, exact))


def store(values: Array, dtype: DType) -> Array:
    """A carrier as an array of the dtype's own NumPy type; an index stays as it is."""
    return values if dtype.is_index else values.astype(dtype.numpy, copy=False)


def load(values: object, dtype: DType) -> Array:
    """Numbers or an array as a carrier: they must be values of the dtype (floats are rounded to it)."""
    array = np.asarray(values)
    if dtype.is_index:
        return compact(array if array.dtype == object or array.dtype.kind != "u" else array.astype(object))
    if dtype.is_int and array.dtype == object:
        return array.astype(carrier(dtype))
    if dtype.is_float and dtype.bits < 32 and (array.dtype != dtype.numpy or dtype.numpy == np.float32):
        wide = array.astype(np.float64) if array.dtype.kind in "iub" else array
        return settle(dtype, wide if wide.dtype == np.float64 else wide.astype(np.float32))
    return array.astype(carrier(dtype), copy=False)


__all__ = ["carrier", "compact", "convert", "load", "settle", "store", "wide"]
