"""Attention and products of products on a GPU, in one walk over the keys: widths, layouts, masks and heads, held against float64 by norm."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import planish as pn

GPU = "cuda:0"
BOUNDS = {"bfloat16": 3.5e-3, "float16": 4.5e-4}
SIZES = {
    "plain": (4, 4, 256, 384),
    "odd": (2, 2, 200, 333),
    "grouped heads": (8, 2, 130, 257),
    "few keys": (3, 3, 500, 40),
}


def random(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


def on_gpu(dtype: str, *arrays: Any) -> tuple[Any, Any]:
    """Tensors of a dtype there, and what they hold in float64."""
    given = [pn.asarray(x, device=GPU).astype(getattr(pn, dtype)) for x in arrays]
    return given, [np.asarray(x.astype(pn.float32), np.float64) for x in given]


def distance(found: Any, wanted: Any) -> float:
    values = np.asarray(found.astype(pn.float32), np.float64)
    return float(np.linalg.norm(values - wanted) / np.linalg.norm(wanted))


def exact(operands: Any, seen: Any = None, bias: Any = 0.0) -> Any:
    q, k, v = operands
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], 1) for x in (k, v))
    s = np.einsum("bhld,bhsd->bhls", q, k) / np.sqrt(q.shape[-1]) + bias
    s = s if seen is None else np.where(seen, s, -np.inf)
    top = s.max(-1, keepdims=True)
    p = np.exp(s - np.where(np.isinf(top), 0, top))
    total = p.sum(-1, keepdims=True)
    return np.einsum("bhls,bhsd->bhld", p / np.where(total == 0, 1, total), v)


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("width", [40, 64, 128, 192, 256])
@pytest.mark.parametrize("kind", SIZES)
def test_widths(dtype: str, width: int, kind: str) -> None:
    heads, groups, queries, keys = SIZES[kind]
    shapes = ((2, heads, queries, width), (2, groups, keys, width), (2, groups, keys, width))
    given, known = on_gpu(dtype, *(random(*shape, seed=n) for n, shape in enumerate(shapes)))
    for causal in (False, True):
        seen = np.tri(queries, keys, dtype=np.bool_) if causal else None
        found = pn.jit(lambda q, k, v, c=causal: pn.nn.scaled_dot_product_attention(q, k, v, is_causal=c))(
            *given
        )
        assert distance(found, exact(known, seen=seen)) < BOUNDS[dtype]


def test_it_is_right_every_time() -> None:
    """A wait or a fence that is missing shows now and then."""
    given, known = on_gpu("bfloat16", *(random(2, 12, 512, 64, seed=n) for n in range(3)))
    attention, wanted = pn.jit(pn.nn.scaled_dot_product_attention), exact(known)
    assert all(distance(attention(*given), wanted) < BOUNDS["bfloat16"] for _ in range(50))


@pytest.mark.parametrize("turned", ["keys", "values", "all"])
@pytest.mark.parametrize("width", [64, 128])
def test_layouts(turned: str, width: int) -> None:
    def attention(q: Any, k: Any, v: Any) -> Any:
        if turned == "all":  # (batch, length, heads, width), as projections leave it
            q, k, v = (pn.permute_dims(x, (0, 2, 1, 3)) for x in (q, k, v))
        k = pn.matrix_transpose(k) if turned == "keys" else k
        v = pn.matrix_transpose(v) if turned == "values" else v
        return pn.nn.scaled_dot_product_attention(q, k, v)

    arrays = [random(2, 3, n, width, seed=n) for n in (256, 384, 385)]
    arrays[2] = arrays[2][:, :, :384]
    order = {"keys": 1, "values": 2}.get(turned)
    laid = [
        np.ascontiguousarray(
            x.transpose(0, 2, 1, 3) if turned == "all" else np.swapaxes(x, -1, -2) if n == order else x
        )
        for n, x in enumerate(arrays)
    ]
    given, _ = on_gpu("bfloat16", *laid)
    _, known = on_gpu("bfloat16", *arrays)
    assert distance(pn.jit(attention)(*given), exact(known)) < BOUNDS["bfloat16"]


def test_masks() -> None:
    arrays = [random(2, 4, n, 64, seed=n) for n in (200, 300, 301)]
    arrays[2] = arrays[2][:, :, :300]
    given, known = on_gpu("bfloat16", *arrays)
    seen = np.random.default_rng(1).random((1, 1, 200, 300)) < 0.3
    seen[..., 7, :] = False  # a query that sees nothing
    (bias,), (added,) = on_gpu("bfloat16", random(2, 4, 200, 300))
    attention: Any = pn.jit(pn.nn.scaled_dot_product_attention)
    assert (
        distance(attention(*given, pn.asarray(seen, device=GPU)), exact(known, seen=seen))
        < BOUNDS["bfloat16"]
    )
    assert distance(attention(*given, bias), exact(known, bias=added)) < BOUNDS["bfloat16"]


@pytest.mark.parametrize(
    "sizes", [(1000, 64, 256, 64), (4096, 128, 512, 128), (777, 72, 300, 40), (2048, 256, 1024, 256)], ids=str
)
@pytest.mark.parametrize("turned", [False, True])
def test_two_layers(sizes: tuple[int, int, int, int], turned: bool) -> None:
    rows, width, hidden, columns = sizes
    x, a, b = random(rows, width), random(width, hidden) / width**0.5, random(hidden, columns) / hidden**0.5
    given, (x, a, b) = on_gpu(
        "bfloat16", x, *((np.ascontiguousarray(w.T) for w in (a, b)) if turned else (a, b))
    )
    function = pn.jit(lambda x, a, b: pn.maximum(x @ (a.T if turned else a), 0) @ (b.T if turned else b))
    a, b = (a.T, b.T) if turned else (a, b)
    assert distance(function(*given), np.maximum(x @ a, 0) @ b) < BOUNDS["bfloat16"]


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("width", [40, 64, 128])
@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("causal", [False, True])
def test_gradients(dtype: str, width: int, kind: str, causal: bool) -> None:
    heads, groups, queries, keys = SIZES[kind]
    shapes = ((heads, queries), (groups, keys), (groups, keys), (heads, queries))
    given, known = on_gpu(dtype, *(random(2, h, n, width, seed=k) for k, (h, n) in enumerate(shapes)))

    def weighed(q: Any, k: Any, v: Any, w: Any) -> Any:
        found = pn.nn.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return pn.sum(found.astype(pn.float32) * w.astype(pn.float32))

    found = pn.jit(pn.grad(weighed, argnums=(0, 1, 2)))(*given)
    for mine, wanted in zip(found, exact_gradients(known, causal), strict=True):
        assert distance(mine, wanted) < BOUNDS[dtype]


def exact_gradients(operands: Any, causal: bool) -> list[Any]:
    q, k, v, w = operands
    shared, scale = q.shape[1] // k.shape[1], q.shape[-1] ** -0.5
    keys, values = (np.repeat(x, shared, 1) for x in (k, v))
    s = np.einsum("bhld,bhsd->bhls", q, keys) * scale
    s = np.where(np.tri(*s.shape[-2:], dtype=np.bool_), s, -np.inf) if causal else s
    p = np.exp(s - s.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    by_p = np.einsum("bhld,bhsd->bhls", w, values)
    by_s = p * (by_p - (by_p * p).sum(-1, keepdims=True)) * scale
    by_keys = [np.einsum("bhls,bhld->bhsd", *pair) for pair in ((by_s, q), (p, w))]
    of_groups = [x.reshape(x.shape[0], -1, shared, *x.shape[2:]).sum(2) for x in by_keys]
    return [np.einsum("bhls,bhsd->bhld", by_s, keys), *of_groups]


@pytest.mark.parametrize(
    "sizes", [(4, 32, 32, 4096, 128), (2, 32, 8, 4001, 64), (1, 16, 16, 16384, 128)], ids=str
)
def test_one_query(sizes: tuple[int, int, int, int, int]) -> None:
    batch, heads, groups, keys, width = sizes
    shapes = ((heads, 1), (groups, keys), (groups, keys))
    given, known = on_gpu(
        "bfloat16", *(random(batch, h, n, width, seed=k) for k, (h, n) in enumerate(shapes))
    )
    found = pn.jit(pn.nn.scaled_dot_product_attention)(*given)
    assert distance(found, exact(known)) < BOUNDS["bfloat16"]
