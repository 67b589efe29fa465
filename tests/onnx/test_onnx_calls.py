"""A call of a model that was run before is one call of machine code: nothing is imported or copied again."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from planish.compiler.executable import Executable
from planish.onnx import Model, load

RNG = np.random.default_rng(3)


def model_of(nodes: list[onnx.NodeProto], weights: dict[str, Any], out: str = "y") -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes, "m", [helper.make_tensor_value_info("x", 1, [4, 80])],
        [helper.make_tensor_value_info(out, 1, None)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def weights(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


W = weights(96, 80)
CASES: dict[str, tuple[list[onnx.NodeProto], dict[str, Any], Any]] = {
    "weights of the file": (
        [helper.make_node("Gemm", ["x", "w", "b"], ["y"], transB=1)],
        {"w": W, "b": weights(96)},
        lambda x, w, b: x @ w.T + b,
    ),
    "dropout": (
        [
            helper.make_node("MatMul", ["x", "w"], ["a"]),
            helper.make_node("Dropout", ["a"], ["y"]),
        ],
        {"w": weights(80, 96)},
        lambda x, w: x @ w,
    ),
    "transposed weights": (
        [
            helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0]),
            helper.make_node("MatMul", ["x", "t"], ["y"]),
        ],
        {"w": W},
        lambda x, w: x @ w.T,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_second_call_is_one_of_machine_code(name: str, monkeypatch: pytest.MonkeyPatch):
    nodes, arrays, wanted = CASES[name]
    model = load(model_of(nodes, arrays).SerializeToString())
    x = weights(4, 80)
    (first,) = model.run(None, {"x": x})
    slow: list[str] = []

    def general(self: Executable, *given: object) -> Any:
        slow.append("slow")
        raise AssertionError("plain arrays took the way of other layouts")

    def record(self: Model, *given: object) -> Any:
        raise AssertionError("the model was imported again")

    monkeypatch.setattr(Executable, "general", general)
    monkeypatch.setattr(Model, "record", record)
    (second,) = model.run(None, {"x": x})
    assert not slow
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(second, wanted(x, *arrays.values()), rtol=2e-4, atol=2e-4)
