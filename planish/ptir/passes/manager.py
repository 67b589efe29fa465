"""Passes and pipelines.

A pass is a frozen dataclass: its fields are its options, its kebab-case `name` is how pipelines call it. The
text of a pipeline (`canonicalize{max-iterations=3},cse,dce`) parses to passes and prints from them, and only
options that differ from their defaults are printed.

The manager runs passes over a program, holds the cyclic garbage collector off meanwhile, and tells its
instruments (see `instruments`) and the global trace sink. If a pass fails, the error names it, and a
reproducer is written where one was asked for.
"""

from __future__ import annotations

import dataclasses
import gc
import re
import types
import typing
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import ClassVar, Final, Protocol, TypeVar, cast, runtime_checkable

from planish.errors import PassError, PlanishError, did_you_mean
from planish.ptir import trace
from planish.ptir.function import Function, Program
from planish.ptir.rewrite.listener import Listener
from planish.ptir.rewrite.reproducer import write_reproducer

OptionValue = bool | int | float | str | tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class PassContext:
    """What a run hands to its passes besides the program."""

    listener: Listener | None = None
    """Hears every change made through a rewriter."""


DEFAULT_CONTEXT: Final = PassContext()


@dataclass(slots=True)
class PassResult:
    """What a pass did."""

    changed: bool = False
    statistics: dict[str, int | float] = field(default_factory=dict)
    """Named counters; patterns appear as `pattern.NAME.hits` and its like."""
    functions: tuple[str, ...] = ()
    """The functions that changed and still exist."""

    def __str__(self) -> str:
        shown = ", ".join(f"{name} {value}" for name, value in self.statistics.items() if "." not in name)
        return f"{'changed' if self.changed else 'unchanged'}{': ' + shown if shown else ''}"


@runtime_checkable
class Pass(Protocol):
    """One transformation of a program; implementations are frozen dataclasses."""

    name: ClassVar[str]

    def run(self, program: Program, context: PassContext = DEFAULT_CONTEXT) -> PassResult:
        """Transform `program` in place."""
        ...


P = TypeVar("P", bound=type[Pass])
PASSES: Final[dict[str, type[Pass]]] = {}


def register(cls: P) -> P:
    """Make a pass known to pipelines, under its name."""
    if not getattr(getattr(cls, "__dataclass_params__", None), "frozen", False):
        raise PassError(f"pass {cls.__name__} is not a frozen dataclass")
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", cls.name):
        raise PassError(f"pass {cls.__name__} is called {cls.name!r}, which is not kebab-case")
    PASSES[cls.name] = cls
    return cls


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

    def run(self, program: Program | Function) -> PipelineResult:
        """Run every pass over a program, or over a function as a program of its own."""
        if isinstance(program, Function):
            program = Program([program])
        context = PassContext(self.listener)
        runs: list[PassRun] = []
        with collector_off():
            for number, step in enumerate(self.passes, 1):
                runs.append(self._run_pass(number, step, program, context))
        return PipelineResult(tuple(runs))

    def _run_pass(self, number: int, step: Pass, program: Program, context: PassContext) -> PassRun:
        text = pass_text(step)
        before = program.clone() if self.reproducer_dir is not None else None
        for instrument in self.instruments:
            instrument.before_pass(number, step, program)
        start = perf_counter()
        try:
            result = step.run(program, context)
            seconds = perf_counter() - start
            for instrument in self.instruments:
                instrument.after_pass(number, step, program, result, seconds)
        except Exception as error:
            error.add_note(f"in pass {number} of the pipeline {self}: {text}")
            for instrument in self.instruments:
                instrument.failed_pass(number, step, program, error)
            if before is not None and self.reproducer_dir is not None:
                rest = ",".join(pass_text(later) for later in self.passes[number - 1 :])
                path = write_reproducer(self.reproducer_dir, before, rest, error)
                error.add_note(f"reproducer: {path}")
            raise
        trace.pass_event(trace.PassEvent(text, number, result.changed, seconds, dict(result.statistics)))
        return PassRun(text, result, seconds)

    @classmethod
    def parse(cls, text: str) -> PassManager:
        """Read a pipeline: `canonicalize{max-iterations=3 disable=A,B},cse,dce`."""
        return cls(_parse_pipeline(text))

    def __str__(self) -> str:
        return ",".join(pass_text(step) for step in self.passes)

    def __repr__(self) -> str:
        return f"PassManager.parse({str(self)!r})"


@contextmanager
def collector_off() -> Iterator[None]:
    """Hold the cyclic garbage collector off: rewriting makes no garbage cycles worth a walk over the program."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


# Pipeline text.


def pass_text(step: Pass) -> str:
    """A pass as pipelines spell it, with the options that differ from their defaults."""
    options: list[str] = []
    for item in dataclasses.fields(step):  # type: ignore[arg-type]
        value = getattr(step, item.name)
        default = item.default if item.default_factory is dataclasses.MISSING else item.default_factory()
        if value != default:
            options.append(f"{item.name.replace('_', '-')}={_value_text(value)}")
    return f"{step.name}{{{' '.join(options)}}}" if options else step.name


def _value_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(str(part) for part in value)
    return "none" if value is None else str(value)


def _parse_pipeline(text: str) -> list[Pass]:
    passes: list[Pass] = []
    position = 0
    while True:
        match = re.compile(r"\s*([A-Za-z0-9-]+)\s*(?:\{([^{}]*)\})?\s*(,|\Z)").match(text, position)
        if match is None:
            if not text.strip():
                return passes
            raise PassError(
                f"cannot read the pipeline {text!r} at column {position + 1}",
                remedy="write passes separated by commas, options in braces: canonicalize{max-iterations=3},cse",
            )
        passes.append(_make_pass(match.group(1), match.group(2) or ""))
        position = match.end()
        if match.group(3) != ",":
            return passes


def _make_pass(name: str, options: str) -> Pass:
    cls = PASSES.get(name)
    if cls is None:
        close = did_you_mean(name, PASSES)
        hint = f"did you mean {close}? " if close else ""
        raise PassError(f"there is no pass {name!r}", remedy=f"{hint}valid: {', '.join(sorted(PASSES))}")
    fields = {item.name.replace("_", "-"): item.name for item in dataclasses.fields(cls)}  # type: ignore[arg-type]
    hints = typing.get_type_hints(cls)
    values: dict[str, OptionValue] = {}
    for option in options.split():
        key, equals, text = option.partition("=")
        if key not in fields:
            close = did_you_mean(key, fields)
            hint = f"did you mean {close}? " if close else ""
            valid = ", ".join(sorted(fields)) or "none"
            raise PassError(f"pass {name} has no option {key!r}", remedy=f"{hint}valid: {valid}")
        values[fields[key]] = _read_option(name, key, hints[fields[key]], text if equals else "true")
    try:
        return cls(**values)
    except PlanishError as error:
        error.add_note(f"in the options of pass {name}")
        raise


def _read_option(name: str, key: str, hint: object, text: str) -> OptionValue:
    members = typing.get_args(hint) if typing.get_origin(hint) in (types.UnionType, typing.Union) else (hint,)
    if type(None) in members and text == "none":
        return None
    for member in members:
        if member is bool and text in ("true", "false"):
            return text == "true"
        if member is int and re.fullmatch(r"[+-]?\d+", text):
            return int(text)
        if member is float and re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", text):
            return float(text)
        if typing.get_origin(member) is tuple:
            return tuple(part for part in text.split(",") if part)
        if member is str:
            return text
    wanted = " or ".join(_type_text(member) for member in members)
    raise PassError(f"option {key} of pass {name} cannot be {text!r}", remedy=f"it takes {wanted}")


def _type_text(member: object) -> str:
    names = {bool: "true or false", int: "an integer", float: "a number", type(None): "none"}
    return names.get(cast("type", member), "a list of names")
