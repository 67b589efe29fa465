"""Tensors that live on a GPU: the same API, the same numbers, and mistakes that are told."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import nn
from planish.errors import PlanishError

GPU = "cuda:0"


def _data(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_there_and_back() -> None:
    given = _data(7, 5)
    there = pn.asarray(given, device="cuda")
    assert there.device == GPU
    assert np.array_equal(np.asarray(there), given)
    back = there.to_device("cpu")
    assert back.device == "cpu"
    assert np.array_equal(np.asarray(back + 0), given)
    assert np.array_equal(np.asarray(back.to_device(GPU) * 2), given * 2)


def test_lazy_expressions_run_where_their_operands_live() -> None:
    x = pn.asarray(_data(64, 33), device=GPU)
    y = pn.sum(pn.exp(x) * 2, axis=1)
    assert y.device == GPU
    np.testing.assert_allclose(np.asarray(y), np.exp(_data(64, 33)).sum(1) * 2, rtol=1e-5)


def test_a_setting_puts_everything_there() -> None:
    with pn.settings(device="cuda"):
        x = pn.arange(10.0) + 1
        assert x.device == GPU
        total = float(pn.sum(x))
    assert total == 55.0


def test_jit_with_a_device_takes_arrays_of_the_host() -> None:
    f = pn.jit(lambda x, w: pn.tanh(x @ w), device="cuda")
    x, w = _data(32, 16), _data(16, 8, seed=1)
    got = f(pn.asarray(x), pn.asarray(w))
    assert got.device == GPU
    np.testing.assert_allclose(np.asarray(got), np.tanh(x @ w), rtol=1e-5, atol=1e-6)
    again = f(got[:, :8] @ pn.ones((8, 16), device=GPU), pn.asarray(w))
    assert again.device == GPU


def test_operands_on_two_devices_are_told() -> None:
    with pytest.raises(PlanishError, match=r"different devices.*cpu.*cuda:0"):
        pn.asarray(_data(3), device=GPU) + pn.asarray(_data(3), device="cpu")


def test_a_gpu_that_is_not_there_is_told() -> None:
    with pytest.raises(PlanishError, match=r"no device 'cuda:99'.*devices: cpu"):
        pn.ones(3).to_device("cuda:99")


def test_gradients_and_control_flow() -> None:
    def loss(w: Any, x: Any) -> Any:
        def body(i: Any, c: Any) -> Any:
            return pn.tanh(c @ w)

        return pn.mean(pn.fori_loop(0, 4, body, x) ** 2)

    w, x = _data(8, 8) * 0.5, _data(4, 8, seed=1)
    want = pn.jit(pn.grad(loss))(pn.asarray(w), pn.asarray(x))
    got = pn.jit(pn.grad(loss))(pn.asarray(w, device=GPU), pn.asarray(x, device=GPU))
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-4, atol=1e-7)


def test_loops_that_data_decides() -> None:
    @pn.jit
    def doubled(x: Any) -> Any:
        return pn.while_loop(lambda c: pn.sum(c) < 1000.0, lambda c: c * 2, x)

    x = np.abs(_data(100))
    assert np.array_equal(np.asarray(doubled(pn.asarray(x, device=GPU))), np.asarray(doubled(pn.asarray(x))))

    @pn.jit
    def either(x: Any) -> Any:
        return pn.cond(pn.sum(x) > 0, lambda x: x * 2, lambda x: x * 3, x)

    for sign in (1, -1):
        assert np.array_equal(
            np.asarray(either(pn.asarray(sign * x, device=GPU))), sign * x * (2 if sign > 0 else 3)
        )


def test_random_numbers_are_those_of_the_cpu() -> None:
    want = np.asarray(pn.random.normal(pn.random.key(7), (1000,)))
    with pn.settings(device=GPU):
        got = np.asarray(pn.random.normal(pn.random.key(7), (1000,)))
    np.testing.assert_allclose(got, want, rtol=2e-6, atol=1e-7)


def test_a_network_trains() -> None:
    def train(device: str) -> list[float]:
        x, y = _data(256, 16), _data(256, 1, seed=3)
        with pn.settings(device=device):
            w1, w2 = (
                pn.asarray(_data(16, 32, seed=1) * 0.3, device=device),
                pn.asarray(_data(32, 1, seed=2) * 0.3, device=device),
            )
            given, wanted = pn.asarray(x, device=device), pn.asarray(y, device=device)

            @pn.jit
            def step(w1: Any, w2: Any) -> Any:
                def loss(w: Any) -> Any:
                    return pn.mean((nn.relu(given @ w[0]) @ w[1] - wanted) ** 2)

                value, (g1, g2) = pn.value_and_grad(loss)((w1, w2))
                return value, w1 - 0.1 * g1, w2 - 0.1 * g2

            losses = []
            for _ in range(20):
                value, w1, w2 = step(w1, w2)
                losses.append(float(value))
        return losses

    found, wanted = train(GPU), train("cpu")
    assert found[-1] < found[0] * 0.8
    np.testing.assert_allclose(found, wanted, rtol=1e-4)


def test_donated_memory_is_used_again() -> None:
    f = pn.jit(lambda x: x + 1, donate_argnums=0)
    x = pn.asarray(_data(1 << 16), device=GPU)
    for _ in range(5):
        x = f(x)
    np.testing.assert_allclose(np.asarray(x), _data(1 << 16) + 5, rtol=1e-5, atol=1e-6)


def test_named_sizes() -> None:
    f = pn.jit(lambda x: pn.sum(x * 2, axis=1), dims={"x": (pn.Dim("batch", 1, 64), None)})
    for rows in (1, 7, 64):
        x = _data(rows, 12)
        np.testing.assert_allclose(
            np.asarray(f(pn.asarray(x, device=GPU))), (x * 2).sum(1), rtol=1e-5, atol=1e-6
        )
    assert f.cache_info().misses == 1


def test_host_ops_work_on_copies() -> None:
    a = _data(12, 12)
    spd = a @ a.T + 12 * np.eye(12, dtype=np.float32)
    got = pn.linalg.cholesky(pn.asarray(spd, device=GPU))
    np.testing.assert_allclose(np.asarray(got), np.linalg.cholesky(spd), rtol=1e-4, atol=1e-5)


def test_too_little_memory_is_told() -> None:
    x = pn.asarray(_data(1), device=GPU)
    with pytest.raises(MemoryError, match=r"out of memory: the largest buffer is result 0"):
        pn.realize(pn.broadcast_to(x, (1 << 38,)) + pn.arange(1 << 38, device=GPU))
    assert float(x[0] + 1) == float(_data(1)[0] + 1)  # and nothing else is lost


@pytest.mark.parametrize(
    "dtype", [pn.float16, pn.bfloat16, pn.float32, pn.float64, pn.int8, pn.int32], ids=str
)
@pytest.mark.parametrize("sizes", [(64, 64, 64), (128, 256, 128), (100, 33, 77)])
def test_products_of_every_dtype(dtype: Any, sizes: tuple[int, int, int]) -> None:
    m, k, n = sizes
    a, b = (
        pn.asarray(np.round(_data(*shape, seed=s) * 3)).astype(dtype)
        for s, shape in enumerate(((m, k), (k, n)))
    )
    want = np.asarray(a).astype(np.float64) @ np.asarray(b).astype(np.float64)
    got = np.asarray(a.to_device(GPU) @ b.to_device(GPU)).astype(np.float64)
    if dtype == pn.int8:
        want = want.astype(np.int64).astype(np.int8)
    np.testing.assert_allclose(got, want, rtol=2.0**-7, atol=0.5 if dtype == pn.bfloat16 else 1e-6)


def test_threads_call_one_function() -> None:
    f = pn.jit(lambda x: pn.sum(x * 2.0, axis=1) + 1.0, device="cuda")
    given = [_data(32, 64, seed=n) for n in range(8)]
    f(pn.asarray(given[0]))
    wrong: list[int] = []

    def work(number: int) -> None:
        x = pn.asarray(given[number], device=GPU)
        want = (given[number] * 2.0).sum(1) + 1.0
        for _ in range(100):
            if not np.allclose(np.asarray(f(x)), want, rtol=1e-4, atol=1e-4):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(len(given))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("count", [(1 << 20) - 1, (1 << 22) + 3, 1 << 25])
def test_large_arrays_come_and_go_through_pinned_memory(count: int) -> None:
    x = np.random.default_rng(0).integers(0, 1 << 31, count).astype(np.int32)
    for _ in range(2):
        there = pn.asarray(x, device="cuda")
        np.testing.assert_array_equal(np.asarray(there), x)
        np.testing.assert_array_equal(np.asarray(there + 1), x + 1)


def test_a_function_holds_the_host_and_the_gpu() -> None:
    x, w = _data(70, 40), _data(40, 30, seed=1)

    @pn.jit
    def f(x: Any, w: Any) -> Any:
        z = pn.tanh(x.to_device(GPU) @ w)
        return z, z.to_device("cpu") + 1.0, pn.sin(x)

    want = np.tanh(x.astype(np.float64) @ w)
    for _ in range(3):
        z, back, own = f(pn.asarray(x, device="cpu"), pn.asarray(w, device=GPU))
        assert (z.device, back.device, own.device) == (GPU, "cpu", "cpu")
        np.testing.assert_allclose(np.asarray(z), want, atol=2e-6)
        np.testing.assert_allclose(np.asarray(back), want + 1, atol=2e-6)
    there = pn.jit(pn.grad(lambda x: pn.sum(pn.sin(x.to_device(GPU)).to_device("cpu") ** 2)))
    slope = there(pn.asarray(x, device="cpu"))
    assert slope.device == "cpu"
    np.testing.assert_allclose(np.asarray(slope), 2 * np.sin(x) * np.cos(x), atol=2e-6)
    with pytest.raises(PlanishError, match=r"cpu and .*cuda:0"):
        pn.jit(lambda x: x.to_device(GPU) + x)(pn.asarray(x, device="cpu"))


@pytest.mark.parametrize("narrow", [False, True], ids=["f32", "bf16"])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((200, 4100), 0), ((333, 16384), 0), ((64, 65536), 0), ((3, 50, 4096), 1), ((5000, 257), 0), ((100_003,), 0),
     ((1 << 20,), 0), ((7, 20_000), 1), ((2000, 300), 1)],
    ids=str,
)  # fmt: skip
def test_scans_of_many_shapes(shape: tuple[int, ...], axis: int, narrow: bool) -> None:
    given = _data(*shape)
    x = pn.asarray(given, device=GPU)
    x = x.astype(pn.bfloat16) if narrow else x
    want = np.cumsum(np.asarray(x).astype(np.float64), axis=axis)
    found = pn.jit(lambda x: pn.cumulative_sum(x, axis=axis))(x)
    away = np.linalg.norm(np.asarray(found).astype(np.float64) - want) / np.linalg.norm(want)
    assert away < (4e-3 if narrow else 1e-6)
