"""The process in which candidates of a search run: it loads a kernel, runs it on made-up data, compares and times it.

It reads requests (pickled) from its standard input and answers (JSON) on its standard output until the input ends. What
a kernel may do to it concerns nobody else: `sandbox.py` notices that it is gone and starts another. Parameters that are only
read cannot be written here, and what lies behind the end of any is no memory at all: a kernel that errs there ends at once. While a
kernel is timed there is memory, as there is for calls: processors take hundreds of cycles for a masked access beyond what is mapped.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import mmap
import os
import pickle
import struct
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from planish.runtime import cpu, entry, native
from planish.runtime.elf import Loaded
from planish.runtime.plan import Call, Code
from planish.runtime.pool import WorkerPool
from planish.runtime.sandbox import LENGTH, REALS, SETS, Setup, TimedKernel
from planish.runtime.trial_data import Array, TrialData, dtype_of

if TYPE_CHECKING:
    from planish.runtime.cuda.trial import GpuBench

    AnyBench: TypeAlias = "CandidateTrial | GpuBench"

_PAGE: Final = mmap.PAGESIZE
_HUGE: Final = 2 << 20
_LARGE: Final = 16 << 10
_BEHIND: Final = 128 << 10
"""Bytes behind the end that masked lanes may be in."""
_SAMPLE: Final = 1e-4
"""Seconds that one sample takes at least."""
_ENOUGH: Final = 0.03
"""Seconds of samples."""
_SAMPLES: Final = 40
_TURN: Final = 1e-3
"""Seconds that a turn of a contest takes at least."""
_ROUNDS: Final = (7, 200)
"""Rounds of a contest, at least and at most."""
_HOPELESS: Final = 3.0
"""How many times slower than the best a candidate may be to be timed more than once."""
_RUN: Final = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)


class Guarded:
    """Memory that ends where a page ends, with nothing behind it."""

    def __init__(self, nbytes: int) -> None:
        size = -(-max(nbytes, 1) // 64) * 64
        whole = -(-size // _PAGE) * _PAGE
        self._map = mmap.mmap(-1, whole + _BEHIND)
        if whole >= _HUGE:
            self._map.madvise(mmap.MADV_HUGEPAGE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self.start, self.whole = start, whole
        self.behind(open=False)
        # large memory starts with a page, as that of calls does: where it starts decides which accesses wait for each other
        self.array: Array = np.frombuffer(self._map, np.uint8, nbytes, whole - size if size <= _LARGE else 0)

    def seal(self) -> None:
        """Nobody writes here from now on."""
        self._protect(self.start, self.whole, 1)

    def behind(self, *, open: bool) -> None:
        """Whether there is memory behind the end, its pages present."""
        self._protect(self.start + self.whole, _BEHIND, mmap.PROT_READ | mmap.PROT_WRITE if open else 0)
        if open:
            ctypes.memset(self.start + self.whole, 0, _BEHIND)

    @staticmethod
    def _protect(start: int, size: int, how: int) -> None:
        if ctypes.CDLL(None, use_errno=True).mprotect(ctypes.c_void_p(start), ctypes.c_size_t(size), how):
            raise OSError(ctypes.get_errno(), "mprotect")


@dataclass(slots=True)
class _LoadedTrial:
    """A candidate, ready to run."""

    code: object
    run: Any
    frame: Array
    kernel: TimedKernel
    address: int
    scratch: Array = field(default_factory=lambda: np.empty(0, np.uint8))


class CandidateTrial(TrialData):
    """The data of one kernel, and the candidate that runs on it."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.memory: dict[tuple[int, str], Guarded] = {}
        for number, place in enumerate(setup.places):
            for which in SETS:
                # what is written is refilled, and needs no memory for each set
                owner = (number, SETS[0] if place.written else which)
                if owner not in self.memory:
                    self.memory[owner] = Guarded(place.count * dtype_of(place.dtype).itemsize)
                    self.fill(number, which)
                    if not place.written:
                        self.memory[owner].seal()
        self.support = Loaded(cpu.emit_object(native.source()))
        self.pool = WorkerPool(self.support)
        self.pool.prepare(setup.threads)
        # what one thread computes can be told from what others take the core away for
        self.clock = time.thread_time if setup.threads == 1 else time.perf_counter
        self.candidate: _LoadedTrial | None = None

    def array(self, number: int, which: str) -> Array:
        place = self.setup.places[number]
        return self.memory[number, SETS[0] if place.written else which].array.view(dtype_of(place.dtype))

    # -- loading -------------------------------------------------------------------------------------------------

    def load(self, kernel: TimedKernel) -> None:
        """Compile a kernel and the way into it."""
        image = cpu.emit_object(kernel.source, kernel.processor)
        known = {name: self.support.address(name) for name in self.support.names}
        code = Loaded(image, known)
        slots = tuple(kernel.values)
        site = Call(0, tuple(kernel.places), tuple(range(len(slots))), 0)
        called = entry.NativeKernel(
            "k0", len(kernel.places), len(slots), kernel.grid, kernel.scratch > 0, kernel.work
        )
        sizes = [dtype_of(place.dtype).itemsize for place in self.setup.places]
        way = Loaded(
            cpu.emit_glue(entry.render(Code((site,), slots, (0,)), [called], sizes)),
            {**known, "k0": code.address("kernel")},
        )
        layout = entry.FrameLayout(len(slots), len(sizes), 1)
        frame = np.zeros(layout.size, np.int64)
        frame[entry.THREADS] = self.setup.threads
        frame[entry.HEAD : entry.HEAD + len(slots)] = slots
        loaded = _LoadedTrial((code, way), _RUN(way.address("run")), frame, kernel, code.address("kernel"))
        if kernel.scratch:
            loaded.scratch = Guarded(kernel.scratch).array
            frame[layout.scratch(0)] = loaded.scratch.ctypes.data
        self.candidate = loaded

    def _enter(self, which: str) -> _LoadedTrial:
        """The candidate, its frame on the memory of one set of data."""
        loaded = self.candidate
        if loaded is None:
            raise RuntimeError("nothing is loaded")
        layout = entry.FrameLayout(len(loaded.kernel.values), len(self.setup.places), 1)
        for number in range(len(self.setup.places)):
            loaded.frame[layout.buffer(number)] = self.array(number, which).ctypes.data
        return loaded

    def once(self, which: str) -> None:
        """One run on fresh data."""
        self.refill(which)
        loaded = self._enter(which)
        status = loaded.run(loaded.frame.ctypes.data)
        if status:
            raise RuntimeError(f"the code returned {status}")

    def some(self, which: str, points: Sequence[int]) -> None:
        """Some points of the grid, one after another."""
        loaded = self._enter(which)
        kernel = loaded.kernel
        pointers = [self.array(number, which).ctypes.data for number in kernel.places]
        kinds = [ctypes.c_void_p] * len(pointers) + [ctypes.c_int64] * (len(kernel.values) + len(kernel.grid))
        last = [loaded.scratch.ctypes.data] if kernel.scratch else []
        function = ctypes.CFUNCTYPE(None, *kinds, *([ctypes.c_void_p] * len(last)))(loaded.address)
        for point in points:
            place, rest = [], point
            for size in kernel.grid:
                place.append(rest % size)
                rest //= size
            function(*pointers, *kernel.values, *place, *last)

    @contextlib.contextmanager
    def _as_in_calls(self) -> Iterator[None]:
        """Memory behind the end of every parameter."""
        for memory in self.memory.values():
            memory.behind(open=True)
        try:
            yield
        finally:
            for memory in self.memory.values():
                memory.behind(open=False)

    def measure(self, best: float) -> float:
        """Seconds of a run, the least of several."""
        with self._as_in_calls():
            return self._least(best)

    def _least(self, best: float) -> float:
        loaded = self._enter(REALS)
        run, frame = loaded.run, loaded.frame.ctypes.data
        least = float("inf")
        for _ in range(2):  # the first may be the one that was disturbed
            begin = self.clock()
            run(frame)
            least = min(least, self.clock() - begin)
        if least > _HOPELESS * best:
            return least
        batch = max(1, int(_SAMPLE / max(least, 1e-8)))
        spent, samples = 0.0, 0
        while samples < 3 or (spent < _ENOUGH and samples < _SAMPLES):
            begin = self.clock()
            for _ in range(batch):
                run(frame)
            taken = self.clock() - begin
            least = min(least, taken / batch)
            spent += taken
            samples += 1
        return least

    def contest(self, kernels: Sequence[TimedKernel], seconds: float) -> list[list[float]]:
        """Several candidates in turn, round by round, on the same memory: the seconds of each in every round.

        What disturbs the machine disturbs all of a round. One that is wrong has none.
        """
        loaded: list[_LoadedTrial | None] = []
        for kernel in kernels:
            self.load(kernel)
            loaded.append(self.candidate if self.verify() is None else None)
        with self._as_in_calls():
            return self._rounds(loaded, seconds)

    def _rounds(self, loaded: Sequence[_LoadedTrial | None], seconds: float) -> list[list[float]]:
        runs: list[tuple[int, Any, int, int]] = []
        for number, each in enumerate(loaded):
            if each is not None:
                self.candidate = each
                self._enter(REALS)
                least = self._least(0.0)
                batch = max(1, int(_TURN / max(least, 1e-8)))
                runs.append((number, each.run, each.frame.ctypes.data, batch))
        times: list[list[float]] = [[] for _ in loaded]
        start, rounds = time.perf_counter(), 0
        while rounds < _ROUNDS[0] or (time.perf_counter() - start < seconds and rounds < _ROUNDS[1]):
            first = rounds % max(len(runs), 1)
            for number, run, frame, batch in runs[first:] + runs[:first]:
                begin = self.clock()
                for _ in range(batch):
                    run(frame)
                times[number].append((self.clock() - begin) / batch)
            rounds += 1
        return times


# -- the process -----------------------------------------------------------------------------------------------------


def bench_for(setup: Setup) -> AnyBench:
    """The data of a kernel where its candidates run."""
    if setup.device is None:
        return CandidateTrial(setup)
    from planish.runtime.cuda.trial import GpuBench  # who has no GPU needs none of it

    return GpuBench(setup)


def answer(bench: Any, request: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """What one request gets."""
    match request:
        case ("setup", setup):
            return bench_for(setup), ("ready",)
        case ("load", kernel) if bench is not None:
            bench.load(kernel)
            return bench, ("loaded",)
        case ("remember", points) if bench is not None:
            return bench, ("remembered", bench.remember(points))
        case ("extend",) if bench is not None:
            wrong = bench.verify()
            if wrong is None:
                bench.extend()
            return bench, ("extended", wrong)
        case ("time", best) if bench is not None:
            bench.once(REALS)
            return bench, ("right", bench.measure(best))
        case ("run", best) if bench is not None:
            wrong = bench.verify()
            return bench, ("wrong", wrong) if wrong is not None else ("right", bench.measure(best))
        case ("contest", kernels, seconds) if bench is not None:
            return bench, ("times", bench.contest(kernels, seconds))
    return bench, ("failed", f"not understood: {request[0]}")


def _end_with(parent: int) -> None:
    """A kernel that hangs does not outlive whoever wanted to kill it."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def serve() -> None:
    """Answer requests until there are no more."""
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever is printed here is not an answer
    bench: AnyBench | None = None
    while True:
        head = requests.read(LENGTH.size)
        if len(head) < LENGTH.size:
            return
        request = pickle.loads(requests.read(LENGTH.unpack(head)[0]))  # noqa: S301 - from the parent process
        try:
            bench, reply = answer(bench, request)
        except Exception as error:  # noqa: BLE001 - told to who asked
            reply = ("failed", f"{type(error).__name__}: {error}".partition("\n")[0])
        payload = json.dumps(reply).encode()
        answers.write(struct.pack(LENGTH.format, len(payload)) + payload)
        answers.flush()


if __name__ == "__main__":
    serve()
    sys.exit(0)
