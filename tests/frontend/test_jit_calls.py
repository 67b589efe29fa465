"""Calls of compiled functions that take the short way: they give what the long way gives, whatever the result, settings, mistakes."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish.compiler import Executable
from planish.errors import ShapeError
from planish.frontend.jit import Jitted
from planish.ptir import trace
from planish.runtime.pool import available_cores


def tensor(*shape: int, seed: int = 0) -> pn.Tensor:
    return pn.asarray(np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)).realize()


@contextmanager
def only_short(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Inside, a call that takes the long way fails."""
    with monkeypatch.context() as patched:
        patched.setattr(Jitted, "_long_way", lambda *_: pytest.fail("the long way"))
        yield


@pytest.mark.parametrize("count", [0, 1, 2, 4, 5, 20])
def test_every_number_of_results(monkeypatch, count):
    function = pn.jit(lambda x, k: {"all": [x + n for n in range(count)], "k": (k, None)})
    x = tensor(3)
    first = function(x, 2.0)
    with only_short(monkeypatch):
        second = function(x, 3.0)
    assert len(second["all"]) == count
    for n, (a, b) in enumerate(zip(first["all"], second["all"], strict=True)):
        np.testing.assert_array_equal(a.numpy(), x.numpy() + n)
        np.testing.assert_array_equal(b.numpy(), a.numpy())
        assert b._type is a._type
        assert b.device == a.device
    assert second["k"][0].item() == 3.0
    assert second["k"][1] is None


def test_nothing_is_a_result_too(monkeypatch):
    function = pn.jit(lambda x: None)
    x = tensor(3)
    assert function(x) is None
    with only_short(monkeypatch):
        assert function(x) is None
    assert function.cache_info().hits == 1


def test_a_short_call_that_fails_tells_the_line_and_counts():
    n = pn.Dim("n", 1, 8)
    function = pn.jit(lambda x, y: pn.sum(x) + pn.sum(y), dims={"x": (n,), "y": (n,)})
    function(tensor(3), tensor(3))
    with pytest.raises(ShapeError, match="has size 4, not 3") as caught:
        function(tensor(3), tensor(4))
    assert caught.value.location is not None
    assert caught.value.location.file == __file__
    info = function.cache_info()
    assert (info.hits, info.misses) == (1, 1)
    np.testing.assert_allclose(
        function(tensor(5), tensor(5)).item(), 2 * tensor(5).numpy().sum(dtype=np.float64), rtol=1e-5
    )


def test_a_sink_hears_of_short_calls(monkeypatch):
    heard: list[str] = []

    class Sink:
        def before_run(self, context: trace.ExecutionContext) -> None:
            heard.append("before")

        def after_run(self, context: trace.ExecutionContext, stats: trace.ExecutionStats) -> None:
            heard.append("after")

        def pass_event(self, event: trace.PassEvent) -> None: ...

    function = pn.jit(lambda x: x + 1)
    x = tensor(3)
    function(x)
    with only_short(monkeypatch):
        function(x)
        assert heard == []
        with trace.install_global_sink(Sink()):
            y = function(x)
        assert heard == ["before", "after"]
        function(x)
    assert heard == ["before", "after"]
    np.testing.assert_array_equal(y.numpy(), x.numpy() + 1)


def test_a_call_uses_the_threads_of_its_settings(monkeypatch):
    used: list[int] = []
    builtin = vars(Executable)["builtin"].fget

    def noted(self: Executable) -> Callable[..., Any]:
        call = builtin(self)

        def counting(threads: int, *arrays: object) -> Any:
            used.append(threads)
            return call(threads, *arrays)

        return counting

    monkeypatch.setattr(Executable, "builtin", property(noted))
    function = pn.jit(lambda a, b: a @ b)
    a, b = tensor(256, 256), tensor(256, 256, seed=1)
    results = [function(a, b), function(a, b)]
    for threads in (1, 3):
        with pn.settings(threads=threads):
            results += [function(a, b), function(a, b)]
    results.append(function(a, b))
    # the first call under each takes the long way
    assert used == [available_cores(), 1, 3, available_cores()]
    for result in results:
        np.testing.assert_array_equal(result.numpy(), results[0].numpy())


def test_the_short_way_is_written_for_the_second_call():
    function = pn.jit(lambda x: x + 1)
    x = tensor(10)
    function(x)
    assert function._recent[0].short is None
    np.testing.assert_array_equal(function(x).numpy(), x.numpy() + 1)
    assert function._recent[0].short is not None
    assert function.cache_info().hits == 1


def test_the_short_way_goes_with_the_function():
    outside = {"w": tensor(1000)}
    function = pn.jit(lambda x: x + outside["w"])
    x = tensor(1000, seed=1)
    function(x)
    function(x)
    short, memory = weakref.ref(function._recent[0].short), weakref.ref(outside["w"]._storage)
    gc.collect()
    gc.disable()
    try:
        del function
        assert short() is None  # and with it what it holds, without a collection
    finally:
        gc.enable()
    outside.clear()
    gc.collect()
    assert memory() is None


def test_threads_may_call_while_the_cache_is_cleared():
    function = pn.jit(lambda a, b: a * b + 1)
    a, b = tensor(64), tensor(64, seed=1)
    wanted = function(a, b).numpy()
    wrong: list[object] = []

    def work() -> None:
        for _ in range(300):
            try:
                if not np.array_equal(function(a, b).numpy(), wanted):
                    wrong.append("other results")
            except Exception as error:  # noqa: BLE001 - told below
                wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        function.clear_cache()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert function.cache_info().hits >= 0
