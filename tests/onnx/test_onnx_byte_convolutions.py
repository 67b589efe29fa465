"""Convolutions of bytes with known kernels: exact, as products of rows of bytes, whatever windows and zero points there are."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

import planish.onnx
import planish.ptir

Array = NDArray[Any]


def convolved(x: Array, w: Array, strides: list[int], dilations: list[int], pads: list[int]) -> Array:
    """By its definition, in wide integers."""
    count = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0), *((pads[n], pads[n + count]) for n in range(count))])
    spans = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations, strict=True)]
    steps = [(size - span) // s + 1 for size, span, s in zip(x.shape[2:], spans, strides, strict=True)]
    total = np.zeros((x.shape[0], w.shape[0], *steps), x.dtype)
    for tap in itertools.product(*map(range, w.shape[2:])):
        at = tuple(
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, n, s in zip(tap, dilations, steps, strides, strict=True)
        )
        kernel: Any = np.moveaxis(w, (0, 1), (-2, -1))[tap]
        total += np.einsum("nc...,mc->nm...", x[(slice(None), slice(None), *at)], kernel)
    return total


CASES = {
    "3x3": ((2, 8, 7, 9), (5, 8, 3, 3), [1, 1], [1, 1], [1, 1, 1, 1]),
    "strides and gaps": ((1, 9, 11, 10), (4, 9, 3, 2), [2, 1], [1, 2], [0, 1, 2, 0]),
    "1x1": ((1, 16, 5, 6), (7, 16, 1, 1), [1, 1], [1, 1], [0, 0, 0, 0]),
    "a line": ((2, 12, 20), (6, 12, 5), [2], [1], [2, 1]),
}


def loaded(nodes: list[Any], x: Array, known: dict[str, Any], kind: int) -> Any:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)],
        [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in known.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    return planish.onnx.load(model.SerializeToString())


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    ("kind", "points"), [(np.int8, (0,)), (np.uint8, (121,)), (np.uint8, range(100, 200))]
)
def test_integers_are_convolved_exactly(case: str, kind: type[np.integer[Any]], points: Any) -> None:
    dims, shape, strides, dilations, pads = CASES[case]
    rng = np.random.default_rng(9)
    info = np.iinfo(kind)
    x = rng.integers(0, 256, dims).astype(np.uint8)
    w = rng.integers(info.min, info.max + 1, shape).astype(kind)
    zeros = np.array(points[: shape[0]] if len(points) > 1 else points[0], kind)
    node = helper.make_node(
        "ConvInteger", ["x", "w", "a", "b"], ["y"], strides=strides, dilations=dilations, pads=pads
    )
    model = loaded([node], x, {"w": w, "a": np.uint8(77), "b": zeros}, TensorProto.INT32)
    (found,) = model.run(None, {"x": x})
    wide = w.astype(np.int64) - zeros.astype(np.int64).reshape(-1, *[1] * (w.ndim - 1))
    np.testing.assert_array_equal(found, convolved(x.astype(np.int64) - 77, wide, strides, dilations, pads))
    text = model.lower().as_text("ptir")
    assert "dot_general" in text
    assert "convolution" not in text


@pytest.mark.parametrize("per_channel", [False, True])
def test_what_was_quantised_is_convolved_as_integers(per_channel: bool) -> None:
    dims, shape, strides, dilations, pads = CASES["3x3"]
    rng = np.random.default_rng(10)
    unit = np.float32(0.0625)
    units = (rng.integers(1, 9, shape[0] if per_channel else ()) / 64).astype(np.float32)
    w = rng.integers(-128, 128, shape).astype(np.int8)
    bias = rng.integers(-9, 9, shape[0]).astype(np.float32)
    x = (rng.standard_normal(dims) * 6).astype(np.float32)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "ws"], ["k"], axis=0),
        helper.make_node("Conv", ["d", "k", "b"], ["y"], strides=strides, dilations=dilations, pads=pads),
    ]
    known: dict[str, Any] = {
        "s": np.asarray(unit),
        "z": np.asarray(np.uint8(99)),
        "w": w,
        "ws": units,
        "b": bias,
    }
    model = loaded(nodes, x, known, TensorProto.FLOAT)
    (found,) = model.run(None, {"x": x})
    steps = (np.clip(np.rint(x / unit) + 99, 0, 255) - 99).astype(np.int64)
    line = (-1, 1, 1)
    wanted = convolved(steps, w.astype(np.int64), strides, dilations, pads) * (
        unit * units.astype(np.float64)
    ).reshape(line if per_channel else ())
    # units are powers of two apart: every number here is exact
    np.testing.assert_array_equal(found, (wanted + bias.reshape(line)).astype(np.float32))
    text = model.lower().as_text("ptir")
    assert "dot_general" in text
    assert (
        f"tensor<i8, {shape[0]}x{math.prod(shape[1:])}>" in text
    )  # (rows of a product by pixels lie together)


def test_channels_apart_stay_a_convolution() -> None:
    rng = np.random.default_rng(11)
    x = rng.integers(0, 256, (1, 16, 6, 6)).astype(np.uint8)
    w = rng.integers(-128, 128, (16, 1, 3, 3)).astype(np.int8)
    model = loaded(
        [helper.make_node("ConvInteger", ["x", "w"], ["y"], group=16)], x, {"w": w}, TensorProto.INT32
    )
    (found,) = model.run(None, {"x": x})
    for c in range(16):
        wanted = convolved(
            x[:, c : c + 1].astype(np.int64), w[c : c + 1].astype(np.int64), [1, 1], [1, 1], [0, 0, 0, 0]
        )
        np.testing.assert_array_equal(np.asarray(found)[:, c : c + 1], wanted)
    assert "convolution" in model.lower().as_text("ptir")


@pytest.mark.parametrize("case", CASES)
def test_sizes_with_names_are_convolved_as_integers_too(case: str) -> None:
    dims, shape, strides, dilations, pads = CASES[case]
    rng = np.random.default_rng(10)
    w = rng.integers(-128, 128, shape).astype(np.int8)
    node = helper.make_node(
        "ConvInteger", ["x", "w", "a", "b"], ["y"], strides=strides, dilations=dilations, pads=pads
    )
    names: list[str | int] = ["batch", dims[1], *(f"side{n}" for n in range(len(dims) - 2))]
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, names)],
        [helper.make_tensor_value_info("y", TensorProto.INT32, None)],
        [
            numpy_helper.from_array(np.asarray(v), k)
            for k, v in {"w": w, "a": np.uint8(77), "b": np.int8(0)}.items()
        ],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    bounds = {name: (1 if name == "batch" else 5, 24) for name in names if isinstance(name, str)}
    model = planish.onnx.load(proto.SerializeToString(), dims=bounds)
    assert "convolution" not in planish.ptir.print(model.program().function)
    for more in (0, 1, 4):
        x = rng.integers(0, 256, (dims[0] + more, dims[1], *(side + more for side in dims[2:]))).astype(
            np.uint8
        )
        (found,) = model.run(None, {"x": x})
        wide = w.astype(np.int64)
        np.testing.assert_array_equal(
            found, convolved(x.astype(np.int64) - 77, wide, strides, dilations, pads)
        )
    assert model.compilations == 1
