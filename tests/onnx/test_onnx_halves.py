"""Models in half precision compute in float32 on a processor, and round where halves are asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from planish import dtypes
from planish.onnx import load

RNG = np.random.default_rng(6)
HEAD = '<ir_version: 9, opset_import: ["" : 17]>\n'


def model(text: str, **weights: Any) -> Any:
    proto = onnx.parser.parse_model(HEAD + text)
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    return load(proto.SerializeToString())


def test_values_between_ops_are_not_rounded():
    """(x + 2048) - 2048 is 0 for small halves that are rounded in between."""
    made = model(
        "m (float16[64] x) => (float16[64] y) { a = Add(x, c) b = Sub(a, c) y = Mul(b, b) }",
        c=np.array(2048, np.float16),
    )
    x = RNG.random(64).astype(np.float16)
    (y,) = made.run(None, {"x": x})
    assert y.dtype == np.float16
    wide = (x.astype(np.float32) + np.float32(2048)) - np.float32(2048)
    np.testing.assert_array_equal(y, (wide * wide).astype(np.float16))
    function = made.lower(x=x.shape).function
    assert sum(inst.result.type.dtype is dtypes.float16 for inst in function.body if inst.results) == 1


def test_kernels_are_widened_once_and_matrices_stay_halves():
    kernel = RNG.standard_normal((8, 4, 3, 3)).astype(np.float16)
    matrix = RNG.standard_normal((36, 16)).astype(np.float16)
    made = model(
        "m (float16[1, 4, 5, 5] x) => (float16[8, 16] y)"
        " { a = Conv(x, k) b = Relu(a) s = Constant<value_ints = [8, 9]>() c = Reshape(b, s)"
        " d = Concat<axis = 1>(c, c, c, c) y = MatMul(d, w) }",
        k=kernel,
        w=matrix,
    )
    x = RNG.standard_normal((1, 4, 5, 5)).astype(np.float16)
    (y,) = made.run(None, {"x": x})
    patches = np.lib.stride_tricks.sliding_window_view(x[0].astype(np.float32), (3, 3), (1, 2))
    sums = np.einsum("cyxhw,ochw->oyx", patches, kernel.astype(np.float32)).reshape(8, 9)
    wanted = np.tile(np.maximum(sums, 0), 4) @ matrix.astype(np.float32)
    np.testing.assert_allclose(y.astype(np.float32), wanted, rtol=2e-3, atol=2e-2)
    kinds = {value.type.dims: value.type.dtype for value in made.program().function.params}
    assert kinds[8, 4, 3, 3] is dtypes.float32
    assert kinds[36, 16] is dtypes.float16


def test_orders_are_those_of_halves():
    """Two sums that differ as float32, and not as halves, are equal: the first of them is the largest."""
    made = model(
        "m (float16[2] x) => (int64[1] i) { a = Add(x, c) i = ArgMax<axis = 0>(a) }",
        c=np.array(2048, np.float16),
    )
    (i,) = made.run(None, {"x": np.array([0.25, 0.5], np.float16)})
    assert i.tolist() == [0]


def test_what_a_loop_carries_is_rounded():
    body = "body (int64 n, bool go, float16 a) => (bool on, float16 b) { on = Identity(go) b = Add(a, s) }"
    made = model(
        "m (float16 x, float16 s) => (float16 y)"
        f" {{ k = Constant<value_int = 4>() t = Constant<value = bool[1] {{1}}>() g = Squeeze(t) y = Loop<body = {body}>(k, g, x) }}",
    )
    (y,) = made.run(None, {"x": np.array(2048, np.float16), "s": np.array(0.75, np.float16)})
    wanted = np.float16(2048)
    for _ in range(4):
        wanted = np.float16(wanted + np.float16(0.75))
    assert y == wanted
