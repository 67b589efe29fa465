"""Attention in one walk over the keys: what is recognised, which schedule it gets, and that both interpreters find what float64 does."""

from __future__ import annotations

from random import Random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import planish as pn
from planish import compiler
from planish.actions.base import Refusal, apply_action
from planish.actions.chain import Chained
from planish.actions.online import Online
from planish.actions.text import parse_schedule
from planish.config import settings
from planish.llir.program import Compute, EndIf, If
from planish.stages.pipeline import Machine, steps
from planish.target import TARGETS
from planish.uop.interpret import interpret
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.rewrite import substitute

RNG = np.random.default_rng(5)
BF16 = ml_dtypes.bfloat16


def random(*shape: int, dtype: Any = BF16) -> Any:
    return RNG.standard_normal(shape).astype(dtype)


def exact(q: Any, k: Any, v: Any, mask: Any = None, is_causal: bool = False, soft_cap: float = 0.0) -> Any:
    """By definition, in float64."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], 1) for x in (k, v))
    s = np.einsum("bhld,bhsd->bhls", q, k) / np.sqrt(q.shape[-1])
    if soft_cap:
        s = np.tanh(s / soft_cap) * soft_cap
    if mask is not None:
        s = np.where(mask, s, -np.inf) if mask.dtype == np.bool_ else s + mask.astype(np.float64)
    if is_causal:
        s = np.where(np.tril(np.ones(s.shape[-2:], np.bool_)), s, -np.inf)
    top = s.max(-1, keepdims=True)
    p = np.exp(s - np.where(np.isinf(top), 0, top))
    total = p.sum(-1, keepdims=True)
    return np.einsum("bhls,bhsd->bhld", p / np.where(total == 0, 1, total), v)


CASES: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "plain": (
        (random(1, 1, 64, 64), random(1, 1, 128, 64), random(1, 1, 128, 64)),
        {},
        "_m64n128_bf16_f32_kk, i, j, k)",
    ),
    "odd sizes, f16": (
        tuple(random(1, 1, n, 40, dtype=np.float16) for n in (70, 50, 50)),
        {},
        "pad_to(i, 64); pad_to(j, 64); online(wgmma_m64n64_f16_f32_kk, i, j, k)",  # few keys are one block
    ),
    "grouped heads": ((random(1, 2, 64, 64), random(1, 1, 64, 64), random(1, 1, 64, 64)), {}, "online"),
    "causal, a mask that hides rows": (
        (*(random(1, 1, n, 64) for n in (64, 80, 80)), RNG.random((1, 1, 64, 80)) < 0.3),
        {"is_causal": True},
        "online",
    ),
    "bias and soft cap": (
        (*(random(1, 1, n, 64) for n in (64, 64, 64)), random(1, 1, 64, 64)),
        {"soft_cap": 5.0},
        "online",
    ),
}


def lowered(arrays: Any, options: Any) -> Any:
    def attention(q: Any, k: Any, v: Any, *mask: Any) -> Any:
        return pn.nn.scaled_dot_product_attention(q, k, v, *mask, **options)

    traced = pn.jit(attention).lower(*map(pn.asarray, arrays)).function
    with settings(check="spec"):
        return compiler.lower(traced, "sm_90")


def schedules(found: Any) -> list[str]:
    return ["; ".join(map(str, choice.actions)) for choice in found.choices]


@pytest.mark.parametrize("name", CASES)
def test_results(name: str) -> None:
    arrays, options, expected = CASES[name]
    found = lowered(arrays, options)
    (schedule,) = schedules(found)
    assert expected in schedule
    wanted = exact(*arrays, **options)
    (result,) = found.interpreted()(*arrays)
    difference = np.linalg.norm(result.astype(np.float64) - wanted) / np.linalg.norm(wanted)
    assert difference < (4e-4 if arrays[0].dtype == np.float16 else 3e-3)


def specs(
    heads: int, groups: int, queries: int, keys: int, width: int, dtype: Any = pn.bfloat16
) -> list[Any]:
    return [
        pn.TensorSpec((2, h, n, width), dtype) for h, n in ((heads, queries), (groups, keys), (groups, keys))
    ]


@pytest.mark.parametrize(
    ("sizes", "kernels"),
    [
        (
            (16, 16, 4096, 4096, 128),
            ["online(wgmma_m64n128_bf16_f32_kk, k, l, m, groups=2, buffers=2, engine=true)"],
        ),
        (
            (8, 8, 4096, 4096, 256),
            ["online(wgmma_m64n64_bf16_f32_kk, k, l, m, groups=2, buffers=2, engine=true)"],
        ),
        ((8, 8, 1024, 32768, 128), ["online"]),
        ((8, 2, 1024, 1024, 64), ["online"]),
        ((8, 8, 1, 4096, 128), ["", "", "", ""]),  # one query is no tile; its values are summed in parts
        ((8, 8, 512, 512, 512), ["tensor_core", "", "tensor_core"]),  # more columns than registers
    ],
)
def test_schedules(sizes: Any, kernels: list[str]) -> None:
    traced = pn.jit(pn.nn.scaled_dot_product_attention).lower(*specs(*sizes)).function
    found = schedules(compiler.lower(traced, "sm_90"))
    assert len(found) == len(kernels)
    assert all(part in schedule for part, schedule in zip(kernels, found, strict=True))


def test_softmax_of_ones_own_is_as_good() -> None:
    def attention(q: Any, k: Any, v: Any) -> Any:
        return pn.nn.softmax(q @ pn.matrix_transpose(k) * 0.125, -1) @ v

    (schedule,) = schedules(
        compiler.lower(pn.jit(attention).lower(*specs(4, 4, 256, 256, 64)).function, "sm_90")
    )
    assert schedule.startswith("online")


def windowed(x: Any, qkv: Any, table: Any, places: Any, cells: Any, out: Any, a: Any, b: Any) -> Any:
    """Attention inside of windows of an image, with a bias by distance and a mask of what a shift brought together; then two layers."""
    n, side, _, width = x.shape
    w, heads = 5, 2
    count = (side // w) ** 2
    tiles = pn.permute_dims(pn.reshape(x, (n, side // w, w, side // w, w, width)), (0, 1, 3, 2, 4, 5))
    rows = pn.reshape(tiles, (n * count, w * w, width)) @ qkv
    q, k, v = pn.permute_dims(pn.reshape(rows, (n * count, w * w, 3, heads, width // heads)), (2, 0, 3, 1, 4))
    bias = pn.permute_dims(pn.reshape(pn.take(table, places, axis=0), (w * w, w * w, heads)), (2, 0, 1))
    scores = q @ pn.matrix_transpose(k) + bias
    cell = pn.permute_dims(pn.reshape(cells, (side // w, w, side // w, w)), (0, 2, 1, 3))
    cell = pn.reshape(cell, (count, w * w))
    mask = pn.where(cell[:, None, :] == cell[:, :, None], 0.0, -100.0).astype(x.dtype)
    scores = pn.reshape(scores, (n, count, heads, w * w, w * w)) + mask[:, None]
    weights = pn.nn.softmax(pn.reshape(scores, (n * count, heads, w * w, w * w)), -1)
    found = pn.reshape(pn.permute_dims(weights @ v, (0, 2, 1, 3)), (n * count, w * w, width)) @ out
    found = pn.permute_dims(pn.reshape(found, (n, side // w, side // w, w, w, width)), (0, 1, 3, 2, 4, 5))
    y = x + pn.reshape(found, x.shape)
    return y + pn.maximum(y @ a, 0) @ b


def test_attention_in_windows_is_one_walk() -> None:
    """Whatever is projected before and after it, and however windows lie: neither scores nor hidden rows are in memory."""
    bf16 = pn.bfloat16
    sizes = (
        (8, 25, 25, 64), (64, 192), (81, 2), (625,), (25, 25), (64, 64), (64, 256), (256, 64),
    )  # fmt: skip
    kinds = (bf16, bf16, bf16, pn.int32, bf16, bf16, bf16, bf16)
    given = [pn.TensorSpec(size, kind) for size, kind in zip(sizes, kinds, strict=True)]
    lowered_ = compiler.lower(pn.jit(windowed).lower(*given).function, "sm_90")
    found = schedules(lowered_)
    assert sum("online(" in each for each in found) == 1, found
    assert sum("chain(" in each for each in found) == 1, found
    assert sum("tensor_core(" in each for each in found) == 2, found  # what is projected to it, and from it


def test_floats_of_32_bits_have_kernels_for_each_product() -> None:
    traced = pn.jit(pn.nn.scaled_dot_product_attention).lower(*specs(8, 8, 512, 512, 64, pn.float32)).function
    assert len(compiler.lower(traced, "sm_90").programs) == 3


def test_a_causal_walk_ends_at_the_diagonal() -> None:
    """The length of the walk follows from the number of the block."""
    found = lowered([random(1, 1, 512, 64)] * 3, {"is_causal": True})
    loops = [line for line in found.as_text("llir").splitlines() if line.strip().startswith("loop")]
    assert any("< %" in line for line in loops)


def test_every_stage_means_the_same() -> None:
    """The graph with the walk in it, and what the stages behind it make of that, run by the interpreter of graphs."""
    arrays, options, _ = CASES["plain"]
    found = lowered(arrays, options)
    (choice,), target = found.choices, TARGETS["sm_90"]
    (kernel,) = found.plan.kernels
    wanted = exact(*arrays, **options).reshape(-1)
    buffers = {0: np.zeros(wanted.size, BF16)} | {n + 1: a.reshape(-1) for n, a in enumerate(arrays)}
    seen = 0
    for step in steps(kernel.sink, Machine(target, lambda sink: choice.actions)):
        if step.stage.number in (7, 12):
            result = interpret(step.form, buffers, undefined=[0])[0].astype(np.float64)
            assert np.linalg.norm(result - wanted) / np.linalg.norm(wanted) < 3e-3
            seen += 1
    assert seen == 2


def test_what_does_not_fit_is_refused() -> None:
    arrays, options, _ = CASES["plain"]
    found = lowered(arrays, options)
    sink = next(
        step.form
        for step in steps(found.plan.kernels[0].sink)
        if step.stage.number == 6 and isinstance(step.form, UOp)
    )
    for text, reason in (
        ("online(wgmma_m64n8_bf16_f32_kk, i, j, k)", "no multiple of 64"),
        ("online(mma_m16n8k16_bf16_f32, i, j, k)", "no tensor core"),
        ("online(wgmma_m64n128_bf16_f32_kk, j, i, k)", "no such sum"),
        ("online(wgmma_m64n128_bf16_f32_kk, i, j, k, groups=2)", "no multiple of 128"),
    ):
        (action,) = parse_schedule(text)
        with pytest.raises(Refusal, match=reason):
            apply_action(sink, action, TARGETS["sm_90"])
    assert Ops.WMMA not in {n.op for n in sink.toposort()}


CHAINS: dict[str, tuple[Any, tuple[Any, ...], str]] = {
    "two layers": (
        lambda x, a, b: pn.maximum(x @ a, 0) @ b,
        (random(64, 64), random(64, 128), random(128, 64)),
        "chain(wgmma_m64n128_bf16_f32_km, i, j, k)",
    ),
    "weights across, by a copy engine": (
        lambda x, a, b: pn.maximum(x @ a, 0) @ b,
        (random(64, 128), random(128, 256), random(256, 64)),
        "chain(wgmma_m64n128_bf16_f32_km, i, j, k, buffers=2, engine=true)",
    ),
    "of two products, by a copy engine, one operand used twice": (
        lambda q, k, v, g, low, d: (
            (pn.exp((q @ k.T).astype(pn.float32) * 0.125 - low) * ((g @ v.T).astype(pn.float32) - d)).astype(
                q.dtype
            )
            @ k
        ),
        (
            *(random(n, 128) for n in (64, 128, 128, 64)),
            random(64, 1, dtype=np.float32) + 5,
            random(64, 1, dtype=np.float32),
        ),
        "chain(wgmma_m64n64_bf16_f32_kk, i, j, k, buffers=2, engine=true)",
    ),
}


@pytest.mark.parametrize("name", CHAINS)
def test_products_of_products(name: str) -> None:
    function, arrays, expected = CHAINS[name]
    traced = pn.jit(function).lower(*map(pn.asarray, arrays)).function
    with settings(check="spec"):
        found = compiler.lower(traced, "sm_90")
    assert schedules(found) == [expected]
    (result,), (wanted,) = found.interpreted()(*arrays), compiler.compile(traced)(*arrays)
    difference = result.astype(np.float64) - wanted.astype(np.float64)
    assert np.linalg.norm(difference) < 3e-3 * np.linalg.norm(wanted.astype(np.float64))


def test_operands_used_twice_are_fetched_once() -> None:
    """Keys are the right operand of the scores and of what is made of them: three tiles in LOCAL memory, not four, are rings."""
    function, arrays, _ = CHAINS["of two products, by a copy engine, one operand used twice"]
    traced = pn.jit(function).lower(*map(pn.asarray, arrays)).function
    text = compiler.lower(traced, "sm_90").as_text("llir")
    assert sum("copy_box" in line for line in text.splitlines()) == 2


@pytest.mark.parametrize(
    ("function", "shapes", "kernels"),
    [
        (lambda x, a, b, c: x @ a @ b @ c, ((2048, 128), *[(128, 128)] * 3), ["chain", "tensor_core"]),
        (lambda x, a: pn.nn.softmax(x @ a, -1), ((2048, 128), (128, 1000)), ["tensor_core", ""]),
        (lambda x, a, b: pn.nn.gelu(x @ a) @ b, ((2048, 768), (768, 3072), (3072, 768)), ["tensor_core"] * 2),
        (
            lambda x, a, b: (x @ a, pn.nn.relu(x @ a) @ b),
            ((2048, 128), (128, 256), (256, 64)),
            ["tensor_core"] * 2,
        ),
    ],
)
def test_which_products_have_kernels_of_their_own(function: Any, shapes: Any, kernels: list[str]) -> None:
    traced = pn.jit(function).lower(*(pn.TensorSpec(shape, pn.bfloat16) for shape in shapes)).function
    found = schedules(compiler.lower(traced, "sm_90"))
    assert len(found) == len(kernels)
    assert all(part in schedule for part, schedule in zip(kernels, found, strict=True))


def test_what_threads_store_is_fenced_from_tensor_cores() -> None:
    """Queries are stored by threads, whatever brings the keys: no barrier behind which they are read lacks the fence."""
    traced = pn.jit(pn.nn.scaled_dot_product_attention).lower(*specs(4, 4, 512, 512, 64)).function
    found = compiler.lower(traced, "sm_90")
    assert "engine=true" in schedules(found)[0]
    lines = found.as_text("cuda").splitlines()
    barriers = [number for number, line in enumerate(lines) if "bar.sync 1" in line]
    assert barriers
    assert all("fence.proxy.async" in lines[number - 1] for number in barriers)


def walked(seed: int) -> float:
    """A random attention, or two layers, in a random walk: how far the interpreter of graphs is from float64, before and after rings are filled."""
    rng = Random(seed)
    queries, keys, width = rng.choice((64, 128)), rng.choice((40, 128, 150)), rng.choice((24, 64, 128))
    if rng.random() < 0.6:
        arrays = [random(1, 1, n, width) for n in (queries, keys, keys)]
        options = {"is_causal": rng.random() < 0.5}
        found, wanted = lowered(arrays, options), exact(*arrays, **options)
    else:
        arrays = [random(queries, width), random(width, keys) / BF16(8), random(keys, 64)]
        traced = pn.jit(lambda x, a, b: pn.maximum(x @ a, 0) @ b).lower(*map(pn.asarray, arrays)).function
        found = compiler.lower(traced, "sm_90")
        x, a, b = (each.astype(np.float64) for each in arrays)
        wanted = np.maximum(x @ a, 0) @ b
    (kernel,), (choice,), target = found.plan.kernels, found.choices, TARGETS["sm_90"]
    *before, walk = choice.actions
    columns = rng.choice((64, 128))
    other = walk.replaced(
        core=walk.core.replace("n128", f"n{columns}").replace("n64_", f"n{columns}_"),
        buffers=rng.randint(1, 3),
        engine=rng.random() < 0.5,
    )
    buffers = {0: np.zeros(wanted.size, BF16)} | {n + 1: each.reshape(-1) for n, each in enumerate(arrays)}
    worst = 0.0
    try:
        for step in steps(kernel.sink, Machine(target, lambda sink: [*before, other])):
            if step.stage.number in (7, 12):
                result = interpret(step.form, buffers, undefined=[0])[0].astype(np.float64)
                worst = max(
                    worst, float(np.linalg.norm(result - wanted.reshape(-1)) / np.linalg.norm(wanted))
                )
    except Refusal:
        return 0.0
    return worst


SEEDS = (1, 3, 5, 13)
"""Two of attention, two of layers, none of which is refused."""


@pytest.mark.parametrize("seed", SEEDS)
def test_random_walks(seed: int) -> None:
    assert 0 < walked(seed) < 4e-3


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", sorted({*range(60)} - {*SEEDS}))
def test_many_random_walks(seed: int) -> None:
    assert walked(seed) < 4e-3


@pytest.mark.parametrize("kind", [Online, Chained], ids=lambda kind: kind.word)
def test_a_walk_that_starts_from_ones_is_found(kind: type[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    original = kind.walked

    def wrong(self: Any, sink: UOp, *found: Any) -> UOp:
        walk = original(self, sink, *found)
        starts = [
            n for n in walk.toposort() if n.op is Ops.STORE and n.src[1].op is Ops.CONST and n.src[1].arg == 0
        ]
        assert starts
        ones = {n: n.replace(src=(n.src[0], n.src[1].const_like(1.0), *n.src[2:])) for n in starts}
        return substitute(walk, ones)

    monkeypatch.setattr(kind, "walked", wrong)
    assert any(walked(seed) > 4e-3 for seed in SEEDS)


@pytest.mark.parametrize("causal", [False, True])
def test_masks_are_looked_at_where_they_hide_something(causal: bool) -> None:
    """Blocks of keys that every query of a group sees branch around the mask."""
    traced = pn.jit(lambda q, k, v: pn.nn.scaled_dot_product_attention(q, k, v, is_causal=causal))
    (program,) = compiler.lower(traced.lower(*specs(4, 4, 1024, 1024, 64)).function, "sm_90").programs
    branches = [n for n, i in enumerate(program.body) if isinstance(i, If | EndIf)]
    assert len(branches) == (2 if causal else 0)
    if causal:
        inside = [n for n, i in enumerate(program.body) if isinstance(i, Compute) and i.op is Ops.CMPLE]
        hidden = [n for n in inside if branches[0] < n < branches[1]]
        assert len(hidden) >= 64  # one for every score that a thread holds
