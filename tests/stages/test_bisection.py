"""A mistake planted in one stage after the other is found there, down to the rule."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from planish import dtypes
from planish.stages import pipeline
from planish.stages.bisection import close, difference, first_wrong, outputs_of
from planish.stages.pipeline import LINE_STAGES, STAGES, Machine, PipelineStage
from planish.target import TARGETS
from planish.uop.matcher import Matcher, rule
from planish.uop.node import Table, UOp
from planish.uop.ops import AxisType, Ops
from planish.uop.pattern import anything, node
from planish.uop.rewrite import line_rewrite, rewrite
from tests.placed import Action, ActionKind
from tests.stages.kernels import buffers_of, store

f32 = dtypes.float32
WRONG = Matcher(
    "planted",
    [
        rule(
            node(Ops.MUL, anything("x"), anything("y")),
            lambda root, x, y: x.alu(Ops.MAX, y) if x.dtype.is_float else None,
            says="x * y -> max(x, y), which is wrong",
        ),
        rule(
            node(Ops.MULACC, anything("x"), anything("y"), anything("z")),
            lambda root, x, y, z: x.alu(Ops.MAX, z) if x.dtype.is_float else None,
            says="x * y + z -> max(x, z), which is wrong",
        ),
    ],
)


def kernel(t: Table) -> UOp:
    """out[i, j] = Σ a[i, r] * b[r, j], and a half."""
    i, j, r = t.range(4, 0), t.range(8, 1), t.range(6, 2, AxisType.REDUCE)
    a, b = t.param(1, f32, 24).index(i * 6 + r), t.param(2, f32, 48).index(r * 8 + j)
    total = (a * b).reduce(Ops.ADD, r)
    return store(t.param(0, f32, 32), total + t.const(0.5, f32), i, j)


def machine() -> Machine:
    actions = (Action(ActionKind.UPCAST, 1, 4),)
    return Machine(TARGETS["x86-64-v3"], lambda sink: actions)


def test_a_kernel_that_is_right_has_no_finding():
    with Table() as t:
        sink = kernel(t)
        expected, found = first_wrong(sink, machine(), buffers_of(sink), {})
    assert found is None
    assert expected is not None


def plant(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the wrong rules to a stage."""

    def graphs(stage: PipelineStage) -> PipelineStage:
        return stage._replace(run=lambda sink, machine: rewrite(stage.run(sink, machine), WRONG))

    def lines(stage: PipelineStage) -> PipelineStage:
        return stage._replace(run=lambda lines, machine: line_rewrite(stage.run(lines, machine), WRONG))

    monkeypatch.setattr(pipeline, "STAGES", tuple(graphs(s) if s.number == number else s for s in STAGES))
    monkeypatch.setattr(
        pipeline, "LINE_STAGES", tuple(lines(s) if s.number == number else s for s in LINE_STAGES)
    )


@pytest.mark.parametrize("number", [stage.number for stage in (*STAGES, *LINE_STAGES)])
def test_a_wrong_rule_is_found_in_its_stage(number: int, monkeypatch: pytest.MonkeyPatch):
    plant(number, monkeypatch)
    with Table() as t:
        sink = kernel(t)
        _, found = first_wrong(sink, machine(), buffers_of(sink), {}, rules=True)
    assert found is not None
    assert (found.stage, found.kind) == (number, "values")
    assert found.what.startswith("buffer 0: ")
    assert found.rule is not None
    assert found.rule.name.endswith("which is wrong")
    assert found.rule.since == found.rule.number - 1
    assert "max" not in found.rule.before
    assert "max" in found.rule.after


def test_other_mistakes_have_their_own_symptom(monkeypatch: pytest.MonkeyPatch):
    def found_with(number: int, run: Callable[[UOp, Machine], UOp]) -> tuple[int, str]:
        changed = tuple(s._replace(run=run) if s.number == number else s for s in STAGES)
        monkeypatch.setattr(pipeline, "STAGES", changed)
        with Table() as t:
            sink = kernel(t)
            _, found = first_wrong(sink, machine(), buffers_of(sink), {}, rules=True)
        assert found is not None
        return found.stage, found.kind

    beyond = Matcher(
        "beyond",
        [
            rule(
                node(Ops.INDEX, node(Ops.DEFINE_GLOBAL, name="b"), anything("i")),
                lambda root, b, i: root.replace(src=(b, i + 20)) if b.arg == 1 and i.vmin == 0 else None,
                says="a[i] -> a[i + 20]",
            )
        ],
    )
    # everything is lost; an index is moved; a range is left open; the stage itself fails
    assert found_with(5, lambda sink, machine: sink.table.sink()) == (5, "values")
    assert found_with(6, lambda sink, machine: rewrite(sink, beyond)) == (6, "outside")
    assert found_with(8, lambda sink, machine: sink.table.sink(sink.src[0].src[0])) == (8, "illegal")
    assert found_with(9, lambda sink, machine: sink.src[0].index(sink.src[0])) == (9, "crash")


def test_what_is_not_a_rules_fault_has_no_rule(monkeypatch: pytest.MonkeyPatch):
    def turned(sink: UOp, machine: Machine) -> UOp:
        out = sink.table.param(0, f32, 32)
        i = sink.table.range(32, 7)
        return sink.table.sink(out.index(i).store(sink.table.const(0.0, f32)).end(i))

    changed = tuple(s._replace(run=turned) if s.number == 5 else s for s in STAGES)
    monkeypatch.setattr(pipeline, "STAGES", changed)
    with Table() as t:
        sink = kernel(t)
        _, found = first_wrong(sink, machine(), buffers_of(sink), {}, rules=True)
    assert found is not None
    assert (found.stage, found.kind, found.rule) == (5, "values", None)


def test_outputs_are_what_is_only_written():
    with Table() as t:
        i = t.range(4, 0)
        out, changed, given = (t.param(slot, f32, 4).index(i) for slot in range(3))
        sink = t.sink(out.store(given).end(i), changed.store(changed + given).end(i))
        assert outputs_of(sink) == {0}


def test_closeness():
    x = np.array([1.0, 2.0, np.nan, np.inf], np.float32)
    assert close(x, x).all()
    assert close(x, x * np.float32(1 + 1e-6)).all()
    assert close(x, np.array([1.1, 2, np.nan, -np.inf], np.float32)).tolist() == [False, True, True, False]
    assert close(np.array([1, 2]), np.array([1, 3])).tolist() == [True, False]
    narrow = dtypes.bfloat16.numpy
    assert close(np.array([1, 2], narrow), np.array([1, 2.5], narrow)).tolist() == [True, False]
    assert difference({0: np.array([1, 2, 3])}, {0: np.array([1, 0, 0])}) == (
        "buffer 0: 2 of 3 elements differ, the first at 1: 0, expected 2"
    )
