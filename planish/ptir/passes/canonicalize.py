"""`canonicalize`: patterns, folding and dead-code removal, to a fixpoint.

The patterns are those that ship (`canonicalization_patterns`), or others; they are given as objects, or by name once
`register_pattern` has made them known. A cost model may say in which order they are tried at an instruction.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import ClassVar, Final, TypeAlias, TypeVar

from planish.errors import RewriteError, did_you_mean
from planish.ptir.function import Program
from planish.ptir.passes.definition import DEFAULT_CONTEXT, PassContext, PassResult, register
from planish.ptir.passes.text import name_of
from planish.ptir.rewrite.config import CostModel, GreedyConfig, GreedyStats
from planish.ptir.rewrite.driver import apply_patterns_and_fold_greedily
from planish.ptir.rewrite.folding import MAX_FOLDED_ELEMENTS
from planish.ptir.rewrite.pattern import BasePattern, FrozenPatternSet, PatternSet
from planish.ptir.verify import problems, verify
from planish.records import dataclass

PatternLike: TypeAlias = str | BasePattern | type[BasePattern]
"""A pattern: itself, its class, or the name it ships or is registered under."""
Patterns: TypeAlias = Sequence[PatternLike] | PatternSet | FrozenPatternSet

P = TypeVar("P", bound=BasePattern | type[BasePattern])
M = TypeVar("M", bound=CostModel)
PATTERNS: Final[dict[str, BasePattern | type[BasePattern]]] = {}
"""Patterns that do not ship and that pipelines may name."""
COST_MODELS: Final[dict[str, CostModel]] = {}


def register_pattern(pattern: P) -> P:
    """Make a pattern known to pipelines by its name: `canonicalize{extra-patterns=MyPattern}`. Also as a decorator."""
    instance = pattern() if isinstance(pattern, type) else pattern
    PatternSet().add(instance)  # what a set would complain about is a mistake of its author, here
    PATTERNS[instance.label] = pattern
    return pattern


def register_cost_model(model: M) -> M:
    """Make a cost model known to pipelines by its name: `canonicalize{cost-model=my_model}`. Also as a decorator."""
    COST_MODELS[name_of(model)] = model
    return model


@cache
def canonicalization_patterns() -> FrozenPatternSet:
    """All patterns that ship, frozen once per process. Imported here: other passes do without them."""
    from planish.ptir.rules import populate_canonicalization

    patterns = PatternSet()
    populate_canonicalization(patterns)
    return patterns.freeze()


def _pattern_of(given: object) -> BasePattern | type[BasePattern]:
    """A pattern by its name, or as it is."""
    if not isinstance(given, str):
        if isinstance(given, BasePattern) or (isinstance(given, type) and issubclass(given, BasePattern)):
            return given
        raise RewriteError(f"{given!r} is no pattern", remedy="give a pattern, its class or its name")
    shipped = {pattern.label: pattern for pattern in canonicalization_patterns().patterns}
    pattern = PATTERNS.get(given) or shipped.get(given)
    if pattern is None:
        close = did_you_mean(given, [*PATTERNS, *shipped])
        hint = f"did you mean {close}?" if close else "register_pattern makes one known by its name"
        raise RewriteError(f"there is no pattern {given!r}", remedy=hint)
    return pattern


@lru_cache(64)
def _frozen(
    base: tuple[BasePattern | type[BasePattern], ...] | None,
    extra: tuple[BasePattern | type[BasePattern], ...],
) -> FrozenPatternSet:
    # Asked for again, a set is the same one, with the decision tables that it has made.
    shipped = canonicalization_patterns().patterns
    return PatternSet([*(shipped if base is None else base), *extra]).freeze()


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
    patterns: Patterns | None = None
    """What to rewrite with: a set, or patterns by name or as objects; none: all that ship."""
    extra_patterns: Patterns = ()
    """Patterns beside those."""
    cost_model: CostModel | str | None = None
    """Says in which order patterns are tried at an instruction, itself or by its registered name; none: by their benefit."""

    def __post_init__(self) -> None:
        for name in ("patterns", "extra_patterns"):
            given = getattr(self, name)
            if given is not None and not isinstance(given, tuple):
                object.__setattr__(self, name, listed(given))

    def pattern_set(self) -> FrozenPatternSet:
        """The patterns, with nothing enabled or disabled yet."""
        if self.patterns is None and not self.extra_patterns:
            return canonicalization_patterns()
        base = None if self.patterns is None else tuple(map(_pattern_of, listed(self.patterns)))
        return _frozen(base, tuple(map(_pattern_of, listed(self.extra_patterns))))

    def own_parts(self) -> tuple[object, ...]:
        """The patterns and the cost model that do not ship: what the pass does follows from its text without them."""
        chosen = [*listed(self.patterns or ()), *listed(self.extra_patterns)]
        classes = [part if isinstance(part, type) else type(part) for part in map(_pattern_of, chosen)]
        own: list[object] = [cls for cls in classes if not cls.__module__.startswith("planish.ptir.rules.")]
        return (*own, *(() if self.cost_model is None else (self.cost_model,)))

    def config(self, context: PassContext = DEFAULT_CONTEXT) -> GreedyConfig:
        """What the driver is told."""
        return GreedyConfig(
            max_iterations=self.max_iterations,
            enable_constant_fold=self.constant_fold,
            enable_dce=self.dce,
            cost_model=_cost_model(self.cost_model),
            expensive_checks=self.expensive_checks,
            rewrite_budget=self.rewrite_budget,
            enable=self.enable,
            disable=self.disable,
            max_rewrites=self.max_rewrites,
            max_folded_elements=self.max_folded_elements,
            listener=context.listener,
        )

    def run(self, program: Program, context: PassContext = DEFAULT_CONTEXT) -> PassResult:
        patterns = self.pattern_set()
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
        return PassResult(bool(changed), statistics_of(total), tuple(changed), settled=total.converged)


def listed(patterns: Patterns) -> tuple[PatternLike, ...]:
    """Patterns one by one, as they are given."""
    if isinstance(patterns, str | BasePattern | type):
        return (patterns,)
    return patterns.patterns if isinstance(patterns, FrozenPatternSet | PatternSet) else tuple(patterns)


def _cost_model(given: CostModel | str | None) -> CostModel | None:
    if not isinstance(given, str):
        return given
    model = COST_MODELS.get(given)
    if model is None:
        known = ", ".join(sorted(COST_MODELS)) or "none is registered"
        raise RewriteError(
            f"there is no cost model {given!r}", remedy=f"valid: {known}; register_cost_model makes one known"
        )
    return model


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
