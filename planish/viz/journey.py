"""A kernel's journey as data: nodes by number, and stages, rewrites and steps that speak of nodes by their numbers.

Live, it is made of a recorded kernel; from a file, of the text of its nodes. Either way nodes stand in a table of their own, so that
rewrites can be taken up to any step once more (`replay.py`). A node has one number all along the journey.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from typing import Final, NamedTuple, cast

from planish.collector import collector_off
from planish.records import dataclass
from planish.uop.matcher import Rule
from planish.uop.node import Table, UOp
from planish.uop.reached import reached
from planish.uop.rewrite import Lines
from planish.uop.text import arg_nodes, copy_nodes, parse_lines
from planish.viz.recorder import RecordedKernel
from planish.viz.rules import KnownRule
from planish.viz.trace import TracedStage

_INLINE: Final = frozenset({"CONST", "INVALID"})


RuleId = Callable[[Rule | KnownRule], str]
"""What a rule is called in steps."""


class RuleNumbers:
    """Rules by the order in which they turn up."""

    def __init__(self) -> None:
        self.known: dict[Rule | KnownRule, str] = {}

    def __call__(self, rule: Rule | KnownRule) -> str:
        return self.known.setdefault(rule, str(len(self.known)))


class StepData(NamedTuple):
    """One application of a rule."""

    rule: str
    before: int
    after: tuple[int, ...]
    """One node; of a line of a list, those in its place."""
    start_us: float
    us: float
    run: int


class RunData(NamedTuple):
    """One call of the rewriter."""

    matcher: str
    root: int
    order: str
    result: int
    """-1 if it raised."""
    parent: int


class CountData(NamedTuple):
    """What a rule did in a stage."""

    rule: str
    tried: int
    applied: int
    ms: float


@dataclass(frozen=True, slots=True)
class StageData:
    """One stage: what it left, and how it got there."""

    number: int
    name: str
    ms: float
    changed: bool
    form: tuple[int, ...]
    """The root of a graph, or lines."""
    is_lines: bool
    steps: tuple[StepData, ...] = ()
    runs: tuple[RunData, ...] = ()
    counts: tuple[CountData, ...] = ()


@dataclass(slots=True)
class Journey:
    """All nodes that a kernel ever had, and its stages."""

    nodes: list[UOp]
    stages: list[StageData]
    table: Table = field(repr=False)
    numbers: dict[UOp, int] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.numbers = {node: number for number, node in enumerate(self.nodes)}

    def stage(self, number: int) -> StageData | None:
        """The stage of a number, if the kernel went through it."""
        return next((stage for stage in self.stages if stage.number == number), None)

    def form(self, stage: StageData) -> UOp | list[UOp]:
        """What a stage left."""
        lines = [self.nodes[number] for number in stage.form]
        return lines if stage.is_lines else lines[0]

    def number(self, node: UOp) -> int:
        """The number of a node; one that only a replay has made gets the next."""
        number = self.numbers.get(node)
        if number is None:
            number = self.numbers[node] = len(self.nodes)
            self.nodes.append(node)
        return number


def journey_of(kernel: RecordedKernel, rule_id: RuleId, epoch: int = 0) -> Journey:
    """The journey of a recorded kernel; `epoch` is the time that steps count from, in nanoseconds."""
    ordered, stages = numbered(kernel, rule_id, epoch)
    table = Table()
    with collector_off():
        copies = copy_nodes(ordered, table)
    return Journey([copies[node] for node in ordered], stages, table)


def numbered(kernel: RecordedKernel, rule_id: RuleId, epoch: int) -> tuple[list[UOp], list[StageData]]:
    """All nodes of a recorded kernel, as they are, and its stages by their numbers."""
    roots: dict[UOp, None] = {}
    for recorded in kernel.stages:
        forms = recorded.form if isinstance(recorded.form, list) else [recorded.form]
        roots.update(dict.fromkeys(forms))
        for step in recorded.trace.steps:
            roots[step.before] = None
            roots.update(dict.fromkeys(_results(step.after)))
        for run in recorded.trace.runs:
            roots[run.root] = None
            if run.result is not None:
                roots[run.result] = None
    ordered = _all_below(roots)
    numbers = {node: number for number, node in enumerate(ordered)}
    stages = []
    for recorded in kernel.stages:
        lines = isinstance(recorded.form, list)
        form = cast("list[UOp]", recorded.form if lines else [recorded.form])
        stages.append(
            StageData(
                recorded.number, recorded.name, recorded.seconds * 1e3, recorded.changed,
                tuple(numbers[node] for node in form), lines, *_traced(recorded.trace, numbers, rule_id, epoch),
            )
        )  # fmt: skip
    return ordered, stages


def _results(after: object) -> Sequence[UOp]:
    if isinstance(after, Lines):
        return (after.value, *after.lines)
    return (cast("UOp", after),)


def _all_below(roots: Iterable[UOp]) -> list[UOp]:
    """Every node that some are made of, sources first."""
    nodes = reached(roots, lambda node: (*node.src, *arg_nodes(node.arg)))
    return sorted(nodes, key=lambda node: node.serial)


def _traced(
    trace: TracedStage, numbers: dict[UOp, int], rule_id: RuleId, epoch: int
) -> tuple[tuple[StepData, ...], tuple[RunData, ...], tuple[CountData, ...]]:
    steps = tuple(
        StepData(
            rule_id(step.rule),
            numbers[step.before],
            tuple(numbers[node] for node in _results(step.after)),
            round((step.start - epoch) / 1e3, 1),
            round((step.end - step.start) / 1e3, 2),
            step.run,
        )
        for step in trace.steps
    )
    runs = tuple(
        RunData(
            run.matcher,
            numbers[run.root],
            run.order,
            -1 if run.result is None else numbers[run.result],
            run.parent,
        )
        for run in trace.runs
    )
    counts = tuple(
        CountData(rule_id(each.rule), each.tried, each.applied, round(each.seconds * 1e3, 4))
        for each in sorted(trace.counts, key=lambda each: -each.seconds)
    )
    return steps, runs, counts


def load(text: str, stages: Sequence[Sequence[object]]) -> Journey:
    """A journey out of a file: the text of its nodes, and its stages as `stored` gives them."""
    table = Table()
    loaded: list[StageData] = []
    for raw in stages:
        number, name, ms, changed, form, is_lines, steps, runs, counts = cast("tuple[object, ...]", raw)
        loaded.append(
            StageData(
                cast("int", number), cast("str", name), cast("float", ms), bool(changed),
                tuple(cast("list[int]", form)), bool(is_lines),
                tuple(StepData(s[0], s[1], tuple(s[2]), *s[3:]) for s in cast("list[tuple[str, int, list[int], float, float, int]]", steps)),
                tuple(RunData(*run) for run in cast("list[tuple[str, int, str, int, int]]", runs)),
                tuple(CountData(*count) for count in cast("list[tuple[str, int, int, float]]", counts)),
            )
        )  # fmt: skip
    with collector_off():
        nodes = parse_lines(text, table)
    return Journey(nodes, loaded, table)


def stored(stages: Sequence[StageData]) -> list[list[object]]:
    """Stages as JSON has them."""
    return [
        [s.number, s.name, s.ms, s.changed, s.form, s.is_lines, s.steps, s.runs, s.counts] for s in stages
    ]
