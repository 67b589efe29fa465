"""Dictionaries at the ends of a model: what classifiers of scikit-learn give (ZipMap), and what DictVectorizer and CastMap take.

A program has arrays: what is read of a dictionary is made an array before a run, and dictionaries are made of arrays when it is over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper

from planish.onnx.information import PortInfo
from planish.onnx.registry import Unsupported
from planish.onnx.status import InvalidArgument

Array = NDArray[Any]

_CASTS: Final = {b"TO_FLOAT": "float32", b"TO_INT64": "int64", b"TO_STRING": "object"}
_PADDING: Final = {"object": "0.f"}
"""What onnxruntime writes where a sparse map has nothing, unless it is a zero."""
_MOST: Final = 1 << 24
"""Elements of a row that a file may ask for."""


def take_maps(model: ModelProto) -> dict[int, list[Any]]:
    """Take ZipMaps from the end of a model; the keys of their dictionaries, by the outputs that they are."""
    graph = model.graph
    zips = {node.output[0]: node for node in graph.node if node.op_type == "ZipMap" and node.output}
    if not zips:
        return {}
    used = {name for node in graph.node for name in node.input}
    keys: dict[int, list[Any]] = {}
    for position, output in enumerate(graph.output):
        node = zips.get(output.name)
        if node is None:
            continue
        told = _attributes(node)
        keys[position] = _texts(told.get("classlabels_strings", [])) or list(
            told.get("classlabels_int64s", [])
        )
        output.name = node.input[0]
    inner = sorted(set(zips) & used)
    if inner:
        raise Unsupported(
            f"a list of dictionaries is an output of a model, {inner[0]!r} is read inside of it"
        )
    _keep(model, [node for node in graph.node if node.op_type != "ZipMap"])
    return keys


def zipped(rows: Array, keys: Sequence[Any]) -> list[dict[Any, float]]:
    """A dictionary for each row."""
    table = rows.reshape(-1, len(keys)).tolist()
    return [dict(zip(keys, row, strict=True)) for row in table]


class MapRow(NamedTuple):
    """What a node reads of a dictionary: one row, in the order of a vocabulary, or (None) in that of the keys."""

    name: str
    dtype: str
    vocabulary: Sequence[Any] | None
    padding: Any = 0

    def of(self, info: PortInfo, given: Any) -> Array:
        """The row of what was given for an input."""
        if not isinstance(given, Mapping):
            raise InvalidArgument(f"input {info} is given a {type(given).__name__}", remedy="give a dict")
        want = int if info.type_text.startswith("map(int64") else str
        if not all(isinstance(key, want | np.integer if want is int else want) for key in given):
            raise InvalidArgument(f"input {info} has keys of type {want.__name__}")
        if isinstance(self.vocabulary, range) and min(given, default=0) < 0:
            raise InvalidArgument(f"input {info} has the key {min(given)}, which is no place in a row")
        keys = sorted(given) if self.vocabulary is None else self.vocabulary
        values = [given.get(key, self.padding) for key in keys]
        try:
            if self.dtype == "object":
                values = [each if isinstance(each, str) else f"{float(each):f}" for each in values]
            elif self.dtype == "int64":
                values = [int(each) for each in values]
            return np.array(values, self.dtype).reshape(1, -1)
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidArgument(f"input {info} has a value that is no {self.dtype}: {error}") from None


def take_map_inputs(model: ModelProto, ports: Sequence[PortInfo]) -> dict[str, list[MapRow]]:
    """Take what reads dictionaries from the beginning of a model: its rows are inputs then, in place of them."""
    graph = model.graph
    rows: dict[str, list[MapRow]] = {info.name: [] for info in ports if info.kind == "map"}
    if not rows:
        return {}
    dtypes = {info.name: info.dtype for info in ports}
    kept = []
    for node in graph.node:
        name = next((name for name in node.input if name in rows), None)
        if name is None:
            kept.append(node)
        elif node.op_type in _READERS and node.domain == "ai.onnx.ml" and node.output:
            rows[name].append(_READERS[node.op_type](node, dtypes[name]))
        else:
            raise Unsupported(f"{node.op_type} reads the dictionary {name!r}, which has no tensor")
    if any(output.name in rows for output in graph.output):
        raise Unsupported("a dictionary is an input and an output of the model")
    _keep(model, kept)
    others = [each for each in graph.input if each.name not in rows]
    del graph.input[:]
    graph.input.extend(others)
    for row in (row for of_one in rows.values() for row in of_one):
        element = (
            TensorProto.STRING
            if row.dtype == "object"
            else helper.np_dtype_to_tensor_dtype(np.dtype(row.dtype))
        )
        length = None if row.vocabulary is None else len(row.vocabulary)
        graph.input.append(helper.make_tensor_value_info(row.name, element, [1, length]))
    return rows


def _vectorized(node: NodeProto, dtype: str) -> MapRow:
    told = _attributes(node)
    words = _texts(told.get("string_vocabulary", [])) or list(told.get("int64_vocabulary", []))
    own = "object" if dtype == "string" else dtype
    return MapRow(node.output[0], own, tuple(words), "" if own == "object" else 0)


def _cast(node: NodeProto, dtype: str) -> MapRow:
    told = _attributes(node)
    to, form, length = (
        told.get("cast_to", b"TO_FLOAT"), told.get("map_form", b"DENSE"), told.get("max_map", 1)
    )  # fmt: skip
    if to not in _CASTS or form not in (b"DENSE", b"SPARSE"):
        raise Unsupported(f"CastMap {node.name!r} is told {to!r} and {form!r}")
    if not isinstance(length, int) or not 0 < length <= _MOST:
        raise Unsupported(f"CastMap {node.name!r} makes rows of {length!r} elements")
    own = _CASTS[to]
    vocabulary = range(length) if form == b"SPARSE" else None
    return MapRow(node.output[0], own, vocabulary, _PADDING.get(own, 0))


_READERS: Final = {"DictVectorizer": _vectorized, "CastMap": _cast}


def _attributes(node: NodeProto) -> dict[str, Any]:
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def _texts(words: Sequence[bytes]) -> list[str]:
    return [word.decode("utf-8", "surrogateescape") for word in words]


def _keep(model: ModelProto, nodes: Sequence[NodeProto]) -> None:
    """Leave a graph these nodes."""
    kept = list(nodes)
    del model.graph.node[:]
    model.graph.node.extend(kept)
