"""The documents of a program's passes: its text after each, every rewrite, and why patterns did not apply."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from planish.viz import rule_schema, schema
from planish.viz.graphs import PAGE, folded, pages
from planish.viz.pass_replay import PassReplay, replay_of
from planish.viz.passes import InstNode, TracedPass
from planish.viz.rules import RuleBook


class PassView:
    """The passes of one recorded program, to be looked at."""

    def __init__(self, passes: Sequence[TracedPass], rules: RuleBook, epoch: int) -> None:
        self.passes = passes
        self.rules = rules
        self.epoch = epoch
        self._replays: dict[int, PassReplay] = {}

    def level(self, number: int) -> schema.Level | None:
        """The program before and after a pass."""
        passes = self.passes
        if not 0 <= number < len(passes):
            return None
        trace = passes[number]
        shown = next((p for p in reversed(passes[: number + 1]) if p.text), trace)
        before = next((p.text for p in reversed(passes[:number]) if p.text), None)
        return schema.Level(
            trace.name,
            _pass_note(trace),
            "ptir",
            before if trace.changed else None,
            shown.text,
            pass_graph(shown),
            len(trace.steps),
            pages(len(trace.steps)),
            self.statistics(trace),
        )

    def statistics(self, trace: TracedPass) -> list[schema.RuleStatistics]:
        rows = []
        for name in {
            key.removeprefix("pattern.").rpartition(".")[0]
            for key in trace.statistics
            if key.startswith("pattern.")
        }:
            tries, hits, seconds = (
                trace.statistics.get(f"pattern.{name}.{what}", 0) for what in ("tries", "hits", "seconds")
            )
            failed = {reason: count for (pattern, reason), count in trace.failures.items() if pattern == name}
            rows.append(
                schema.RuleStatistics(
                    self.rules.pattern(name), int(tries), int(hits), round(seconds * 1e3, 4), failed
                )
            )
        return sorted(rows, key=lambda each: (-each.ms, each.rule))

    def steps(self, number: int, page: int) -> schema.StepPage | None:
        """Rewrites of a pass."""
        passes = self.passes
        if not 0 <= number < len(passes) or not 0 <= page < max(1, pages(len(passes[number].steps))):
            return None
        shown = passes[number].steps[page * PAGE : (page + 1) * PAGE]
        rows: list[list[object]] = [
            [
                self.rules.pattern(step.pattern),
                step.before.id,
                round((step.start - self.epoch) / 1e3, 1),
                step.before.text(),
                "; ".join(state.text() for state in step.after[:8]),
                None if step.loc is None else str(step.loc),
                [step.before.id],
                round((step.end - step.start) / 1e3, 2),
                0,
                [state.id for state in step.after],
            ]
            for step in shown
        ]
        return schema.StepPage(page * PAGE, rows, folded([step.pattern for step in shown], page * PAGE))

    def step(self, number: int, step: int) -> schema.SingleStep | None:
        """The program before and after one rewrite of a pass."""
        replay = self.replay(number)
        return None if replay is None else replay.step(step)

    def replay(self, number: int) -> PassReplay | None:
        """A pass, to be taken up to any of its steps."""
        if not 0 <= number < len(self.passes):
            return None
        if number not in self._replays:
            trace = self.passes[number]
            start = next((p for p in reversed(self.passes[:number]) if p.lines), None)
            rules = [self.rules.pattern(step.pattern) for step in trace.steps]
            self._replays[number] = replay_of(start, trace, rules)
        return self._replays[number]

    def patterns(self) -> list[rule_schema.PatternUse]:
        """Every pattern that was tried: how often, and why it did not apply."""
        totals: dict[str, list[float]] = {}
        failures: dict[str, Counter[str]] = {}
        examples: dict[tuple[str, str], list[str]] = {}
        for trace in self.passes:
            for each in self.statistics(trace):
                total = totals.setdefault(each.rule, [0, 0, 0.0])
                total[0] += each.tried
                total[1] += each.applied
                total[2] += each.ms
            for (pattern, reason), count in trace.failures.items():
                rule = self.rules.pattern(pattern)
                failures.setdefault(rule, Counter())[reason] += count
                shown = examples.setdefault((rule, reason), [])
                shown += [state.text() for state in trace.examples[pattern, reason][: 3 - len(shown)]]
        return [
            rule_schema.PatternUse(
                rule,
                int(tried),
                int(applied),
                round(ms, 4),
                [
                    rule_schema.PatternFailure(reason, count, "\n".join(examples[rule, reason]))
                    for reason, count in failures.get(rule, Counter[str]()).most_common()
                ],
            )
            for rule, (tried, applied, ms) in sorted(totals.items(), key=lambda item: -item[1][0])
        ]


def _pass_note(trace: TracedPass) -> str:
    if not trace.number:
        return "The program as it was given."
    counted = ", ".join(f"{name} {value}" for name, value in trace.statistics.items() if "." not in name)
    return trace.error or counted


def pass_graph(trace: TracedPass) -> schema.DrawnGraph:
    """The graph of a program after a pass."""
    nodes = [
        schema.GraphNode(
            node.id, node.op, _label(node), node.type, "" if node.loc is None else str(node.loc), node.region
        )
        for node in trace.nodes
    ]
    return schema.DrawnGraph(nodes, [list(edge) for edge in trace.edges])


def _label(node: InstNode) -> str:
    results = ", ".join(f"%{each}" for each in node.results)
    operands = ", ".join(f"%{each}" for each in node.operands)
    return f"{results} = {node.op} {operands}".strip()
