"""Numbers and tensor data as words: exact in every dtype, and as short as that allows.

A float is the shortest decimal that rounds to it in its dtype, `inf`, `-inf` or `nan`; a NaN with other bits
than the usual one shows them, `nan(0x7fc00001)`. Data of more than `MAX_LISTED` elements is base64 of its
little-endian bytes in row-major order, one byte per element for 4-bit integers.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Final

import numpy as np

from planish import dtypes
from planish.dtypes import DType
from planish.errors import DTypeError
from planish.ptir.ops.literal import Array, Literal, Scalar
from planish.ptir.ops.numerics import part_dtype

MAX_LISTED: Final = 64
"""Data with more elements than this is printed as bytes."""

NUMBER_FORM: Final = re.compile(
    r"[-+]?(?:inf\b|nan\b(?:\(0x[0-9a-fA-F]+\))?|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)"
)
INTEGER_FORM: Final = re.compile(r"[-+]?[0-9]+\Z")
_MAX_DIGITS: Final = 1000
"""More digits than any exact double needs; Python refuses to convert far longer numbers."""


class BadLiteral(ValueError):
    """Words that are no number or no data of the dtype asked for; the message says why."""


# --- floats -----------------------------------------------------------------------------------------------


@cache
def _nan_bits(dtype: DType) -> int:
    """The bits of the NaN that is printed as plain `nan`."""
    return int.from_bytes(np.array([math.nan]).astype(dtype.numpy).tobytes(), "little")


@lru_cache(maxsize=4096)
def _finite_text(value: float, dtype: DType) -> str:
    if dtype is dtypes.float64:
        return repr(value)
    least = 1
    if dtype is dtypes.float32:  # no shorter number is this one, so that there is nothing to try below
        digits_of = np.format_float_scientific(np.float32(value), trim="-").partition("e")[0]
        least = sum(map(str.isdigit, digits_of))
    for digits in range(least, 18):
        short = float(f"{value:.{digits}g}")
        if dtype.const(short) == value:
            return repr(short)
    return repr(value)


def float_text(value: float, dtype: DType = dtypes.float64, bits: int | None = None) -> str:
    """The word of one float; `bits` are those of the dtype and matter for NaN alone."""
    if math.isnan(value):
        if bits is None:
            bits = int.from_bytes(np.array([value]).tobytes(), "little")
        return "nan" if bits == _nan_bits(dtype) else f"nan({bits:#x})"
    if value == 0:
        return "-0.0" if math.copysign(1, value) < 0 else "0.0"
    return repr(value) if math.isinf(value) else _finite_text(value, dtype)


def parse_float(word: str, dtype: DType = dtypes.float64) -> tuple[float, int | None]:
    """The value of a word rounded to the dtype, and the bits if it is a NaN that names them."""
    if word.startswith(("nan(", "-nan(", "+nan(")):
        if word[0] != "n":
            raise BadLiteral("a NaN that shows its bits has no sign of its own")
        bits = int(word[4:-1], 16)
        if bits.bit_length() > dtype.bits or not _is_nan(bits, dtype):
            raise BadLiteral(f"{bits:#x} are not the bits of a NaN of dtype {dtype.short}")
        return math.nan, bits
    if len(word) > _MAX_DIGITS:
        raise BadLiteral(f"this number has more than {_MAX_DIGITS} digits")
    value = dtype.const(float(word))
    return float(value) if not isinstance(value, complex) else value.real, None


def _is_nan(bits: int, dtype: DType) -> bool:
    data = np.frombuffer(bits.to_bytes(dtype.itemsize, "little"), dtype.numpy)
    with np.errstate(invalid="ignore"):  # asking about a signalling NaN
        return bool(np.isnan(data)[0])


def parse_int(word: str) -> int:
    if len(word) > _MAX_DIGITS:
        raise BadLiteral(f"this integer has more than {_MAX_DIGITS} digits")
    return int(word)


def python_float(word: str) -> float:
    """A Python float from a word, the bits of a NaN included."""
    value, bits = parse_float(word)
    return value if bits is None else float(np.frombuffer(bits.to_bytes(8, "little"), np.float64)[0])


# --- elements ---------------------------------------------------------------------------------------------


def element_words(data: Array, dtype: DType) -> list[str]:
    """One word per element in row-major order; two per complex number."""
    flat = np.ascontiguousarray(data).reshape(-1)
    if dtype.is_bool:
        return ["true" if item else "false" for item in flat.tolist()]
    if dtype.is_int:
        return [str(item) for item in flat.astype(np.int64 if dtype.is_signed else np.uint64).tolist()]
    part = part_dtype(dtype)
    parts = flat.view(part.numpy)
    bits = parts.view(f"u{part.itemsize}").tolist()
    with np.errstate(invalid="ignore"):  # widening a signalling NaN
        values = parts.astype(np.float64).tolist()
    return [float_text(value, part, bit) for value, bit in zip(values, bits, strict=True)]


def data_from_words(words: Sequence[str], dtype: DType) -> Array:
    """The elements that the words mean, one-dimensional; the inverse of `element_words`."""
    if dtype.is_bool:
        return np.array([_parse_bool(word) for word in words], np.bool_)
    if dtype.is_int:
        wide = [_parse_element(word, dtype) for word in words]
        return np.array(wide, np.int64 if dtype.is_signed else np.uint64).astype(dtype.numpy)
    part = part_dtype(dtype)
    pairs = [_parse_part(word, part) for word in words]
    data: Array = np.array([value for value, _ in pairs], np.float64).astype(part.numpy)
    raw = data.view(f"u{part.itemsize}")
    for position, (_, bits) in enumerate(pairs):
        if bits is not None:
            raw[position] = bits
    return data.view(dtype.numpy)


def _parse_bool(word: str) -> bool:
    if word not in ("true", "false"):
        raise BadLiteral(f"{word} is not true or false")
    return word == "true"


def _parse_element(word: str, dtype: DType) -> Scalar:
    if not INTEGER_FORM.match(word):
        raise BadLiteral(f"{word} is not an integer")
    try:
        return dtype.const(parse_int(word))
    except DTypeError:
        raise BadLiteral(f"{word} does not fit dtype {dtype.short}") from None


def _parse_part(word: str, dtype: DType) -> tuple[float, int | None]:
    if not NUMBER_FORM.fullmatch(word):
        raise BadLiteral(f"{word} is not a number of dtype {dtype.short}")
    return parse_float(word, dtype)


# --- bytes ------------------------------------------------------------------------------------------------


def encode_bytes(data: Array, dtype: DType) -> str:
    """Base64 of the elements in row-major order."""
    flat = np.ascontiguousarray(data).reshape(-1)
    if dtype.bits == 4:
        flat = flat.astype(np.int8 if dtype.is_signed else np.uint8)
    part = part_dtype(dtype)
    if not dtype.is_bool and part.itemsize > 1:
        flat = flat.view(part.numpy).view(f"u{part.itemsize}")
        flat = flat.astype(flat.dtype.newbyteorder("<"), copy=False)
    return base64.b64encode(flat.tobytes()).decode("ascii")


def decode_bytes(text: str, dtype: DType, count: int, *, hexadecimal: bool = False) -> Array:
    """`count` elements, one-dimensional; the inverse of `encode_bytes`."""
    try:
        raw = bytes.fromhex(text) if hexadecimal else base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        raise BadLiteral(f"these are no {'hexadecimal digits' if hexadecimal else 'base64 data'}") from None
    if len(raw) != count * dtype.itemsize:
        raise BadLiteral(f"{len(raw)} bytes are not {count} elements of dtype {dtype.short}")
    if dtype.bits == 4:
        narrow = np.frombuffer(raw, np.int8 if dtype.is_signed else np.uint8)
        if count and (narrow.min() < (dtype.min or 0) or narrow.max() > (dtype.max or 0)):
            raise BadLiteral(f"a byte lies outside dtype {dtype.short}")
        return narrow.astype(dtype.numpy)
    if dtype.is_bool:
        if not set(raw) <= {0, 1}:
            raise BadLiteral("a byte is not 0 or 1")
        return np.frombuffer(raw, np.bool_)
    part = part_dtype(dtype)
    words = np.frombuffer(raw, f"<u{part.itemsize}").astype(f"=u{part.itemsize}")
    return words.view(part.numpy).view(dtype.numpy)


# --- literals ---------------------------------------------------------------------------------------------


def literal_text(literal: Literal) -> str:
    """The data of a literal: `1.0` for a splat, `[[1, 2], [3, 4]]`, or `base64"…"`."""
    dtype = literal.dtype
    data = literal.data
    if data.size > MAX_LISTED:
        return f'base64"{encode_bytes(data, dtype)}"'
    words = element_words(data, dtype)
    if dtype.is_complex:
        words = [f"({re}, {im})" for re, im in zip(words[::2], words[1::2], strict=True)]
    if literal.splat:
        return words[0]
    if not words:
        return "[]"
    for size in reversed(literal.shape):
        words = [f"[{', '.join(words[i : i + size])}]" for i in range(0, len(words), size)]
    return words[0]


def literal_from_data(data: Array, dtype: DType, shape: tuple[int, ...], *, splat: bool) -> Literal:
    """A literal from elements in row-major order; a single one of them stands for all if it is a splat."""
    if splat:
        return Literal(data.reshape(()), dtype=dtype).with_shape(shape)
    return Literal(data.reshape(shape), dtype=dtype)
