"""Where the time of a call goes: every launch timed by itself, as the function launches it, and called by what it computes.

The plan is walked in Python; launches are the machine code of the function, on the threads of a call. A few calls warm up, then the
median of several counts: one sample says more about the machine than about the kernel.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from planish import ptir
from planish.compiler import traces
from planish.errors import PlanishError
from planish.ptir.locations import all_locations
from planish.ptir.ops.definition import OpKey
from planish.records import dataclass
from planish.runtime.plan import POLL, Call, CallHost, Native, PlanState
from planish.schedule import plan as planned
from planish.schedule.plan import Role, walk

if TYPE_CHECKING:
    from planish.compiler.executable import Executable
    from planish.compiler.native import NativeCode
    from planish.ptir.function import Inst

Array = NDArray[Any]
_WARM_UP: Final = 3
_SECONDS: Final = 10.0
"""After which no more repetitions begin: a loop of many steps is walked in Python."""
_QUIET: Final = frozenset({"constant", "reshape", "broadcast_to", "transpose", "iota"})
"""Ops that say little about what a kernel computes: named only where there is nothing else."""
_WEIGHT: Final = {
    OpKey.DOT_GENERAL: 0,
    OpKey.CONVOLUTION: 0,
    OpKey.REDUCE: 1,
    OpKey.REDUCE_WINDOW: 1,
    OpKey.SCATTER: 1,
}
"""Which op a kernel is called by: what takes the time, then whatever comes first."""
_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class LaunchProfile:
    """One launch of the plan, or one op on the host."""

    kernel: str
    calls: int
    """How often a call runs it: more than once in a loop, never in a branch that is not taken."""
    seconds: float
    """The median over the repetitions, all its runs of a call together."""
    best: float
    flops: int
    """Arithmetic on floats of these runs, at the largest sizes."""
    nbytes: int
    """Of the buffers it reads and writes, each counted once per run."""
    ops: tuple[str, ...]
    """The PTIR ops that it computes."""
    lines: tuple[str, ...]
    """The lines of the user's, or the nodes of a model, that asked for them; that of the heaviest op first."""
    position: int = 0
    """Its place in the plan."""

    @property
    def gflops(self) -> float:
        """Float operations in a nanosecond."""
        return self.flops / self.seconds / 1e9 if self.seconds else 0.0

    @property
    def gbytes(self) -> float:
        """Bytes in a nanosecond."""
        return self.nbytes / self.seconds / 1e9 if self.seconds else 0.0

    @property
    def origin(self) -> str:
        """Where it comes from, in short: the line or node, and the ops."""
        ops = [op for op in self.ops if op not in _QUIET] or list(self.ops)
        first = _relative(self.lines[0]) if self.lines else ""
        more = f" and {len(self.lines) - 1} more" if len(self.lines) > 1 else ""
        return f"{first}{more}  {_shortened(ops)}".strip()


@dataclass(frozen=True, slots=True)
class Profile:
    """The launches of a call, the slowest first."""

    records: tuple[LaunchProfile, ...]
    call: float
    """Seconds of a whole call, undivided: the median."""
    repeat: int
    threads: int
    """0 on a GPU."""

    def __iter__(self) -> Iterator[LaunchProfile]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def __repr__(self) -> str:
        return f"<profile: {len(self)} launches, {self.call * 1e3:.3f} ms a call>"

    @property
    def seconds(self) -> float:
        """All launches together."""
        return sum(record.seconds for record in self.records)

    def table(self, most: int = _SHOWN) -> str:
        """The slowest launches as text."""
        total = self.seconds or 1.0
        shown = self.records[:most]
        width = max([len(record.kernel) for record in shown], default=6)
        lines = [f"{'kernel':<{width}}  calls        ms  share  GFLOP/s   GB/s  computes"]
        for r in shown:
            lines.append(
                f"{r.kernel:<{width}}  {r.calls:5d}  {r.seconds * 1e3:8.3f}  {r.seconds / total:5.1%}"
                f"  {r.gflops:7.1f}  {r.gbytes:5.1f}  {r.origin}"
            )
        rest = self.records[most:]
        if rest:
            left = sum(record.seconds for record in rest)
            name = f"{len(rest)} others"
            lines.append(f"{name:<{width}}  {'':5}  {left * 1e3:8.3f}  {left / total:5.1%}")
        counted = f"{len(self)} launches, {self.seconds * 1e3:.3f} ms one by one, {self.call * 1e3:.3f} ms as a call"
        threads = (
            "1 thread" if self.threads == 1 else f"{self.threads} threads" if self.threads else "the GPU"
        )
        lines.append(f"{counted}, on {threads} (median of {self.repeat})")
        return "\n".join(lines) + "\n"

    def __str__(self) -> str:
        return self.table()

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as JSON has it; the slowest launch first."""
        launches = [traces.record_of(record) for record in self.records]
        return {
            "call_seconds": self.call,
            "repeat": self.repeat,
            "threads": self.threads,
            "launches": launches,
        }

    def to_chrome(self, path: Path | str) -> None:
        """Write a trace for chrome://tracing or Perfetto: the launches behind each other, in the order of the plan."""
        traces.write(path, traces.chrome(self))

    def to_speedscope(self, path: Path | str) -> None:
        """Write a profile for speedscope: the user's lines, and the kernels below them."""
        traces.write(path, traces.speedscope(self))


def _relative(line: str) -> str:
    """A line with its file as seen from here, where that is shorter."""
    return line.removeprefix(f"{Path.cwd()}{os.sep}")


def _shortened(ops: Sequence[str], most: int = 4) -> str:
    names = list(dict.fromkeys(ops))
    return ", ".join(names[:most]) + (f" and {len(names) - most} others" if len(names) > most else "")


# -- measuring -------------------------------------------------------------------------------------------------------


def measure(
    exe: Executable, arrays: Sequence[object], repeat: int, function: ptir.Function | None
) -> Profile:
    """The profile of a compiled function."""
    from planish.compiler.inspection import origins_of

    if repeat < 1:
        raise PlanishError(f"a profile of {repeat} repetitions", remedy="repeat is at least 1")
    given = list(arrays) if arrays or not exe.lowered.arguments.types else made_up(exe)
    way = exe.timed_walk(given)
    for _ in range(_WARM_UP):
        way.run()
    until = perf_counter() + _SECONDS
    runs = [way.run()]
    while len(runs) < repeat and perf_counter() < until:
        runs.append(way.run())
    whole: list[float] = []
    for number in range(_WARM_UP + len(runs)):
        taken = way.arguments()
        begin = perf_counter()
        exe(*taken)
        way.wait()
        if number >= _WARM_UP:
            whole.append(perf_counter() - begin)
    origins = origins_of(exe.lowered, function)
    records = []
    for site, (name, flops, nbytes) in enumerate(way.described()):
        times = [run[site] for run in runs]
        insts = origins[site] if site < len(origins) else ()
        ops, lines = named(insts) if site < len(exe.code.sites) else ((f"{name} on the host",), ())
        calls = way.counts[site]
        records.append(
            LaunchProfile(
                name, calls, median(times), min(times), flops * calls, nbytes * calls, ops, lines, site
            )
        )
    records.sort(key=lambda record: -record.seconds)
    return Profile(tuple(records), median(whole), len(runs), way.threads)


class TimedWalk:
    """Runs the code of a function launch by launch, each timed."""

    threads = 0
    """That a call may use; none of the host's on a GPU."""

    def __init__(self, exe: Executable, given: Sequence[object]) -> None:
        self.exe = exe
        self.given = given
        buffers = exe.lowered.plan.buffers
        self.donated = {b.position for b in buffers if b.role is Role.PARAMETER and b.donated}
        launches = len(exe.code.sites)
        hosts = [
            n
            for n, step in enumerate(exe.code.instructions)
            if isinstance(step, CallHost) and not _polls(step)
        ]
        self.hosts = {position: launches + number for number, position in enumerate(hosts)}
        self.counts = [0] * (launches + len(hosts))
        self.results: tuple[Any, ...] = ()
        """Of the last run."""
        self.intervals: list[tuple[int, float, float]] = []
        """Of the last run, in order: which launch or op, from when to when; empty where only sums are known."""
        self.under_way: list[tuple[int, float, float]] = []
        """Of the last run: collectives that were waited for later, from the start of each to the end of the wait."""

    def arguments(self) -> list[object]:
        """Of a call; what is donated is overwritten, and is a copy each time."""
        return [
            np.array(array) if position in self.donated else array
            for position, array in enumerate(self.given)
        ]

    def run(self) -> list[float]:
        """One call: the seconds of every launch, behind them those of the ops on the host."""
        raise NotImplementedError

    def wait(self) -> None:
        """Until a call is done."""

    def described(self) -> list[tuple[str, int, int]]:
        """Name, flops and bytes of one run of each."""
        kernels = self.exe.kernels
        rows = [(kernels[k].name, kernels[k].flops, kernels[k].nbytes) for k in self.exe.code.sites]
        for step in walk(self.exe.lowered.plan.steps):
            if isinstance(step, planned.Host | planned.Wait):
                name = step.op.name if isinstance(step, planned.Host) else f"wait for {step.op}"
                rows.append((name, 0, 0))
        return rows


def _polls(step: CallHost) -> bool:
    return step.native is not None and step.native.routine == POLL


class CpuWalk(TimedWalk):
    """The plan walked in Python, its launches as machine code."""

    def __init__(self, exe: Executable, native: NativeCode, given: Sequence[object]) -> None:
        super().__init__(exe, given)
        self.native = native
        self.threads = native.threads()
        self.launch = {
            position: self.native.launcher(step)
            for position, step in enumerate(exe.code.instructions)
            if isinstance(step, Call) or (isinstance(step, CallHost) and native.has_routine(step))
        }

    def run(self) -> list[float]:
        memory, slots, scratch = self.exe.begin(self.arguments())
        state = PlanState(memory, slots, (), scratch)
        spent = [0.0] * len(self.counts)
        counts = [0] * len(self.counts)
        self.intervals.clear()
        self.under_way.clear()
        begun: dict[int, tuple[int, float]] = {}
        instructions, position = self.exe.code.instructions, 0
        while position < len(instructions):
            step = instructions[position]
            following: int | None = None
            if position in self.launch:
                number = step.site if isinstance(step, Call) else self.hosts.get(position)
                frame = self.native.frame(state.memory, state.slots, scratch)
                launch = self.launch[position]
                begin = perf_counter()
                launch(frame)
                end = perf_counter()
                if number is None:
                    position += 1
                    continue
                spent[number] += end - begin
                counts[number] += 1
                self.intervals.append((number, begin, end))
                if isinstance(step, CallHost) and step.native is not None:
                    self.met(step.native, state.slots, begun, self.intervals[-1])
            else:
                begin = perf_counter()
                following = step.step(state)
                if position in self.hosts:
                    number, end = self.hosts[position], perf_counter()
                    spent[number] += end - begin
                    counts[number] += 1
                    self.intervals.append((number, begin, end))
            position = position + 1 if following is None else following
        self.counts = counts
        self.results = self.exe.collected(state.memory, state.slots)
        return spent

    def met(
        self,
        native: Native,
        slots: Sequence[int],
        begun: dict[int, tuple[int, float]],
        run: tuple[int, float, float],
    ) -> None:
        """Remember when a collective began, by its ticket; when it is waited for, that is when it ended."""
        if native.routine == "collective":
            begun[slots[native.integers[-1]]] = run[:2]
        elif native.routine == "collective.wait":
            site, begin = begun.pop(slots[native.integers[0]])
            self.under_way.append((site, begin, run[2]))


def made_up(exe: Executable) -> list[Array]:
    """Arrays of the largest sizes for every parameter: floats around 0, small integers."""
    rng = np.random.default_rng(0)
    arrays: list[Array] = []
    for type in exe.lowered.arguments.types:
        dtype, dims = type.dtype, type.max_shape
        if dtype.is_bool:
            arrays.append(rng.random(dims) < 0.5)
        elif dtype.is_int:
            arrays.append(rng.integers(0, 8, dims).astype(dtype.numpy))
        else:
            values = rng.standard_normal(dims)
            whole = values + 1j * rng.standard_normal(dims) if dtype.is_complex else values
            arrays.append(np.asarray(whole).astype(dtype.numpy))
    return arrays


# -- names -----------------------------------------------------------------------------------------------------------


def named(insts: Sequence[Inst]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The ops of a kernel, and the lines that asked for them, that of the heaviest first."""
    ops = tuple(inst.op.name for inst in insts)
    telling = [inst for inst in insts if inst.op.name not in _QUIET] or list(insts)
    telling.sort(key=lambda inst: _WEIGHT.get(inst.op.key, 2))
    lines = dict.fromkeys(str(place) for inst in telling for place in all_locations(inst.loc))
    return ops, tuple(lines)


__all__ = ["LaunchProfile", "Profile", "measure", "named"]
