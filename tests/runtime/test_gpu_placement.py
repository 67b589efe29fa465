"""Functions that hold several devices: copies are steps of their plans. On an emulated driver, of two GPUs where that matters."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish.compiler.placement import DeviceCopy, Part, Placement, placed
from planish.errors import PlanishError
from planish.frontend.entries import host_among
from planish.ptir.interpret import interpret
from tests.runtime.emulated_cuda import EmulatedDriver, emulated

ONE, OTHER = "cuda:0", "cuda:1"


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedDriver]:
    with emulated(monkeypatch) as driver:
        driver.answers["cuDeviceGetCount"] = lambda: 2
        driver.answers["cuDevicePrimaryCtxRetain"] = lambda number: 0x70 + int(number)
        yield driver


def _data(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _steps(placement: Placement) -> list[str]:
    return [
        f"{placement.devices[step.source]}->{step.device}" if isinstance(step, DeviceCopy) else step.device
        for step in placement.steps
    ]


def _placement(f: Any, *arguments: Any, home: str = "cpu") -> Placement:
    function = pn.jit(f).lower(*arguments)._traced.function
    return placed(function, home, [None if isinstance(x, np.ndarray) else x.device for x in arguments])


def test_copies_are_steps(gpus: EmulatedDriver) -> None:
    x, w = _data(4, 6), _data(6, 5, seed=1)

    def f(x: Any, w: Any) -> Any:
        y = pn.sin(x)
        z = pn.tanh(y.to_device(ONE) @ w.to_device(ONE))
        return z, z.to_device("cpu") + 1.0, y

    steps = " ".join(_steps(_placement(f, x, w)))
    assert steps == "cpu cpu->cuda:0 cpu->cuda:0 cuda:0 cuda:0->cpu cpu"
    jitted = pn.jit(f)
    for _ in range(3):
        z, back, y = jitted(pn.asarray(x), pn.asarray(w))
        assert (z.device, back.device, y.device) == (ONE, "cpu", "cpu")
        want = np.tanh(np.sin(x) @ w)
        np.testing.assert_allclose(np.asarray(z), want, rtol=1e-5)
        np.testing.assert_allclose(np.asarray(back), want + 1, rtol=1e-5)
    assert jitted.cache_info().misses == 1
    assert gpus.ran


def test_from_one_gpu_to_another(gpus: EmulatedDriver) -> None:
    x = pn.asarray(_data(8), device=ONE)
    f = pn.jit(lambda x: pn.exp(x * 2.0).to_device(OTHER) + 1.0)
    for _ in range(2):
        y = f(x)
        assert y.device == OTHER
        np.testing.assert_allclose(np.asarray(y), np.exp(np.asarray(x) * 2) + 1, rtol=1e-6)
    assert gpus.calls["cuMemcpyPeerAsync"] == 2
    assert gpus.waits  # each side waits for the other


def test_arguments_and_what_is_captured_lie_where_they_are(gpus: EmulatedDriver) -> None:
    w = pn.asarray(_data(6, 3, seed=2), device=ONE)
    x, b = _data(2, 6), pn.asarray(_data(3, seed=3), device=OTHER)

    def f(x: Any, b: Any) -> Any:
        return (x.to_device(ONE) @ w).to_device(OTHER) + b

    moved = gpus.calls["cuMemcpyHtoD"]
    y = pn.jit(f)(pn.asarray(x, device="cpu"), b)
    assert y.device == OTHER
    np.testing.assert_allclose(np.asarray(y), x @ np.asarray(w) + np.asarray(b), rtol=1e-5)
    assert gpus.calls["cuMemcpyHtoD"] == moved + 1  # x alone


def test_gradients_go_back_where_values_came_from(gpus: EmulatedDriver) -> None:
    x, w = _data(3, 4), _data(4, seed=1)

    def loss(x: Any, w: Any) -> Any:
        hidden = pn.tanh(x).to_device(ONE)
        return pn.sum((hidden * w.to_device(ONE)).to_device(OTHER) ** 2).to_device("cpu")

    want = [np.asarray(g) for g in pn.grad(_plain_loss, argnums=(0, 1))(pn.asarray(x), pn.asarray(w))]
    for transform in (pn.grad(loss, argnums=(0, 1)), pn.jit(pn.grad(loss, argnums=(0, 1)))):
        found = transform(pn.asarray(x, device="cpu"), pn.asarray(w, device="cpu"))
        assert [g.device for g in found] == ["cpu", "cpu"]
        for g, wanted in zip(found, want, strict=True):
            np.testing.assert_allclose(np.asarray(g), wanted, rtol=1e-5)
    rows = pn.jit(pn.vmap(lambda row, v: (row.to_device(ONE) * v.to_device(ONE)).to_device("cpu"), (0, None)))
    np.testing.assert_allclose(np.asarray(rows(pn.asarray(x), pn.asarray(w))), x * w, rtol=1e-6)


def _plain_loss(x: Any, w: Any) -> Any:
    return pn.sum((pn.tanh(x) * w) ** 2)


def test_what_is_all_on_one_device_is_one_executable(gpus: EmulatedDriver) -> None:
    f = pn.jit(lambda x: pn.sin(x.to_device(ONE)) * 2.0, device="cuda")
    x = pn.asarray(_data(5), device=ONE)
    assert f(x).device == ONE
    (entry,) = f._entries.values()
    assert entry.placed is None
    assert entry.exe is not None


def test_constants_are_made_by_whoever_needs_them(gpus: EmulatedDriver) -> None:
    def f(x: Any) -> Any:
        line = pn.arange(4, dtype=pn.float32) * 0.5
        return (x + line).to_device(ONE) * line, line

    x = _data(4)
    y, line = pn.jit(f)(pn.asarray(x))
    assert (y.device, np.asarray(line).tolist()) == (ONE, [0.0, 0.5, 1.0, 1.5])
    np.testing.assert_allclose(np.asarray(y), (x + np.asarray(line)) * np.asarray(line), rtol=1e-6)
    assert [s for s in _steps(_placement(f, x)) if "->" in s] == ["cpu->cuda:0"]


def test_operands_on_two_devices_are_told(gpus: EmulatedDriver) -> None:
    def f(x: Any) -> Any:
        return x.to_device(ONE) + x

    with pytest.raises(
        PlanishError, match=r"add: operands live on different devices, .*cpu and .*cuda:0"
    ) as caught:
        pn.jit(f)(pn.asarray(_data(3)))
    assert caught.value.location is not None
    assert "to_device" in str(caught.value)


def test_bodies_run_where_their_loop_does(gpus: EmulatedDriver) -> None:
    def f(x: Any) -> Any:
        moved = x.to_device(ONE)
        return pn.while_loop(lambda c: pn.sum(c) < 100.0, lambda c: (c * 2.0).to_device(ONE), moved)

    x = np.abs(_data(4)) + 0.5
    want = x.copy()
    while want.sum() < 100:
        want *= 2
    found = pn.jit(f)(pn.asarray(x))
    assert found.device == ONE
    np.testing.assert_allclose(np.asarray(found), want, rtol=1e-6)

    def g(x: Any) -> Any:
        return pn.while_loop(
            lambda c: pn.sum(c) < 9.0, lambda c: (c * 2.0).to_device(ONE).to_device("cpu"), x
        )

    with pytest.raises(PlanishError, match=r"to_device\('cuda:0'\) in the body of while, which runs on cpu"):
        pn.jit(g)(pn.asarray(x))


@pytest.mark.parametrize("seed", range(4))
def test_random_placements_compute_the_same(gpus: EmulatedDriver, seed: int) -> None:
    """Whatever lies where: the values are those of the interpreter, to which devices are nothing."""
    rng = np.random.default_rng(seed)
    places = ("cpu", ONE, OTHER)

    def f(*given: Any) -> Any:
        known = [(x, "cpu") for x in given]
        for _ in range(12):
            x, where = known[rng.integers(len(known))]
            alike = [other for other, place in known if place == where]
            kind = rng.integers(4)
            if kind == 0:
                where = places[rng.integers(3)]
                x = x.to_device(where)
            elif kind == 1:
                x = pn.sin(x)
            elif kind == 2:
                x = x + alike[rng.integers(len(alike))]
            else:
                x = x * alike[rng.integers(len(alike))] + pn.arange(3, dtype=pn.float32)
            known.append((x, where))
        wanted[:] = [place for _, place in known[-4:]]
        return tuple(x for x, _ in known[-4:])

    wanted: list[str] = []
    arrays = [_data(3, seed=seed), _data(3, seed=seed + 99)]
    state = rng.bit_generator.state
    function = pn.jit(f).lower(*arrays)._traced.function
    reference = interpret(function, arrays)
    rng.bit_generator.state = state
    found = pn.jit(f)(*(pn.asarray(a, device="cpu") for a in arrays))
    assert [y.device for y in found] == wanted
    for y, want in zip(found, reference, strict=False):
        np.testing.assert_allclose(np.asarray(y), want, rtol=2e-5, atol=1e-6)
    placement = placed(function, "cpu")
    known = set(function.params)
    for step in placement.steps:
        if isinstance(step, Part):
            assert known.issuperset(step.given)
            assert {placement.devices[v] for v in (*step.given, *step.results)} <= {step.device}
            known.update(step.results)
        else:
            assert step.source in known
            known.add(step.value)


@pytest.mark.parametrize("devices", list(permutations(["cpu", "cuda:0", None])))
def test_results_on_the_host_are_tied_to_the_host(devices: tuple[str | None, ...]) -> None:
    """Not to whichever device of the arguments comes first out of a set."""
    assert host_among(devices) == "cpu"
    assert host_among([device for device in devices if device != "cpu"]) is None
