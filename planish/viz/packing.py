"""What a fork heard of a kernel, as bytes for the process that it is a fork of: nodes by number, steps by the numbers of nodes.

It is unpacked when somebody looks: then the nodes are made once more, in a table of their own.
"""

from __future__ import annotations

import pickle
from io import BytesIO
from typing import Any, NamedTuple

from planish.collector import collector_off
from planish.uop.node import Table, UOp
from planish.uop.ops import Ops
from planish.uop.rewrite import Lines
from planish.viz.journey import RuleNumbers, StageData, numbered
from planish.viz.recorder import RecordedKernel, RecordedStage, StageSummary
from planish.viz.rules import KnownRule, described
from planish.viz.trace import RuleCount, TracedRun, TracedStage, TracedStep


class _Node(NamedTuple):
    """A node inside of an argument."""

    number: int


def packed(kernel: RecordedKernel) -> bytes:
    """A recorded kernel as bytes."""
    rules = RuleNumbers()
    nodes, stages = numbered(kernel, rules, 0)
    numbers = {node: number for number, node in enumerate(nodes)}
    rows = [
        (int(node.op), node.dtype, tuple([numbers[s] for s in node.src]), _argument(node.arg, numbers))
        for node in nodes
    ]
    told = [described(rule) for rule in rules.known]
    short = [(s.number, s.ms, len(s.steps), s.changed, [tuple(count) for count in s.counts]) for s in stages]
    head = pickle.dumps((kernel.seconds, kernel.choosing, told, short), protocol=5)
    return head + pickle.dumps((rows, [_plain(stage) for stage in stages], told), protocol=5)


def opened(data: bytes) -> tuple[float, float, list[StageSummary], bytes]:
    """Of a kernel: its seconds, those of the choice of its schedule, its stages in short, and what is to be unpacked."""
    stream = BytesIO(data)
    whole, choosing, told, short = pickle.load(stream)  # noqa: S301 - a fork of ours wrote it
    summaries = [
        StageSummary(number, ms / 1e3, steps, changed, tuple(_counts(counts, told)))
        for number, ms, steps, changed, counts in short
    ]
    return whole, choosing, summaries, data[stream.tell() :]


def _counts(counts: list[tuple[str, int, int, float]], told: list[KnownRule]) -> list[RuleCount]:
    return [RuleCount(told[int(rule)], tried, applied, spent / 1e3) for rule, tried, applied, spent in counts]


def _argument(arg: object, numbers: dict[UOp, int]) -> object:
    if isinstance(arg, UOp):
        return _Node(numbers[arg])
    if type(arg) is tuple and any(isinstance(each, UOp | tuple) for each in arg):
        return tuple(_argument(each, numbers) for each in arg)
    return arg


def _plain(stage: StageData) -> tuple[object, ...]:
    steps = [tuple(step) for step in stage.steps]
    runs = [tuple(run) for run in stage.runs]
    counts = [tuple(count) for count in stage.counts]
    return stage.number, stage.name, stage.ms, stage.changed, stage.form, stage.is_lines, steps, runs, counts


def unpacked(data: bytes) -> list[RecordedStage]:
    """The stages of a kernel that a fork has made."""
    with collector_off():
        rows, stages, told = pickle.loads(data)  # noqa: S301 - a fork of ours wrote it
        table, nodes = Table(), list[UOp]()
        ops = {int(op): op for op in Ops}
        for op, dtype, sources, arg in rows:
            nodes.append(
                table.make(ops[op], dtype, tuple([nodes[n] for n in sources]), _restored(arg, nodes))
            )
        return [_stage(raw, nodes, told) for raw in stages]


def _restored(arg: object, nodes: list[UOp]) -> object:
    if type(arg) is _Node:
        return nodes[arg.number]
    if type(arg) is tuple:
        return tuple(_restored(each, nodes) for each in arg)
    return arg


def _stage(raw: tuple[Any, ...], nodes: list[UOp], told: list[KnownRule]) -> RecordedStage:
    number, name, ms, changed, form, is_lines, steps, runs, counts = raw
    trace = TracedStage(
        [
            TracedStep(
                told[int(rule)],
                nodes[before],
                nodes[after[0]]
                if len(after) == 1
                else Lines(nodes[after[0]], tuple(nodes[n] for n in after[1:])),
                round(start * 1e3),
                round((start + us) * 1e3),
                run,
            )
            for rule, before, after, start, us, run in steps
        ],
        [
            TracedRun(matcher, nodes[root], order, parent, None if result < 0 else nodes[result])
            for matcher, root, order, result, parent in runs
        ],
        _counts(counts, told),
    )
    lines = [nodes[n] for n in form]
    return RecordedStage(number, name, lines if is_lines else lines[0], ms / 1e3, changed, trace)
