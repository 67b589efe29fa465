"""The bytes of a model, without those of its weights: what lets weights stay in the file they are in.

A protobuf message is a row of fields, each a tag and a length; large `raw_data` of initialisers is found by walking over them,
and what is handed to the protobuf library is the model without it. A file of gigabytes then costs its graph, and a file that
ends too early is found out before anything is made of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from planish.errors import PlanishError

_GRAPH: Final = 7
_NODE: Final = 1
_INITIALIZER: Final = 5
_RAW_DATA: Final = 9
_SMALLEST: Final = 1 << 12
"""Data shorter than this stays in the message."""
MOST_NODES: Final = 250_000
"""Nodes of a model, with functions written out; the largest models in use have a fifth of that."""


@dataclass(frozen=True, slots=True)
class Slim:
    """A model without large weights, and where those are: (position among the initialisers) → (start, end)."""

    message: bytes
    weights: dict[int, tuple[int, int]]


def slim(data: memoryview) -> Slim:
    """Take the weights out of a serialized ModelProto."""
    top = list(_fields(data, 0, len(data)))
    graphs = [field for field in top if field[0] == _GRAPH and field[1] == 2]
    if len(graphs) != 1:
        return Slim(bytes(data), {})
    weights: dict[int, tuple[int, int]] = {}
    inner: list[bytes | memoryview] = []
    count = 0
    _, _, _, begin, end = graphs[0]
    fields = _fields(data, begin, end)
    if sum(field[0] == _NODE for field in fields) > MOST_NODES:
        raise PlanishError(f"it has more than {MOST_NODES} nodes")
    for number, kind, head, start, stop in fields:
        if number != _INITIALIZER or kind != 2:
            inner.append(data[head:stop])
            continue
        graph_field = None
        if stop - start >= _SMALLEST:
            graph_field = next(
                (f for f in _fields(data, start, stop) if f[0] == _RAW_DATA and f[1] == 2), None
            )  # fmt: skip
        if graph_field is not None and graph_field[4] - graph_field[3] >= _SMALLEST:
            _, _, raw_head, raw_start, raw_stop = graph_field
            body = bytes(data[start:raw_head]) + bytes(data[raw_stop:stop])
            inner += [_tag(_INITIALIZER), _varint(len(body)), body]
            weights[count] = (raw_start, raw_stop)
        else:
            inner.append(data[head:stop])
        count += 1
    if not weights:
        return Slim(bytes(data), {})
    graph = b"".join(inner)
    pieces: list[bytes | memoryview] = []
    for field in top:
        if field is graphs[0]:
            pieces += [_tag(_GRAPH), _varint(len(graph)), graph]
        else:
            pieces.append(data[field[2] : field[4]])
    return Slim(b"".join(pieces), weights)


Field = tuple[int, int, int, int, int]
"""Number, kind, where its tag begins, where its content begins and ends."""


def _fields(data: memoryview, position: int, end: int) -> list[Field]:
    fields: list[Field] = []
    while position < end:
        head = position
        tag, position = _read_varint(data, position, end)
        number, kind = tag >> 3, tag & 7
        if kind == 2:
            length, position = _read_varint(data, position, end)
        elif kind == 0:
            start = position
            _, position = _read_varint(data, position, end)
            fields.append((number, kind, head, start, position))
            continue
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise PlanishError(f"byte {head} begins no field of a protobuf message")
        if length > end - position:
            raise PlanishError(
                f"it ends too early: a field at byte {head} has {length} bytes, {end - position} are left"
            )
        fields.append((number, kind, head, position, position + length))
        position += length
    return fields


def _read_varint(data: memoryview, position: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while position < end and shift < 70:
        byte = data[position]
        value |= (byte & 127) << shift
        position += 1
        if byte < 128:
            return value, position
        shift += 7
    raise PlanishError(f"it ends too early, or byte {position} is no part of a number")


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _tag(number: int) -> bytes:
    return _varint(number << 3 | 2)
