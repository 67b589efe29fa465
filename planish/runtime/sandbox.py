"""Candidates of a search, run where they can do no harm: in processes of their own, with a time-out for everything.

A kernel that was never run before may crash, hang or write where it should not. Each worker is a fresh Python (not a fork, and
not a copy of the user's main module) that loads one kernel at a time. If it dies or does not answer, it is killed and
another takes its place; the candidate is to blame, and nothing else has happened.

Requests and answers go through pipes that only the two processes hold. Requests are pickled records of our own; an answer comes
from a process that such a kernel may have written over, and is JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self, cast

from planish.errors import PlanishError
from planish.records import dataclass
from planish.runtime.cpu import Processor
from planish.runtime.grid import Grid, TensorMap

LENGTH: Final = struct.Struct("<Q")
WHOLE: Final = "whole"
REALS: Final = "reals"
SETS: Final = (WHOLE, REALS)
"""The data that candidates run on: whole numbers, whose sums are the same in any order, and reals."""
_PATH: Final = os.pathsep.join(
    os.path.abspath(each)  # noqa: PTH100 - as Python reads them
    for each in (str(Path(__file__).parents[2]), *os.environ.get("PYTHONPATH", "").split(os.pathsep))
    if each
)
"""Where workers look for packages: as this process does, whatever folder it is in by then."""
_START: Final = 60.0
"""Seconds that a worker may take to start and to make up its data."""
_COMPILE: Final = 30.0
_CONTEST: Final = 60.0
"""Seconds that a contest may take, besides compiling and what was asked for: all in it were timed before."""
_LEAST: Final = 2.0
"""Seconds that any candidate may take."""
_SLOWER: Final = 30.0
"""How many times longer than the best a candidate may take."""
_LONGEST: Final = 64 << 20
"""Bytes of an answer."""
_MANY_BYTES: Final = 1 << 30
"""Data beyond this is not held by two workers at once."""


@dataclass(frozen=True, slots=True)
class Check:
    """What a result has to satisfy."""

    terms: int = 0
    """Terms of the longest float sum in it; 0: there is none, every bit counts."""
    eps: float = 0.0
    whole: bool = False
    """Whether all of its sums are exact on whole numbers."""


@dataclass(frozen=True, slots=True)
class TrialBuffer:
    """A parameter of a kernel."""

    name: str
    dtype: str
    count: int
    written: bool
    check: Check | None = None


@dataclass(frozen=True, slots=True)
class Setup:
    """What all candidates for one kernel run on."""

    places: tuple[TrialBuffer, ...]
    threads: int
    folder: str
    device: int | None = None
    """The number of the GPU that candidates run on; None: the CPU."""


@dataclass(frozen=True, slots=True)
class TimedKernel:
    """One candidate as code: LLVM IR of a function `kernel`, and what it takes."""

    source: str
    processor: Processor
    places: tuple[int, ...]
    """Which parameters of the setup it has."""
    values: tuple[int, ...]
    """The values of its variables."""
    grid: tuple[int, ...]
    scratch: int
    """Bytes that it takes for itself."""
    work: int
    vectors: int = 0
    """The vector registers that it wants."""


@dataclass(frozen=True, slots=True)
class GpuKernel:
    """One candidate for a GPU: CUDA C++, and how it is launched."""

    source: str
    name: str
    flags: tuple[str, ...]
    places: tuple[int, ...]
    values: tuple[int, ...]
    grid: Grid
    shared: int
    maps: tuple[TensorMap, ...] = ()


Trial = TimedKernel | GpuKernel


@dataclass(frozen=True, slots=True)
class CandidateReport:
    """What became of a candidate: `right`, `wrong`, `crashed`, `hung` or `failed` (to compile)."""

    what: str
    seconds: float = float("inf")
    detail: str = ""


class Gone(Exception):
    """A worker is no more: `what` says how it ended."""

    def __init__(self, what: str, detail: str) -> None:
        super().__init__(detail)
        self.what, self.detail = what, detail


def _room(places: Sequence[TrialBuffer]) -> str | None:
    """Where what the unoptimised kernel wrote is kept: in memory if there is enough, else where temporary files are."""
    shared = Path("/dev/shm")  # noqa: S108 - a folder of our own is made there
    needed = 4 * sum(8 * place.count for place in places if place.written)
    if shared.is_dir() and os.access(shared, os.W_OK) and shutil.disk_usage(shared).free > needed:
        return str(shared)
    return None


class Worker:
    """One process."""

    def __init__(self, setup: Setup, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            # -P: not what happens to lie in the current folder
            [sys.executable, "-P", "-c", "from planish.runtime.sandbox_worker import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **environment, "PYTHONPATH": _PATH},
        )
        self.send("setup", setup)

    def send(self, *request: Any) -> None:
        """Ask; the answer is waited for elsewhere."""
        payload = pickle.dumps(request)
        with contextlib.suppress(OSError):  # its end is noticed where its answer is missing
            stream = cast("IO[bytes]", self._process.stdin)
            stream.write(LENGTH.pack(len(payload)) + payload)
            stream.flush()

    def receive(self, seconds: float) -> tuple[Any, ...]:
        """Its answer; `Gone` if there is none in time."""
        until = time.monotonic() + seconds
        (length,) = LENGTH.unpack(self._read(LENGTH.size, until))
        if length > _LONGEST:
            self.end()
            raise Gone("crashed", "its answer has no end")
        try:
            reply = json.loads(self._read(length, until))
        except (ValueError, RecursionError):
            reply = None
        if not isinstance(reply, list) or not reply or not isinstance(reply[0], str):
            self.end()
            raise Gone("crashed", "its answer is none")
        return tuple(reply)

    def _read(self, count: int, until: float) -> bytes:
        source = cast("IO[bytes]", self._process.stdout).fileno()
        received = b""
        while len(received) < count:
            left = until - time.monotonic()
            if left <= 0 or not select.select([source], [], [], left)[0]:
                self.end()
                raise Gone("hung", "no answer in time")
            part = os.read(source, count - len(received))
            if not part:
                status = self._process.wait()
                self.end()
                raise Gone("crashed", _ending(status))
            received += part
        return received

    def end(self) -> None:
        """Kill it, if it is there."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


def _ending(status: int) -> str:
    if status < 0:
        try:
            return signal.Signals(-status).name
        except ValueError:
            return f"signal {-status}"
    return f"exit status {status}"


class Sandbox:
    """Workers for the candidates of one kernel: they compile side by side, and run one after another."""

    def __init__(
        self,
        places: Sequence[TrialBuffer],
        threads: int,
        *,
        workers: int = 2,
        environment: Mapping[str, str] | None = None,
        device: int | None = None,
    ) -> None:
        if not sys.executable:
            raise PlanishError("there is no Python to run candidates in", remedy="beam=0")
        self._folder = tempfile.mkdtemp(prefix="planish-tune-", dir=_room(places))
        self.setup = Setup(tuple(places), threads, self._folder, device)
        size = sum(place.count for place in places) * 8
        self._workers: list[Worker | None] = [None] * (1 if size > _MANY_BYTES else max(1, workers))
        self._starting: set[int] = set()
        self._environment = dict(environment or {})
        self.started = 0
        """Processes that were started."""

    def __enter__(self) -> Self:
        for number in range(len(self._workers)):
            self._start(number)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers:
            if worker is not None:
                worker.end()
        shutil.rmtree(self._folder, ignore_errors=True)

    def use(self, places: Sequence[TrialBuffer]) -> None:
        """Go on with the parameters of another kernel."""
        self.setup = replace(self.setup, places=tuple(places))
        for number, worker in enumerate(self._workers):
            if worker is not None and number not in self._starting:
                worker.send("setup", self.setup)
                self._starting.add(number)
            elif worker is not None:
                worker.end()
                self._workers[number] = None
                self._starting.discard(number)

    def time(self, kernels: Sequence[Trial]) -> list[CandidateReport]:
        """How long kernels take that are known to be right."""
        return self._batches(kernels, float("inf"), "time")

    def remember(self, kernel: Trial, seconds: float, points: Sequence[int] = ()) -> float:
        """Run the unoptimised kernel: what it computes is right by definition. How long it took.

        With `points`, only those of its grid are run, and only what they write is compared.
        """
        worker, number = self._ready(0), 0
        try:
            worker.send("load", kernel)
            _expect(worker.receive(_COMPILE), "loaded")
            worker.send("remember", tuple(points))
            reply = _expect(worker.receive(seconds), "remembered")
        except Gone as gone:
            self._workers[number] = None
            raise PlanishError(f"the unoptimised kernel {gone.what}: {gone.detail}") from None
        return float(reply[1])

    def extend(self, kernel: Trial, seconds: float) -> str | None:
        """After some points only: let an optimised kernel stand in for the rest, if it is right there. What is wrong, if it is not."""
        worker = self._ready(0)
        try:
            worker.send("load", kernel)
            _expect(worker.receive(_COMPILE), "loaded")
            worker.send("extend")
            reply = _expect(worker.receive(seconds), "extended")
        except Gone as gone:
            self._workers[0] = None
            return f"{gone.what}: {gone.detail}"
        return None if reply[1] is None else str(reply[1])

    def measure(self, kernels: Sequence[Trial], best: float) -> list[CandidateReport]:
        """Each candidate against what is remembered, and its time; `best` are the seconds of the fastest so far."""
        return self._batches(kernels, best, "run")

    def contest(self, kernels: Sequence[Trial], seconds: float) -> list[list[float]]:
        """Candidates in turn, round by round, each first against what is remembered: its seconds in every round, none if it is wrong.

        All workers hold one, one after another, and load the candidates in another order: where code and data happen to lie may
        favour one for as long as a process lives. If a candidate ends a process, none has any rounds.
        """
        times: list[list[float]] = [[] for _ in kernels]
        wrong: set[int] = set()
        for number in range(len(self._workers)):
            order = list(range(len(kernels)))[:: -1 if number % 2 else 1]
            try:
                worker = self._ready(number)
                worker.send("contest", tuple(kernels[n] for n in order), seconds / len(self._workers))
                reply = worker.receive(_CONTEST + len(kernels) * _COMPILE + 10 * seconds)
            except Gone:
                self._workers[number] = None
                return [[] for _ in kernels]
            if reply[0] != "times":
                return [[] for _ in kernels]
            for n, took in zip(order, reply[1], strict=True):
                times[n] += took
                if not took:
                    wrong.add(n)
        return [[] if n in wrong else took for n, took in enumerate(times)]

    def _batches(self, kernels: Sequence[Trial], best: float, how: str) -> list[CandidateReport]:
        reports: list[CandidateReport] = []
        for start in range(0, len(kernels), len(self._workers)):
            reports += self._batch(kernels[start : start + len(self._workers)], best, how)
        return reports

    def _batch(self, kernels: Sequence[Trial], best: float, how: str) -> list[CandidateReport]:
        reports: dict[int, CandidateReport] = {}
        asked: dict[int, Worker] = {}
        for number, kernel in enumerate(kernels):
            try:
                asked[number] = self._ready(number)
                asked[number].send("load", kernel)
            except Gone as gone:
                reports[number] = CandidateReport("failed", detail=f"no worker: {gone.detail}")
        for number, worker in list(asked.items()):
            try:
                reply = worker.receive(_COMPILE)
            except Gone as gone:
                self._workers[number] = None
                del asked[number]
                reports[number] = CandidateReport("failed", detail=f"the compiler {gone.what}: {gone.detail}")
                continue
            if reply[0] != "loaded":
                del asked[number]
                reports[number] = CandidateReport("failed", detail=str(reply[-1]))
        limit = max(_LEAST, _SLOWER * best) if best < float("inf") else _START
        for number, worker in asked.items():
            worker.send(how, best)
            try:
                what, value = worker.receive(limit)
            except Gone as gone:
                self._workers[number] = None
                reports[number] = CandidateReport(gone.what, detail=gone.detail)
                continue
            reports[number] = (
                CandidateReport("right", float(value))
                if what == "right"
                else CandidateReport(what, detail=str(value))
            )
        return [reports[number] for number in range(len(kernels))]

    def _start(self, number: int) -> Worker:
        """A new worker. It makes up its data while others are waited for."""
        worker = Worker(self.setup, self._environment)
        self.started += 1
        self._workers[number] = worker
        self._starting.add(number)
        return worker

    def _ready(self, number: int) -> Worker:
        worker = self._workers[number] or self._start(number)
        if number in self._starting:
            self._starting.discard(number)
            try:
                reply = worker.receive(_START)
            except Gone:
                self._workers[number] = None
                raise
            if reply[0] != "ready":
                worker.end()
                self._workers[number] = None
                raise Gone("failed", str(reply[-1]))
        return worker


def _expect(reply: tuple[Any, ...], what: str) -> tuple[Any, ...]:
    if reply[0] != what:
        raise PlanishError(f"a worker of the search says {reply[-1]}")
    return reply
