"""Rewriting cut short: only the first so many rule applications happen, whoever asks for them.

    with trial(12) as trying:
        stage(sink)                 12 rules are applied, then every rule declines
    trying.last                     the last of them: rule, node before, node after

Two trials of one piece of work on equal graphs in fresh tables apply the same rules in the same order, so the first wrong one
can be found by bisection.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from typing import Final, NamedTuple

from planish.records import dataclass
from planish.uop.compile import MatchFunction, Variant
from planish.uop.matcher import Decisions, Matcher, Rule, Watch
from planish.uop.node import UOp


class Applied(NamedTuple):
    """One application of a rule."""

    rule: Rule
    before: UOp
    after: UOp


@dataclass(slots=True)
class Trial(Watch):
    """How many applications are allowed, how many there were, and the last one."""

    limit: int | None = None
    count: int = 0
    last: Applied | None = None
    _decisions: dict[Matcher, Decisions] = field(default_factory=dict)

    def wrap(self, variant: Variant) -> MatchFunction:
        rule, function = variant.rule, variant.function

        def limited(node: UOp, ctx: object) -> UOp | None:
            if self.limit is not None and self.count >= self.limit:
                return None
            result = function(node, ctx)
            if result is None or (self.limit is not None and self.count >= self.limit):
                return None  # the second: what the rule itself rewrote on the way has used up the rest
            self.count += 1
            self.last = Applied(rule, node, result)
            return result

        return limited

    def decisions(self, matcher: Matcher) -> Decisions:
        """The decision table of a matcher under this trial."""
        decisions = self._decisions.get(matcher)
        if decisions is None:
            decisions = self._decisions[matcher] = matcher.watched(self)
        return decisions

    def begun(self, matcher: Matcher, root: UOp, order: str) -> int:
        """A rewrite of a graph is about to begin, under a number; those that its rules ask for begin inside of it."""
        return 0

    def ended(self, number: int, result: UOp) -> None:
        """It has ended. One that raises does not."""


_ACTIVE: Final[ContextVar[Trial | None]] = ContextVar("planish_trial", default=None)
active: Final = _ACTIVE.get
"""The trial in force here, if any."""


@contextmanager
def installed(trying: Trial | None) -> Iterator[None]:
    """A trial in force inside of the block; None: whatever is in force is not."""
    token = _ACTIVE.set(trying)
    try:
        yield
    finally:
        _ACTIVE.reset(token)


@contextmanager
def trial(limit: int | None = None) -> Iterator[Trial]:
    """Allow so many rule applications inside of the block; without a limit they are only counted."""
    trying = Trial(limit=limit)
    with installed(trying):
        yield trying
