"""What a greedy run is told and what it reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TypeAlias

from planish.config import current
from planish.ptir.function import Inst
from planish.ptir.rewrite.folding import MAX_FOLDED_ELEMENTS
from planish.ptir.rewrite.listener import Listener
from planish.ptir.rewrite.pattern import BasePattern
from planish.ptir.rewrite.rewriter import ProgramRewriter
from planish.records import dataclass

CostModel: TypeAlias = Callable[[Inst, BasePattern, ProgramRewriter], int]
"""The benefit of a pattern at an instruction, in place of its static one; larger is tried first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GreedyConfig:
    """How `apply_patterns_and_fold_greedily` runs."""

    max_iterations: int | None = None
    """Generations of the worklist; the first holds every instruction. None: until it runs empty."""
    enable_constant_fold: bool = True
    enable_dce: bool = True
    cost_model: CostModel | None = None
    expensive_checks: bool | None = None
    """Hold every pattern to its word; None: as the setting `check` says."""
    rewrite_budget: int | None = None
    """Rewrites after which the run counts as endless; None: by program size and the setting."""
    enable: tuple[str, ...] | None = None
    """Names of the only patterns to use; None: all."""
    disable: tuple[str, ...] = ()
    """Names of patterns not to use."""
    max_rewrites: int | None = None
    """Stop after that many rewrites and folds: what bisection turns."""
    max_folded_elements: int = MAX_FOLDED_ELEMENTS
    """The largest constant that folding may write out."""
    listener: Listener | None = None

    @property
    def checks(self) -> bool:
        """Whether patterns are held to their word, the setting asked where nothing is said."""
        if self.expensive_checks is not None:
            return self.expensive_checks
        return current().check in ("expensive", "all")


@dataclass(slots=True)
class PatternStats:
    """How one pattern fared."""

    tries: int = 0
    hits: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class GreedyStats:
    """What a run did: data first, text by `str`."""

    rewrites: int = 0
    """Successful patterns."""
    folds: int = 0
    erased: int = 0
    """Instructions removed because nothing used them."""
    visits: int = 0
    """Instructions taken from the worklist."""
    iterations: int = 0
    converged: bool = True
    """Whether the worklist ran empty."""
    patterns: dict[str, PatternStats] = field(default_factory=dict)
    """Every pattern that was tried, by name."""

    @property
    def changed(self) -> bool:
        return bool(self.rewrites or self.folds or self.erased)

    def add(self, other: GreedyStats) -> None:
        """Take another run's counts in."""
        self.rewrites += other.rewrites
        self.folds += other.folds
        self.erased += other.erased
        self.visits += other.visits
        self.iterations += other.iterations
        self.converged = self.converged and other.converged
        for name, stats in other.patterns.items():
            mine = self.patterns.setdefault(name, PatternStats())
            mine.tries += stats.tries
            mine.hits += stats.hits
            mine.seconds += stats.seconds

    def __str__(self) -> str:
        done = f"{self.rewrites} rewrites, {self.folds} folds, {self.erased} erased"
        lines = [f"{done}, {self.visits} visits in {self.iterations} iterations"]
        for name, s in sorted(self.patterns.items(), key=lambda item: (-item[1].hits, item[0])):
            lines.append(f"  {name}: {s.hits} of {s.tries} tries, {s.seconds * 1e3:.3f} ms")
        return "\n".join(lines)
