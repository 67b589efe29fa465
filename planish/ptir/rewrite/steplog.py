"""The step log: what a rewrite did, one line of constant size per step.

A step is a successful pattern, a fold, or an unused instruction removed. Instructions are named by their
stable ids, so a line costs the same in a program of ten instructions and of a million.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from planish.errors import Location
from planish.ptir.function import Inst, Region, Value
from planish.ptir.rewrite.listener import Listener


class StepKind(enum.Enum):
    """What kind of step it was."""

    CHANGED = "changed"
    FOLDED = "folded"
    ERASED = "erased"


@dataclass(frozen=True, slots=True)
class LoggedStep:
    """One step of a rewrite."""

    number: int
    """Counts rewrites and folds from 1, as `GreedyConfig.max_rewrites` does; removals share the number before."""
    kind: StepKind
    pattern: str | None
    """None for folding and removal."""
    root: str
    """The instruction as it was written before the step."""
    root_id: int
    location: Location | None
    inserted: tuple[str, ...] = ()
    erased: tuple[str, ...] = ()

    def __str__(self) -> str:
        what = self.kind.value if self.pattern is None else f"{self.kind.value} by {self.pattern}"
        line = f"{self.number:>5} {what}: #{self.root_id} {self.root}"
        if self.location is not None:
            line += f" at {self.location}"
        if self.inserted:
            line += f"; new: {'; '.join(self.inserted)}"
        return line


_SHOWN = 8


class StepLog(Listener):
    """Collects steps; hand it to `GreedyConfig.listener`, or to a `PassManager`."""

    __slots__ = ("_before", "_erased", "_inserted", "count", "steps")

    steps: list[LoggedStep]

    def __init__(self) -> None:
        self.steps = []
        self.count = 0
        self._before = ""
        self._inserted: list[Inst] = []
        self._erased: list[str] = []

    def attempt(self, pattern: str, root: Inst) -> None:
        self._before = repr(root)
        self._inserted.clear()
        self._erased.clear()

    def inserted(self, inst: Inst) -> None:
        self._inserted.append(inst)

    def erased(self, inst: Inst, region: Region) -> None:
        self._erased.append(repr(inst))

    def succeeded(self, pattern: str, root: Inst) -> None:
        self.count += 1
        self._add(StepKind.CHANGED, pattern, self._before, root)

    def folded(self, root: Inst, values: Sequence[Value]) -> None:
        self.count += 1
        self._add(StepKind.FOLDED, None, repr(root), root)

    def eliminated(self, inst: Inst) -> None:
        self._add(StepKind.ERASED, None, repr(inst), inst)

    def _add(self, kind: StepKind, pattern: str | None, text: str, root: Inst) -> None:
        inserted = tuple([repr(inst) for inst in self._inserted[:_SHOWN]])
        erased = tuple(self._erased[:_SHOWN])
        self.steps.append(LoggedStep(self.count, kind, pattern, text, root.id, root.loc, inserted, erased))
        self._inserted.clear()
        self._erased.clear()

    def __str__(self) -> str:
        return "\n".join(str(step) for step in self.steps)
