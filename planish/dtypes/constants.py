"""Constants: for each kind of type, the plain Python number that a value is, rounded or refused."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from planish.dtypes.float_formats import BINARY32, BINARY64, FloatFormat
from planish.dtypes.kinds import Kind, Scalar
from planish.errors import DTypeError

if TYPE_CHECKING:
    from planish.dtypes.types import DType

_SINGLE = struct.Struct("f")
NUMBERS: dict[np.dtype[np.generic], Kind] = {}
"""The kind of each NumPy type whose scalars are taken by their value; `types` fills it in."""


def _no_constant(dtype: DType, value: object, remedy: str | None = None) -> NoReturn:
    raise DTypeError(f"{value!r} is not a constant of dtype {dtype.short}", remedy=remedy)


def _python_value(dtype: DType, value: object) -> Scalar:
    """A plain Python number. NumPy and ml_dtypes scalars widen exactly; anything else is an error."""
    if isinstance(value, np.generic):
        # np.float64 and np.complex128 subclass float and complex, so this test comes first.
        if isinstance(value, np.longdouble | np.clongdouble):
            _no_constant(dtype, value, "extended precision would be rounded twice: convert to float64 first")
        source = NUMBERS.get(value.dtype)
        if source is None:
            _no_constant(dtype, value)
        if source is Kind.BOOL:
            return bool(value)
        if source is Kind.COMPLEX:
            return complex(value)
        return float(value) if source is Kind.FLOAT else int(value)
    if isinstance(value, bool | int | float | complex):
        return value
    _no_constant(dtype, value, "give a bool, int, float or complex")


def _integer_value(dtype: DType, given: object) -> int:
    if type(given) is int:  # by far the most frequent
        return given
    value = _python_value(dtype, given)
    if isinstance(value, complex) or (isinstance(value, float) and not value.is_integer()):
        _no_constant(dtype, given, "cast explicitly to drop a fraction or an imaginary part")
    return int(value)


def float_format(dtype: DType) -> FloatFormat:
    """The format of a float type, or of one part of a complex type."""
    if dtype._format is None:
        raise DTypeError(f"dtype {dtype.short} is not a float or complex type")
    return dtype._format


def _void_const(dtype: DType, value: object) -> NoReturn:
    _no_constant(dtype, value)


def _index_const(dtype: DType, value: object) -> int:
    return _integer_value(dtype, value)


def _int_const(dtype: DType, value: object) -> int:
    number = _integer_value(dtype, value)
    low, high = dtype.min, dtype.max
    if low is None or high is None or not low <= number <= high:
        _no_constant(dtype, value, f"its range is {low} .. {high}; use wrap() for modular arithmetic")
    return number


def _bool_const(dtype: DType, value: object) -> bool:
    if type(value) is bool:
        return value
    number = _integer_value(dtype, value)
    if number not in (0, 1):
        _no_constant(dtype, value, "a bool is 0 or 1; compare with 0 to test a number")
    return number == 1


def _float_const(dtype: DType, value: object) -> float:
    form = float_format(dtype)
    if type(value) is float and not math.isnan(value):
        # Folding makes these two by the thousand, and the machine rounds them as well as we do.
        if form is BINARY64:
            return value
        if form is BINARY32 and abs(value) <= form.largest:
            rounded: float = _SINGLE.unpack(_SINGLE.pack(value))[0]
            return rounded
    number = _python_value(dtype, value)
    if isinstance(number, complex):
        _no_constant(dtype, value, "take its real part explicitly")
    return form.round(number)


def _complex_const(dtype: DType, value: object) -> complex:
    number = _python_value(dtype, value)
    part = float_format(dtype)
    if isinstance(number, complex):
        return complex(part.round(number.real), part.round(number.imag))
    return complex(part.round(number), 0.0)


CONSTANTS: dict[Kind, Callable[[DType, object], Scalar]] = {
    Kind.VOID: _void_const,
    Kind.BOOL: _bool_const,
    Kind.INT: _int_const,
    Kind.UINT: _int_const,
    Kind.FLOAT: _float_const,
    Kind.COMPLEX: _complex_const,
    Kind.INDEX: _index_const,
}
"""By kind: the constant of a type that a value is."""
