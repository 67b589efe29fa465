"""Searches for schedules on a GPU: the whole of it, on an emulated driver and a worker in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish.codegen import cuda
from planish.compiler import tuning
from planish.config import settings
from planish.runtime import sandbox
from planish.runtime.cuda import trial
from planish.runtime.cuda.device import gpu
from planish.runtime.cuda.driver import call
from planish.runtime.sandbox import GpuKernel, Setup, TrialBuffer
from planish.runtime.sandbox_worker import answer
from tests.runtime.emulated_cuda import EmulatedDriver, emulated


class InProcess:
    """A worker that answers here."""

    def __init__(self, setup: Setup, environment: object) -> None:
        self.bench: Any = None
        self.send("setup", setup)

    def send(self, *request: Any) -> None:
        try:
            self.bench, self.reply = answer(self.bench, request)
        except Exception as error:  # noqa: BLE001 - told to who asked, as a worker does
            self.reply = ("failed", str(error))

    def receive(self, seconds: float) -> tuple[Any, ...]:
        return self.reply

    def end(self) -> None:
        pass


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[EmulatedDriver]:
    with emulated(monkeypatch) as found, settings(cache_dir=str(tmp_path), beam_budget=10):
        original = cuda.render

        def render(program: Any, **aliased: Any) -> str:
            text = original(program, **aliased)
            found.programs[text] = program
            return text

        monkeypatch.setattr(cuda, "render", render)
        monkeypatch.setattr(trial, "cubin_of", lambda source, *_: source.encode())
        monkeypatch.setattr(sandbox, "Worker", InProcess)
        tuning._opened.cache_clear()
        yield found


def timed(monkeypatch: pytest.MonkeyPatch, seconds: Callable[[GpuKernel], float]) -> list[GpuKernel]:
    """Candidates take as long as they are told to; all that were timed."""
    seen: list[GpuKernel] = []

    def _seconds(bench: trial.GpuBench, count: int) -> float:
        kernel = bench._current().kernel
        seen.append(kernel)
        return seconds(kernel)

    monkeypatch.setattr(trial.GpuBench, "_seconds", _seconds)
    return seen


def threads_of(kernel: GpuKernel) -> int:
    return int(np.prod(kernel.grid.threads))


def add_one() -> tuple[Any, Any]:
    x = np.arange(4096, dtype=np.float32)
    return pn.jit(lambda x: x * 2.0 + 1.0, device="cuda"), x


def test_a_search_finds_what_is_faster_and_keeps_it(
    machine: EmulatedDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = timed(monkeypatch, lambda kernel: 1e-3 if threads_of(kernel) == 256 else 1e-4)
    f, x = add_one()
    with settings(beam=2):
        np.testing.assert_array_equal(np.asarray(f(x)), x * 2 + 1)
    assert len({kernel.source for kernel in seen}) > 2
    (winner,) = tuning.winners().all()
    assert winner.gain == pytest.approx(10, rel=0.1)
    assert "emulated" in winner.where.machine
    assert "sm_90" in winner.where.rules
    seen.clear()
    g, _ = add_one()
    with settings(beam=2, deterministic=True):
        np.testing.assert_array_equal(np.asarray(g(x)), x * 2 + 1)
    assert not seen  # an earlier search's answer


def test_a_search_says_that_nothing_is_faster(
    machine: EmulatedDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed(monkeypatch, lambda kernel: 1e-4)
    f, x = add_one()
    with settings(beam=1):
        lowered = f.lower(x)
        np.testing.assert_array_equal(np.asarray(f(x)), x * 2 + 1)
    assert lowered is not None
    (winner,) = tuning.winners().all()
    assert winner.gain == 1.0


def bench_of(places: Sequence[TrialBuffer], folder: Path) -> trial.GpuBench:
    return trial.GpuBench(Setup(tuple(places), 1, str(folder), 0))


def copying(
    monkeypatch: pytest.MonkeyPatch, machine: EmulatedDriver, work: Callable[[list[int]], None]
) -> GpuKernel:
    """A kernel of two parameters that does what it is told."""
    from planish.runtime.grid import Grid

    function = machine._function

    def given(module: bytes, name: bytes) -> Any:
        if name != b"given":
            return function(module, name)
        number = machine.handle()
        machine.functions[number] = "given", 2, work
        return machine.real.CUfunction(number)

    machine.answers["cuModuleGetFunction"] = given
    return GpuKernel(str(id(work)), "given", (), (0, 1), (), Grid(("1", "1", "1"), (32, 1, 1)), 0)


PLACES = (
    TrialBuffer("arg0", "float32", 100, True, sandbox.Check()),
    TrialBuffer("arg1", "float32", 100, False),
)


def words(address: int, count: int = 100) -> Any:
    import ctypes

    return np.ctypeslib.as_array((ctypes.c_float * count).from_address(address))


def test_who_is_wrong_or_writes_behind_the_end_is_found(
    machine: EmulatedDriver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bench = bench_of(PLACES, tmp_path)

    def right(at: list[int]) -> None:
        words(at[0])[:] = words(at[1]) * 2

    bench.load(copying(monkeypatch, machine, right))
    bench.remember()
    assert bench.verify() is None

    def wrong(at: list[int]) -> None:
        right(at)
        words(at[0])[7] += 1

    bench.load(copying(monkeypatch, machine, wrong))
    assert "element 7" in str(bench.verify())

    def behind(at: list[int]) -> None:
        right(at)
        words(at[0], 101)[100] = 0

    bench.load(copying(monkeypatch, machine, behind))
    assert "behind its end" in str(bench.verify())

    def spoiling(at: list[int]) -> None:
        words(at[1])[:] = 0
        right(at)

    bench.load(copying(monkeypatch, machine, spoiling))
    assert "element" in str(bench.verify())
    bench.load(copying(monkeypatch, machine, right))
    assert bench.verify() is None  # what it read was made up anew
    kernels = [copying(monkeypatch, machine, right)]
    assert len(bench.contest(kernels, 0.0)[0]) >= 7


def test_a_fault_ends_a_candidate_alone(
    machine: EmulatedDriver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bench = bench_of(PLACES, tmp_path)
    machine.refused["cuGraphLaunch"] = 700
    kernel = copying(monkeypatch, machine, lambda at: None)
    bench.load(kernel)
    with pytest.raises(Exception, match="the GPU stopped"):
        bench.once(sandbox.WHOLE)
    machine.refused.clear()


def test_a_gpu_is_found_by_what_it_is(machine: EmulatedDriver) -> None:
    from planish.compiler.cuda import KIND

    target = KIND.target(0)
    assert KIND.number_for(target) == 0
    assert KIND.number_for(replace(target, workers=7)) is None
    assert gpu(0).name == "cuda:0"
    assert call("cuDeviceGetCount") == 1
