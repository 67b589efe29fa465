"""How results are held against each other: by bits, by units in the last place, by the bound of a sum."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from planish import dtypes
from tests.e2e.op_cases import NEAR_ZERO, ULPS

Array = NDArray[Any]


def bits(array: Array) -> Array:
    """Bit patterns, all NaNs alike; four-bit integers by value."""
    dtype = dtypes.from_numpy(array.dtype)
    if dtype.is_float:
        nan = np.asarray(np.nan, np.float32).astype(array.dtype)
        plain = np.where(np.isnan(array.astype(np.float64)), nan, array).astype(array.dtype)
        return np.ascontiguousarray(plain).view(f"u{dtype.itemsize}")
    return array.astype(np.int8 if dtype.is_signed else np.uint8) if dtype.bits == 4 else array


def same(found: Array, wanted: Array, what: str) -> None:
    """Equal shapes, dtypes and bits."""
    assert found.dtype == wanted.dtype, what
    assert found.shape == wanted.shape, what
    a, b = bits(found), bits(wanted)
    wrong = np.argwhere(a != b)
    assert not len(wrong), f"{what}: at {wrong[:5].tolist()}: {found[a != b][:5]}, not {wanted[a != b][:5]}"


def ulps(found: Array, wanted: Array) -> Array:
    """How far apart, in units of the last place of the wanted value; infinite where only one is a number."""
    form = dtypes.float_format(dtypes.from_numpy(wanted.dtype))
    a, b = (v.astype(np.longdouble) for v in (found, wanted))
    with np.errstate(all="ignore"):
        exponent = np.frexp(np.where(np.isfinite(b), b, 1))[1]
        unit = np.ldexp(np.longdouble(1), np.maximum(exponent - form.precision, form.least))
        distance = np.where(np.isfinite(a) & np.isfinite(b), abs(a - b) / unit, np.inf)
    alike = (a == b) & (np.signbit(a) == np.signbit(b)) | (np.isnan(a) & np.isnan(b))
    return np.where(alike, 0, distance).astype(np.float64)


def close(name: str, found: Array, wanted: Array, what: str) -> None:
    """Within the bound of a function of floats; the reference itself is rounded, hence one more."""
    dtype = dtypes.from_numpy(wanted.dtype)
    bound = ULPS[name] + 1 if dtype.bits >= 32 else 1
    distance = ulps(found, wanted)
    if name in NEAR_ZERO:
        eps = 2.0 ** (1 - dtypes.float_format(dtype).precision)
        with np.errstate(all="ignore"):
            absolute = abs(found.astype(np.longdouble) - wanted.astype(np.longdouble))
        distance = np.where(absolute <= 16 * eps, 0, distance)
    worst = distance.max(initial=0)
    far = distance > bound
    assert worst <= bound, f"{what}: {worst} ULP; {found[far][:4]}, not {wanted[far][:4]}"


def nearly(found: Array, wanted: Array, terms: float, what: str) -> None:
    """Sums and products of few numbers of size one: terms · eps of the dtype."""
    eps = 2.0 ** (1 - dtypes.float_format(dtypes.from_numpy(wanted.dtype)).precision)
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    with np.errstate(all="ignore"):
        good = (a == b) | (np.isnan(a) & np.isnan(b)) | (abs(a - b) <= terms * eps * (1 + abs(b)))
    assert good.all(), f"{what}: {found[~good][:4]}, not {wanted[~good][:4]}"


def held(name: str, found: Array, expected: Array, terms: float, what: str) -> None:
    """A result within what its op promises."""
    assert found.shape == expected.shape, what
    assert found.dtype == expected.dtype, what
    if name in ULPS and dtypes.from_numpy(expected.dtype).is_float:
        close(name, found, expected, what)
    elif terms:
        nearly(found, expected, terms, what)
    else:
        same(found, expected, what)
