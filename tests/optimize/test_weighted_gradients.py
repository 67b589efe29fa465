"""Gradients of attention in walks: which kernels there are, that no matrix of scores is in memory, and that they are what float64 gives."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import planish as pn
from planish import compiler
from planish.actions.base import Refusal, apply_action
from planish.actions.text import parse_schedule
from planish.codegen import cuda
from planish.frontend import library
from planish.llir.program import Tile
from planish.stages.pipeline import steps
from planish.target import TARGETS
from planish.uop.node import Table, UOp
from planish.uop.ops import AxisType, Ops
from planish.uop.visible import Seen, seen, unless_nothing

BF16 = ml_dtypes.bfloat16
RNG = np.random.default_rng(11)


def lowered(*specs: Any, is_causal: bool = False, value: bool = False) -> Any:
    def gradients(q: Any, k: Any, v: Any, w: Any, mask: Any = None) -> Any:
        def weighed(q: Any, k: Any, v: Any) -> Any:
            found = pn.nn.scaled_dot_product_attention(q, k, v, mask, is_causal=is_causal)
            return pn.sum(found.astype(pn.float32) * w.astype(pn.float32))

        transform = pn.value_and_grad if value else pn.grad
        return transform(weighed, argnums=(0, 1, 2))(q, k, v)

    return compiler.lower(pn.jit(gradients).lower(*specs).function, "sm_90")


def specs(heads: int, groups: int, queries: int, keys: int, width: int) -> list[Any]:
    shapes = ((heads, queries), (groups, keys), (groups, keys), (heads, queries))
    return [pn.TensorSpec((2, h, n, width), pn.bfloat16) for h, n in shapes]


def walks(found: Any) -> list[str]:
    schedules = ["; ".join(map(str, choice.actions)) for choice in found.choices]
    return [text for text in schedules if "online" in text or "chain" in text]


@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        ((4, 4, 512, 512, 128), {}),
        ((4, 4, 512, 512, 64), {"is_causal": True, "value": True}),
        ((8, 2, 256, 512, 128), {"is_causal": True}),
        ((2, 2, 500, 333, 80), {"value": True}),
    ],
    ids=str,
)
def test_no_matrix_of_scores_is_in_memory(sizes: Any, options: Any) -> None:
    found = lowered(*specs(*sizes), **options)
    assert [text.count("online") for text in walks(found)] == [1, 0, 0]
    heads, _, queries, keys, _ = sizes
    assert max(buffer.size for buffer in found.plan.buffers) < 2 * heads * queries * keys


def test_gradients_by_keys_and_values_are_one_walk() -> None:
    """Both are made of the same scores; wider ones have no registers for two sums, and others are along another axis."""
    (_, of_queries, of_both) = walks(lowered(*specs(4, 4, 512, 512, 128)))
    assert "groups=2" not in of_queries
    assert "wgmma_m64n64_bf16_f32_kk" in of_both
    assert len(walks(lowered(*specs(4, 4, 512, 512, 256)))) == 4
    different = specs(4, 4, 512, 512, 128)
    different[2] = different[3] = pn.TensorSpec((2, 4, 512, 64), pn.bfloat16)
    assert len(walks(lowered(*different))) == 4


@pytest.mark.parametrize("length", [192, 197])
def test_what_stands_around_attention_in_a_layer_leaves_walks_walks(length: int) -> None:
    """Gradients that are products, stacked gradients that are operands of products, and results whose axes are joined, had scores in memory."""
    batch, heads, width = 2, 3, 64
    whole = heads * width

    def parts(x: Any) -> Any:
        stacked = pn.permute_dims(x.reshape((batch, length, 3, heads, width)), (2, 0, 3, 1, 4))
        return [stacked[number] for number in range(3)]

    def forward(x: Any, w: Any) -> Any:
        mixed, rows = library.attention_rows(*parts(x @ w), causal=True)
        return pn.permute_dims(mixed, (0, 2, 1, 3)).reshape((batch * length, whole)), rows

    def backward(qkv: Any, out: Any, rows: Any, g: Any, w: Any, w3: Any, x: Any) -> Any:
        def by_heads(y: Any) -> Any:
            return pn.permute_dims(y.reshape((batch, length, heads, width)), (0, 2, 1, 3))

        found = library.attention_back(by_heads(g @ w), *parts(qkv), by_heads(out), rows, causal=True)
        stacked = pn.permute_dims(pn.stack(found), (1, 3, 0, 2, 4)).reshape((batch * length, 3 * whole))
        return stacked @ w3, stacked.T @ x, pn.sum(stacked, axis=0)

    many = batch * length

    def spec(*shape: int, dtype: Any = pn.bfloat16) -> Any:
        return pn.TensorSpec(shape, dtype)

    found = compiler.lower(
        pn.jit(forward).lower(spec(batch, length, whole), spec(whole, 3 * whole)).function, "sm_90"
    )
    assert [text.count("online") for text in walks(found)] == [1]
    given = (
        spec(batch, length, 3 * whole), spec(many, whole), spec(batch, heads, length, dtype=pn.float32), spec(many, whole),
        spec(whole, whole), spec(3 * whole, whole), spec(many, whole),
    )  # fmt: skip
    found = compiler.lower(pn.jit(backward).lower(*given).function, "sm_90")
    assert [text.count("chain") for text in walks(found)] == [1, 1]
    products = ["; ".join(map(str, c.actions)) for c in found.choices if "tensor_core" in str(c.actions)]
    assert len(products) == 3
    assert all("engine=true" in text and "join" not in text for text in products), products


def test_a_bias_has_its_own_gradient() -> None:
    bias = pn.TensorSpec((1, 1, 256, 256), pn.bfloat16)
    assert len(walks(lowered(*specs(2, 2, 256, 256, 64), bias))) == 3


@pytest.mark.parametrize(
    ("sizes", "is_causal"),
    [
        ((1, 1, 64, 64, 64), True),
        pytest.param((1, 1, 192, 192, 64), True, marks=pytest.mark.slow),
        pytest.param((1, 1, 70, 50, 40), False, marks=pytest.mark.slow),
        pytest.param((2, 1, 64, 64, 64), True, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_results(sizes: Any, is_causal: bool) -> None:
    heads, groups, queries, keys, width = sizes
    shapes = ((heads, queries), (groups, keys), (groups, keys), (heads, queries))
    arrays = [RNG.standard_normal((1, h, n, width)).astype(BF16) for h, n in shapes]
    found = lowered(*map(pn.asarray, arrays), is_causal=is_causal)
    assert len(walks(found)) == 3
    for result, wanted in zip(found.interpreted()(*arrays), exact(arrays, is_causal), strict=True):
        difference = np.linalg.norm(result.astype(np.float64) - wanted) / np.linalg.norm(wanted)
        assert difference < 3.5e-3


def exact(arrays: Any, is_causal: bool) -> list[Any]:
    """By definition, in float64."""
    q, k, v, w = (x.astype(np.float64) for x in arrays)
    shared, scale = q.shape[1] // k.shape[1], q.shape[-1] ** -0.5
    keys, values = (np.repeat(x, shared, 1) for x in (k, v))
    s = np.einsum("bhld,bhsd->bhls", q, keys) * scale
    s = np.where(np.tril(np.ones(s.shape[-2:], np.bool_)), s, -np.inf) if is_causal else s
    p = np.exp(s - s.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    by_p = np.einsum("bhld,bhsd->bhls", w, values)
    by_s = p * (by_p - (by_p * p).sum(-1, keepdims=True)) * scale
    by_k, by_v = (np.einsum("bhls,bhld->bhsd", *pair) for pair in ((by_s, q), (p, w)))
    of_groups = [x.reshape(x.shape[0], -1, shared, *x.shape[2:]).sum(2) for x in (by_k, by_v)]
    return [np.einsum("bhls,bhsd->bhld", by_s, keys), *of_groups]


def test_rows_of_a_walk_are_stored_by_it() -> None:
    given = [pn.TensorSpec((2, 4, 512, 128), pn.bfloat16)] * 3
    function = pn.jit(lambda q, k, v: library.attention_rows(q, k, v)).lower(*given).function
    (schedule,) = walks(compiler.lower(function, "sm_90"))
    assert schedule.startswith("online")


def test_rows_of_heads_that_share_keys_are_results() -> None:
    """Results whose axes are not those of the kernel: (batch, groups, heads of a group, …) and (batch, heads, …)."""
    arrays = [RNG.standard_normal((1, heads, 16, 32)).astype(BF16) for heads in (4, 2, 2)]
    function = (
        pn.jit(lambda q, k, v: library.attention_rows(q, k, v)).lower(*map(pn.asarray, arrays)).function
    )
    _, whole = compiler.lower(function, "sm_90").interpreted()(*arrays)
    q, k = (x.astype(np.float64) for x in arrays[:2])
    scores = np.einsum("bhld,bhsd->bhls", q, np.repeat(k, 2, 1)) * 32**-0.5
    np.testing.assert_allclose(whole, np.log(np.exp(scores).sum(-1)), rtol=1e-4)


def walk_kernel(sizes: Any) -> tuple[Any, Any]:
    """The first kernel of a chain of products, and how it is lowered."""
    found = lowered(*specs(*sizes))
    return next(
        (kernel, program)
        for kernel, choice, program in zip(found.plan.kernels, found.choices, found.programs, strict=True)
        if "chain" in str(choice.actions)
    )


def test_registers_for_all_products_of_a_walk_are_asked_for() -> None:
    """A multiprocessor is not to run more blocks than have them: products would be spilled, and done one by one."""
    _, program = walk_kernel((1, 1, 256, 256, 64))
    assert "__launch_bounds__(256, 2)" in cuda.render(program)
    assert len([i for i in program.body if isinstance(i, Tile) and i.tile.in_memory("a")]) == 2


@pytest.mark.slow
def test_threads_that_do_not_share_a_tile_evenly_copy_some_of_it_twice() -> None:
    arrays = [RNG.standard_normal((1, 1, 192, 64)).astype(BF16) for _ in range(4)]
    chosen = lowered(*map(pn.asarray, arrays)).as_text("schedule")
    padless = re.sub(r"pad_to.*\n", "", chosen)
    three = re.sub(
        r"chain\(wgmma_m64n\d+(_\w+, \w, \w, \w).*?\)", r"chain(wgmma_m64n64\1, groups=3, buffers=2)", padless
    )
    with pn.settings(schedule=three):
        found = lowered(*map(pn.asarray, arrays))
    assert "; ".join(walks(found)).count("groups=3") == 2
    for result, wanted in zip(found.interpreted()(*arrays), exact(arrays, False), strict=True):
        assert np.linalg.norm(result.astype(np.float64) - wanted) < 3.5e-3 * np.linalg.norm(wanted)


def test_threads_do_not_share_rows_that_are_kept_for_one() -> None:
    """A tensor core would spread an axis over threads, all of which write the one row that the kernel keeps."""
    kernel, _ = walk_kernel((2, 2, 64, 64, 64))
    sink = next(s.form for s in steps(kernel.sink) if s.stage.number == 6 and isinstance(s.form, UOp))
    target = TARGETS["sm_90"]
    for text in (
        "tensor_core(wgmma_m64n64_bf16_f32_kk, k, m, n)",
        "tensor_core(wgmma_m64n64_bf16_f32_kk, j, l, m)",
    ):
        (action,) = parse_schedule(text)
        with pytest.raises(Refusal):
            apply_action(sink, action, target)


def test_bounds_of_a_walk() -> None:
    with Table() as table:
        m, k = table.range(64, 0), table.range(96, 1, AxisType.REDUCE)
        x = table.const(1.0, pn.float32)
        nothing, hidden = x.const_like(0.0), x.const_like(-float("inf"))
        cases = (
            ((k <= m + 3).where(x, hidden), None, "m + 3"),
            ((m < k).where(x, hidden), "m + 1", None),
            (((m + -8) <= k).where((k < m).where(x, hidden), hidden), "m - 8", "m - 1"),
        )
        bounds = {"m + 3": m + 3, "m + 1": m + 1, "m - 8": m + -8, "m - 1": m + -1, None: None}
        for exponent, first, last in cases:
            weight = (exponent - x).alu(Ops.EXP) * x
            assert seen(unless_nothing(weight), k, m) == Seen(bounds[first], bounds[last])
        assert seen(unless_nothing((k <= m).where(x, nothing)), k, m).last is m
        assert seen(unless_nothing((k <= m).where(x, x)), k, m) == Seen()
        assert seen(unless_nothing((m <= k % 32).where(x, nothing)), k, m) == Seen(m, None, 32)
        assert seen(unless_nothing((m <= k % 32 + k // 32).where(x, nothing)), k, m) == Seen()
        assert (
            seen(unless_nothing((m <= k % 36).where(x, nothing)), k, m) == Seen()
        )  # 96 keys are no periods of 36
