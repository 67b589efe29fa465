"""The documents of one kernel: its stages, every step, its code at each level.

Everything is made when it is asked for, from the kernel's journey and what is known of it (`KernelFacts`), whether it was
recorded just now or read from a file.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import field
from functools import cached_property
from typing import Final

from planish.actions.base import Action
from planish.actions.text import parse_schedule
from planish.compiler.device_kinds import KINDS, kind_of_level
from planish.errors import PlanishError
from planish.llir.program import Program
from planish.llir.text import parse as parse_llir
from planish.llir.text import print_program
from planish.records import dataclass
from planish.stages.boundaries import text_of
from planish.stages.linearizer.decompositions.support import Support
from planish.stages.linearizer.s18_decompositions import steps as decomposition_rules
from planish.target import Target
from planish.target import find as find_target
from planish.uop.infix import leaf_names
from planish.uop.node import UOp
from planish.viz import rule_schema, schema
from planish.viz.failures import Failures, RuleOf
from planish.viz.graphs import PAGE, expression, folded, form_graph, pages
from planish.viz.journey import Journey, StageData
from planish.viz.replay import moment

FIRST_SCHEDULED: Final = 7
"""The stage that applies the actions of a schedule."""
_LANGUAGES: Final = {"schedule": "schedule", "llir": "llir", "llvm": "llvm", "c": "c", "asm": "asm"}


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """What is known of a kernel beside its graphs, as a file keeps it."""

    id: str
    name: str
    target: str
    schedule: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    origin: str = ""
    because: list[str] = field(default_factory=list)
    llir: str = ""
    """Its code in LLIR, where that was read from a file."""
    aliased: list[int] = field(default_factory=list)
    scratch: int = 0
    parameters: list[str] = field(default_factory=list)
    """What each slot is, by number."""
    search: schema.ScheduleSearch | None = None
    error: str = ""


class KernelView:
    """One kernel, to be looked at."""

    def __init__(
        self,
        facts: KernelFacts,
        journey: Callable[[], Journey | None],
        cycle_us: float = 1 / 3000,
        rule_of: RuleOf = lambda rule: None,
        program: Program | None = None,
    ) -> None:
        self.facts = facts
        self._journey = journey
        self.cycle_us = cycle_us
        self._rule_of = rule_of
        self._program = program

    @cached_property
    def journey(self) -> Journey | None:
        """None for a loop that was made of other kernels."""
        return self._journey()

    @cached_property
    def target(self) -> Target:
        """Which machine it is for, as this process knows that."""
        return find_target(self.facts.target)

    @cached_property
    def program(self) -> Program:
        """It in LLIR."""
        return parse_llir(self.facts.llir) if self._program is None else self._program

    @property
    def llir(self) -> str:
        """That as text."""
        return self.facts.llir if self._program is None else print_program(self._program)

    @cached_property
    def actions(self) -> tuple[Action, ...]:
        """Its schedule."""
        return tuple(parse_schedule("\n".join(self.facts.schedule)))

    def before_schedule(self) -> UOp | None:
        """The kernel that its schedule was chosen for."""
        kernel: UOp | None = None
        for stage in self.journey.stages if self.journey is not None else ():
            form = self.journey.form(stage) if self.journey is not None else None
            if stage.number >= FIRST_SCHEDULED or not isinstance(form, UOp):
                break
            kernel = form
        return kernel

    # -- stages ----------------------------------------------------------------------------------------------------

    def _pair(self, number: int) -> tuple[Journey, StageData, UOp | list[UOp]] | None:
        """A stage, and what it was given."""
        journey = self.journey
        if journey is None:
            return None
        previous: UOp | list[UOp] = journey.form(journey.stages[0])
        for stage in journey.stages:
            if stage.number == number:
                return journey, stage, previous
            previous = journey.form(stage)
        return None

    def stage(self, number: int) -> schema.Level | None:
        """The kernel before and after a stage."""
        pair = self._pair(number)
        if pair is None:
            return None
        journey, stage, previous = pair
        form = journey.form(stage)
        return schema.Level(
            stage.name,
            stage_note(number),
            "uop",
            text_of(previous) if stage.changed and number else None,
            text_of(form),
            form_graph(form, journey.number),
            len(stage.steps),
            pages(len(stage.steps)),
            [schema.RuleStatistics(each.rule, each.tried, each.applied, each.ms) for each in stage.counts],
        )

    def steps(self, number: int, page: int) -> schema.StepPage | None:
        """Steps of a stage."""
        pair = self._pair(number)
        if pair is None or not 0 <= page < max(1, pages(len(pair[1].steps))):
            return None
        journey, stage, _ = pair
        shown = stage.steps[page * PAGE : (page + 1) * PAGE]
        names = self._names
        depths = _depths(stage)
        rows: list[list[object]] = [
            [
                step.rule,
                step.before,
                step.start_us,
                expression(journey.nodes[step.before], names),
                "; ".join(expression(journey.nodes[node], names) for node in step.after[-8:]),
                None,
                [step.before],
                step.us,
                depths[step.run] if step.run >= 0 else 0,
                list(step.after),
            ]
            for step in shown
        ]
        return schema.StepPage(page * PAGE, rows, folded([step.rule for step in shown], page * PAGE))

    def step(self, number: int, step: int) -> schema.SingleStep | None:
        """The kernel before and after one step."""
        pair = self._pair(number)
        if pair is None or not 0 <= step < len(pair[1].steps):
            return None
        journey, stage, previous = pair
        seen = moment(journey, stage, previous, step)
        data = stage.steps[step]
        return schema.SingleStep(
            step,
            len(stage.steps),
            data.rule,
            text_of(seen.before),
            text_of(seen.after),
            [data.before],
            list(data.after),
            seen.whole,
            data.us,
            form_graph(seen.after, journey.number) if seen.whole else None,
        )

    @cached_property
    def failures(self) -> Failures | None:
        """Why rules did not apply."""
        journey = self.journey
        if journey is None:
            return None
        decomposition_rules(Support.of(self.target))  # made when a process first compiles for a target
        return Failures(journey, self._rule_of, self._names)

    def failed(self, number: int) -> rule_schema.Failed | None:
        """Why the rules of a stage did not apply where they did not."""
        pair = self._pair(number)
        return None if pair is None or self.failures is None else self.failures.stage(pair[1])

    def node(self, number: int, node: int) -> rule_schema.NodeWhy | None:
        """Why the rules of a stage did not apply to a node."""
        pair = self._pair(number)
        return None if pair is None or self.failures is None else self.failures.node(pair[1], node)

    @cached_property
    def _names(self) -> dict[UOp, str]:
        """What leaves are called."""
        names: dict[UOp, str] = {}
        for stage in self.journey.stages if self.journey is not None else ():
            form = self.journey.form(stage) if self.journey is not None else []
            for root in form if isinstance(form, list) else [form]:
                if root not in names and (root.op.name == "SINK" or not root.src):
                    names |= leaf_names(root)
        return names

    # -- levels ----------------------------------------------------------------------------------------------------

    @property
    def levels(self) -> tuple[str, ...]:
        """At which it can be read."""
        if not self.facts.llir and self._program is None:
            return ()
        return ("schedule", "llir", *KINDS[self.target.device].levels)

    def beam(self) -> schema.ScheduleSearch | None:
        """The search that found its schedule, if one did."""
        return self.facts.search

    def level(self, name: str) -> schema.SourceText | None:
        """Its code at a level."""
        if name not in self.levels:
            return None
        return schema.SourceText(
            code_at(name, self.program, self.facts, self.target), _LANGUAGES.get(name, name)
        )


def code_at(level: str, program: Program, facts: KernelFacts, target: Target) -> str:
    """A kernel's code at a level; where a tool is missing, what it says."""
    if level == "llir":
        return print_program(program)
    if level == "schedule":
        reasons = [*facts.reasons, *[""] * len(facts.schedule)]
        lines = [f"{a}  # {r}" if r else a for a, r in zip(facts.schedule, reasons, strict=False)]
        return "\n".join([f"# {facts.origin}", *lines]) + "\n"
    try:
        kind = kind_of_level(level)
        return kind.code(program, target, level, aliased=tuple(facts.aliased), scratch=facts.scratch)
    except PlanishError as error:
        return f"# not available: {error}\n"


def _depths(stage: StageData) -> list[int]:
    """How deep each rewrite is inside of others."""
    depths: list[int] = []
    for run in stage.runs:
        depths.append(0 if run.parent < 0 else depths[run.parent] + 1)
    return depths


def stage_note(number: int) -> str:
    """What a stage is for: the first paragraph of its module's docstring."""
    if not number:
        return "The kernel as it was planned: one graph, its loops not yet scheduled."
    marker = f".s{number:02}_"
    module = next(
        (m for name, m in sys.modules.items() if name.startswith("planish.stages.") and marker in name), None
    )
    return (
        ((module.__doc__ or "") if module is not None else "").strip().partition("\n\n")[0].replace("\n", " ")
    )
