"""Searches for many kernels: how much time they have in all, what became of each, and who is told.

    campaign = Campaign(total=600)
    with settings(beam=4, beam_budget=10), campaign:
        ...                          # whatever compiles here searches, ten seconds for each kernel, ten minutes in all
    campaign.kernels                 # each with its gain

Whatever compiles outside of a campaign searches as long as the settings say, and tells so on the terminal.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import field
from typing import Any, Final, Self

from planish.compiler.progress import ProgressLine
from planish.optimize.searched import Progress
from planish.records import dataclass
from planish.runtime.sandbox import Sandbox

Told = Callable[[str, Progress], None]
"""Hears the name of a kernel, and how far its search is."""
_LEAST: Final = 1.0
"""Seconds that a search has at least: with fewer left, there is none."""


@dataclass(frozen=True, slots=True)
class Tuned:
    """A kernel that a campaign met."""

    name: str
    origin: str
    """Who chose its schedule in the end."""
    gain: float = 1.0
    """How many times as fast as the heuristic's schedule it is."""
    replaced: bool = False
    """Whether the schedule is another than the heuristic's."""
    seconds: float = 0.0
    """What the search took, if there was one now."""


@dataclass(slots=True)
class Campaign:
    """Searches that share their time; to be entered (`with`) around what compiles, as often as one likes."""

    total: float = float("inf")
    """Seconds for all searches together, starting processes included."""
    told: Told | None = None
    """Instead of a bar on the terminal."""
    sandbox: Callable[..., Any] = Sandbox
    """What candidates run in: processes of this machine, or something with the same methods."""
    clock: Callable[[], float] = time.monotonic
    kernels: list[Tuned] = field(default_factory=list)
    spent: float = 0.0
    _entered: list[Token[Campaign | None]] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._entered.append(_ACTIVE.set(self))
        return self

    def __exit__(self, *error: object) -> None:
        _ACTIVE.reset(self._entered.pop())

    def budget(self, wanted: float) -> float | None:
        """The seconds that the next search may take; None if there is no time left for any."""
        left = self.total - self.spent
        return None if left < _LEAST else min(wanted, left)

    @contextmanager
    def searching(self, name: str) -> Iterator[Callable[[Progress], None]]:
        """Around one search: its time counts. Gives who is told how far it is."""
        begin = self.clock()
        try:
            if self.told is not None:
                told = self.told
                yield lambda progress: told(name, progress)
            else:
                with ProgressLine("searching") as line:

                    def show(progress: Progress) -> None:
                        line.share = progress.elapsed / max(progress.budget, 1e-9)
                        line.doing = told_of(name, progress)

                    yield show
        finally:
            self.spent += self.clock() - begin


_ACTIVE: ContextVar[Campaign | None] = ContextVar("campaign", default=None)


def campaign() -> Campaign:
    """The one that is going on; else one of its own, without an end."""
    return _ACTIVE.get() or Campaign()


def told_of(name: str, progress: Progress) -> str:
    """What a search has seen, and what it gained."""
    gain = progress.baseline / progress.best if 0 < progress.best < float("inf") else 1.0
    return f"searching {name}: {progress.measured} of {progress.considered} measured, {max(gain, 1.0):.2f}x"
