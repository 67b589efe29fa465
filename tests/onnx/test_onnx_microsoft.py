"""Ops of onnxruntime's exports against formulas in NumPy, and against onnxruntime where it is installed."""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, helper

from planish.onnx.model import Model

Array = NDArray[Any]
_PEER = importlib.util.find_spec("onnxruntime") is not None
rng = np.random.default_rng(8)


def normal(*shape: int) -> Array:
    return rng.standard_normal(shape).astype(np.float32)


def model_of(op: str, inputs: Sequence[Array | None], outputs: int, **attributes: Any) -> ModelProto:
    names = ["" if x is None else f"x{n}" for n, x in enumerate(inputs)]
    made = [f"y{n}" for n in range(outputs)]
    node = helper.make_node(op, names, made, "it", domain="com.microsoft", **attributes)
    given = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in zip(names, inputs, strict=True)
        if x is not None
    ]
    results = [helper.make_empty_tensor_value_info(name) for name in made]
    graph = helper.make_graph([node], "g", given, results)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def check(
    op: str,
    inputs: Sequence[Array | None],
    wanted: Sequence[Array],
    tolerance: float = 1e-5,
    peer: bool = True,
    **attributes: Any,
) -> None:
    """An op gives what a formula says, and what onnxruntime gives. Integers are the same."""
    model = model_of(op, inputs, len(wanted), **attributes)
    feeds = {f"x{n}": x for n, x in enumerate(inputs) if x is not None}
    got = Model(model, interpret=True).run(None, feeds)
    answers = [list(wanted)]
    if _PEER and peer:
        onnxruntime = importlib.import_module("onnxruntime")
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        answers.append(session.run(None, feeds))
    for answer in answers:
        for ours, theirs in zip(got, answer, strict=True):
            assert ours.shape == theirs.shape
            assert ours.dtype == theirs.dtype
            if ours.dtype.kind in "iu":
                np.testing.assert_array_equal(ours, theirs)
            else:
                np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


def erf(x: Array) -> Array:
    return np.asarray(np.vectorize(math.erf, otypes=[np.float32])(x))


def gelu(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + erf(x / np.sqrt(2))), np.float32)


def tanh_gelu(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))), np.float32)


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def softmax(x: Array, axis: int = -1) -> Array:
    grown = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(grown / grown.sum(axis, keepdims=True))


# -- elementwise and products ------------------------------------------------------------------------------------------


def test_gelu_in_its_forms() -> None:
    x, bias = normal(3, 8), normal(8)
    check("Gelu", [x], [gelu(x)])
    check("BiasGelu", [x, bias], [gelu(x + bias)])
    check("FastGelu", [x, bias], [tanh_gelu(x + bias)])
    check("QuickGelu", [x], [np.asarray(x * sigmoid(1.5 * x), np.float32)], alpha=1.5)


def test_fused_matmul() -> None:
    a, b = normal(2, 4, 3), normal(2, 5, 4)
    wanted = 0.5 * np.swapaxes(a, 1, 2) @ np.swapaxes(b, 1, 2)
    check("FusedMatMul", [a, b], [wanted], alpha=0.5, transA=1, transB=1)


def test_fused_gemm_and_convolution() -> None:
    a, b, c = normal(3, 4), normal(4, 5), normal(5)
    check("FusedGemm", [a, b, c], [np.maximum(2 * a @ b + c, 0)], activation="Relu", alpha=2.0)
    x, w, bias = normal(1, 2, 5), normal(3, 2, 1), normal(3)
    line = np.einsum("oi,bix->box", w[:, :, 0], x) + bias[:, None]
    check("FusedConv", [x, w, bias], [np.maximum(line, 0)], activation="Relu", peer=False)


@pytest.mark.parametrize(("bits", "with_zeros"), [(4, False), (4, True), (8, True)])
def test_matmul_of_few_bits(bits: int, with_zeros: bool) -> None:
    depth, width, block = 32, 6, 16
    whole = rng.integers(0, 1 << bits, (width, depth)).astype(np.uint8)
    scales = np.abs(normal(width, depth // block)) + 0.1
    zeros = rng.integers(0, 1 << bits, (width, depth // block)).astype(np.uint8)
    if not with_zeros:
        zeros[:] = 1 << (bits - 1)
    a = normal(3, depth)
    weights = (whole.astype(np.float32) - np.repeat(zeros, block, 1)) * np.repeat(scales, block, 1)

    def packed(x: Array) -> Array:
        return x if bits == 8 else np.asarray(x[:, ::2] | (x[:, 1::2] << 4))

    data = packed(whole).reshape(width, depth // block, block * bits // 8)
    inputs = [a, data, scales, *([packed(zeros)] if with_zeros else [])]
    attributes = {"K": depth, "N": width, "bits": bits, "block_size": block}
    check("MatMulNBits", inputs, [a @ weights.T], 1e-4, peer=bits == 4, **attributes)


# -- normalisation -----------------------------------------------------------------------------------------------------


def layer_norm(x: Array, scale: Array, bias: Array | float = 0.0, epsilon: float = 1e-5) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    return np.asarray(centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon) * scale + bias)


def test_skip_layer_normalization() -> None:
    x, skip, scale, shift, bias = normal(2, 3, 8), normal(2, 3, 8), normal(8), normal(8), normal(8)
    total = x + skip + bias
    wanted = layer_norm(total, scale, shift)
    check("SkipLayerNormalization", [x, skip, scale, shift, bias], [wanted], epsilon=1e-5)
    rms = total / np.sqrt((total**2).mean(-1, keepdims=True) + 1e-5) * scale
    check("SkipSimplifiedLayerNormalization", [x, skip, scale, bias], [rms], epsilon=1e-5)


def test_embed_layer_normalization() -> None:
    ids = rng.integers(0, 10, (2, 4)).astype(np.int32)
    kinds = rng.integers(0, 2, (2, 4)).astype(np.int32)
    words, places, segments = normal(10, 8), normal(6, 8), normal(2, 8)
    scale, shift = normal(8), normal(8)
    mask = np.array([[1, 1, 1, 0], [1, 1, 0, 0]], np.int32)
    total = words[ids] + places[:4] + segments[kinds]
    wanted = [layer_norm(total, scale, shift, 1e-12), np.array([3, 2], np.int32)]
    check("EmbedLayerNormalization", [ids, kinds, words, places, segments, scale, shift, mask], wanted)


# -- attention ---------------------------------------------------------------------------------------------------------


def heads_of(x: Array, heads: int) -> Array:
    return np.swapaxes(x.reshape(*x.shape[:2], heads, -1), 1, 2)


def attended(q: Array, k: Array, v: Array, allowed: Array | None = None) -> Array:
    """(B, H, L, D) with (B, G, S, D): merged to (B, L, H·D)."""
    many = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, many, 1), np.repeat(v, many, 1)
    scores = q @ np.swapaxes(k, 2, 3) / np.sqrt(q.shape[3])
    if allowed is not None:
        scores = np.where(allowed, scores, -1e30)
    result = np.swapaxes(softmax(scores) @ v, 1, 2)
    return np.asarray(result.reshape(*result.shape[:2], -1), np.float32)


@pytest.mark.parametrize("causal", [0, 1])
def test_attention(causal: int) -> None:
    x, w, b = normal(2, 5, 8), normal(8, 24), normal(24)
    mask = np.array([5, 3], np.int32)
    q, k, v = (heads_of(part, 2) for part in np.split(x @ w + b, 3, 2))
    allowed = (np.arange(5) < mask[:, None])[:, None, None] & (np.tri(5, dtype=bool) | (not causal))
    wanted = attended(q, k, v, allowed)
    check("Attention", [x, w, b, mask], [wanted], 1e-4, num_heads=2, unidirectional=causal)


def test_multi_head_attention() -> None:
    q, k, v = normal(2, 3, 8), normal(2, 5, 8), normal(2, 5, 8)
    bias = normal(24)
    parts = [x + b for x, b in zip((q, k, v), np.split(bias, 3), strict=True)]
    wanted = attended(*(heads_of(x, 2) for x in parts))
    check("MultiHeadAttention", [q, k, v, bias], [wanted], 1e-4, num_heads=2)


def rotated(x: Array, cosine: Array, sine: Array, positions: Array) -> Array:
    """(B, H, L, D), halves against each other."""
    c, s = cosine[positions][:, None], sine[positions][:, None]
    first, second = np.split(x, 2, -1)
    return np.concatenate([first * c - second * s, first * s + second * c], -1)


def tables(count: int, half: int) -> tuple[Array, Array]:
    angles = np.arange(count)[:, None] / 10.0 ** (np.arange(half) / half)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def test_rotary_embedding() -> None:
    x, positions = normal(2, 3, 5, 8), np.array([[0, 1, 2, 3, 4], [2, 3, 4, 5, 6]])
    cosine, sine = tables(10, 4)
    wanted = rotated(x, cosine, sine, positions)
    check("RotaryEmbedding", [x, positions, cosine, sine], [wanted])


@pytest.mark.parametrize(("window", "rotary"), [(-1, 0), (-1, 1), (3, 0)])
def test_group_query_attention_of_a_prompt(window: int, rotary: int) -> None:
    q, k, v = normal(2, 5, 64), normal(2, 5, 32), normal(2, 5, 32)
    last, total = np.array([4, 4], np.int32), np.array([5], np.int32)
    cosine, sine = tables(12, 8)
    a, b, c = heads_of(q, 4), heads_of(k, 2), heads_of(v, 2)
    if rotary:
        line = np.arange(5)[None].repeat(2, 0)
        a, b = rotated(a, cosine, sine, line), rotated(b, cosine, sine, line)
    seen = np.tri(5, dtype=bool)
    if window > 0:
        seen &= ~np.tri(5, k=-window, dtype=bool)
    inputs = [q, k, v, None, None, last, total, *([cosine, sine] if rotary else [])]
    attributes: dict[str, Any] = {
        "num_heads": 4,
        "kv_num_heads": 2,
        "local_window_size": window,
        "do_rotary": rotary,
    }
    check("GroupQueryAttention", inputs, [attended(a, b, c, seen), b, c], 1e-4, **attributes)


def test_group_query_attention_of_a_step() -> None:
    q, k, v = normal(2, 1, 32), normal(2, 1, 16), normal(2, 1, 16)
    past_key, past_value = normal(2, 2, 6, 8), normal(2, 2, 6, 8)
    last, total = np.array([4, 6], np.int32), np.array([7], np.int32)
    keys, values = (np.zeros((2, 2, 7, 8), np.float32) for _ in range(2))
    for old, new, into in ((past_key, k, keys), (past_value, v, values)):
        for n, end in enumerate(last):
            into[n, :, :end] = old[n, :, :end]
            into[n, :, end] = new[n].reshape(2, 8)
    seen = (np.arange(7) <= last[:, None])[:, None, None]
    inputs = [q, k, v, past_key, past_value, last, total]
    wanted = attended(heads_of(q, 4), keys, values, seen)
    check("GroupQueryAttention", inputs, [wanted], 1e-4, peer=False, num_heads=4, kv_num_heads=2)


# -- quantised ---------------------------------------------------------------------------------------------------------

_S = [np.array(s, np.float32) for s in (0.0213, 0.0497, 0.0391)]
_Z = [np.array(z, np.uint8) for z in (120, 131, 128)]


def bytes_of(*shape: int) -> Array:
    return rng.integers(0, 256, shape).astype(np.uint8)


def floats(x: Array, n: int) -> Array:
    return np.asarray((x.astype(np.float32) - _Z[n].astype(np.float32)) * _S[n])


def again(x: Array) -> Array:
    return np.clip(np.rint(x / _S[2]) + _Z[2], 0, 255).astype(np.uint8)


def test_quantised_pairs() -> None:
    a, b = bytes_of(3, 4), bytes_of(3, 4)
    inputs = [a, _S[0], _Z[0], b, _S[1], _Z[1], _S[2], _Z[2]]
    check("QLinearAdd", inputs, [again(floats(a, 0) + floats(b, 1))])
    check("QLinearMul", inputs, [again(floats(a, 0) * floats(b, 1))], peer=False)


def test_quantised_functions() -> None:
    x = bytes_of(1, 3, 4, 4)
    inputs = [x, _S[0], _Z[0], _S[2], _Z[2]]
    wide = floats(x, 0)
    check("QLinearSigmoid", inputs, [again(sigmoid(wide))], peer=False)
    check("QLinearLeakyRelu", inputs, [again(np.where(wide < 0, 0.1 * wide, wide))], peer=False, alpha=0.1)
    pooled = wide.mean((2, 3), keepdims=True)
    check("QLinearGlobalAveragePool", inputs, [again(pooled)], peer=False)
    check("QLinearSoftmax", inputs, [again(softmax(wide))], peer=False, axis=-1, opset=13)


def test_quantised_concatenation_and_choice() -> None:
    a, b = bytes_of(2, 3), bytes_of(2, 3)
    joined = again(np.concatenate([floats(a, 0), floats(b, 1)], 1))
    inputs: list[Array | None] = [_S[2], _Z[2], a, _S[0], _Z[0], b, _S[1], _Z[1]]
    check("QLinearConcat", inputs, [joined], peer=False, axis=1)
    mark = rng.integers(0, 2, (2, 3)).astype(bool)
    chosen = again(np.where(mark, floats(a, 0), floats(b, 1)))
    inputs = [mark, a, _S[0], _Z[0], b, _S[1], _Z[1], _S[2], _Z[2]]
    check("QLinearWhere", inputs, [chosen], peer=False)


def test_quantised_products() -> None:
    a, b, c = bytes_of(3, 8), bytes_of(8, 4), rng.integers(-500, 500, 4).astype(np.int32)
    whole = (a.astype(np.int32) - 120) @ (b.astype(np.int32) - 131)
    numbers = (whole * (_S[0] * _S[1])).astype(np.float32)
    inputs = [a, b, _S[0], _S[1], _Z[0], _Z[1]]
    check("MatMulIntegerToFloat", inputs, [numbers])
    given = [a, _S[0], _Z[0], b, _S[1], _Z[1], c]
    check("QGemm", given, [((whole + c) * (_S[0] * _S[1])).astype(np.float32)])


def dynamic(x: Array) -> tuple[Array, np.float32]:
    """Whole steps around the zero point of the range of x, and their size."""
    low, high = min(x.min(), np.float32(0)), max(x.max(), np.float32(0))
    scale = np.float32((high - low) / np.float32(255))
    zero = np.rint(np.clip(-low / scale, 0, 255))
    steps = np.clip(np.rint(x / scale) + zero, 0, 255) - zero
    return steps, scale


def test_dynamically_quantised_matmul() -> None:
    a, b = normal(3, 8), rng.integers(-127, 128, (8, 4)).astype(np.int8)
    steps, scale = dynamic(a)
    wanted = (steps @ b.astype(np.float64) * scale * _S[1]).astype(np.float32)
    inputs = [a, b, _S[1], np.array(0, np.int8)]
    check("DynamicQuantizeMatMul", inputs, [wanted], 1e-5)


def test_dynamically_quantised_lstm() -> None:
    x = normal(4, 1, 6)
    w, r = (rng.integers(-127, 128, (1, n, 20)).astype(np.int8) for n in (6, 5))
    b = normal(1, 40)
    w_scale, r_scale = np.array([0.01], np.float32), np.array([0.02], np.float32)
    zero = np.array([0], np.int8)
    h, c, line = np.zeros(5, np.float32), np.zeros(5, np.float32), []
    steps, scale = dynamic(x)
    given = steps[:, 0] @ w[0].astype(np.float64) * (scale * w_scale) + b[0, :20] + b[0, 20:]
    for now in given:
        state, unit = dynamic(h) if h.any() else (np.zeros(5), np.float32(1))
        i, o, f, g = np.split(now + state @ r[0].astype(np.float64) * (unit * r_scale), 4)
        c = (sigmoid(f) * c + sigmoid(i) * np.tanh(g)).astype(np.float32)
        h = (sigmoid(o) * np.tanh(c)).astype(np.float32)
        line.append(h)
    wanted = np.stack(line)[:, None, None]
    inputs = [x, w, r, b, None, None, None, None, w_scale, zero, r_scale, zero]
    check("DynamicQuantizeLSTM", inputs, [wanted], 2e-3, peer=False, hidden_size=5)
