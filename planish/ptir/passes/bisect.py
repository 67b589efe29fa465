"""Bisection over a pipeline: the first pass, and in it the first rewrite, after which a program is no longer good.

What good means is the caller's to say, as for `bisect_rewrites`: a command, or the results of the interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from planish.ptir.function import Function, Program
from planish.ptir.passes.canonicalize import CanonicalizePass
from planish.ptir.passes.manager import Instrument, Pass, PassManager, PassResult, pass_text
from planish.ptir.rewrite.bisect import Culprit, bisect_rewrites

Good = Callable[[Program], bool]


@dataclass(frozen=True, slots=True)
class PassCulprit:
    """The pass at fault, and the rewrite in it, if it rewrites by patterns."""

    step: str
    """The pass as a pipeline names it."""
    number: int
    passes: int
    """How many passes ran."""
    before: Program
    after: Program
    rewrite: Culprit | None = None

    def __str__(self) -> str:
        return f"pass {self.number} of {self.passes} breaks it: {self.step}"


def bisect_passes(program: Program, passes: Sequence[Pass], good: Good) -> PassCulprit | None:
    """The first pass after which `good` says no; None if it never does. `program`, which is good, is used up."""
    watch = _FirstFailure(good, program)
    PassManager(passes, instruments=[watch]).run(program)
    if watch.step is None:
        return None
    rewrite = _rewrite(watch.before, watch.step, good) if isinstance(watch.step, CanonicalizePass) else None
    return PassCulprit(pass_text(watch.step), watch.number, watch.ran, watch.before, watch.after, rewrite)


class _FirstFailure(Instrument):
    """Asks after every pass that changed something, until the answer is no."""

    __slots__ = ("after", "before", "good", "number", "ran", "step")

    def __init__(self, good: Good, program: Program) -> None:
        self.good = good
        self.before = self.after = program
        self.number = self.ran = 0
        self.step: Pass | None = None

    def before_pass(self, number: int, step: Pass, program: Program) -> None:
        if self.step is None:
            self.before = program.clone()

    def after_pass(
        self, number: int, step: Pass, program: Program, result: PassResult, seconds: float
    ) -> None:
        self.ran = number
        if self.step is None and result.changed and not self.good(program):
            self.step, self.number, self.after = step, number, program.clone()


def _rewrite(program: Program, step: CanonicalizePass, good: Good) -> Culprit | None:
    """The rewrite at fault: functions are rewritten one after the other, as the pass does."""
    patterns = step.pattern_set()
    state = program.clone()
    for name in [function.name for function in state]:

        def still(candidate: Function, name: str = name) -> bool:
            return good(Program({**state.functions, name: candidate}.values(), state.entry_name))

        culprit = bisect_rewrites(state.functions[name], patterns, still, step.config())
        if culprit is not None:
            return culprit
        step.run(Program([state.functions[name]]))
    return None
