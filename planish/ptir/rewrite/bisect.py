"""Bisection: which rewrite step, or which pass, turns a good program bad.

The question "is it still good?" is the caller's: an interpreter run compared with the original, the verifier,
a size, anything. Steps are replayed from the start on a copy each time, so the program need not survive.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from planish.errors import RewriteError
from planish.ptir.function import Function
from planish.ptir.rewrite.config import GreedyConfig
from planish.ptir.rewrite.driver import apply_patterns_and_fold_greedily
from planish.ptir.rewrite.listener import combine
from planish.ptir.rewrite.pattern import FrozenPatternSet
from planish.ptir.rewrite.steplog import LoggedStep, StepKind, StepLog


@dataclass(frozen=True, slots=True)
class Culprit:
    """The first step after which a function is no longer good."""

    step: LoggedStep
    before: Function
    """The function just before that step."""
    after: Function
    steps: int
    """How many steps the whole rewrite takes."""
    tests: int
    """How often `good` was asked."""

    def __str__(self) -> str:
        return f"step {self.step.number} of {self.steps} breaks it: {str(self.step).strip()}"


def bisect_rewrites(
    function: Function,
    patterns: FrozenPatternSet,
    good: Callable[[Function], bool],
    config: GreedyConfig | None = None,
) -> Culprit | None:
    """The first rewrite or fold after which `good` says no; None if the whole rewrite stays good."""
    config = GreedyConfig() if config is None else config
    total, _, _ = _replay(function, patterns, config, None)
    tests = 1
    if not good(function.clone()):
        raise RewriteError(f"function {function.name} is bad before any rewrite: there is nothing to bisect")
    if good(_replay(function, patterns, config, total)[1]):
        return None
    lowest, highest = 0, total
    while highest - lowest > 1:
        middle = (lowest + highest) // 2
        tests += 1
        if good(_replay(function, patterns, config, middle)[1]):
            lowest = middle
        else:
            highest = middle
    _, before, _ = _replay(function, patterns, config, lowest)
    _, after, log = _replay(function, patterns, config, highest)
    step = [step for step in log.steps if step.kind is not StepKind.ERASED][-1]
    return Culprit(step, before, after, total, tests)


def _replay(
    function: Function, patterns: FrozenPatternSet, config: GreedyConfig, limit: int | None
) -> tuple[int, Function, StepLog]:
    copy = function.clone()
    log = StepLog()
    if limit != 0:
        stats = apply_patterns_and_fold_greedily(
            copy, patterns, replace(config, max_rewrites=limit, listener=combine(log, config.listener))
        )
        return stats.rewrites + stats.folds, copy, log
    return 0, copy, log
