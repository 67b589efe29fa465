"""Models that onnxruntime has rewritten and saved: blocked layouts, fused ops, channels at the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import planish.onnx as ours

theirs = pytest.importorskip("onnxruntime")
RNG = np.random.default_rng(8)

CONVOLUTIONS = """
<ir_version: 9, opset_import: ["" : 17]>
net (float[2, 3, 17, 19] x) => (float[2, 10] y, float[2, 20, 9, 10] m)
{
  a = Conv<kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2]>(x, w0, b0)
  r = Relu(a)
  d = Conv<kernel_shape = [3, 3], pads = [1, 1, 1, 1], group = 20>(r, w1, b1)
  s = Conv<kernel_shape = [1, 1]>(d, w2, b2)
  t = Add(s, r)
  u = Relu(t)
  m = MaxPool<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(u)
  v = AveragePool<kernel_shape = [2, 2], strides = [2, 2]>(m)
  c = Concat<axis = 1>(v, v)
  e = Conv<kernel_shape = [3, 3], dilations = [2, 2], pads = [2, 2, 2, 2]>(c, w3, b3)
  l = LeakyRelu<alpha = 0.2>(e)
  p = GlobalAveragePool(l)
  f = Flatten(p)
  y = Gemm<transB = 1>(f, w4, b4)
}
"""
SHAPES = {
    "w0": (20, 3, 3, 3), "b0": (20,), "w1": (20, 1, 3, 3), "b1": (20,), "w2": (20, 20, 1, 1), "b2": (20,),
    "w3": (32, 40, 3, 3), "b3": (32,), "w4": (10, 32), "b4": (10,),
}  # fmt: skip
DOUBLED = """
<ir_version: 9, opset_import: ["" : 17]>
net (float[1, 3, 9, 11] x) => (float[1, 16, 36, 44] y) <float[4] factors = {1.0, 1.0, 2.0, 2.0}>
{
  a = Conv<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(x, w0)
  b = Resize<mode = "linear", coordinate_transformation_mode = "half_pixel">(a, , factors)
  c = Conv<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(b, w1)
  d = Resize<mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor">(c, , factors)
  y = Conv<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(d, w1)
}
"""
ATTENTIVE = """
<ir_version: 9, opset_import: ["" : 17]>
net (float[2, 6, 32] x) => (float[2, 6, 32] y)
<float two = {2.0}, float half = {0.5}, float one = {1.0}, float root = {1.4142135}, float eps = {0.00001}>
{
  m = MatMul(x, w0)  h = Add(m, b0)
  g0 = Div(h, root)  g1 = Erf(g0)  g2 = Add(g1, one)  g3 = Mul(h, g2)  g4 = Mul(g3, half)
  o = MatMul(g4, w1)  p = Add(o, b1)  q = Add(p, x)
  mean = ReduceMean<axes = [-1]>(q)  c = Sub(q, mean)  sq = Pow(c, two)  var = ReduceMean<axes = [-1]>(sq)
  ve = Add(var, eps)  sd = Sqrt(ve)  n = Div(c, sd)  ns = Mul(n, gain)  y = Add(ns, shift)
}
"""
ATTENTIVE_SHAPES = {"w0": (32, 64), "b0": (64,), "w1": (64, 32), "b1": (32,), "gain": (32,), "shift": (32,)}


def with_weights(text: str, shapes: dict[str, tuple[int, ...]]) -> Any:
    model = onnx.parser.parse_model(text)
    for name, shape in shapes.items():
        array = (RNG.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return model.SerializeToString()


CASES: dict[str, tuple[str, dict[str, tuple[int, ...]], tuple[int, ...], str]] = {
    "convolutions": (CONVOLUTIONS, SHAPES, (2, 3, 17, 19), "com.microsoft.nchwc"),
    "doubled": (DOUBLED, {"w0": (16, 3, 3, 3), "w1": (16, 16, 3, 3)}, (1, 3, 9, 11), "com.microsoft.nchwc"),
    "attentive": (ATTENTIVE, ATTENTIVE_SHAPES, (2, 6, 32), "com.microsoft"),
}


@pytest.mark.parametrize("level", ["ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL"])
@pytest.mark.parametrize("name", CASES)
def test_models_that_onnxruntime_saved(name: str, level: str, tmp_path: Path):
    text, shapes, shape, domain = CASES[name]
    options = theirs.SessionOptions()
    options.graph_optimization_level = getattr(theirs.GraphOptimizationLevel, level)
    options.optimized_model_filepath = str(tmp_path / "saved.onnx")
    options.log_severity_level = 4
    session = theirs.InferenceSession(with_weights(text, shapes), options, providers=["CPUExecutionProvider"])
    x = RNG.standard_normal(shape).astype(np.float32)
    wanted = session.run(None, {"x": x})
    saved = tmp_path / "saved.onnx"
    if level == "ORT_ENABLE_ALL":
        assert domain in {node.domain for node in onnx.load(saved).graph.node}
    for got, want in zip(ours.InferenceSession(saved).run(None, {"x": x}), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5)
