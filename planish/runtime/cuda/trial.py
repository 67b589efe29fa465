"""Candidates of a search on a GPU: loaded, run on made-up data, compared on the host, timed by events.

It lives in a process of its own (`runtime/sandbox_worker.py`): a kernel that faults ends the context, and with it nothing but
this process. Behind every parameter lie bytes that nobody may change; who does is wrong, whatever else he computed. What a candidate
that was wrong may have written elsewhere is made up anew before the next.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from planish.runtime.cuda.build import cubin_of
from planish.runtime.cuda.device import gpu
from planish.runtime.cuda.driver import call
from planish.runtime.cuda.graphs import Built, GraphBuilder
from planish.runtime.cuda.launch import LoadedKernel
from planish.runtime.cuda.memory import GpuBlock
from planish.runtime.cuda.tensor_maps import map_words
from planish.runtime.cuda.trace import KernelLaunch, Word
from planish.runtime.sandbox import REALS, SETS, GpuKernel, Setup
from planish.runtime.trial_data import Array, TrialData, dtype_of

_BEHIND: Final = 4096
_UNTOUCHED: Final = 0xA5
"""What the bytes behind a parameter are."""
_SAMPLE: Final = 2e-4
"""Seconds that a sample takes at least: events tell half a microsecond."""
_MOST: Final = 256
"""Launches of a sample."""
_SAMPLES: Final = 12
_HOPELESS: Final = 3.0
"""How many times slower than the best a candidate may be to be timed more than once."""
_ROUNDS: Final = (8, 100)
"""Rounds of a contest, at least and at most."""


class _Candidate(NamedTuple):
    """A kernel on the GPU, with graphs of one launch for each set of data."""

    kernel: GpuKernel
    loaded: LoadedKernel
    graphs: dict[tuple[str, int], Built]
    """By the set of data, and how many launches there are."""


class GpuBench(TrialData):
    """The data of one kernel on a GPU, and the candidate that runs on it."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.gpu = gpu(setup.device or 0)
        self.gpu.enter()
        self.host: dict[int, Array] = {}
        """What was written last, as the host sees it; and memory to make up data in."""
        self.blocks: dict[tuple[int, str], GpuBlock] = {}
        for number, place in enumerate(setup.places):
            self.host[number] = np.empty(place.count, dtype_of(place.dtype))
            for which in SETS[:1] if place.written else SETS:
                self.blocks[number, which] = self.gpu.pool.take(self.host[number].nbytes + _BEHIND)
        self.candidate: _Candidate | None = None
        self._renew()

    def array(self, number: int, which: str) -> Array:
        return self.host[number]

    def _address(self, number: int, which: str) -> int:
        return self.blocks[number, SETS[0] if self.setup.places[number].written else which].address

    def _renew(self) -> None:
        """Everything that is only read, and what lies behind all."""
        for (number, which), block in self.blocks.items():
            if not self.setup.places[number].written:
                self.fill(number, which)
                self.gpu.upload(self.host[number], block.address)
            guard = np.full(_BEHIND, _UNTOUCHED, np.uint8)
            self.gpu.upload(guard, block.address + self.host[number].nbytes)

    # -- running -------------------------------------------------------------------------------------------------

    def load(self, kernel: GpuKernel) -> None:
        """Compile a kernel."""
        cubin = cubin_of(kernel.source, self.gpu.arch, kernel.flags)
        loaded = LoadedKernel(self.gpu, kernel.name, cubin, kernel.grid, kernel.shared, kernel.maps)
        self.candidate = _Candidate(kernel, loaded, {})

    def _graph(self, which: str, count: int) -> Any:
        candidate = self._current()
        graph = candidate.graphs.get((which, count))
        if graph is None:
            kernel = candidate.kernel
            words = [Word(-1, self._address(number, which)) for number in kernel.places]
            words += [Word(-1, value) for value in kernel.values]
            words += map_words(candidate.loaded.maps, words)
            one = KernelLaunch(0, kernel.values, tuple(words))
            graph = GraphBuilder(self.gpu, [candidate.loaded], ()).build([one] * count)
            candidate.graphs[which, count] = graph
        return graph.executable

    def _current(self) -> _Candidate:
        if self.candidate is None:
            raise RuntimeError("nothing is loaded")
        return self.candidate

    def _launch(self, which: str, count: int = 1) -> None:
        call("cuGraphLaunch", self._graph(which, count), self.gpu.stream)

    def once(self, which: str) -> None:
        self.refill(which)
        written = [n for n, place in enumerate(self.setup.places) if place.written]
        for number in written:
            self.gpu.upload(self.host[number], self._address(number, which))
        self._launch(which)
        self.gpu.synchronize()
        for number in written:
            self.gpu.download(self._address(number, which), self.host[number])

    def some(self, which: str, points: Sequence[int]) -> None:
        raise RuntimeError("a GPU runs all points of a grid")

    def verify(self) -> str | None:
        wrong = super().verify() or self._strayed()
        if wrong is not None:
            self._renew()
        return wrong

    def _strayed(self) -> str | None:
        """Which parameter was written behind its end."""
        guard = np.empty(_BEHIND, np.uint8)
        for (number, _), block in self.blocks.items():
            self.gpu.download(block.address + self.host[number].nbytes, guard)
            if (guard != _UNTOUCHED).any():
                return f"{self.setup.places[number].name}: written behind its end"
        return None

    # -- timing --------------------------------------------------------------------------------------------------

    def _seconds(self, count: int) -> float:
        """Of one launch, among so many."""
        self._graph(REALS, count)
        begin = self.gpu.event()
        self._launch(REALS, count)
        end = self.gpu.event()
        self.gpu.synchronize()
        seconds = self.gpu.seconds((begin, end)) / count
        self.gpu.forget((begin, end))
        return max(seconds, 1e-9)

    def measure(self, best: float) -> float:
        """Seconds of a run, the least of several."""
        least = min(self._seconds(1), self._seconds(1))
        if least > _HOPELESS * best:
            return least
        count = self._count(least)
        return min(self._seconds(count) for _ in range(_SAMPLES))

    def _count(self, least: float) -> int:
        return max(1, min(int(_SAMPLE / least), _MOST))

    def contest(self, kernels: Sequence[GpuKernel], seconds: float) -> list[list[float]]:
        """Several candidates in turn, round by round, on the same memory: the seconds of each in every round, none of one that is wrong."""
        entered: list[tuple[int, _Candidate, int]] = []
        for number, kernel in enumerate(kernels):
            self.load(kernel)
            if self.verify() is None:
                entered.append((number, self._current(), self._count(self._seconds(1))))
        times: list[list[float]] = [[] for _ in kernels]
        start, rounds = time.perf_counter(), 0
        while rounds < _ROUNDS[0] or (time.perf_counter() - start < seconds and rounds < _ROUNDS[1]):
            first = rounds % max(len(entered), 1)
            for number, candidate, count in entered[first:] + entered[:first]:
                self.candidate = candidate
                times[number].append(self._seconds(count))
            rounds += 1
        return times
