"""`canonicalize`: every canonicalisation pattern, folding and dead-code removal, to a fixpoint."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import ClassVar

from planish.ptir.function import Program
from planish.ptir.passes.manager import DEFAULT_CONTEXT, PassContext, PassResult, register
from planish.ptir.rewrite.config import GreedyConfig, GreedyStats
from planish.ptir.rewrite.driver import apply_patterns_and_fold_greedily
from planish.ptir.rewrite.folding import MAX_FOLDED_ELEMENTS
from planish.ptir.rewrite.pattern import FrozenPatternSet, PatternSet
from planish.ptir.verify import problems, verify


@cache
def canonicalization_patterns() -> FrozenPatternSet:
    """All patterns that ship, frozen once per process. Imported here: other passes do without them."""
    from planish.ptir.rules import populate_canonicalization

    patterns = PatternSet()
    populate_canonicalization(patterns)
    return patterns.freeze()


@register
@dataclass(frozen=True, slots=True)
class CanonicalizePass:
    """Rewrite every function to its normal form."""

    name: ClassVar[str] = "canonicalize"

    max_iterations: int | None = None
    """Generations of the worklist; none: until nothing is left to do."""
    constant_fold: bool = True
    dce: bool = True
    expensive_checks: bool | None = None
    """Hold every pattern to its word; none: as the setting `check` says."""
    rewrite_budget: int | None = None
    max_rewrites: int | None = None
    """Stop after that many rewrites and folds per function."""
    max_folded_elements: int = MAX_FOLDED_ELEMENTS
    enable: tuple[str, ...] | None = None
    """The only patterns to use; none: all."""
    disable: tuple[str, ...] = ()

    def config(self, context: PassContext = DEFAULT_CONTEXT) -> GreedyConfig:
        """What the driver is told."""
        return GreedyConfig(
            max_iterations=self.max_iterations,
            enable_constant_fold=self.constant_fold,
            enable_dce=self.dce,
            expensive_checks=self.expensive_checks,
            rewrite_budget=self.rewrite_budget,
            enable=self.enable,
            disable=self.disable,
            max_rewrites=self.max_rewrites,
            max_folded_elements=self.max_folded_elements,
            listener=context.listener,
        )

    def run(self, program: Program, context: PassContext = DEFAULT_CONTEXT) -> PassResult:
        patterns = canonicalization_patterns()
        config = self.config(context)
        total = GreedyStats()
        changed: list[str] = []
        # The driver verifies the function it rewrites; calls between functions are the program's.
        watched = config.checks and not problems(program)
        for function in program:
            stats = apply_patterns_and_fold_greedily(function, patterns, config)
            if stats.changed:
                changed.append(function.name)
            total.add(stats)
        if watched and changed:
            verify(program)
        return PassResult(bool(changed), statistics_of(total), tuple(changed))


def statistics_of(stats: GreedyStats) -> dict[str, int | float]:
    """The counts of a greedy run as named counters."""
    named: dict[str, int | float] = {
        "rewrites": stats.rewrites,
        "folds": stats.folds,
        "erased": stats.erased,
        "visits": stats.visits,
        "iterations": stats.iterations,
    }
    for name, pattern in stats.patterns.items():
        named[f"pattern.{name}.tries"] = pattern.tries
        named[f"pattern.{name}.hits"] = pattern.hits
        named[f"pattern.{name}.seconds"] = pattern.seconds
    return named
