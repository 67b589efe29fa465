"""A recording: documents by path, made when they are asked for.

A live one is made of what a recorder keeps, a stored one (`storage.py`) of a file. Who shows it (`server.py`) or exports it
(`export.py`) knows paths and documents alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Final

from planish._version import __version__
from planish.compiler.observer import observing
from planish.stages import pipeline
from planish.viz import rule_schema, schema
from planish.viz.failures import Reasons
from planish.viz.graphs import pages
from planish.viz.kernel_view import KernelView
from planish.viz.machine import cycle_us, this_machine
from planish.viz.pass_view import PassView
from planish.viz.program_view import ProgramView
from planish.viz.recorder import Recorder
from planish.viz.rules import RuleBook
from planish.viz.search import index_of
from planish.viz.why import why

STAGE_NAMES: Final = {
    "0": "planned",
    **{str(stage.number): stage.name for stage in (*pipeline.STAGES, *pipeline.LINE_STAGES)},
}
_RULE: Final = re.compile(r"p(\d{1,6})/rule/(u\d{1,6})\.json")
_KERNELS_OF_A_RULE: Final = 8
"""Kernels that are looked at for one rule."""
Document = object
"""A dataclass of `schema`, or JSON as it was read."""


class Documents:
    """Documents by path; a kernel's are made from its view, whoever has it."""

    @property
    def index(self) -> schema.Index:
        """The first document."""
        raise NotImplementedError

    def kernel(self, program: str, number: str) -> KernelView | None:
        """The view of a kernel: `kernel("0", "12")` is that of `p0/k/12`."""
        raise NotImplementedError

    def other(self, path: str) -> Document | None:
        """A document that is not a kernel's."""
        raise NotImplementedError

    def document(self, path: str) -> Document | None:
        """The document of a path; None if there is none."""
        if path == "index.json":
            return self.index
        if path == "search.json":
            return index_of(self, deep=True)
        for form, make in KERNEL_PATHS:
            match = form.fullmatch(path)
            if match is not None:
                program, kernel, *rest = match.groups()
                view = self.kernel(program, kernel)
                numbers = [int(each) if each.isdecimal() else each for each in rest]
                return None if view is None else make(view, *numbers)
        rule = _RULE.fullmatch(path)
        if rule is not None:
            return self._rule(rule[1], rule[2])
        return self.other(path)

    def _rule(self, program: str, rule: str) -> rule_schema.RuleFailures | None:
        """Why a rule did not apply in the kernels of a program: a few that differ are looked at."""
        if int(program) >= len(self.index.programs) or rule not in self.index.rules:
            return None
        reasons, kernels = Reasons(), 0
        for entry in self.index.programs[int(program)].kernels:
            view = None if entry.like else self.kernel(program, entry.id.rpartition("/")[2])
            if view is None or view.failures is None:
                continue
            tried = [
                stage
                for stage in view.failures.journey.stages
                if any(count.rule == rule and count.tried > count.applied for count in stage.counts)
            ]
            for stage in tried:
                view.failures.add(stage, rule, reasons)
            kernels += bool(tried)
            if kernels >= _KERNELS_OF_A_RULE:
                break
        return rule_schema.RuleFailures(rule, reasons.looked, reasons.told())

    def program_paths(self) -> Iterator[str]:
        """The paths of all documents that are no kernel's, but for the index."""
        for program in self.index.programs:
            for each in program.passes:
                yield f"{each.id}.json"
                yield from (f"{each.id}/steps/{page}.json" for page in range(pages(each.steps)))
            yield from (
                f"{program.id}/{name}.json"
                for name in ("fusion", "memory", "patterns")
                if getattr(program.has, name)
            )
        yield from (f"{run.id}/timeline.json" for run in self.index.runs)

    def close(self) -> None:
        """Nothing is asked for any more."""


def _paths(
    table: Sequence[tuple[str, Callable[..., Document | None]]],
) -> list[tuple[re.Pattern[str], Callable[..., Document | None]]]:
    return [(re.compile(pattern), make) for pattern, make in table]


def _of_passes(make: Callable[..., Document | None]) -> Callable[..., Document | None]:
    return lambda view, *numbers: make(view.passes, *numbers)


KERNEL_PATHS: Final = _paths(
    [
        (r"p(\d{1,6})/k/(\d{1,9})/stage/(\d{1,3})\.json", KernelView.stage),
        (r"p(\d{1,6})/k/(\d{1,9})/stage/(\d{1,3})/steps/(\d{1,9})\.json", KernelView.steps),
        (r"p(\d{1,6})/k/(\d{1,9})/stage/(\d{1,3})/step/(\d{1,9})\.json", KernelView.step),
        (r"p(\d{1,6})/k/(\d{1,9})/stage/(\d{1,3})/failed\.json", KernelView.failed),
        (r"p(\d{1,6})/k/(\d{1,9})/stage/(\d{1,3})/node/(\d{1,9})\.json", KernelView.node),
        (r"p(\d{1,6})/k/(\d{1,9})/level/([a-z]+)\.json", KernelView.level),
        (r"p(\d{1,6})/k/(\d{1,9})/why\.json", why),
        (r"p(\d{1,6})/beam/(\d{1,9})\.json", KernelView.beam),
    ]
)
_PROGRAM_PATHS: Final = _paths(
    [
        (r"p(\d{1,6})/pass/(\d{1,6})\.json", _of_passes(PassView.level)),
        (r"p(\d{1,6})/pass/(\d{1,6})/steps/(\d{1,9})\.json", _of_passes(PassView.steps)),
        (r"p(\d{1,6})/pass/(\d{1,6})/step/(\d{1,9})\.json", _of_passes(PassView.step)),
        (r"p(\d{1,6})/fusion\.json", ProgramView.fusion),
        (r"p(\d{1,6})/memory\.json", ProgramView.memory),
        (r"p(\d{1,6})/patterns\.json", ProgramView.patterns),
        (r"r(\d{1,6})/timeline\.json", ProgramView.timeline),
    ]
)


class Recording(Documents):
    """What a recorder has heard so far, as documents."""

    def __init__(self, recorder: Recorder, title: str, command: str = "", error: str = "") -> None:
        self.recorder = recorder
        self.title = title
        self.command = command
        self.error = error
        self.machine = this_machine(program.target for program in recorder.programs)
        self.rules = RuleBook()
        self.programs = [
            ProgramView(
                number, program, self.rules, cycle_us(self.machine, program.target.name), recorder.epoch
            )
            for number, program in enumerate(recorder.programs)
        ]

    def __repr__(self) -> str:
        kernels = sum(len(view.program.kernels) for view in self.programs)
        return f"<recording {self.title!r}: {len(self.programs)} programs, {kernels} kernels>"

    @cached_property
    def index(self) -> schema.Index:
        """The first document."""
        programs = [view.entry() for view in self.programs]
        for view in self.programs:
            view.name_rules()
        steps = sum(
            int(row[2]) for program in programs for kernel in program.kernels for row in kernel.stages
        )
        steps += sum(each.steps for program in programs for each in program.passes)
        created = datetime.fromtimestamp(self.recorder.created, UTC).isoformat(timespec="seconds")
        return schema.Index(
            schema.VERSION, False, self.title, self.command, created, __version__, self.machine,
            programs, self.runs, STAGE_NAMES, dict(self.rules.entries), steps, self.error,
        )  # fmt: skip

    @property
    def runs(self) -> list[schema.RunEntry]:
        """The programs that ran."""
        return [
            schema.RunEntry(
                f"r{view.id[1:]}",
                view.id,
                round(sum(call.seconds for call in view.calls) * 1e6, 1),
                len(view.calls),
            )
            for view in self.programs
            if view.calls
        ]

    def kernel(self, program: str, number: str) -> KernelView | None:
        position = int(program)
        return self.programs[position].kernels.get(number) if position < len(self.programs) else None

    def other(self, path: str) -> Document | None:
        for form, make in _PROGRAM_PATHS:
            match = form.fullmatch(path)
            if match is not None:
                program, *numbers = map(int, match.groups())
                return make(self.programs[program], *numbers) if program < len(self.programs) else None
        return None

    def save(self, path: Path | str) -> None:
        """Write it to a file that `planish viz` opens."""
        from planish.viz.storage import save

        save(self, Path(path))

    def export(self, path: Path | str) -> None:
        """Write it as a page of one file."""
        from planish.viz.export import export

        export(self, Path(path))


class Comparison(Documents):
    """Two recordings side by side: the documents of the second one are under `b/`."""

    def __init__(self, first: Documents, second: Documents) -> None:
        self.first = first
        self.second = second

    @cached_property
    def index(self) -> schema.Index:
        """That of the first, with that of the second."""
        return replace(self.first.index, compare=self.second.index)

    def document(self, path: str) -> Document | None:
        if path == "index.json":
            return self.index
        if path.startswith("b/"):
            return self.second.document(path.removeprefix("b/"))
        return self.first.document(path)

    def kernel(self, program: str, number: str) -> KernelView | None:
        return self.first.kernel(program, number)

    def close(self) -> None:
        self.first.close()
        self.second.close()


@contextmanager
def record(title: str = "recording") -> Iterator[Callable[[], Recording]]:
    """Record whatever is compiled inside; what comes with it gives the recording, any time.

    >>> with record("f") as recording:  # doctest: +SKIP
    ...     f(x)
    >>> recording().export("report.html")  # doctest: +SKIP
    """
    recorder = Recorder()
    with observing(recorder):
        yield lambda: Recording(recorder, title)
