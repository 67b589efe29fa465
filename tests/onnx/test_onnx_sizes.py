"""Sizes that a model leaves open: one program for all of them, the same answers as programs of their own."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from planish.config import settings
from planish.errors import PlanishError
from planish.onnx import load
from planish.onnx.any_size import _HOT

RNG = np.random.default_rng(2)
HEAD = '<ir_version: 9, opset_import: ["" : 17]>\n'
# a model, its weights, and its inputs for a batch and a length
TEXTS: dict[str, tuple[str, dict[str, tuple[int, ...]], Any]] = {
    "dense": (
        "m (float[batch, 24] x) => (float[batch, 40] y) { a = MatMul(x, w) b = Relu(a) y = Add(b, c) }",
        {"w": (24, 40), "c": (40,)},
        lambda b, n: {"x": (b, 24)},
    ),
    "attention": (
        """m (float[batch, length, 32] x) => (float[batch, length, 32] y)
        <int64[1] zero = {0}, int64[1] one = {1}, int64[1] minus = {-1}, int64[1] heads = {4}>
        {
          s = Shape(x) b = Slice(s, zero, one) two = Add(one, one) n = Slice(s, one, two)
          wanted = Concat<axis = 0>(b, n, heads, minus)
          q = MatMul(x, w0) k = MatMul(x, w1) v = MatMul(x, w2)
          q4 = Reshape(q, wanted) k4 = Reshape(k, wanted) v4 = Reshape(v, wanted)
          qt = Transpose<perm = [0, 2, 1, 3]>(q4) kt = Transpose<perm = [0, 2, 3, 1]>(k4)
          vt = Transpose<perm = [0, 2, 1, 3]>(v4)
          scores = MatMul(qt, kt) shares = Softmax<axis = -1>(scores) mixed = MatMul(shares, vt)
          back = Transpose<perm = [0, 2, 1, 3]>(mixed)
          flat = Concat<axis = 0>(b, n, minus) joined = Reshape(back, flat) y = Add(joined, x)
        }""",
        {"w0": (32, 32), "w1": (32, 32), "w2": (32, 32)},
        lambda b, n: {"x": (b, n, 32)},
    ),
    "two inputs": (
        """m (float[batch, length] x, float[batch, length] z) => (float[batch] y, float[batch, k] c)
        <int64[1] last = {-1}> { p = Mul(x, z) y = ReduceSum<keepdims = 0>(p, last) c = Concat<axis = 1>(x, z) }""",
        {},
        lambda b, n: {"x": (b, n), "z": (b, n)},
    ),
    "unnamed": (
        "m (float[?, ?, 8] x) => (float[a, b, 8] y) { e = Exp(x) y = Softmax<axis = 1>(e) }",
        {},
        lambda b, n: {"x": (b, n, 8)},
    ),
}
SIZES = [(2, 5), (3, 7), (1, 1), (5, 2), (4, 12), (2, 33)]


def model_of(name: str) -> tuple[Any, Any]:
    text, shapes, inputs = TEXTS[name]
    model = onnx.parser.parse_model(HEAD + text)
    for weight, shape in shapes.items():
        array = (RNG.standard_normal(shape) / 5).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, weight))
    return model.SerializeToString(), inputs


def feeds(shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    return {name: RNG.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.mark.parametrize("name", TEXTS)
def test_one_program_serves_all_sizes_but_the_first_two(name: str):
    with settings(cache=False):
        data, inputs = model_of(name)
        model = load(data)
        for batch, length in SIZES:
            given = feeds(inputs(batch, length))
            for got, wanted in zip(model.run(None, given), load(data).run(None, given), strict=True):
                assert got.shape == wanted.shape
                np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-5)
        assert model.sizes.reason is None
        # three of their own (sizes of 1 are numbers), the one for all sizes, and a wider one where a size went beyond
        assert model.compilations <= 4 + 1


def test_bounds_grow_by_doubling():
    with settings(cache=False):
        data, inputs = model_of("dense")
        model = load(data)
        for batch in range(1, 40):
            model.run(None, feeds(inputs(batch, 0)))
        # 1 and 2 alone; up to 16 and 64
        assert model.compilations == 4


def test_a_size_that_is_met_often_gets_a_program_of_its_own():
    with settings(cache=False):
        data, inputs = model_of("dense")
        model = load(data)
        for batch in (2, 4):
            model.run(None, feeds(inputs(batch, 0)))
        given = feeds(inputs(3, 0))
        first = model.run(None, given)
        before = model.compilations
        for _ in range(_HOT):
            model.run(None, given)
        end = time.monotonic() + 60
        while len(model._tapes) < 3 and time.monotonic() < end:
            time.sleep(0.01)
        assert model.compilations == before + 1
        np.testing.assert_allclose(model.run(None, given)[0], first[0], rtol=1e-5, atol=1e-5)


def test_why_each_size_is_compiled_is_told(tmp_path: Path):
    text = HEAD + "m (float[n] x) => (int64[1, k] y) { y = NonZero(x) }"
    model = load(onnx.parser.parse_model(text))
    for size in (2, 3, 4):
        assert model(x=np.ones(size, np.float32))[0].tolist() == [list(range(size))]
    assert model.sizes.reason is not None
    assert "NonZero" in model.sizes.reason


def picture_model() -> bytes:
    """A picture halved, doubled and added to what it was; the sums of windows of that."""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["half"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("Resize", ["half", "", "factors"], ["whole"], mode="nearest",
                         coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
        helper.make_node("Add", ["x", "whole"], ["sum"]),
        helper.make_node("AveragePool", ["sum"], ["y"], kernel_shape=[5, 5], strides=[2, 2]),
    ]  # fmt: skip
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4, "height", "width"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    weights = [
        numpy_helper.from_array(rng.standard_normal((4, 4, 3, 3)).astype(np.float32), "w"),
        numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "factors"),
    ]
    graph = helper.make_graph(nodes, "picture", [x], [y], weights)
    model: bytes = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()
    return model


def test_pictures_of_even_sizes_have_one_program():
    """Whether x + upsample(downsample(x)) fits is certain for multiples alone, and a window of 5 for no small ones."""
    data = picture_model()
    model = load(data)
    rng = np.random.default_rng(1)
    for height, width in ((32, 48), (48, 32), (40, 56), (64, 64), (72, 24), (88, 96)):
        x = rng.standard_normal((1, 4, height, width)).astype(np.float32)
        (found,), (wanted,) = model(x=x), load(data)(x=x)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    assert model.sizes.reason is None
    assert model.compilations == 3
    # one that is no multiple has a program of its own, or an error of its own
    odd = rng.standard_normal((1, 4, 33, 48)).astype(np.float32)
    with pytest.raises(PlanishError, match="Add"):
        model(x=odd)


def test_sequences_have_no_sizes_to_follow():
    text = f"{HEAD}m (seq(float[n]) x) => (float[n] y) {{ y = ConcatFromSequence<axis = 0>(x) }}"
    given = [np.ones(2, np.float32), np.zeros(3, np.float32)]
    (found,) = load(onnx.parser.parse_model(text))(x=given)
    assert found.tolist() == [1, 1, 0, 0, 0]
