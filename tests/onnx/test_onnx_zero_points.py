"""Zero points that are known: a product of bytes stays one of bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import planish.onnx


@pytest.mark.parametrize(("point", "kind"), [(0, "i8"), (5, "i16")])
def test_a_zero_point_of_0_does_not_widen_the_weights(point: int, kind: str) -> None:
    rng = np.random.default_rng(4)
    x, w = (rng.integers(-128, 128, (16, 16)).astype(np.int8) for _ in range(2))
    known = {"w": w, "a": np.int8(3), "b": np.int8(point)}
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["x", "w", "a", "b"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.INT8, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.INT32, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in known.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    loaded = planish.onnx.load(model.SerializeToString())
    (found,) = loaded.run(None, {"x": x})
    wide = w.astype(np.int32) - point
    np.testing.assert_array_equal(np.asarray(found), (x.astype(np.int32) - 3) @ wide)
    assert f"tensor<{kind}, 16x16>) ->" in loaded.lower().as_text("ptir")


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
@pytest.mark.parametrize("per_column", [False, True])
@pytest.mark.parametrize("span", [60, 255])
def test_known_weights_are_signed_bytes_whatever_their_zero_points(
    kind: type[np.integer[Any]], per_column: bool, span: int
) -> None:
    rng = np.random.default_rng(8)
    low = int(np.iinfo(kind).min)
    x = rng.integers(0, 256, (2, 5, 19)).astype(np.uint8)
    w = rng.integers(low, low + span + 1, (19, 7)).astype(kind)
    points = (low + rng.integers(20, 40, 7 if per_column else ())).astype(kind)
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["x", "w", "a", "b"], ["y"])],
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.UINT8, x.shape),
            helper.make_tensor_value_info("a", TensorProto.UINT8, []),
        ],
        [helper.make_tensor_value_info("y", TensorProto.INT32, None)],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(np.asarray(points), "b")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    loaded = planish.onnx.load(model.SerializeToString())
    for zero in (0, 131, 255):
        (found,) = loaded.run(None, {"x": x, "a": np.uint8(zero)})
        wanted = (x.astype(np.int64) - zero) @ (w.astype(np.int64) - points.astype(np.int64))
        np.testing.assert_array_equal(np.asarray(found), wanted)
    if span == 60 or kind is np.uint8:
        assert "tensor<i8, 19x7>" in loaded.lower().as_text("ptir")
