"""Attention and its derivative by the ops that torch has for its GPU kernels: what they keep for each other, without a GPU."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from planish import ptir  # noqa: E402
from planish.torch.forms import form_like  # noqa: E402
from planish.torch.importing import Import  # noqa: E402
from planish.torch.partition import call, unlowered  # noqa: E402

ATEN = torch.ops.aten
RNG = np.random.default_rng(5)


def flash(causal: bool) -> Any:
    def both(q: Any, k: Any, v: Any, g: Any) -> Any:
        out, rows, cum_q, cum_k, max_q, max_k, seed, more, _ = ATEN._scaled_dot_product_flash_attention(
            q, k, v, 0.0, causal
        )
        back = ATEN._scaled_dot_product_flash_attention_backward(
            g, q, k, v, out, rows, cum_q, cum_k, max_q, max_k, 0.0, causal, seed, more
        )
        return out, rows, *back

    return both


def cudnn(causal: bool) -> Any:
    def both(q: Any, k: Any, v: Any, g: Any) -> Any:
        out, rows, cum_q, cum_k, max_q, max_k, seed, offset, _ = ATEN._scaled_dot_product_cudnn_attention(
            q, k, v, None, True, 0.0, causal
        )
        back = ATEN._scaled_dot_product_cudnn_attention_backward(
            g, q, k, v, out, rows, seed, offset, None, cum_q, cum_k, max_q, max_k, 0.0, causal
        )
        return out, rows, *back

    return both


def efficient(causal: bool) -> Any:
    def both(q: Any, k: Any, v: Any, g: Any) -> Any:
        out, rows, seed, offset = ATEN._scaled_dot_product_efficient_attention(
            q, k, v, None, True, 0.0, causal
        )
        back = ATEN._scaled_dot_product_efficient_attention_backward(
            g, q, k, v, None, out, rows, seed, offset, 0.0, [True, True, True, False], causal
        )
        return out, rows, *back[:3]

    return both


def traced(function: Any, queries: int, keys: int, dtype: Any) -> Any:
    with FakeTensorMode():
        shapes = [(1, 2, n, 16) for n in (queries, keys, keys, queries)]
        given = [torch.empty(shape, device="cuda", dtype=dtype) for shape in shapes]
        graph = make_fx(function)(*given).graph
    graph.eliminate_dead_code()
    return graph


def exact(arrays: Any, causal: bool) -> list[Any]:
    q, k, v, g = (x.astype(np.float64) for x in arrays)
    s = np.einsum("bhld,bhsd->bhls", q, k) / 4
    s = np.where(np.tri(*s.shape[-2:], dtype=np.bool_), s, -np.inf) if causal else s
    rows = np.log(np.exp(s).sum(-1))
    p = np.exp(s - rows[..., None])
    by_p = np.einsum("bhld,bhsd->bhls", g, v)
    by_s = p * (by_p - (by_p * p).sum(-1, keepdims=True)) / 4
    products = (
        ("bhls,bhsd->bhld", p, v),
        ("bhls,bhsd->bhld", by_s, k),
        ("bhls,bhld->bhsd", by_s, q),
        ("bhls,bhld->bhsd", p, g),
    )
    out, *gradients = (np.einsum(*each) for each in products)
    return [out, rows, *gradients]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", [flash, cudnn, efficient])
def test_forward_and_backward(kind: Any, causal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    graph = traced(kind(causal), 37, 37, torch.bfloat16)
    assert not unlowered(graph)
    writing = Import("f")
    for node in graph.nodes:
        if node.op == "placeholder":
            writing.take(node, form_like(node.meta["val"]))
        elif node.op == "call_function" and isinstance(node.meta.get("val"), int):
            writing.values[node] = call(node, {})  # a length: known, and no result of a segment
            assert writing.values[node] == 37
        elif node.op == "call_function":
            writing.lower(node)
    wanted = graph.find_nodes(op="output")[0].args[0]
    function = writing.graph.build(*(writing.values[node] for node in wanted))
    arrays = [RNG.standard_normal((1, 2, 37, 16)).astype(ml_dtypes.bfloat16) for _ in range(4)]
    for node, found, right in zip(
        wanted, ptir.interpret(function, arrays), exact(arrays, causal), strict=True
    ):
        assert tuple(found.shape) == tuple(node.meta["val"].shape)
        seen = found.astype(np.float64).reshape(*found.shape[:3], -1)[:, :, :37].reshape(right.shape)
        assert np.linalg.norm(seen - right) < 6e-3 * np.linalg.norm(right)


@pytest.mark.parametrize("kind", [flash, cudnn, efficient])
def test_a_gpu_without_walks_leaves_both_to_torch(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    reasons = unlowered(traced(kind(False), 32, 32, torch.bfloat16))
    left = [node for node in reasons if "scaled_dot_product" in str(node.target)]
    assert len(left) == 2


def test_float32_is_torchs_with_its_derivative_and_planishs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    reasons = unlowered(traced(efficient(False), 32, 32, torch.float32))
    assert len([node for node in reasons if "scaled_dot_product" in str(node.target)]) == 2

    def alone(q: Any, k: Any, v: Any, g: Any) -> Any:
        return ATEN._scaled_dot_product_efficient_attention(q, k, v, None, False)[0]

    assert not unlowered(traced(alone, 32, 32, torch.float32))
