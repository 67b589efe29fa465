"""What `planish opt` says about a run: steps as they happen, diffs, statistics, timing."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Sequence

from planish.cli.console import Console
from planish.ptir import Program, StepLog, text
from planish.ptir.function import Function, Inst, Region, Value
from planish.ptir.passes import CanonicalizePass, Instrument, Pass, PassResult, PipelineResult, pass_text
from planish.ptir.rewrite.steplog import LoggedStep, StepKind


class StepPrinter(StepLog):
    """Prints each step when it happens and keeps none, so that a run that fails or is large leaves its log too.

    Steps are numbered per function and pass, as `max-rewrites` counts them. Passes that rewrite without patterns
    (`cse`, `dce`, `inline`) are heard by what they erase.
    """

    __slots__ = ("_function", "_greedy", "_pass", "_say")

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__()
        self._say = say
        self._pass = ""
        self._greedy = False
        self._function: Function | None = None

    def begin(self, step: Pass) -> None:
        """A pass is about to run."""
        self._pass = step.name
        self._greedy = isinstance(step, CanonicalizePass)
        self._function = None

    def attempt(self, pattern: str, root: Inst) -> None:
        self._enter(root.function)
        super().attempt(pattern, root)

    def erased(self, inst: Inst, region: Region) -> None:
        self._enter(region.function)
        super().erased(inst, region)
        if not self._greedy:
            self.count += 1
            self.steps.append(
                LoggedStep(self.count, StepKind.ERASED, self._pass, repr(inst), inst.id, inst.loc)
            )
            self._flush()

    def succeeded(self, pattern: str, root: Inst) -> None:
        super().succeeded(pattern, root)
        self._flush()

    def folded(self, root: Inst, values: Sequence[Value]) -> None:
        super().folded(root, values)
        self._flush()

    def eliminated(self, inst: Inst) -> None:
        super().eliminated(inst)
        self._flush()

    def _enter(self, function: Function) -> None:
        if function is not self._function:
            self._function = function
            self.count = 0
            self._say(f"// {self._pass} @{function.name}")

    def _flush(self) -> None:
        for step in self.steps:
            self._say(str(step))
        self.steps.clear()


class StepInstrument(Instrument):
    """Tells a step printer which pass it hears."""

    __slots__ = ("printer",)

    def __init__(self, printer: StepPrinter) -> None:
        self.printer = printer

    def before_pass(self, number: int, step: Pass, program: Program) -> None:
        self.printer.begin(step)


class DiffChanged(Instrument):
    """Prints what each pass changed as a unified diff.

    Values are called by their ids, so that a line differs only where it changed.
    """

    __slots__ = ("_before", "_console")

    def __init__(self, console: Console) -> None:
        self._console = console
        self._before = ""

    def before_pass(self, number: int, step: Pass, program: Program) -> None:
        if number == 1:
            self._before = text.print(program, ids=True)

    def after_pass(
        self, number: int, step: Pass, program: Program, result: PassResult, seconds: float
    ) -> None:
        name = pass_text(step)
        if not result.changed:
            self._console.say(f"// {name} changed nothing")
            return
        after = text.print(program, ids=True)
        self._console.say_diff(diff_lines(self._before, after, f"before {name}", f"after {name}"))
        self._before = after


def diff_lines(before: str, after: str, before_name: str, after_name: str) -> Iterator[str]:
    """A unified diff, without line ends."""
    return difflib.unified_diff(before.splitlines(), after.splitlines(), before_name, after_name, lineterm="")


def statistics_text(result: PipelineResult) -> str:
    """Counters per pass; tries, hits and time per pattern."""
    lines: list[str] = []
    for run in result.runs:
        lines.append(f"{run.text}: {run.result} ({run.seconds * 1e3:.3f} ms)")
        patterns: dict[str, dict[str, int | float]] = {}
        for key, value in run.result.statistics.items():
            if key.startswith("pattern."):
                name, _, what = key.removeprefix("pattern.").rpartition(".")
                patterns.setdefault(name, {})[what] = value
        if not patterns:
            continue
        width = max(len(name) for name in [*patterns, "pattern"])
        lines.append(f"  {'pattern':<{width}} {'hits':>8} {'tries':>8} {'ms':>10}")
        for name, counts in sorted(
            patterns.items(), key=lambda item: (-item[1]["hits"], -item[1]["tries"], item[0])
        ):
            milliseconds = counts["seconds"] * 1e3
            lines.append(f"  {name:<{width}} {counts['hits']:>8} {counts['tries']:>8} {milliseconds:>10.3f}")
    return "\n".join(lines)


def timing_text(phases: Iterable[tuple[str, float]]) -> str:
    """A table of phases with their share of the total."""
    rows = list(phases)
    total = sum(seconds for _, seconds in rows)
    width = max(len(name) for name, _ in [*rows, ("total", 0.0)])
    lines = [f"{'phase':<{width}} {'ms':>12} {'%':>6}"]
    for name, seconds in rows:
        lines.append(f"{name:<{width}} {seconds * 1e3:>12.3f} {100 * seconds / total if total else 0:>6.1f}")
    return "\n".join([*lines, f"{'total':<{width}} {total * 1e3:>12.3f} {100:>6.1f}"])
