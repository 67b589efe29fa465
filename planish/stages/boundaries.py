"""What happens between two stages: the result is held to its spec, printed and written to files, as the settings say.

Nothing of it costs anything unless asked for: `check="spec"` (or "all"), `debug="ir"`, `dump_dir`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from planish.config import Settings
from planish.errors import VerifyError
from planish.filenames import file_name
from planish.stages.access_bounds import outside
from planish.uop import spec
from planish.uop.node import UOp
from planish.uop.text import print_graph, print_lines

Graph = UOp | Sequence[UOp]


def text_of(graph: Graph) -> str:
    """A graph or a list of lines as text."""
    return print_graph(graph) if isinstance(graph, UOp) else print_lines(graph)


class BoundaryError(VerifyError):
    """A stage left something that its spec does not allow."""


class Boundaries:
    """Watches one kernel on its way through the stages."""

    __slots__ = ("_checks", "_directory", "_name", "_prints", "_unchanged")

    def __init__(self, settings: Settings, name: str, sink: UOp) -> None:
        self._name = name
        self._checks = settings.check in {"spec", "all"}
        self._prints = settings.debug == "ir"
        self._directory: Path | None = None
        self._unchanged = ""
        if settings.dump_dir is not None:
            self._directory = Path(settings.dump_dir) / file_name(name)
            self._directory.mkdir(parents=True, exist_ok=True)
        self.passed(0, "scheduled", "kernel", sink, None)

    def passed(self, number: int, stage: str, phase: str, graph: Graph, before: Graph | None) -> None:
        """A stage has run: `graph` is what it made of `before`."""
        if self._checks:
            self._check(number, stage, phase, graph)
        if self._prints:
            said = (
                f"{self._name}: after stage {number} ({stage})" if number else f"{self._name}: as scheduled"
            )
            same = before is graph
            sys.stderr.write(f"// {said}{', unchanged' if same else ''}\n{'' if same else text_of(graph)}")
        if self._directory is not None:
            file = f"{number:02}_{stage.replace(' ', '_')}.uop"
            if before is graph:
                contents = f"# as in {self._unchanged}\n"
            else:
                contents, self._unchanged = text_of(graph), file
            (self._directory / file).write_text(contents, encoding="utf-8")

    def _check(self, number: int, stage: str, phase: str, graph: Graph) -> None:
        said = f"{self._name}, after stage {number} ({stage})" if number else f"{self._name}, as scheduled"
        try:
            spec.check(graph, phase)
        except VerifyError as error:
            raise BoundaryError(f"{said}: {error.message}", error.problems, op=error.op) from error
        beyond = outside(graph) if isinstance(graph, UOp) else []  # a list has IFs where a graph has gates
        if beyond:
            raise BoundaryError(f"{said}: memory is accessed outside its bounds", beyond)
