"""The recorder: an observer of the compiler that keeps what it hears, as references, until somebody looks.

Recording changes nothing of what is compiled: rules apply as they do, and kernels are scheduled without being watched, since
candidates that a search throws away are no part of a kernel's journey.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from time import perf_counter, perf_counter_ns
from typing import NamedTuple

from planish.actions.base import Action
from planish.compiler import Lowered
from planish.compiler.executable import Executable
from planish.compiler.observer import CompilationObserver
from planish.compiler.scheduling import ScheduleChoice
from planish.llir.program import Program as LlirProgram
from planish.ptir import Function, Inst, PassManager, Program
from planish.records import dataclass
from planish.schedule.memory import Sharing
from planish.schedule.origins import Origins
from planish.schedule.plan import Kernel, Plan
from planish.stages.pipeline import Form, StageRun
from planish.target import Target
from planish.uop.node import UOp
from planish.uop.trial import installed
from planish.viz.passes import PassTrace, TracedPass
from planish.viz.runs import RunWatch
from planish.viz.trace import RuleCount, RuleTrace, TracedStage


@dataclass(slots=True)
class RecordedStage:
    """A stage that a kernel went through; number 0 is the kernel as it was planned."""

    number: int
    name: str
    form: Form
    seconds: float
    changed: bool
    trace: TracedStage


class StageSummary(NamedTuple):
    """A stage in short."""

    number: int
    seconds: float
    steps: int
    changed: bool
    counts: tuple[RuleCount, ...]


@dataclass(slots=True)
class RecordedKernel:
    """One kernel on its way."""

    number: int
    kernel: Kernel
    heard: list[RecordedStage] = field(default_factory=list)
    """Its stages, as long as it was not made by another process."""
    chosen_on: UOp | None = None
    """The kernel that its schedule was chosen for."""
    choice: ScheduleChoice | None = None
    program: LlirProgram | None = None
    seconds: float = 0.0
    choosing: float = 0.0
    """Of these, how long its schedule took to be found."""
    error: str = ""
    packed: bytes = field(default=b"", repr=False)
    """What another process heard of it, not yet looked at."""

    told: list[StageSummary] = field(default_factory=list, repr=False)
    """What is known of its stages as long as it is packed."""

    @property
    def stages(self) -> list[RecordedStage]:
        """The stages that it went through."""
        if self.packed:
            from planish.viz.packing import unpacked

            self.heard, self.packed = unpacked(self.packed), b""
        return self.heard

    @property
    def summaries(self) -> list[StageSummary]:
        """Its stages in short, for which nothing has to be unpacked."""
        return self.told or [
            StageSummary(s.number, s.seconds, len(s.trace.steps), s.changed, tuple(s.trace.counts))
            for s in self.heard
        ]


@dataclass(slots=True)
class RecordedProgram:
    """One function on its way to machine code."""

    function: Function | Program
    target: Target
    donate: frozenset[int]
    passes: list[TracedPass] = field(default_factory=list)
    prepared: Function | None = None
    plan: Plan | None = None
    """Its kernels as they were planned, loops not yet made of them."""
    sharing: Sharing | None = None
    origins: dict[str, list[tuple[Inst, ...]]] = field(default_factory=dict)
    """By the name of a kernel, the instructions that each launch of it computes."""
    kernels: dict[int, RecordedKernel] = field(default_factory=dict)
    lowered: Lowered | None = None
    runs: RunWatch | None = None
    started: float = 0.0
    seconds: float = 0.0
    planned_at: float = 0.0
    error: str = ""

    @property
    def name(self) -> str:
        """What the function is called."""
        return self.function.entry.name if isinstance(self.function, Program) else self.function.name


class Recorder(CompilationObserver):
    """Keeps what every compilation does, in any thread."""

    wants_fresh = True

    def __init__(self) -> None:
        self.programs: list[RecordedProgram] = []
        self.created = time.time()
        self.epoch = perf_counter_ns()
        """What the times of steps are counted from."""
        self._here = threading.local()
        self._process = os.getpid()

    # -- where this thread is --------------------------------------------------------------------------------------

    @property
    def _open(self) -> list[RecordedProgram]:
        programs: list[RecordedProgram] | None = getattr(self._here, "programs", None)
        if programs is None:
            programs = self._here.programs = []
        return programs

    @property
    def _kernel(self) -> RecordedKernel | None:
        return getattr(self._here, "kernel", None)

    @contextmanager
    def program(self, function: Function | Program, target: Target, donate: frozenset[int]) -> Iterator[None]:
        # Kept as it is now: its owner may change it later.
        recorded = RecordedProgram(function.clone(), target, donate, started=perf_counter())
        self.programs.append(recorded)
        self._open.append(recorded)
        try:
            with installed(None):
                yield
        except Exception as error:
            recorded.error = f"{type(error).__name__}: {error}"
            raise
        finally:
            self._open.pop()
            recorded.seconds = perf_counter() - recorded.started

    def passes(self, manager: PassManager) -> PassManager:
        if not self._open or self._open[-1].passes:
            return manager
        trace = PassTrace()
        self._open[-1].passes = trace.passes
        return trace.watched(manager)

    def origins(self) -> Origins:
        origins = self._here.origins = Origins()
        return origins

    def cut(self, plan: Plan) -> None:
        watch: Origins = self._here.origins
        self._open[-1].origins = watch.by_kernel(plan, ())
        del self._here.origins

    def planned(self, function: Function, plan: Plan, sharing: Sharing) -> None:
        recorded = self._open[-1]
        recorded.prepared, recorded.plan, recorded.sharing = function, plan, sharing
        recorded.planned_at = perf_counter()

    @contextmanager
    def kernel(self, number: int, kernel: Kernel) -> Iterator[None]:
        recorded = RecordedKernel(number, kernel)
        self._open[-1].kernels[number] = recorded
        begun, outer = perf_counter(), self._kernel
        self._here.kernel = recorded
        try:
            yield
        except Exception as error:
            recorded.error = f"{type(error).__name__}: {error}"
            raise
        finally:
            recorded.seconds = perf_counter() - begun
            self._here.kernel = outer

    def stages(self, steps: Iterator[StageRun]) -> Iterator[StageRun]:
        kernel = self._kernel
        if kernel is None:
            yield from steps
            return
        trace = self._trace()
        kernel.heard.append(RecordedStage(0, "planned", kernel.kernel.sink, 0.0, True, TracedStage()))
        number = 1
        while True:
            seen = trace.enter(number)
            with installed(trace):
                step = next(steps, None)
            trace.leave()
            if step is None:
                return
            number = step.stage.number + 1
            kernel.heard.append(
                RecordedStage(step.stage.number, step.stage.name, step.form, step.seconds, step.changed, seen)
            )
            yield step

    def _trace(self) -> RuleTrace:
        """One for each thread: its decision tables serve all kernels."""
        trace: RuleTrace | None = getattr(self._here, "trace", None)
        if trace is None:
            trace = self._here.trace = RuleTrace()
        return trace

    def choosing(self, sink: UOp, choose: Callable[[UOp], Sequence[Action]]) -> Sequence[Action]:
        begun = perf_counter()
        with installed(None):
            chosen = choose(sink)
        if self._kernel is not None:
            self._kernel.chosen_on = sink
            self._kernel.choosing = perf_counter() - begun
        return chosen

    def scheduled(self, choice: ScheduleChoice, program: LlirProgram) -> None:
        if self._kernel is not None:
            self._kernel.choice, self._kernel.program = choice, program

    def told(self, number: int) -> bytes:
        if os.getpid() == self._process:
            return b""
        from planish.viz.packing import packed

        recorded = self._open[-1].kernels[number]
        return packed(recorded)

    def hears(
        self, number: int, kernel: Kernel, told: bytes, choice: ScheduleChoice, program: LlirProgram
    ) -> None:
        if not told:
            return
        from planish.viz.packing import opened

        seconds, choosing, summaries, packed = opened(told)
        self._open[-1].kernels[number] = RecordedKernel(
            number, kernel, choice=choice, program=program, seconds=seconds, choosing=choosing,
            packed=packed, told=summaries,
        )  # fmt: skip

    def lowered(self, lowered: Lowered) -> None:
        self._open[-1].lowered = lowered

    def compiled(self, executable: Executable) -> None:
        for recorded in reversed(self.programs):
            if recorded.lowered is executable.lowered:
                if not executable.is_watched:
                    recorded.runs = RunWatch(executable)
                    executable.watch_runs(recorded.runs)
                return
