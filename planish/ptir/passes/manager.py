"""The pass manager: a pipeline, and whoever watches it.

The manager runs passes over a program, holds the cyclic garbage collector off meanwhile, and tells its
instruments (see `instruments`) and the global trace sink. If a pass fails, the error names it, and a
reproducer is written where one was asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from time import perf_counter
from typing import TypeAlias

from planish.collector import collector_off
from planish.errors import PassError
from planish.ptir import trace
from planish.ptir.function import Function, Program
from planish.ptir.passes.definition import DEFAULT_CONTEXT, PASSES, Pass, PassContext, PassResult, register
from planish.ptir.passes.fixpoint import flat, unrolled
from planish.ptir.passes.text import parse_pipeline, pass_text, pipeline_text
from planish.ptir.rewrite.listener import Listener
from planish.ptir.rewrite.reproducer import write_reproducer
from planish.records import dataclass

__all__ = [
    "DEFAULT_CONTEXT", "PASSES", "Instrument", "Pass", "PassContext", "PassManager", "PassResult", "PassRun",
    "Passes", "PipelineResult", "pass_text", "register",
]  # fmt: skip

Passes: TypeAlias = "str | Pass | PassManager | Sequence[str | Pass]"
"""A pipeline as users give it: text, a pass, or several of both."""


class Instrument:
    """Watches a pipeline; each method does nothing until overridden."""

    __slots__ = ()

    def before_pass(self, number: int, step: Pass, program: Program) -> None:
        """Pass `number` (from 1) is about to run."""

    def after_pass(
        self, number: int, step: Pass, program: Program, result: PassResult, seconds: float
    ) -> None:
        """It ran."""

    def failed_pass(self, number: int, step: Pass, program: Program, error: Exception) -> None:
        """It raised."""


@dataclass(frozen=True, slots=True)
class PassRun:
    """One pass of a finished pipeline."""

    text: str
    result: PassResult
    seconds: float


@dataclass(frozen=True, slots=True)
class PipelineResult:
    """What a pipeline did, pass by pass."""

    runs: tuple[PassRun, ...]

    @property
    def changed(self) -> bool:
        return any(run.result.changed for run in self.runs)

    @property
    def seconds(self) -> float:
        return sum(run.seconds for run in self.runs)

    def statistics(self) -> dict[str, int | float]:
        """All counters, each under the name of its pass; passes run twice are added up."""
        total: dict[str, int | float] = {}
        for run in self.runs:
            name = run.text.partition("{")[0]
            for key, value in run.result.statistics.items():
                total[f"{name}.{key}"] = total.get(f"{name}.{key}", 0) + value
        return total

    def __repr__(self) -> str:
        changed = sum(run.result.changed for run in self.runs)
        return f"<pipeline: {len(self.runs)} passes ran, {changed} changed something, {self.seconds * 1e3:.3f} ms>"

    def __str__(self) -> str:
        lines = [f"{run.text}: {run.result} ({run.seconds * 1e3:.3f} ms)" for run in self.runs]
        return "\n".join(lines)


class PassManager:
    """A pipeline: passes in order, and whoever watches them."""

    __slots__ = ("instruments", "listener", "passes", "reproducer_dir")

    def __init__(
        self,
        passes: Iterable[Pass] = (),
        *,
        instruments: Sequence[Instrument] = (),
        listener: Listener | None = None,
        reproducer_dir: Path | str | None = None,
    ) -> None:
        self.passes: list[Pass] = list(passes)
        self.instruments: list[Instrument] = list(instruments)
        self.listener = listener
        self.reproducer_dir = None if reproducer_dir is None else Path(reproducer_dir)

    def add(self, *passes: Pass) -> PassManager:
        """Append passes."""
        self.passes += passes
        return self

    def watch(self, *instruments: Instrument) -> PassManager:
        """Append instruments."""
        self.instruments += instruments
        return self

    def run(self, program: Program | Function, *, routines: bool = False) -> PipelineResult:
        """Run every pass over a program, or over a function as a program of its own; `routines`: see `PassContext`."""
        if isinstance(program, Function):
            program = Program([program])
        context = PassContext(self.listener, routines)
        runs: list[PassRun] = []
        with collector_off():
            for position, listed in enumerate(self.passes):
                schedule = unrolled(listed)
                step = next(schedule, None)
                while step is not None:
                    # What a failure is reproduced with: this pass, then whatever would have followed.
                    rest = [*([] if step is listed else [step]), *self.passes[position:]]
                    runs.append(self._run_pass(len(runs) + 1, step, program, context, rest))
                    try:
                        step = schedule.send(runs[-1].result)
                    except StopIteration:
                        break
        return PipelineResult(tuple(runs))

    def _run_pass(
        self, number: int, step: Pass, program: Program, context: PassContext, rest: Sequence[Pass]
    ) -> PassRun:
        text = pass_text(step)
        before = program.clone() if self.reproducer_dir is not None else None
        for instrument in self.instruments:
            instrument.before_pass(number, step, program)
        start = perf_counter()
        try:
            result = step.run(program, context)
            seconds = perf_counter() - start
            _check_result(step, result)
            for instrument in self.instruments:
                instrument.after_pass(number, step, program, result, seconds)
        except Exception as error:
            error.add_note(f"in pass {number} of the pipeline {self}: {text}")
            for instrument in self.instruments:
                instrument.failed_pass(number, step, program, error)
            if before is not None and self.reproducer_dir is not None:
                path = write_reproducer(self.reproducer_dir, before, pipeline_text(rest), error)
                error.add_note(f"reproducer: {path}")
            raise
        trace.pass_event(trace.PassEvent(text, number, result.changed, seconds, dict(result.statistics)))
        return PassRun(text, result, seconds)

    @classmethod
    def parse(cls, text: str) -> PassManager:
        """Read a pipeline: `fixpoint(canonicalize{max-iterations=3 disable=A,B},cse),dce`."""
        return cls(parse_pipeline(text))

    @classmethod
    def of(cls, passes: Passes) -> PassManager:
        """A pipeline from its text, from passes, or from several of both."""
        if isinstance(passes, PassManager):
            return passes
        several = isinstance(passes, Sequence) and not isinstance(passes, str)
        given: Sequence[object] = passes if several else [passes]  # type: ignore[assignment]
        pipeline: list[Pass] = []
        for part in given:
            if isinstance(part, str):
                pipeline += parse_pipeline(part)
            elif isinstance(part, Pass) and not isinstance(part, type):
                pipeline.append(part)
            else:
                hint = f"write {part.__name__}()" if isinstance(part, type) else "give its text, or passes"
                raise PassError(f"{part!r} is no pass", remedy=hint)
        return cls(pipeline)

    @property
    def ships(self) -> bool:
        """Whether its text says all there is to know of it: no pass, pattern or cost model is the user's own."""
        return all(
            type(step).__module__.startswith("planish.ptir.passes.")
            and not getattr(step, "own_parts", tuple)()
            for step in flat(self.passes)
        )

    def __str__(self) -> str:
        return pipeline_text(self.passes)

    def __repr__(self) -> str:
        return f"PassManager.parse({str(self)!r})"


def _check_result(step: Pass, result: object) -> None:
    if not isinstance(result, PassResult):
        raise PassError(
            f"pass {step.name} returned {result!r}", remedy="return a PassResult that says what changed"
        )
