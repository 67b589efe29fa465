"""One type of attribute at a time: how its values are written and read as text and as JSON.

`Codec` holds both forms of a type and whether a value is of it; `fields` puts codecs together to tuples, unions and
records, and has the table of all forms.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import Final, NoReturn, TypeAlias, cast

import numpy as np

from planish.dtypes import DType
from planish.errors import ParseError
from planish.ptir.literal_text import (
    MAX_LISTED,
    BadLiteral,
    data_from_words,
    decode_bytes,
    element_words,
    encode_bytes,
    float_text,
    literal_from_data,
    literal_text,
    python_float,
)
from planish.ptir.ops.literal import Literal
from planish.ptir.reader import PtirReader
from planish.ptir.types import Dim, Quant, TensorType

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Dims: TypeAlias = Mapping[str, Dim]


@dataclasses.dataclass(frozen=True, slots=True)
class Codec:
    """One type of value: both forms, and whether a value is of the type."""

    write: Callable[[object], str]
    read: Callable[[PtirReader], object]
    dump: Callable[[object], Json]
    load: Callable[[Json, Dims, str], object]
    """From JSON, given the declared sizes and the path for messages."""
    holds: Callable[[object], bool]


def bad_json(path: str, message: str) -> NoReturn:
    raise ParseError(f"{path}: {message}")


def of_kind(value: Json, kind: type, what: str, path: str) -> Json:
    """The value, which must be of that JSON kind (a bool is no number)."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        bad_json(path, f"expected {what}, found {json.dumps(value)[:40]}")
    return value


# --- single values ----------------------------------------------------------------------------------------


def _read_bool(reader: PtirReader) -> bool:
    start = reader.position
    word = reader.word("true", "false")
    if word not in ("true", "false"):
        reader.position = start
        reader.unexpected("true", "false")
    return word == "true"


def _dump_float(value: object) -> Json:
    number = cast("float", value)
    return number if np.isfinite(number) else {"float": float_text(number)}


def load_float(value: Json, dims: Dims, path: str) -> float:
    if isinstance(value, dict) and set(value) == {"float"}:
        try:
            return python_float(cast("str", of_kind(value["float"], str, "a string", path)))
        except ValueError as error:
            bad_json(path, str(error))
    if isinstance(value, bool) or not isinstance(value, int | float):
        bad_json(path, f"expected a number, found {json.dumps(value)[:40]}")
    return float(value)


def _parsed(text: Json, read: Callable[[PtirReader], object], dims: Dims, path: str) -> object:
    """What a string inside JSON means in the text form."""
    reader = PtirReader(cast("str", of_kind(text, str, "a string", path)), dims=dims)
    try:
        value = read(reader)
        if reader.peek():
            reader.unexpected("the end")
    except ParseError as error:
        error.message = f"{path}: {error.message}"
        raise
    return value


def _as_text(read: Callable[[PtirReader], object]) -> Callable[[Json, Dims, str], object]:
    return lambda value, dims, path: _parsed(value, read, dims, path)


def _load_dim(value: Json, dims: Dims, path: str) -> object:
    if isinstance(value, str):
        return _parsed(value, PtirReader.dim, dims, path)
    return of_kind(value, int, "an integer or a dimension", path)


def _read_none(reader: PtirReader) -> None:
    if not reader.take_word("none"):
        reader.unexpected("none")


def _simple(kind: type) -> Callable[[object], bool]:
    return lambda value: type(value) is kind


BOOL: Final = Codec(
    lambda value: "true" if value else "false",
    _read_bool,
    bool,
    lambda value, dims, path: of_kind(value, bool, "true or false", path),
    _simple(bool),
)
INT: Final = Codec(
    str,
    PtirReader.integer,
    lambda value: cast("int", value),
    lambda value, dims, path: of_kind(value, int, "an integer", path),
    _simple(int),
)
FLOAT: Final = Codec(
    lambda value: float_text(cast("float", value)),
    PtirReader.floating,
    _dump_float,
    load_float,
    _simple(float),
)
STR: Final = Codec(
    json.dumps,
    PtirReader.string,
    lambda value: cast("str", value),
    lambda value, dims, path: of_kind(value, str, "a string", path),
    _simple(str),
)
NONE: Final = Codec(
    lambda value: "none",
    _read_none,
    lambda value: None,
    lambda value, dims, path: of_kind(value, type(None), "null", path),
    lambda value: value is None,
)
DTYPE: Final = Codec(
    lambda value: cast("DType", value).short,
    PtirReader.dtype,
    lambda value: cast("DType", value).short,
    _as_text(PtirReader.dtype),
    lambda value: isinstance(value, DType),
)
DIM: Final = Codec(
    str,
    PtirReader.dim,
    lambda value: value if isinstance(value, int) else str(value),
    _load_dim,
    lambda value: type(value) in (int, Dim),
)
TYPE: Final = Codec(str, PtirReader.tensor_type, str, _as_text(PtirReader.tensor_type), _simple(TensorType))


def _write_quant(value: object) -> str:
    quant = cast("Quant", value)
    scales = ", ".join(float_text(s) for s in quant.scale)
    zeros = ", ".join(str(z) for z in quant.zero_point)
    axis = "" if quant.axis is None else f", axis={quant.axis}"
    return f"quant<{quant.expressed.short}, scale=[{scales}], zero_point=[{zeros}]{axis}>"


QUANT: Final = Codec(_write_quant, PtirReader.quant, _write_quant, _as_text(PtirReader.quant), _simple(Quant))


# --- literals ---------------------------------------------------------------------------------------------


def _write_literal(value: object) -> str:
    literal = cast("Literal", value)
    sizes = "x".join(str(size) for size in literal.shape)
    head = f"{literal.dtype.short}, {sizes}" if sizes else literal.dtype.short
    return f"dense<{head}, {literal_text(literal)}>"


def _read_literal(reader: PtirReader) -> Literal:
    if not reader.take_word("dense"):
        reader.unexpected("dense<…>")
    reader.expect("<")
    dtype = reader.dtype()
    reader.expect(",")
    shape = reader.static_dims()
    literal = reader.literal(dtype, shape)
    reader.expect(">")
    return literal


def dump_literal(value: object) -> Json:
    """The JSON form of tensor data."""
    literal = cast("Literal", value)
    record: dict[str, Json] = {"dtype": literal.dtype.short, "shape": list(literal.shape)}
    if literal.data.size > MAX_LISTED:
        record["base64"] = encode_bytes(literal.data, literal.dtype)
        return record
    words = element_words(literal.data, literal.dtype)
    items: list[Json] = [_json_element(word, literal.dtype) for word in words]
    if literal.dtype.is_complex:
        items = [[re, im] for re, im in zip(items[::2], items[1::2], strict=True)]
    if literal.splat:
        record["splat"] = items[0]
    else:
        record["data"] = items
    return record


def _json_element(word: str, dtype: DType) -> Json:
    if dtype.is_bool:
        return word == "true"
    if dtype.is_int:
        return int(word)
    return word if "n" in word else float(word)  # inf and nan stay words


def load_literal(value: Json, dims: Dims, path: str) -> Literal:
    """Tensor data from its JSON form."""
    record = cast("dict[str, Json]", of_kind(value, dict, "an object", path))
    dtype = cast("DType", DTYPE.load(record.get("dtype"), dims, f"{path}.dtype"))
    sizes = cast("list[Json]", of_kind(record.get("shape"), list, "an array", f"{path}.shape"))
    shape = tuple(cast("int", of_kind(size, int, "an integer", f"{path}.shape")) for size in sizes)
    if any(size < 0 for size in shape):
        bad_json(f"{path}.shape", "a size is negative")
    count = int(np.prod([*shape, 1], dtype=object))
    try:
        if "base64" in record:
            text = cast("str", of_kind(record["base64"], str, "a string", f"{path}.base64"))
            return literal_from_data(decode_bytes(text, dtype, count), dtype, shape, splat=False)
        splat = "splat" in record
        items = (
            [record["splat"]]
            if splat
            else cast("list[Json]", of_kind(record.get("data"), list, "an array", f"{path}.data"))
        )
        words = [word for item in items for word in _words_of(item, dtype, path)]
        data = data_from_words(words, dtype)
        if len(data) != (1 if splat else count):
            bad_json(path, f"{len(data)} elements do not have shape {shape}")
        return literal_from_data(data, dtype, shape, splat=splat)
    except BadLiteral as error:
        bad_json(path, str(error))


def _words_of(item: Json, dtype: DType, path: str) -> list[str]:
    if dtype.is_complex:
        parts = cast("list[Json]", of_kind(item, list, "a pair", path))
        if len(parts) != 2:
            bad_json(path, "a complex number is a pair")
        return [part if isinstance(part, str) else str(part) for part in parts]
    if isinstance(item, bool):
        return ["true" if item else "false"]
    if isinstance(item, str):
        return [item]
    return [str(of_kind(item, int, "an integer", path) if dtype.is_int else item)]


LITERAL: Final = Codec(_write_literal, _read_literal, dump_literal, load_literal, _simple(Literal))
