"""Plans as plain data: JSON, and beside it the bytes of constants.

What can be written and read is a closed table: the records of a plan by their fields, as their classes declare them, and the
types that fields have. A record is the list of its fields, a step says its kind first; a number in place of a text, a field
too many, an unknown name is `Malformed`. Reading makes these records and nothing else: whatever a file says, it runs no code.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple, NoReturn, cast, get_args

import numpy as np

from planish import dtypes
from planish.errors import PlanishError
from planish.ptir.dims import Dim, DimLike
from planish.ptir.library.classes import STAYING
from planish.ptir.ops.definition import NO_ATTRS, REGISTRY, NoAttrs
from planish.ptir.types import Quant, TensorType
from planish.runtime.entry import NativeKernel
from planish.runtime.grid import Grid, GridKernel, TensorMap
from planish.schedule import memory, plan

_LENGTHS: Final = struct.Struct("<QQ")
_LARGEST: Final = 2**63 - 1
_ALIGNED: Final = 64
"""Constants start at a cache line of the file, so that they can be used where they were read."""


class Malformed(ValueError):
    """Data that is none of what it should be."""


class Blobs:
    """The bytes of constants, one after another."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = 0

    def add(self, data: bytes) -> int:
        """Where it will stand."""
        start = self.size
        self.parts += [data, bytes(-len(data) % _ALIGNED)]
        self.size += len(data) + -len(data) % _ALIGNED
        return start


class FieldCodec(NamedTuple):
    """One type of value: how it is written, and how it is read and checked."""

    dump: Callable[[Any, Blobs], object]
    load: Callable[[Any, memoryview], Any]


def _bad(value: object, wanted: str) -> NoReturn:
    raise Malformed(f"{str(value)[:40]!r} where {wanted} is expected")


# -- values ----------------------------------------------------------------------------------------------------


def _exactly(kind: type) -> FieldCodec:
    def load(value: object, blobs: memoryview) -> object:
        return value if type(value) is kind else _bad(value, kind.__name__)

    def dump(value: object, blobs: Blobs) -> object:
        return value if type(value) is kind else _bad(value, kind.__name__)

    return FieldCodec(dump, load)


def _load_int(value: object, blobs: memoryview) -> int:
    return (
        value
        if type(value) is int and ~_LARGEST <= value <= _LARGEST
        else _bad(value, "an integer of 64 bits")
    )


def _load_dtype(value: object, blobs: memoryview) -> dtypes.DType:
    return dtypes.parse(value) if type(value) is str else _bad(value, "a dtype")


def _dump_dim(value: DimLike, blobs: Blobs) -> object:
    if type(value) is int:
        return value
    names = {symbol.name: [symbol.name, symbol.lo, symbol.hi] for symbol in cast("Dim", value).symbols()}
    return [str(value), *names.values()]


def _load_dim(value: object, blobs: memoryview) -> DimLike:
    if type(value) is int:
        return value
    if type(value) is not list or not value or type(value[0]) is not str:
        _bad(value, "a size")
    return _parsed_dim(value[0], tuple([_symbol(each) for each in value[1:]]))


def _symbol(value: object) -> tuple[str, int, int]:
    if type(value) is not list or [type(part) for part in value] != [str, int, int]:
        _bad(value, "a named size")
    return cast("tuple[str, int, int]", tuple(value))


@lru_cache(1024)
def _parsed_dim(text: str, names: tuple[tuple[str, int, int], ...]) -> DimLike:
    return Dim.parse(text, {name: Dim.named(name, low, high) for name, low, high in names})


def _dump_array(value: np.ndarray[Any, Any], blobs: Blobs) -> object:
    flat = np.ascontiguousarray(value).reshape(-1)
    data = flat.view(np.uint8).tobytes() if flat.size else b""
    return [dtypes.from_numpy(value.dtype).short, blobs.add(data), flat.size]


def _load_array(value: object, blobs: memoryview) -> np.ndarray[Any, Any]:
    if type(value) is not list or [type(part) for part in value] != [str, int, int]:
        _bad(value, "an array")
    dtype = np.dtype(dtypes.parse(value[0]).numpy)
    start, count = value[1:]
    if start < 0 or count < 0 or start + count * dtype.itemsize > len(blobs):
        _bad(value, "an array that is all there")
    return np.frombuffer(blobs, dtype, count, start) if count else np.empty(0, dtype)


def _dump_pairs(value: Mapping[int, int], blobs: Blobs) -> object:
    return [[key, number] for key, number in value.items()]


def _load_pairs(value: object, blobs: memoryview) -> dict[int, int]:
    if type(value) is not list:
        _bad(value, "pairs")
    return dict([_INT_PAIR.load(pair, blobs) for pair in value])


def _dump_role(value: plan.Role, blobs: Blobs) -> object:
    return value.name


def _load_role(value: object, blobs: memoryview) -> plan.Role:
    role = plan.Role.__members__.get(value) if type(value) is str else None
    return _bad(value, "a role") if role is None else role


def _dump_host(value: plan.Host, blobs: Blobs) -> list[object]:
    from planish.ptir.fields import record_of
    from planish.ptir.printer import symbols_in

    op, attrs = value.op, value.attrs
    if REGISTRY.get(op.name) is not op or type(attrs) is not op.attrs_type:
        _bad(op, "an op of PTIR")
    names = {symbol.name: [symbol.name, symbol.lo, symbol.hi] for symbol in symbols_in(attrs)}
    given = None if type(attrs) is NoAttrs else record_of(type(attrs)).dump(attrs)
    ends = [codec_of("tuple[int, ...]").dump(ints, blobs) for ints in (value.inputs, value.outputs)]
    types = [
        codec_of("tuple[TensorType, ...]").dump(each, blobs)
        for each in (value.input_types, value.output_types)
    ]
    more = [codec_of("tuple[int, ...]").dump(ints, blobs) for ints in (value.constants, value.scratch)]
    call = codec_of("RoutineCall | None").dump(value.call, blobs)
    return [op.name, given, list(names.values()), *ends, *types, call, *more]


def _load_host(value: list[object], blobs: memoryview) -> plan.Host:
    from planish.ptir.fields import record_of

    if len(value) != 10 or type(value[0]) is not str or type(value[2]) is not list:
        _bad(value, "a host op")
    name, given, names, inputs, outputs, input_types, output_types, call, constants, scratch = value
    op = REGISTRY.get(cast("str", name))
    if op is None or not (op.host or op.name in STAYING):
        _bad(name, "a host op")
    dims = {each[0]: Dim.named(*each) for each in map(_symbol, cast("list[object]", names))}
    attrs = NO_ATTRS if op.attrs_type is NoAttrs else record_of(op.attrs_type).load(given, dims, op.name)  # type: ignore[arg-type]
    ints, types = codec_of("tuple[int, ...]").load, codec_of("tuple[TensorType, ...]").load
    return plan.Host(
        op,
        cast("Any", attrs),
        ints(inputs, blobs),
        ints(outputs, blobs),
        types(input_types, blobs),
        types(output_types, blobs),
        codec_of("RoutineCall | None").load(call, blobs),
        ints(constants, blobs),
        ints(scratch, blobs),
    )


# -- puts together ---------------------------------------------------------------------------------------------


def _many(item: FieldCodec, kind: type = tuple) -> FieldCodec:
    def load(value: object, blobs: memoryview) -> object:
        if type(value) is not list:
            _bad(value, "a list")
        read = item.load
        return kind([read(part, blobs) for part in value])

    def dump(value: Any, blobs: Blobs) -> object:
        parts = sorted(value) if kind is frozenset else value
        return [item.dump(part, blobs) for part in parts]

    return FieldCodec(dump, load)


def _ints(kind: type = tuple) -> FieldCodec:
    """The same for integers, of which there are many."""

    def load(value: object, blobs: memoryview) -> object:
        if type(value) is not list or set(map(type, value)) - {int}:
            _bad(value, "integers")
        if value and (max(value) > _LARGEST or min(value) < ~_LARGEST):
            _bad(value, "integers of 64 bits")
        return kind(value)

    def dump(value: Any, blobs: Blobs) -> object:
        members = sorted(value) if kind is frozenset else list(value)
        return members if not set(map(type, members)) - {int} else _bad(value, "integers")

    return FieldCodec(dump, load)


def _pair(first: FieldCodec, second: FieldCodec) -> FieldCodec:
    def load(value: object, blobs: memoryview) -> object:
        if type(value) is not list or len(value) != 2:
            _bad(value, "a pair")
        return first.load(value[0], blobs), second.load(value[1], blobs)

    return FieldCodec(lambda value, blobs: [first.dump(value[0], blobs), second.dump(value[1], blobs)], load)


def _maybe(item: FieldCodec) -> FieldCodec:
    return FieldCodec(
        lambda value, blobs: None if value is None else item.dump(value, blobs),
        lambda value, blobs: None if value is None else item.load(value, blobs),
    )


def _record(kind: Any) -> FieldCodec:
    """A record: its fields in their order."""
    parts = [(field.name, codec_of(str(field.type))) for field in fields(kind) if field.init]
    reads = [codec.load for _, codec in parts]

    def load(value: object, blobs: memoryview) -> object:
        if type(value) is not list or len(value) != len(reads):
            _bad(value, kind.__name__)
        return kind(*[read(part, blobs) for read, part in zip(reads, value, strict=True)])

    def dump(value: object, blobs: Blobs) -> object:
        if type(value) is not kind:
            _bad(value, kind.__name__)
        return [codec.dump(getattr(value, name), blobs) for name, codec in parts]

    return FieldCodec(dump, load)


_HOST: Final = FieldCodec(_dump_host, _load_host)


def _step() -> FieldCodec:
    """One of the kinds of steps, by its name."""
    # loops contain steps: each kind is looked at when there is one
    kinds = {kind.__name__: kind for kind in get_args(plan.Step)}

    @cache
    def codec(name: str) -> FieldCodec:
        return _HOST if name == "Host" else _record(kinds[name])

    def load(value: object, blobs: memoryview) -> object:
        if type(value) is not list or not value or type(value[0]) is not str or value[0] not in kinds:
            _bad(value, "a step")
        return codec(value[0]).load(value[1:], blobs)

    def dump(value: object, blobs: Blobs) -> object:
        name = type(value).__name__
        if kinds.get(name) is not type(value):
            _bad(value, "a step")
        return [name, *cast("list[object]", codec(name).dump(value, blobs))]

    return FieldCodec(dump, load)


_INT: Final = FieldCodec(_exactly(int).dump, _load_int)
_INT_PAIR: Final = _pair(_INT, _INT)
_KNOWN: Final[dict[str, FieldCodec]] = {
    "int": _INT,
    "str": _exactly(str),
    "bool": _exactly(bool),
    "float": _exactly(float),
    "DType": FieldCodec(lambda value, blobs: value.short, _load_dtype),
    "DimLike": FieldCodec(_dump_dim, _load_dim),
    "Array": FieldCodec(_dump_array, _load_array),
    "Role": FieldCodec(_dump_role, _load_role),
    "Mapping[int, int]": FieldCodec(_dump_pairs, _load_pairs),
    "frozenset[int]": _ints(frozenset),
    "tuple[int, ...]": _ints(),
    "tuple[int, int]": _INT_PAIR,
    "UOp": FieldCodec(
        lambda value, blobs: None, lambda value, blobs: None
    ),  # a kernel is its LLIR from here on
    "Step": _step(),
}
_RECORDS: Final[dict[str, type]] = {
    kind.__name__: kind
    for kind in (
        plan.Plan, plan.Kernel, plan.PlanBuffer, plan.RoutineCall, plan.ReadyKernel, memory.Sharing, memory.ArenaBlock, TensorType, Quant, NativeKernel,
        plan.Rolled, GridKernel, Grid, TensorMap,
    )
}  # fmt: skip


@cache
def codec_of(type: str) -> FieldCodec:
    """The codec of a type, as annotations name it."""
    if type in _KNOWN:
        return _KNOWN[type]
    if type in _RECORDS:
        return _record(_RECORDS[type])
    if type == "Steps":
        return codec_of("tuple[Step, ...]")
    if type.endswith(" | None"):
        return _maybe(codec_of(type.removesuffix(" | None")))
    if type.startswith("tuple[") and type.endswith(", ...]"):
        return _many(codec_of(type[6:-6]))
    raise TypeError(f"a field of type {type} has no plain form; add one in {__name__}")


# -- whole entries ---------------------------------------------------------------------------------------------


def pack(now: Mapping[str, tuple[str, object]], later: object) -> bytes:
    """Values by name, each with its type, and JSON that need not be looked at when they are read."""
    blobs = Blobs()
    head = {name: codec_of(kind).dump(value, blobs) for name, (kind, value) in now.items()}
    texts = [json.dumps(part, separators=(",", ":")).encode() for part in (head, later)]
    before = _LENGTHS.pack(*map(len, texts)) + b"".join(texts)
    return b"".join([before, bytes(-len(before) % _ALIGNED), *blobs.parts])


def unpack(data: bytes, types: Mapping[str, str]) -> tuple[dict[str, Any], bytes]:
    """The values of those names and types, and the JSON behind them as it stands there; `Malformed` if that is not what it is."""
    try:
        first, second = _LENGTHS.unpack_from(data)
        end = _LENGTHS.size + first + second
        if end > len(data):
            raise Malformed("the data is cut off")
        blobs = memoryview(data)[end + -end % _ALIGNED :]
        head = json.loads(data[_LENGTHS.size : _LENGTHS.size + first])
        if type(head) is not dict or head.keys() != types.keys():
            raise Malformed("the data has other parts")
        values = {name: codec_of(kind).load(head[name], blobs) for name, kind in types.items()}
    except (ValueError, OverflowError, RecursionError, struct.error, PlanishError) as error:
        raise Malformed(str(error).partition("\n")[0]) from None
    return values, data[end - second : end]
