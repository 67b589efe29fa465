"""What a schedule search sees and says: candidates and what became of them, its answer, and how far it is."""

from __future__ import annotations

from collections import Counter
from dataclasses import field
from enum import Enum

from planish.actions.base import Action
from planish.records import dataclass

Schedule = tuple[Action, ...]


class Outcome(Enum):
    """What became of a candidate."""

    RIGHT = "it computed what the unoptimised kernel computes"
    WRONG = "it computed something else"
    CRASHED = "it ended its process"
    HUNG = "it did not end in time"
    FAILED = "it could not be compiled"


@dataclass(frozen=True, slots=True)
class Measured:
    """One candidate, run."""

    outcome: Outcome
    seconds: float = float("inf")
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Attempted:
    """A candidate and what became of it."""

    actions: Schedule
    measured: Measured
    expected: float
    """Cycles by the model."""

    def __str__(self) -> str:
        what = self.measured.outcome.value
        detail = f" ({self.measured.detail})" if self.measured.detail else ""
        return f"{what}{detail}: {', '.join(map(str, self.actions)) or 'no actions'}"


@dataclass(slots=True)
class Search:
    """What a search found, and all it saw on the way."""

    actions: Schedule = ()
    """The answer."""
    seconds: float = float("inf")
    baseline: float = float("inf")
    """Seconds of what the heuristic chose."""
    trials: list[Attempted] = field(default_factory=list)
    refusals: Counter[str] = field(default_factory=Counter)
    """How often an action did not fit, by reason."""
    considered: int = 0
    """Schedules that fitted, and were weighed by the model."""
    rounds: int = 0
    elapsed: float = 0.0
    ended: str = ""
    """Why it ended."""

    @property
    def rejected(self) -> list[Attempted]:
        """Candidates that are never chosen."""
        return [trial for trial in self.trials if trial.measured.outcome is not Outcome.RIGHT]

    @property
    def gain(self) -> float:
        """How many times faster the answer is than the heuristic's schedule."""
        return self.baseline / self.seconds if 0 < self.seconds < float("inf") else 1.0


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a search stands."""

    round: int
    measured: int
    considered: int
    best: float
    baseline: float
    elapsed: float
    budget: float
