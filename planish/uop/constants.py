"""Constants as a table tells them apart: exact in their dtype, and equal where they have the same bits.

Lanes of a register tile are hundreds of integers, which are exact as they stand: those are looked at together, not one by one.
"""

from __future__ import annotations

import math
import struct
from typing import Final, cast

from planish.dtypes import DType
from planish.uop.operators import Number

_ONLY_INTEGERS: Final = {int}


def identity_of(value: object) -> object:
    """A hashable form in which distinct constants differ and equal ones are equal."""
    if type(value) is float:
        return "nan" if math.isnan(value) else struct.pack("<d", value)
    if type(value) is complex:
        return (identity_of(value.real), identity_of(value.imag))
    return value


def _are_exact(dtype: DType, lanes: tuple[Number, ...]) -> bool:
    """Whether numbers are integers that a scalar type has."""
    if not dtype.is_integral or set(map(type, lanes)) != _ONLY_INTEGERS:
        return False
    low, high = dtype.min, dtype.max
    if low is None or high is None:
        return dtype.is_index
    integers = cast("tuple[int, ...]", lanes)
    return low <= min(integers) and max(integers) <= high


def exact_lanes(dtype: DType, lanes: tuple[Number, ...]) -> tuple[tuple[Number, ...], tuple[object, ...]]:
    """The numbers of a constant per lane, exact in a scalar type, and their identities."""
    if _are_exact(dtype, lanes):
        return lanes, lanes
    exact = tuple([dtype.const(value) for value in lanes])
    return exact, tuple(map(identity_of, exact))


def alike(dtype: DType, lanes: tuple[Number, ...]) -> bool:
    """Whether all lanes are one constant of a scalar type; of none at all, no."""
    if not lanes:
        return False
    if _are_exact(dtype, lanes):
        return lanes.count(lanes[0]) == len(lanes)
    return len({identity_of(dtype.const(value)) for value in lanes}) == 1
