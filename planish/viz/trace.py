"""The trace of rewriting kernels: every application of a rule, and how often each rule was tried.

A trace is a trial without a limit: it takes the place of the decision tables. All rules of a form are one function here, so that an
offered node costs one call more, whatever the number of rules. How often a rule was tried follows from how often its form was offered
and how often rules before it matched; how long it takes is measured on one node of thirty-two.

Only references are kept: nodes are immutable, and are printed when somebody looks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from time import perf_counter_ns
from typing import Final, NamedTuple

from planish.records import dataclass
from planish.uop.compile import MatchFunction, Variant, fitting
from planish.uop.matcher import Decisions, Matcher, Rule
from planish.uop.node import UOp
from planish.uop.trial import Trial
from planish.viz.rules import KnownRule

_SAMPLE: Final = 31
"""Of the offers of a form, those whose number ends in no bits of this are timed rule by rule."""


class TracedStep(NamedTuple):
    """One application of a rule."""

    rule: Rule | KnownRule
    before: UOp
    after: object
    """A node; of a list of lines, what takes the place of one."""
    start: int
    end: int
    """Nanoseconds of the process's clock."""
    run: int
    """The rewrite that it is a step of, counted from 0 within its stage; -1 for lists of lines."""


@dataclass(slots=True)
class TracedRun:
    """One call of the rewriter."""

    matcher: str
    root: UOp
    order: str
    parent: int
    """The rewrite that a rule of it asked for this one; -1 if a stage did."""
    result: UOp | None = None
    """None if it raised."""


class RuleCount(NamedTuple):
    """What one rule did in a stage."""

    rule: Rule | KnownRule
    tried: int
    applied: int
    seconds: float
    """Estimated from the offers that were timed."""


@dataclass(slots=True)
class TracedStage:
    """What a stage did, in order."""

    steps: list[TracedStep] = field(default_factory=list)
    runs: list[TracedRun] = field(default_factory=list)
    counts: list[RuleCount] = field(default_factory=list)


class _FormCounts:
    """How often a form was offered, and what its rules did."""

    __slots__ = ("hits", "nanoseconds", "offers", "sampled", "variants")

    def __init__(self, variants: Sequence[Variant]) -> None:
        self.variants = variants
        self.reset()

    def reset(self) -> None:
        self.offers = 0
        self.hits = [0] * len(self.variants)
        self.sampled = [0] * len(self.variants)
        self.nanoseconds = [0] * len(self.variants)


class _Offers(Decisions):
    """A decision table whose forms have one function each, which tells the trace."""

    __slots__ = ("_all", "_trace")

    def __init__(self, matcher: Matcher, trace: RuleTrace, all: list[_FormCounts]) -> None:
        super().__init__(matcher)
        self._trace = trace
        self._all = all

    def __missing__(self, form: int) -> tuple[MatchFunction, ...]:
        variants = fitting(self._matcher.by_op.get(form & 127, ()), form)
        functions: tuple[MatchFunction, ...] = ()
        if variants:
            counted = _FormCounts(variants)
            self._all.append(counted)
            functions = (self._trace.offering(counted),)
        self[form] = functions
        return functions


@dataclass(slots=True)
class RuleTrace(Trial):
    """Hears every offer while it is installed (`planish.uop.trial.installed`); `stage` is where steps go."""

    stage: TracedStage = field(default_factory=TracedStage)
    _number: int = -1
    _tables: dict[int, dict[Matcher, _Offers]] = field(default_factory=dict)
    """By stage, since counts are asked for stage by stage."""
    _forms: dict[int, list[_FormCounts]] = field(default_factory=dict)
    _open: list[int] = field(default_factory=list)
    """The rewrites that are going on, the innermost last."""

    def enter(self, number: int) -> TracedStage:
        """A stage is about to run: what it does, from now on."""
        self.stage = TracedStage()
        self._number = number
        self._open.clear()
        return self.stage

    def leave(self) -> None:
        """The stage has run: how often its rules were tried is added up."""
        totals: dict[Rule, list[float]] = {}
        for form in self._forms.get(self._number, ()):
            if not form.offers:
                continue
            left = form.offers
            for number, variant in enumerate(form.variants):
                total = totals.setdefault(variant.rule, [0, 0, 0.0])
                sampled = form.sampled[number]
                total[0] += left
                total[1] += form.hits[number]
                if sampled:
                    total[2] += form.nanoseconds[number] / sampled * left * 1e-9
                left -= form.hits[number]
            form.reset()
        self.stage.counts = [RuleCount(rule, int(t), int(a), s) for rule, (t, a, s) in totals.items() if t]

    # -- what the rewriter asks for --------------------------------------------------------------------------------

    def decisions(self, matcher: Matcher) -> Decisions:
        tables = self._tables.setdefault(self._number, {})
        table = tables.get(matcher)
        if table is None:
            table = tables[matcher] = _Offers(matcher, self, self._forms.setdefault(self._number, []))
        return table

    def begun(self, matcher: Matcher, root: UOp, order: str) -> int:
        runs, still = self.stage.runs, self._open
        number = len(runs)
        runs.append(TracedRun(matcher.name, root, order, still[-1] if still else -1))
        still.append(number)
        return number

    def ended(self, number: int, result: UOp) -> None:
        self.stage.runs[number].result = result
        still = self._open
        while still and still.pop() != number:  # those that raised inside of it
            pass

    def offering(self, form: _FormCounts) -> MatchFunction:
        """The rules of a form as one function."""
        rules = tuple(enumerate(variant.function for variant in form.variants))
        timed = self._timed(form)
        still = self._open
        clock: Callable[[], int] = perf_counter_ns

        def offered(node: UOp, ctx: object) -> UOp | None:
            count = form.offers
            form.offers = count + 1
            if not count & _SAMPLE:
                return timed(node, ctx)
            start = clock()
            for number, function in rules:
                result = function(node, ctx)
                if result is not None:
                    form.hits[number] += 1
                    self.stage.steps.append(
                        TracedStep(
                            form.variants[number].rule,
                            node,
                            result,
                            start,
                            clock(),
                            still[-1] if still else -1,
                        )
                    )
                    return result
            return None

        return offered

    def _timed(self, form: _FormCounts) -> MatchFunction:
        clock, still = perf_counter_ns, self._open

        def timed(node: UOp, ctx: object) -> UOp | None:
            for number, variant in enumerate(form.variants):
                start = clock()
                result = variant.function(node, ctx)
                end = clock()
                form.sampled[number] += 1
                form.nanoseconds[number] += end - start
                if result is not None:
                    form.hits[number] += 1
                    run = still[-1] if still else -1
                    self.stage.steps.append(TracedStep(variant.rule, node, result, start, end, run))
                    return result
            return None

        return timed
