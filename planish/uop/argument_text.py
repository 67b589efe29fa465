"""How numbers and the arguments of ops are written in the text form, and read: a table with the attributes of every op."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, cast

from planish import dtypes
from planish.cursor import IDENTIFIER
from planish.dtypes import DType
from planish.errors import GraphError
from planish.uop import ops
from planish.uop.access_hints import AccessHints
from planish.uop.hardware_index import HardwareIndex
from planish.uop.node import UOp
from planish.uop.ops import COMPARISONS, Axis, DTypeLaw, Ops, UnrolledLanes, Variable
from planish.uop.reader import Reader

Names = Mapping[UOp, str]

_SAME_LAWS: Final = frozenset({DTypeLaw.SAME, DTypeLaw.FLOAT, DTypeLaw.INTEGRAL, DTypeLaw.BITS})


# -- numbers ---------------------------------------------------------------------------------------------------


def number_text(value: object, dtype: DType) -> str:
    """A constant of a dtype, exact and as short as that allows (0.1, not 0.10000000149011612, on f32)."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _float_text(value, dtype)
    if isinstance(value, complex):
        part = dtypes.float32 if dtype.scalar is dtypes.complex64 else dtypes.float64
        return f"complex({_float_text(value.real, part)}, {_float_text(value.imag, part)})"
    return str(value)


def _float_text(value: float, dtype: DType) -> str:
    shortest = repr(value)
    if len(shortest) <= 5 or dtype.scalar is dtypes.float64:
        return shortest
    wanted = struct.pack("<d", value)
    for digits in range(2, 17):
        short = float(f"{value:.{digits}g}")
        if struct.pack("<d", cast("float", dtype.scalar.const(short))) == wanted:
            return repr(short)
    return shortest


# -- arguments -------------------------------------------------------------------------------------------------


class _Codec(NamedTuple):
    """How one attribute is written and read."""

    write: Callable[[object, Names], str]
    read: Callable[[Reader], object]


class _Form(NamedTuple):
    """The attributes of an op's argument. `split` and `join` take the argument apart and put it together."""

    keys: tuple[tuple[str, _Codec], ...]
    split: Callable[[object], tuple[object, ...]]
    join: Callable[[tuple[object, ...]], object]
    optional: bool = False
    usual: tuple[tuple[str, object], ...] = ()
    """Attributes that are left out where they have these values."""


def _write_name(value: object, names: Names) -> str:
    text = cast("str", value)
    return text if IDENTIFIER.fullmatch(text) else json.dumps(text)


def _write_hints(value: object, names: Names) -> str:
    return _write_name(cast("AccessHints", value).text, names)


def _write_value(value: object, names: Names) -> str:
    if isinstance(value, UOp):
        return names[value]
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if type(value) is tuple:
        inner = ", ".join(_write_value(item, names) for item in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if type(value) in (int, float):
        return repr(value)
    if type(value) is str:
        return json.dumps(value)
    raise GraphError(
        f"{value!r} in an argument has no text form", remedy="use numbers, text, nodes and tuples"
    )


def _write_lanes(value: object, names: Names) -> str:
    parts = [f"{'_'.join(map(str, path))}:{size}" for path, size in cast("UnrolledLanes", value).axes]
    return f"({', '.join(parts)})"


def _write_bounds(value: object, names: Names) -> str:
    low, high = cast("tuple[int, int]", value)
    return f"{low}..{high}"


_INT_CODEC: Final = _Codec(lambda value, _: str(value), lambda reader: reader.integer())
_NAME_CODEC: Final = _Codec(_write_name, lambda reader: reader.name())
_BOOL_CODEC: Final = _Codec(lambda value, _: "true" if value else "false", lambda reader: reader.truth())
_OP_CODEC: Final = _Codec(lambda value, _: cast("Ops", value).name.lower(), lambda reader: reader.op())
_AXIS_CODEC: Final = _Codec(lambda value, _: cast("Axis", value).text, lambda reader: reader.axis())
_LANES_CODEC: Final = _Codec(_write_lanes, lambda reader: reader.lanes())
_BOUNDS_CODEC: Final = _Codec(_write_bounds, lambda reader: reader.bounds())
_INDEX_CODEC: Final = _Codec(
    lambda value, names: _write_name(cast("HardwareIndex", value).name, names),
    lambda reader: reader.hardware_index(),
)
_HINTS_CODEC: Final = _Codec(_write_hints, lambda reader: reader.hints())
_TUPLE_CODEC: Final = _Codec(_write_value, lambda reader: reader.values())


def _one(key: str, codec: _Codec, optional: bool = False) -> _Form:
    """An argument that is one attribute."""
    return _Form(((key, codec),), lambda arg: (arg,), lambda parts: parts[0], optional)


def _record(kind: Any, *codecs: _Codec, named: tuple[str, ...] = (), usual: int = 0) -> _Form:
    """An argument that is a record: an attribute for each field; the last ones are left out where they have their defaults."""
    keys = named or kind._fields
    defaults = zip(
        keys[len(keys) - usual :], list(kind._field_defaults.values())[-usual:], strict=bool(usual)
    )
    return _Form(
        tuple(zip(keys, codecs, strict=True)),
        lambda arg: tuple(cast("Any", arg)),
        lambda parts: kind(*parts),
        usual=tuple(defaults),
    )


_REDUCE_AXES: Final = _record(ops.ReduceAxes, _OP_CODEC, _TUPLE_CODEC)
_BOX: Final = _record(
    ops.Box, _INT_CODEC, _TUPLE_CODEC, _TUPLE_CODEC, _TUPLE_CODEC, _INT_CODEC, _INT_CODEC, _BOOL_CODEC,
    _TUPLE_CODEC, _TUPLE_CODEC, _TUPLE_CODEC, _INT_CODEC, usual=7,
)  # fmt: skip
FORMS: Final[dict[Ops, _Form]] = {
    Ops.FETCH: _BOX,
    Ops.FETCHED: _BOX,
    Ops.DEFINE_GLOBAL: _one("slot", _INT_CODEC),
    Ops.DEFINE_LOCAL: _one("slot", _INT_CODEC),
    Ops.DEFINE_REG: _one("slot", _INT_CODEC),
    Ops.BUFFER: _one("slot", _INT_CODEC),
    Ops.DEFINE_VAR: _Form(
        (("name", _NAME_CODEC), ("bounds", _BOUNDS_CODEC)),
        lambda arg: (cast("Variable", arg).name, cast("Variable", arg)[1:]),
        lambda parts: Variable(cast("str", parts[0]), *cast("tuple[int, int]", parts[1])),
    ),
    Ops.SPECIAL: _one("name", _INDEX_CODEC),
    Ops.RESHAPE: _one("shape", _TUPLE_CODEC),
    Ops.PERMUTE: _one("order", _TUPLE_CODEC),
    Ops.EXPAND: _one("shape", _TUPLE_CODEC),
    Ops.PAD: _one("by", _TUPLE_CODEC),
    Ops.SHRINK: _one("box", _TUPLE_CODEC),
    Ops.FLIP: _one("axes", _TUPLE_CODEC),
    Ops.CONTIGUOUS: _one("hints", _TUPLE_CODEC, optional=True),
    Ops.REDUCE_AXIS: _REDUCE_AXES,
    Ops.SCAN_AXIS: _REDUCE_AXES,
    Ops.RANGE: _one("axis", _AXIS_CODEC),
    Ops.REDUCE: _one("op", _OP_CODEC),
    Ops.SCAN: _one("op", _OP_CODEC),
    Ops.BUFFERIZE: _record(
        ops.Bufferize, _NAME_CODEC, _BOOL_CODEC, _INT_CODEC, _BOOL_CODEC, _BOOL_CODEC, usual=3
    ),
    Ops.INDEX: _one("peer", _INT_CODEC, optional=True),
    Ops.BARRIER: _one("of", _NAME_CODEC, optional=True),
    Ops.LOAD: _one("hint", _HINTS_CODEC, optional=True),
    Ops.STORE: _one("hint", _HINTS_CODEC, optional=True),
    Ops.PREFETCH: _one("locality", _INT_CODEC),
    Ops.WAIT: _one("groups", _INT_CODEC),
    Ops.UNROLL: _one("axes", _LANES_CODEC),
    Ops.CONTRACT: _one("axes", _LANES_CODEC),
    Ops.GEP: _one("lanes", _TUPLE_CODEC),
    Ops.COMBINE: _record(ops.Combine, _OP_CODEC, _INT_CODEC, _BOOL_CODEC),
    Ops.EXCHANGE: _record(ops.Exchange, _INT_CODEC, _BOOL_CODEC),
    Ops.WMMA: _record(
        ops.TensorCoreOp, _NAME_CODEC, _TUPLE_CODEC, _INT_CODEC, named=("core", "tile", "pending"), usual=1
    ),
}
"""How arguments read. CONST and VCONST, whose argument is a number, are written without a key."""


def implied_dtype(op: Ops, dtype: DType, position: int, operands: DType | None) -> DType | None:
    """The dtype that a constant in this place has unless it says otherwise; `operands`: of the first typed one."""
    if op.law in _SAME_LAWS:
        return dtype
    if op in COMPARISONS:
        return operands
    match op:
        case Ops.WHERE | Ops.RARE:
            lanes = 1 if dtype.is_pointer else dtype.lanes
            return dtype if position else dtypes.bool_.vec(lanes)
        case Ops.RANGE | Ops.SPECIAL | Ops.REDUCE | Ops.SCAN | Ops.END | Ops.AFTER:
            return dtype
        case Ops.INDEX:
            return dtypes.index
        case Ops.VECTORIZE:
            return dtype.scalar
        case Ops.LOAD:
            return dtype if position == 1 else dtypes.bool_
        case Ops.IF:
            return dtypes.bool_
        case _:
            return None
