"""What a program of `other.py` is: inputs, and how planish, torch, jax and (for some) a model of ONNX say the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Make = Callable[[np.random.Generator], Any]


@dataclass(frozen=True, slots=True)
class Program:
    """One thing to compute."""

    inputs: tuple[Make, ...]
    ours: Callable[..., Any]
    torch: Callable[..., Any]
    jax: Callable[..., Any] | None = None
    onnx: Callable[..., bytes] | None = None
    """A model whose input is `x`, made of the inputs' values: the others are known beforehand."""
    gradient: bool = False


def floats(*shape: int, scale: float = 1.0) -> Make:
    return lambda rng: rng.standard_normal(shape, dtype=np.float32) * np.float32(scale)


def bytes_(*shape: int, unsigned: bool = False) -> Make:
    low, high, dtype = (0, 256, np.uint8) if unsigned else (-128, 128, np.int8)
    return lambda rng: rng.integers(low, high, shape).astype(dtype)


def places(below: int, *shape: int) -> Make:
    return lambda rng: rng.integers(0, below, shape)


def model(nodes: list[tuple[Any, ...]], x: Any, known: dict[str, Any]) -> bytes:
    """Nodes as (op, inputs, output, attributes); the last output is the result."""
    from onnx import TensorProto, helper, numpy_helper

    onnx_nodes = [helper.make_node(op, names.split(), [out], **more) for op, names, out, more in nodes]
    given = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
    kind = TensorProto.FLOAT if x.dtype == np.float32 else TensorProto.INT32
    result = helper.make_tensor_value_info(nodes[-1][2], kind, None)
    kept = [numpy_helper.from_array(np.asarray(value), name) for name, value in known.items()]
    graph = helper.make_graph(onnx_nodes, "work", [given], [result], kept)
    model_proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    return bytes(model_proto.SerializeToString())
