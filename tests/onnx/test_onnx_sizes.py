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


# Models as exporters write them: what they compute of sizes, and what one size is of another. Weights, and inputs for numbers.
OF_SIZES: dict[str, tuple[str, dict[str, Any], Any, list[tuple[int, ...]]]] = {
    "expand where a size is not -1": (
        """m (float[batch, n] x) => (float[batch, k, 3] y) <int64[1] ones = {-1}, int64[1] third = {3}, int64[1] at = {2}>
        {
          s = Shape(x) r = Concat<axis = 0>(s, third) of = Shape(r) one = ConstantOfShape<value = int64[1] {1}>(of)
          none = Mul(one, ones) same = Equal(r, none) wanted = Where(same, one, r)
          e = Unsqueeze(x, at) y = Expand(e, wanted)
        }""",
        {},
        lambda b, n: {"x": (b, n)},
        [(2, 5), (3, 7), (4, 6), (5, 9), (2, 16)],
    ),
    "a mask as long as past and present": (
        """m (float[b, s, 8] x, float[b, total] mask, float[b, past, 8] old) => (float[b, s, t] y)
        <int64[1] one = {1}>
        {
          all = Concat<axis = 1>(old, x) turned = Transpose<perm = [0, 2, 1]>(all) q = MatMul(x, turned)
          m = Unsqueeze(mask, one) y = Add(q, m)
        }""",
        {},
        lambda b, s, p: {"x": (b, s, 8), "mask": (b, s + p), "old": (b, p, 8)},
        [(1, 4, 3), (1, 1, 7), (1, 1, 8), (1, 1, 9), (1, 1, 14)],
    ),
    "rows of a table": (
        """m (float[b, n] x) => (float[b, n] y) <int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}>
        { s = Shape(x) n = Slice(s, one, two) t = Slice(table, zero, n, one) y = Add(x, t) }""",
        {"table": (1, 12)},
        lambda b, n: {"x": (b, n)},
        [(2, 5), (3, 7), (4, 6), (5, 9), (2, 12)],
    ),
    "inputs without names": (
        "m (float[?, ?] x, float[?, ?] z) => (float[p, q] y) { y = Add(x, z) }",
        {},
        lambda b, n: {"x": (b, n), "z": (b, n)},
        [(2, 3), (4, 5), (7, 6), (9, 9), (3, 16)],
    ),
    "tiles, parts and the number of elements": (
        """m (float[n, m] x) => (float[p, q] y, float[r, s] u, int64[k] count) <int64[2] twice = {2, 2}, int64[1] minus = {-1}>
        { c = Size(x) s = Shape(x) y = Tile(x, s) e = Tile(x, twice) u, v = Split<axis = 0>(e) count = Reshape(c, minus) }""",
        {},
        lambda b, n: {"x": (b, n)},
        [(2, 3), (4, 5), (7, 6), (9, 9), (3, 16)],
    ),
    "frames of a signal": (
        """m (float[b, n] x) => (float[b, f, 9, 2] y) <int64 hop = {8}, int64 frame = {16}> { y = STFT(x, hop, , frame) }""",
        {},
        lambda b, n: {"x": (b, n)},
        [(2, 40), (3, 48), (4, 50), (2, 63), (5, 64)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_SIZES)
def test_what_exporters_compute_of_sizes_is_followed(name: str):
    text, weights, inputs, sizes = OF_SIZES[name]
    proto = onnx.parser.parse_model(HEAD + text)
    for weight, shape in weights.items():
        proto.graph.initializer.append(
            numpy_helper.from_array(RNG.standard_normal(shape).astype(np.float32), weight)
        )
    data = proto.SerializeToString()
    with settings(cache=False):
        model = load(data)
        for numbers in sizes:
            given = feeds(inputs(*numbers))
            for got, wanted in zip(model.run(None, given), load(data).run(None, given), strict=True):
                np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-5)
        assert model.sizes.reason is None
        assert model.compilations == 3


def test_sizes_of_another_dtype_stay_of_it():
    text = """m (float[b, n] x) => (float[b, k] y) <int32[1] four = {4}, int64[1] one = {1}, int64[1] zero = {0}, int64[1] two = {2}>
    {
      s = Shape(x) c = Cast<to = 6>(s) n = Slice(c, zero, one) d = Sub(n, n) e = Add(d, four) w = Concat<axis = 0>(e, four)
      k = Cast<to = 7>(w) z = ConstantOfShape<value = float[1] {1.0}>(k) r = ReduceSum<keepdims = 0>(z) y = Add(x, r)
    }"""
    with settings(cache=False):
        model = load(onnx.parser.parse_model(HEAD + text))
        for shape in ((2, 3), (4, 5), (6, 7), (3, 9)):
            (found,) = model.run(None, {"x": np.ones(shape, np.float32)})
            np.testing.assert_array_equal(found, np.full(shape, 17, np.float32))
        assert model.sizes.reason is None


def test_attention_with_a_past_has_one_program():
    """As onnxruntime's optimiser fuses it."""
    head = '<ir_version: 9, opset_import: ["" : 17, "com.microsoft" : 1]>\n'
    text = """m (float[b, s, 24] q, float[b, s, 24] k, float[b, s, 24] v, float[b, 3, past, 8] pk, float[b, 3, past, 8] pv)
    => (float[b, s, 24] y, float[b, 3, t, 8] nk, float[b, 3, t, 8] nv)
    { y, nk, nv = com.microsoft.MultiHeadAttention<num_heads = 3, unidirectional = 1>(q, k, v, , , , pk, pv) }"""
    data = onnx.parser.parse_model(head + text).SerializeToString()
    with settings(cache=False):
        model = load(data)
        for batch, length, past in ((2, 3, 4), (2, 2, 7), (3, 4, 5), (2, 3, 9), (4, 2, 12)):
            new, old = (batch, length, 24), (batch, 3, past, 8)
            given = feeds({"q": new, "k": new, "v": new, "pk": old, "pv": old})
            for got, wanted in zip(model.run(None, given), load(data).run(None, given), strict=True):
                np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-5)
        assert model.compilations == 3


def test_queries_that_share_keys_have_one_program():
    """As exports for text generation have it: how long everything is, is a size of the mask."""
    head = '<ir_version: 9, opset_import: ["" : 17, "com.microsoft" : 1]>\n'
    text = """m (float[b, s, 32] q, float[b, s, 16] k, float[b, s, 16] v, float[b, 2, past, 8] pk, float[b, 2, past, 8] pv, int64[b, total] mask)
    => (float[b, s, 32] y, float[b, 2, t, 8] nk, float[b, 2, t, 8] nv)
    <int64[1] one = {1}, int64[1] axis = {1}, int64 first = {1}>
    {
      seen = ReduceSum<keepdims = 1>(mask, axis) less = Sub(seen, one) last = Cast<to = 6>(less)
      s = Shape(mask) n = Gather<axis = 0>(s, first) total = Cast<to = 6>(n)
      y, nk, nv = com.microsoft.GroupQueryAttention<num_heads = 4, kv_num_heads = 2>(q, k, v, pk, pv, last, total)
    }"""
    data = onnx.parser.parse_model(head + text).SerializeToString()
    with settings(cache=False):
        model = load(data)
        for batch, length, past in ((2, 3, 4), (2, 2, 7), (3, 4, 5), (2, 3, 9), (4, 2, 12)):
            old = (batch, 2, past, 8)
            given = feeds(
                {
                    "q": (batch, length, 32),
                    "k": (batch, length, 16),
                    "v": (batch, length, 16),
                    "pk": old,
                    "pv": old,
                }
            )
            given["mask"] = np.ones((batch, length + past), np.int64)
            for got, wanted in zip(model.run(None, given), load(data).run(None, given), strict=True):
                np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-5)
        assert model.sizes.reason is None
        assert model.compilations == 3
