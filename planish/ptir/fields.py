r"""How attribute records are written and read: derived from the fields of the dataclass and their types.

For every type a field may have there is one `Codec` with both forms, text and JSON; records, tuples and unions
are put together from the codecs of their parts. Adding an op with new attributes needs nothing here.

| type | text | JSON |
|---|---|---|
| `bool`, `int`, `None` | `true`, `3`, `none` | `true`, `3`, `null` |
| `float` | `0.5`, `inf`, `nan(0x…)` | a number, or `{"float": "inf"}` |
| `str` | `"text"` | `"text"` |
| `tuple[…]` | `[1, 2]` | an array |
| an enum | `NAME` | `"NAME"` |
| `DType`, `TensorType`, `Quant` | `f32`, `tensor<f32, 4>`, `quant<…>` | the same as a string |
| `int \\| Dim` | `2*B+1` | a number or a string |
| `Literal` | `dense<f32, 4, 1.0>` | `{"dtype": …, "shape": …, "splat" or "data" or "base64": …}` |
| a record | `{axis=1}` | an object |
"""

from __future__ import annotations

import dataclasses
import enum
import json
import types
import typing
from collections.abc import Callable, Sequence
from functools import cache
from typing import Final, Union, cast, get_args, get_origin

from planish.dtypes import DType
from planish.errors import InternalError, ParseError, PlanishError, did_you_mean
from planish.ptir.codec import (
    BOOL,
    DIM,
    DTYPE,
    FLOAT,
    INT,
    LITERAL,
    NONE,
    QUANT,
    STR,
    TYPE,
    Codec,
    Dims,
    Json,
    bad_json,
    load_float,
    of_kind,
)
from planish.ptir.ops.literal import Literal
from planish.ptir.reader import PtirReader
from planish.ptir.types import Dim, Quant, TensorType

# --- tuples, unions, enums --------------------------------------------------------------------------------


def read_list(reader: PtirReader, read: Callable[[PtirReader], object]) -> list[object]:
    """`[a, b]`."""
    items: list[object] = []
    reader.expect("[")
    while not reader.take("]"):
        if items:
            reader.expect(",")
        items.append(read(reader))
    return items


def _tuple(item: Codec) -> Codec:
    write, dump, holds = item.write, item.dump, item.holds

    def load(value: Json, dims: Dims, path: str) -> object:
        parts = cast("list[Json]", of_kind(value, list, "an array", path))
        return tuple([item.load(part, dims, f"{path}[{i}]") for i, part in enumerate(parts)])

    return Codec(
        lambda value: f"[{', '.join([write(part) for part in cast('Sequence[object]', value)])}]",
        lambda reader: tuple(read_list(reader, item.read)),
        lambda value: [dump(part) for part in cast("Sequence[object]", value)],
        load,
        lambda value: type(value) is tuple and all(holds(part) for part in value),
    )


def _fixed_tuple(items: Sequence[Codec]) -> Codec:
    def read(reader: PtirReader) -> object:
        parts: list[object] = []
        reader.expect("[")
        for position, item in enumerate(items):
            if position:
                reader.expect(",")
            parts.append(item.read(reader))
        reader.expect("]")
        return tuple(parts)

    def load(value: Json, dims: Dims, path: str) -> object:
        parts = cast("list[Json]", of_kind(value, list, "an array", path))
        if len(parts) != len(items):
            bad_json(path, f"expected {len(items)} items, found {len(parts)}")
        return tuple(
            [
                item.load(part, dims, f"{path}[{i}]")
                for i, (item, part) in enumerate(zip(items, parts, strict=True))
            ]
        )

    def pairs(value: object) -> zip[tuple[Codec, object]]:
        return zip(items, cast("Sequence[object]", value), strict=True)

    return Codec(
        lambda value: f"[{', '.join([item.write(part) for item, part in pairs(value)])}]",
        read,
        lambda value: [item.dump(part) for item, part in pairs(value)],
        load,
        lambda value: (
            type(value) is tuple
            and len(value) == len(items)
            and all(item.holds(part) for item, part in pairs(value))
        ),
    )


def _union(items: Sequence[Codec]) -> Codec:
    """The first member that accepts: members are told apart by how their values look."""

    def member(value: object) -> Codec:
        for item in items:
            if item.holds(value):
                return item
        raise InternalError(f"{value!r} is of no type that its field allows")

    def read(reader: PtirReader) -> object:
        reader.skip()
        start = reader.position
        furthest: ParseError | None = None
        expected: list[str] = []
        for item in items:
            try:
                return item.read(reader)
            except ParseError as error:
                here = (error.line or 0, error.column or 0)
                if furthest is None or here > (furthest.line or 0, furthest.column or 0):
                    furthest, expected = error, []
                expected += [word for word in error.expected if word not in expected]
                reader.position = start
        if furthest is not None:
            furthest.expected = tuple(expected)
            raise furthest
        return reader.fail("nothing may stand here")

    def load(value: Json, dims: Dims, path: str) -> object:
        for item in items:
            try:
                return item.load(value, dims, path)
            except ParseError:
                continue
        return bad_json(path, f"{json.dumps(value)[:40]} is of no type allowed here")

    return Codec(
        lambda value: member(value).write(value),
        read,
        lambda value: member(value).dump(value),
        load,
        lambda value: any(item.holds(value) for item in items),
    )


def _read_number(reader: PtirReader) -> object:
    return reader.number()


# In a union, how a number is written decides whether it is an integer or a float.
_NUMBER: Final = Codec(
    lambda value: FLOAT.write(value) if isinstance(value, float) else INT.write(value),
    _read_number,
    lambda value: FLOAT.dump(value) if isinstance(value, float) else INT.dump(value),
    lambda value, dims, path: (
        value if type(value) is int or type(value) is float else load_float(value, dims, path)
    ),
    lambda value: type(value) in (int, float),
)


def _enum(kind: type[enum.Enum]) -> Codec:
    def find(name: str) -> enum.Enum | None:
        return kind.__members__.get(name)

    def read(reader: PtirReader) -> object:
        reader.skip()
        start = reader.position
        member = find(reader.word(*kind.__members__))
        if member is None:
            reader.position = start
            reader.unexpected(*kind.__members__)
        return member

    def load(value: Json, dims: Dims, path: str) -> object:
        member = find(value) if isinstance(value, str) else None
        if member is None:
            bad_json(path, f"expected one of {', '.join(kind.__members__)}")
        return member

    name = lambda value: cast("enum.Enum", value).name  # noqa: E731
    return Codec(name, read, name, load, lambda value: isinstance(value, kind))


# --- records ----------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    """One field of a record."""

    name: str
    codec: Codec
    default: object
    """`dataclasses.MISSING` if there is none."""

    def is_default(self, value: object) -> bool:
        """Whether the field may stay unwritten."""
        if self.default is dataclasses.MISSING or type(value) is not type(self.default):
            return False
        return repr(value) == repr(self.default) if isinstance(value, float) else value == self.default


class RecordCodec:
    """A dataclass: its fields by name, and both forms of a record of them."""

    __slots__ = ("fields", "kind")

    def __init__(self, kind: type) -> None:
        self.kind = kind
        hints = typing.get_type_hints(kind)
        self.fields: dict[str, Field] = {
            field.name: Field(field.name, codec_of(hints[field.name]), _default(field))
            for field in dataclasses.fields(kind)
            if field.init
        }

    def written(self, record: object, without: Sequence[str] = ()) -> list[str]:
        """`name=value` for each field that differs from its default."""
        return [
            f"{name}={field.codec.write(value)}"
            for name, field in self.fields.items()
            if name not in without and not field.is_default(value := getattr(record, name))
        ]

    def write(self, record: object) -> str:
        return f"{{{', '.join(self.written(record))}}}"

    def read(self, reader: PtirReader) -> object:
        reader.expect("{")
        start = reader.position
        return self.make(reader, self.read_fields(reader), start)

    def read_fields(self, reader: PtirReader) -> dict[str, object]:
        """`name=value, …}` behind the opening brace."""
        given: dict[str, object] = {}
        while not reader.take("}"):
            if given:
                reader.expect(",")
            reader.skip()
            start = reader.position
            name = reader.word("an attribute", "'}'")
            field = self.fields.get(name)
            if field is None:
                close = did_you_mean(name, self.fields)
                known = ", ".join(self.fields) or "none"
                hint = f"the attributes are: {known}" if close is None else f"did you mean {close!r}?"
                reader.fail(f"there is no attribute {name!r} here", offset=start, remedy=hint)
            if name in given:
                reader.fail(f"attribute {name!r} is given twice", offset=start)
            reader.expect("=")
            given[name] = field.codec.read(reader)
        return given

    def make(self, reader: PtirReader, given: dict[str, object], offset: int) -> object:
        missing = [n for n, f in self.fields.items() if n not in given and f.default is dataclasses.MISSING]
        if missing:
            what = (
                f"attribute {missing[0]} is" if len(missing) == 1 else f"attributes {', '.join(missing)} are"
            )
            reader.fail(f"{what} missing", offset=offset)
        try:
            return cast("object", self.kind(**given))
        except PlanishError as error:
            reader.fail(error.message, offset=offset, remedy=error.remedy)

    def dump(self, record: object) -> dict[str, Json]:
        return {
            name: field.codec.dump(value)
            for name, field in self.fields.items()
            if not field.is_default(value := getattr(record, name))
        }

    def load(self, value: Json, dims: Dims, path: str) -> object:
        given = cast("dict[str, Json]", of_kind(value, dict, "an object", path))
        for name in given:
            if name not in self.fields:
                bad_json(path, f"there is no attribute {name!r}; known: {', '.join(self.fields) or 'none'}")
        for name, field in self.fields.items():
            if name not in given and field.default is dataclasses.MISSING:
                bad_json(path, f"attribute {name!r} is missing")
        return self.kind(
            **{
                name: field.codec.load(given[name], dims, f"{path}.{name}")
                for name, field in self.fields.items()
                if name in given
            }
        )

    def wrong_fields(self, record: object) -> list[str]:
        """The fields whose value is not of the declared type."""
        return [n for n, field in self.fields.items() if not field.codec.holds(getattr(record, n))]

    def codec(self) -> Codec:
        return Codec(
            self.write,
            self.read,
            lambda value: cast("Json", self.dump(value)),
            self.load,
            lambda value: type(value) is self.kind and not self.wrong_fields(value),
        )


def _default(field: dataclasses.Field[object]) -> object:
    if field.default is dataclasses.MISSING and field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


_RECORDS: Final[dict[type, RecordCodec]] = {}


def record_of(kind: type) -> RecordCodec:
    """The record that an attribute class is."""
    record = _RECORDS.get(kind)
    if record is None:
        record = _RECORDS[kind] = RecordCodec(kind)
    return record


_SINGLE: Final[dict[object, Codec]] = {
    bool: BOOL,
    int: INT,
    float: FLOAT,
    str: STR,
    type(None): NONE,
    DType: DTYPE,
    TensorType: TYPE,
    Quant: QUANT,
    Literal: LITERAL,
    Dim: DIM,
}


@cache
def codec_of(hint: object) -> Codec:
    """The codec of a field's type."""
    known = _SINGLE.get(hint)
    if known is not None:
        return known
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _union_of(arguments)
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return _tuple(codec_of(arguments[0]))
        return _fixed_tuple([codec_of(argument) for argument in arguments])
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _enum(hint)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return record_of(hint).codec()
    raise InternalError(f"attributes of type {hint!r} have no text form; add a codec in ptir/fields.py")


def _union_of(arguments: Sequence[object]) -> Codec:
    members = list(arguments)
    if Dim in members:
        rest = [codec_of(a) for a in members if a not in (int, Dim)]
        # A name such as `none` would read as a size, so sizes come last.
        return _union([*rest, DIM]) if rest else DIM
    codecs: list[Codec] = []
    if int in members and float in members:
        members = [a for a in members if a not in (int, float)]
        codecs = [_NUMBER]
    return _union([*(codec_of(a) for a in members), *codecs])
