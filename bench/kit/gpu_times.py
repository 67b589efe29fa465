"""Times of scheduled kernels on a GPU: built by many processes at once, run one by one in a process that may die.

Whoever builds lowers a kernel with a schedule and has NVRTC compile it; nobody but the process that measures opens the GPU. A kernel that
faults ends that process, one that hangs has it killed; either way it is recorded, and another process goes on.

A kernel is launched many times in one graph, over several copies of its parameters, as many as make what the second cache held of one of them be
gone when its turn comes again; of small kernels all stay there. The median of several such graphs counts.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from planish.compiler.device_kinds import kind_for
from planish.compiler.scheduling import after_choice
from planish.runtime.sandbox import REALS, GpuKernel, TrialBuffer
from planish.target import Target
from planish.uop.node import UOp

_BUILD = 40
"""Seconds that building one may take."""
_RUN = 8.0
"""Seconds that measuring one may take."""
_COPIES, _BEYOND = 8, 128 << 20
"""Copies of parameters at most, and bytes of all of them from which on none is found again."""
_SAMPLE, _MOST, _SAMPLES = 3e-4, 64, 5
"""Seconds and launches of a graph, and how many times it is timed."""
_HOPELESS, _LONG = 30.0, 4e-3
"""How many times slower than the fastest of a kernel one is that is timed by itself, and from how many seconds on that is enough."""
_COMPARED = 1 << 20
"""Elements of a result that are compared."""
_Array = NDArray[Any]


class BuiltKernel(NamedTuple):
    """One schedule of a kernel as code; what went wrong if there is none."""

    label: str
    actions: str
    kernel: GpuKernel | None = None
    cubin: bytes = b""
    error: str = ""


class _TooLong(Exception):
    pass


@contextmanager
def _within(seconds: int) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise _TooLong(f"longer than {seconds} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def built(
    sink: UOp, actions: Sequence[Any], label: str, text: str, places: Sequence[TrialBuffer], target: Target
) -> BuiltKernel:
    """A kernel with a schedule, as machine code."""
    from planish.runtime.cuda.build import translate

    try:
        with _within(_BUILD):
            program = after_choice(sink, tuple(actions), target)
            kernel = kind_for(target).trial(program, places, target)
            assert isinstance(kernel, GpuKernel)
            return BuiltKernel(
                label, text, kernel, translate(kernel.source, target.arch, kernel.flags, "cubin")
            )
    except Exception as problem:  # noqa: BLE001 - whatever it is, it is told, and the others go on
        return BuiltKernel(
            label, text, error=f"{type(problem).__name__}: {str(problem).splitlines()[0][:200]}"
        )


# -- the process that measures ---------------------------------------------------------------------------------------


class _Bench:
    """Parameters of one kernel in the memory of the GPU, several times."""

    def __init__(self, places: Sequence[TrialBuffer], below: int) -> None:
        from planish.runtime.cuda.device import gpu
        from planish.runtime.trial_data import dtype_of, made_up

        self.gpu = gpu(0)
        self.gpu.enter()
        sizes = [max(place.count * dtype_of(place.dtype).itemsize, 16) for place in places]
        self.copies = min(max(-(-_BEYOND // sum(sizes)), 1), _COPIES)
        self.blocks = [[self.gpu.pool.take(size) for size in sizes] for _ in range(self.copies)]
        rng = np.random.default_rng(0)
        for number, (place, size) in enumerate(zip(places, sizes, strict=True)):
            period = made_up(place, number, REALS)
            if period.dtype == np.int32:
                period = rng.integers(0, below, period.size).astype(np.int32)
            first = np.resize(period.view(np.uint8), min(size, 1 << 24))
            for blocks in self.blocks:
                address = blocks[number].address
                self.gpu.upload(first, address)
                for start in range(first.nbytes, size, first.nbytes):
                    self.gpu.copy(address, address + start, min(first.nbytes, size - start))
        self.fastest = float("inf")
        self.places = tuple(places)
        self.first: list[_Array] = []
        """What the first schedule wrote."""

    def _differs(self) -> float:
        """How far what was written is from what the first schedule wrote, by norm; of kernels that add to what is there it says nothing."""
        from planish.runtime.trial_data import dtype_of

        samples = []
        for number, place in enumerate(self.places):
            if place.written:
                sample = np.empty(min(place.count, _COMPARED), dtype_of(place.dtype))
                self.gpu.download(self.blocks[0][number].address, sample)
                samples.append(sample.astype(np.float64))
        self.first = self.first or samples
        pairs = list(zip(samples, self.first, strict=True))
        norms = [float(np.linalg.norm(b)) or 1.0 for _, b in pairs]
        return max(
            (float(np.linalg.norm(a - b)) / n for (a, b), n in zip(pairs, norms, strict=True)), default=0.0
        )

    def measure(self, schedule: BuiltKernel) -> dict[str, Any]:
        from planish.runtime.cuda.driver import call
        from planish.runtime.cuda.graphs import GraphBuilder
        from planish.runtime.cuda.launch import LoadedKernel
        from planish.runtime.cuda.tensor_maps import map_words
        from planish.runtime.cuda.trace import KernelLaunch, Word

        kernel = schedule.kernel
        assert kernel is not None
        loaded = LoadedKernel(self.gpu, kernel.name, schedule.cubin, kernel.grid, kernel.shared, kernel.maps)
        items = []
        for blocks in self.blocks:
            words = [Word(-1, blocks[number].address) for number in kernel.places]
            words += [Word(-1, value) for value in kernel.values]
            words += map_words(loaded.maps, words)
            items.append(KernelLaunch(0, kernel.values, tuple(words)))

        def seconds(executable: Any, count: int) -> float:
            call("cuGraphLaunch", executable, self.gpu.stream)  # the GPU is at work when the next one comes
            begin = self.gpu.event()
            call("cuGraphLaunch", executable, self.gpu.stream)
            end = self.gpu.event()
            self.gpu.synchronize()
            mean = self.gpu.seconds((begin, end)) / count
            self.gpu.forget((begin, end))
            return mean

        def graph(count: int) -> Any:
            launches = [items[n % len(items)] for n in range(count)]
            return GraphBuilder(self.gpu, [loaded], ()).build(launches)

        once = graph(1).executable
        least = min(seconds(once, 1) for _ in range(2))
        if least < min(_HOPELESS * self.fastest, _LONG):
            count = min(max(int(_SAMPLE / least), len(items)), _MOST)
            several = graph(count).executable
            least = median(seconds(several, count) for _ in range(_SAMPLES))
        self.fastest = min(self.fastest, least)
        threads = int(np.prod(kernel.grid.threads))
        blocks = call("cuOccupancyMaxActiveBlocksPerMultiprocessor", loaded.function, threads, kernel.shared)
        return {
            "seconds": least,
            "differs": self._differs(),
            "registers": loaded.attribute("NUM_REGS"),
            "spilled": loaded.attribute("LOCAL_SIZE_BYTES"),
            "shared": loaded.attribute("SHARED_SIZE_BYTES") + kernel.shared,
            "threads": threads,
            "blocks": int(np.prod([int(n) for n in kernel.grid.at(kernel.values)])),
            "resident": int(blocks),
        }


def _serve(pipe: Connection) -> None:
    bench: _Bench | None = None
    while True:
        what, given = pipe.recv()
        try:
            if what == "kernel":
                bench = None  # its memory is free for the next
                bench = _Bench(*given)
                pipe.send({})
            else:
                assert bench is not None
                pipe.send(bench.measure(given))
        except Exception as problem:  # noqa: BLE001
            told = f"{type(problem).__name__}: {str(problem).splitlines()[0][:200]}"
            pipe.send({"error": told})
            os._exit(1)  # the context may be broken


class Measurer:
    """Measures kernels in a process of its own, which is replaced when it dies."""

    def __init__(self) -> None:
        self.process: Any = None
        self.pipe: Connection | None = None

    def _ask(self, what: str, given: Any, seconds: float) -> dict[str, Any]:
        if self.process is None:
            context = multiprocessing.get_context("spawn")
            self.pipe, theirs = context.Pipe()
            self.process = context.Process(target=_serve, args=(theirs,), daemon=True)
            self.process.start()
            theirs.close()
        assert self.pipe is not None
        try:
            self.pipe.send((what, given))
            answer = self.pipe.recv() if self.pipe.poll(seconds) else {"error": "hung"}
        except (EOFError, OSError):
            answer = {"error": "died"}
        if "error" in answer:
            self.close()
        return answer

    def measure(
        self, places: Sequence[TrialBuffer], below: int, kernels: Sequence[BuiltKernel]
    ) -> list[dict[str, Any]]:
        """What became of each."""
        results, ready = [], False
        for schedule in kernels:
            if schedule.kernel is None:
                results.append({"error": schedule.error})
                continue
            if not ready:
                answer = self._ask("kernel", (tuple(places), below), 4 * _RUN)
                ready = "error" not in answer
            if ready:
                answer = self._ask("run", schedule, _RUN)
                ready = "error" not in answer
            results.append(answer)
        if ready and results and "seconds" in results[0]:
            results[0]["again"] = self._ask("run", kernels[0], _RUN).get("seconds")  # what is noise
        return results

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.process = self.pipe = None


class Deadline:
    """When time is over."""

    def __init__(self, seconds: float) -> None:
        self.at = time.monotonic() + seconds

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self.at
