"""What the importer asks of values and nodes before it calls a handler: texts, dtypes and ranks, random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from planish.onnx.scope import Value, graphs_of
from planish.onnx.site import NodeSite
from planish.ptir.graph_value import GraphValue


def is_text(value: Value) -> bool:
    """Whether it is an array of texts."""
    return isinstance(value, np.ndarray) and value.dtype == object


WITH_WORDS: Final = {
    **dict.fromkeys(
        ("Concat", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "Reshape", "ScatterElements",
         "ScatterND", "Slice", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze", "Where"), True,
    ),
    **dict.fromkeys(("Equal", "Shape", "Size"), False),
}  # fmt: skip
"""Ops that texts may go through; whether texts come out."""


def kind_of_value(value: Value) -> Any:
    """The dtype and rank of a value, for functions that depend on them."""
    if isinstance(value, GraphValue):
        return value.dtype.numpy, [dim if isinstance(dim, int) else None for dim in value.dims]
    return (value.dtype, list(value.shape)) if isinstance(value, np.ndarray) else None


def stays_in_program(at: NodeSite, given: Sequence[Any]) -> bool:
    """Nodes that are not computed while importing, though all is known: random ops, and weights of bytes, whose products are of integers."""
    kind = at.node.op_type
    if kind == "DequantizeLinear":
        return given[0].ndim >= 2 and given[0].dtype in (np.int8, np.uint8)
    return kind.startswith(_RANDOM) or any(graphs_of(at.node))


_RANDOM: Final = ("Random", "Multinomial", "Bernoulli", "Dropout")
