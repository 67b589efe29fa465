"""Why rules did not apply to the nodes of a kernel, worked out when somebody asks.

Nothing is kept for it while a kernel is compiled. All nodes that a stage saw are in the kernel's journey, and a pattern is held to
them once more (`planish.uop.explain`). So reasons count distinct nodes whose op and sources a rule could match at all: others are
never offered to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from functools import partial
from typing import Final

from planish.records import dataclass
from planish.uop.explain import NOT_OFFERED, why_not
from planish.uop.matcher import Rule
from planish.uop.node import UOp
from planish.uop.reached import reached
from planish.viz import rule_schema
from planish.viz.graphs import expression
from planish.viz.journey import Journey, StageData

RuleOf = Callable[[str], Rule | None]
"""The rule of an id, if this process has it."""
_LOOKED_AT: Final = 24
"""Nodes that each rule is held to in a stage."""
_EXAMPLES: Final = 3
"""Nodes that are shown for a reason."""
_OTHER_RULE: Final = "the pattern matches, and a rule before it took the node"


@dataclass(slots=True)
class Reasons:
    """Why one rule did not apply, by how often."""

    looked: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def add(self, reason: str, shown: Callable[[], str]) -> None:
        self.looked += 1
        self.counts[reason] += 1
        known = self.examples.setdefault(reason, [])
        if len(known) < _EXAMPLES:
            known.append(shown())

    def told(self) -> list[rule_schema.PatternFailure]:
        return [
            rule_schema.PatternFailure(reason, count, "\n".join(self.examples[reason]))
            for reason, count in self.counts.most_common()
        ]


class Failures:
    """The rules of one kernel's stages, held to its nodes."""

    def __init__(self, journey: Journey, rule_of: RuleOf, names: dict[UOp, str]) -> None:
        self.journey = journey
        self.rule_of = rule_of
        self.names = names
        self._forms: dict[int, dict[int, list[UOp]]] = {}

    def stage(self, stage: StageData) -> rule_schema.Failed:
        """Of every rule of a stage that was tried in vain: why."""
        failed: dict[str, Reasons] = {}
        unknown = 0
        for count in stage.counts:
            if count.tried > count.applied:
                if self.rule_of(count.rule) is None:
                    unknown += 1
                else:
                    self.add(stage, count.rule, failed.setdefault(count.rule, Reasons()))
        rules = [
            rule_schema.RuleFailures(rule, reasons.looked, reasons.told()) for rule, reasons in failed.items()
        ]
        return rule_schema.Failed([each for each in rules if each.looked], unknown)

    def add(self, stage: StageData, rule: str, reasons: Reasons) -> None:
        """Add why a rule did not apply in a stage."""
        known = self.rule_of(rule)
        if known is None:
            return
        applied = {step.before for step in stage.steps if step.rule == rule}
        answered = {step.before for step in stage.steps} - applied
        left = _LOOKED_AT
        for node in self._fitting(stage, known):
            number = self.journey.numbers[node]
            if number in applied:
                continue
            seen = why_not(known, node)
            if seen.reason == NOT_OFFERED and number not in answered:
                continue  # one that a rule made on its way and did not leave
            reason = _OTHER_RULE if seen.matches and number in answered else seen.reason
            reasons.add(reason, partial(expression, node, self.names))
            left -= 1
            if not left:
                return

    def node(self, stage: StageData, number: int) -> rule_schema.NodeWhy | None:
        """What every rule that a stage tried says of one node."""
        if not 0 <= number < len(self.journey.nodes):
            return None
        node = self.journey.nodes[number]
        applied = [step.rule for step in stage.steps if step.before == number]
        rows = []
        for count in stage.counts:
            known = self.rule_of(count.rule)
            if known is None or node.op not in _roots(known, node):
                continue
            if count.rule in applied:
                rows.append(rule_schema.RuleWhy(count.rule, True, "it applied"))
                continue
            seen = why_not(known, node)
            reason = _OTHER_RULE if seen.matches and applied else seen.reason
            rows.append(rule_schema.RuleWhy(count.rule, False, reason))
        return rule_schema.NodeWhy(number, expression(node, self.names), rows)

    def _fitting(self, stage: StageData, rule: Rule) -> Iterator[UOp]:
        """The nodes of a stage that a rule may have been offered."""
        for form, nodes in self._by_form(stage).items():
            if any(variant.fits(form) for variant in rule.variants):
                yield from nodes

    def _by_form(self, stage: StageData) -> dict[int, list[UOp]]:
        by_form = self._forms.get(stage.number)
        if by_form is None:
            by_form = self._forms[stage.number] = {}
            for node in _below(self.journey.nodes[number] for number in _roots_of(stage)):
                by_form.setdefault(node.form, []).append(node)
        return by_form


def _roots(rule: Rule, node: UOp) -> frozenset[object]:
    """The ops that a rule looks at; of one that looks at any, this node's."""
    ops: set[object] = set()
    for variant in rule.variants:
        ops |= {node.op} if variant.pattern.ops is None else variant.pattern.ops
    return frozenset(ops)


def _roots_of(stage: StageData) -> Iterator[int]:
    for run in stage.runs:
        yield run.root
        if run.result >= 0:
            yield run.result
    for step in stage.steps:
        yield step.before
        yield from step.after
    if stage.is_lines:
        yield from stage.form


def _below(roots: Iterable[UOp]) -> list[UOp]:
    """Nodes and all that they are made of, sources first."""
    return sorted(reached(roots, lambda node: node.src), key=lambda node: node.serial)
