"""Rewrites taken up to a step: the graph that a kernel was after its k-th rule application.

A rewrite is a function of what its rules answered: the same engine, asked the same questions and given the first k recorded answers
instead of the rules, gives the graph in between.
"""

from __future__ import annotations

from dataclasses import field
from typing import NamedTuple, cast

from planish.errors import RewriteError
from planish.records import dataclass
from planish.uop.compile import MatchFunction
from planish.uop.matcher import Decisions, Matcher
from planish.uop.node import UOp
from planish.uop.rewrite import Order, rewrite
from planish.uop.trial import Trial, installed
from planish.viz.journey import Journey, StageData

_NO_RULES = Matcher("recorded", ())


class _Answers(Decisions):
    """Whatever is asked: the recorded answer, if there is one."""

    __slots__ = ("_function",)

    def __init__(self, function: MatchFunction) -> None:
        super().__init__(_NO_RULES)
        self._function = (function,)

    def __missing__(self, form: int) -> tuple[MatchFunction, ...]:
        self[form] = self._function
        return self._function


@dataclass(slots=True)
class _Recorded(Trial):
    """The first answers of a rewrite."""

    answers: dict[UOp, UOp] = field(default_factory=dict)

    def decisions(self, matcher: Matcher) -> Decisions:
        return _Answers(lambda node, ctx: self.answers.get(node))


class StepGraphs(NamedTuple):
    """The graphs around one step."""

    before: UOp | list[UOp]
    after: UOp | list[UOp]
    whole: bool
    """Whether they are the kernel; else the part of it, or the expression, that the rewrite was about."""


def moment(journey: Journey, stage: StageData, previous: UOp | list[UOp], number: int) -> StepGraphs:
    """The graphs before and after a step of a stage, which began with `previous`."""
    step = stage.steps[number]
    if step.run < 0:  # a list of lines
        lines = cast("list[UOp]", previous if isinstance(previous, list) else [previous])
        return StepGraphs(lines, journey.form(stage), True)
    run = stage.runs[step.run]
    root = journey.nodes[run.root]
    pairs = [(each.before, each.after[0]) for each in stage.steps[: number + 1] if each.run == step.run]
    answers = {journey.nodes[before]: journey.nodes[after] for before, after in pairs}
    after = _up_to(root, run.order, answers)
    del answers[journey.nodes[step.before]]
    before = _up_to(root, run.order, answers)
    return StepGraphs(before, after, run.parent < 0 and root.op.name == "SINK")


def _up_to(root: UOp, order: str, answers: dict[UOp, UOp]) -> UOp:
    try:
        with installed(_Recorded(answers=answers)):
            return rewrite(root, _NO_RULES, order=cast("Order", order))
    except RewriteError:  # half of a rewrite may be none that ends; what was there is shown
        return root
