"""Products between QuantizeLinear and DequantizeLinear: sums of integers, which floats only take their unit from."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

import planish.onnx

Array = NDArray[Any]
_UNIT = np.float32(0.0625)


def model_of(nodes: list[Any], known: dict[str, Any], rows: int, terms: int) -> Any:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, terms])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in known.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    return planish.onnx.load(model.SerializeToString())


def wrapped(product: Any, axis: int) -> list[Any]:
    return [
        helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "xs", "xz"], ["xd"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], axis=axis),
        product,
    ]


CASES = {
    "bytes": (np.uint8, 28, np.int8, 0, True, False),
    "one unit": (np.uint8, 28, np.int8, 0, False, False),
    "no zero point": (np.uint8, 0, np.int8, 0, True, False),
    "signed": (np.int8, -3, np.int8, 0, True, False),
    "weights with zero points": (np.uint8, 200, np.uint8, 119, True, False),
    "turned weights": (np.uint8, 28, np.int8, 0, True, True),
}


@pytest.mark.parametrize("case", CASES)
def test_what_was_quantised_is_multiplied_as_integers(case: str) -> None:
    kind, zero, weight_kind, weight_zero, per_column, turned = CASES[case]
    rng = np.random.default_rng(5)
    rows, terms, columns = 9, 33, 17
    low, high = np.iinfo(weight_kind).min, np.iinfo(weight_kind).max
    w = rng.integers(low, high + 1, (terms, columns)).astype(weight_kind)
    units = rng.integers(1, 9, columns if per_column else ()).astype(np.float32) / 64
    zeros = np.full(columns if per_column else (), weight_zero, weight_kind)
    known = {"w": w.T.copy() if turned else w, "ws": units, "wz": zeros, "xs": _UNIT, "xz": kind(zero)}
    product = helper.make_node("Gemm" if turned else "MatMul", ["xd", "wd"], ["y"])
    if turned:
        product.attribute.append(helper.make_attribute("transB", 1))
    model = model_of(wrapped(product, 0 if turned else 1), known, rows, terms)
    x = rng.standard_normal((rows, terms)).astype(np.float32) * 8
    (found,) = model.run(None, {"x": x})
    info = np.iinfo(kind)
    steps = np.clip(np.rint(x / _UNIT) + zero, info.min, info.max) - zero
    # units are powers of two apart: every number here is exact
    wanted = steps @ (w.astype(np.float64) - weight_zero) * _UNIT * units
    np.testing.assert_array_equal(np.asarray(found), wanted.astype(np.float32))
    assert "accum_dtype=i32" in model.lower().as_text("ptir")


def test_units_along_the_sum_stay_floats() -> None:
    rng = np.random.default_rng(6)
    w = rng.integers(-128, 128, (16, 8)).astype(np.int8)
    units = rng.random(16).astype(np.float32)
    known = {"w": w, "ws": units, "wz": np.zeros(16, np.int8), "xs": _UNIT, "xz": np.uint8(9)}
    model = model_of(wrapped(helper.make_node("MatMul", ["xd", "wd"], ["y"]), 0), known, 4, 16)
    x = rng.standard_normal((4, 16)).astype(np.float32)
    steps = np.clip(np.rint(x / _UNIT) + 9, 0, 255) - 9
    (found,) = model.run(None, {"x": x})
    np.testing.assert_allclose(found, (steps * _UNIT) @ (w * units[:, None]), rtol=1e-5, atol=1e-4)
    assert "accum_dtype=i32" not in model.lower().as_text("ptir")


def test_a_matrix_of_bytes_that_is_looked_up_is_unpacked_once() -> None:
    rng = np.random.default_rng(7)
    w = rng.integers(-128, 128, (64, 8)).astype(np.int8)
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], axis=1),
        helper.make_node("Cast", ["x"], ["rows"], to=TensorProto.INT64),
        helper.make_node("Gather", ["wd", "rows"], ["y"]),
    ]
    known: dict[str, Any] = {"w": w, "ws": rng.random(8).astype(np.float32), "wz": np.zeros(8, np.int8)}
    model = model_of(nodes, known, 2, 3)
    x = rng.integers(0, 64, (2, 3)).astype(np.float32)
    (found,) = model.run(None, {"x": x})
    np.testing.assert_array_equal(found, (w * known["ws"])[x.astype(int)])


def test_rows_without_a_number_are_multiplied_by_the_same_instructions() -> None:
    """A core that takes one row at a time takes as many as there are."""
    rng = np.random.default_rng(8)
    w = rng.integers(-128, 128, (64, 96)).astype(np.int8)
    text = """<ir_version: 9, opset_import: ["" : 17]>
    m (uint8[n, 64] x) => (int32[n, 96] y) <uint8 zero = {5}> { y = MatMulInteger(x, w, zero) }"""
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.append(numpy_helper.from_array(w, "w"))
    named = planish.onnx.load(proto.SerializeToString(), dims={"n": (1, 300)})
    for rows in (1, 7, 40, 299):
        x = rng.integers(0, 256, (rows, 64)).astype(np.uint8)
        (found,) = named.run(None, {"x": x})
        np.testing.assert_array_equal(found, (x.astype(np.int64) - 5) @ w)
    fixed = planish.onnx.load(proto.SerializeToString()).lower(x=(300, 64)).compile().why()
    assert ("tensor_core" in fixed) == ("tensor_core" in named.lower().compile().why())
