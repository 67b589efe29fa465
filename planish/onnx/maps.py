"""Outputs that are lists of dictionaries: what classifiers of scikit-learn give, by a ZipMap at the end.

A program has arrays; the dictionaries are made of them when a run is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray
from onnx import ModelProto, helper

from planish.onnx.registry import Unsupported


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
        told = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        texts = [text.decode("utf-8", "surrogateescape") for text in told.get("classlabels_strings", [])]
        keys[position] = texts or list(told.get("classlabels_int64s", []))
        output.name = node.input[0]
    inner = sorted(set(zips) & used)
    if inner:
        raise Unsupported(
            f"a list of dictionaries is an output of a model, {inner[0]!r} is read inside of it"
        )
    kept = [node for node in graph.node if node.op_type != "ZipMap"]
    del graph.node[:]
    graph.node.extend(kept)
    return keys


def zipped(rows: NDArray[Any], keys: Sequence[Any]) -> list[dict[Any, float]]:
    """A dictionary for each row."""
    table = rows.reshape(-1, len(keys)).tolist()
    return [dict(zip(keys, row, strict=True)) for row in table]
