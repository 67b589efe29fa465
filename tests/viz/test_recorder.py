"""What is heard of a compilation: everything, and nothing of it changes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

import planish as pn
from planish import compiler, ptir
from planish.actions.base import Action
from planish.compiler import lowering, parallel
from planish.compiler.observer import NOBODY, CompilationObserver, observer, observing
from planish.errors import PlanishError
from planish.llir.text import print_program
from planish.ptir.literal_text import literal_text
from planish.ptir.ops.literal import Literal
from planish.stages.boundaries import text_of
from planish.stages.pipeline import StageRun
from planish.uop.node import UOp
from planish.uop.trial import active, installed, trial
from planish.viz import schema
from planish.viz.journey import journey_of
from planish.viz.pass_replay import replay_of, replayed
from planish.viz.recorder import Recorder
from planish.viz.recording import Recording
from planish.viz.replay import moment
from planish.viz.runs import MOST_CALLS
from tests.viz.conftest import arrays, traced


def test_nobody_watches_unless_asked():
    assert observer() is NOBODY
    assert active() is None


def test_recording_changes_neither_code_nor_results():
    with pn.settings(cache=False):
        plain = compiler.compile(traced())
        with observing(Recorder()):
            watched = compiler.compile(traced())
    assert list(map(print_program, plain.lowered.programs)) == list(
        map(print_program, watched.lowered.programs)
    )
    for one, other in zip(plain(*arrays()), watched(*arrays()), strict=True):
        np.testing.assert_array_equal(one, other)


class Counting(CompilationObserver):
    """Counts as the rewriter's own trials do, stage by stage."""

    wants_fresh = wants_kernels = True

    def __init__(self) -> None:
        self.counts: list[dict[int, int]] = []

    def stages(self, steps: Iterator[StageRun]) -> Iterator[StageRun]:
        counted: dict[int, int] = {}
        self.counts.append(counted)
        while True:
            with trial() as made:
                step = next(steps, None)
            if step is None:
                return
            counted[step.stage.number] = made.count
            yield step

    def choosing(self, sink: UOp, choose: Callable[[UOp], Sequence[Action]]) -> Sequence[Action]:
        with installed(None):
            return choose(sink)


def test_steps_are_as_many_as_the_engine_counts(recorder: Recorder):
    counting = Counting()
    with observing(counting), pn.settings(cache=False):
        compiler.compile(traced())
    recorded = [
        {stage.number: len(stage.trace.steps) for stage in kernel.stages if stage.number}
        for kernel in recorder.programs[0].kernels.values()
    ]
    assert recorded == counting.counts
    assert sum(map(sum, (counts.values() for counts in recorded))) > 100


def test_every_application_is_counted_for_its_rule(recorder: Recorder):
    for kernel in recorder.programs[0].kernels.values():
        for stage in kernel.stages:
            assert sum(count.applied for count in stage.trace.counts) == len(stage.trace.steps)
            assert all(count.tried >= count.applied for count in stage.trace.counts)


def test_patterns_are_counted_as_the_driver_does(recorder: Recorder):
    for made in recorder.programs[0].passes:
        if made.name != "canonicalize":
            continue
        steps = [step for step in made.steps if step.kind != "erased"]
        assert len(steps) == made.statistics.get("rewrites", 0) + made.statistics.get("folds", 0)
        tries = {
            key.split(".")[1]: int(value) for key, value in made.statistics.items() if key.endswith(".tries")
        }
        hits = {
            key.split(".")[1]: int(value) for key, value in made.statistics.items() if key.endswith(".hits")
        }
        for name, count in tries.items():
            failed = sum(n for (pattern, _), n in made.failures.items() if pattern == name)
            assert failed == count - hits[name]


def test_a_replayed_rewrite_ends_as_it_did(recorder: Recorder):
    seen = 0
    for kernel in recorder.programs[0].kernels.values():
        journey = journey_of(kernel, lambda rule: rule.name)
        for before, stage in zip(journey.stages, journey.stages[1:], strict=False):
            last = {step.run: number for number, step in enumerate(stage.steps)}
            for run, number in last.items():
                if run < 0 or stage.runs[run].parent >= 0:
                    continue
                found = moment(journey, stage, journey.form(before), number)
                assert isinstance(found.after, UOp)
                assert found.after is journey.nodes[stage.runs[run].result]
                assert found.before is not found.after
                seen += 1
    assert seen > 10


def test_the_rewrites_of_a_pass_lead_from_its_text_to_the_next():
    function = ptir.parse(PASSES).entry
    made = Recorder()
    with observing(made), pn.settings(cache=False):
        compiler.lower(function)
    passes = made.programs[0].passes
    start, seen = passes[0], 0
    for each in passes[1:]:
        if not each.changed:
            continue
        replay = replay_of(start, each, [step.pattern for step in each.steps])
        assert replay.start is not None, each.name
        assert replayed(replay.start, []) == start.text
        assert replayed(replay.start, replay.steps) == each.text
        seen += len(each.steps)
        start = each
    assert seen > 5


PASSES = """\
ptir 1
func @f(%x: tensor<f32, 4x8>, %y: tensor<f32, 4x8>) -> (tensor<f32, 4x8>, tensor<f32, 4x1>) {
  %zero = constant 0.0 : tensor<f32, 4x8>
  %a = add %x, %y : tensor<f32, 4x8>
  %b = add %x, %y : tensor<f32, 4x8>
  %t = transpose %a {perm=[1, 0]} : tensor<f32, 8x4>
  %u = transpose %t {perm=[1, 0]} : tensor<f32, 4x8>
  %c = mul %u, %b : tensor<f32, 4x8>
  %unused = exp %c : tensor<f32, 4x8>
  %s = reduce_sum %c {axes=[1], keepdims=true} : tensor<f32, 4x1>
  %d = sub %c, %zero : tensor<f32, 4x8>
  return %d, %s
}
"""


def test_what_forks_hear_is_told(recorder: Recorder, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lowering, "is_worth_sharing", lambda left, done, seconds: 2)
    # this process takes none: all are made by the other one
    monkeypatch.setattr(parallel, "_tickets", _only_in_forks(parallel._tickets))
    waits = parallel._ended
    monkeypatch.setattr(parallel, "_ended", lambda process, limit: waits(process, limit + 60.0))
    made = Recorder()
    with observing(made), pn.settings(cache=False, threads=2):
        compiler.compile(traced())
    kernels = made.programs[0].kernels
    assert any(kernel.packed for kernel in kernels.values())
    one, other = Recording(recorder, "one"), Recording(made, "other")
    assert [k.name for k in one.index.programs[0].kernels] == [
        k.name for k in other.index.programs[0].kernels
    ]
    for number in kernels:
        mine, theirs = recorder.programs[0].kernels[number], kernels[number]
        assert theirs.seconds > theirs.choosing > 0
        for before, after in zip(mine.stages, theirs.stages, strict=True):
            assert (before.number, before.changed) == (after.number, after.changed)
            assert text_of(before.form) == text_of(after.form)
        for stage in (9, 14):
            path = f"p0/k/{number}/stage/{stage}/step/0.json"
            first, second = one.document(path), other.document(path)
            assert isinstance(first, schema.SingleStep)
            assert isinstance(second, schema.SingleStep)
            assert (first.before, first.after) == (second.before, second.after)
            rule = one.index.rules[first.rule]
            assert rule == other.index.rules[second.rule]


def _only_in_forks(tickets: Callable[[int], Iterator[int]]) -> Callable[[int], Iterator[int]]:
    owner = os.getpid()

    def taken(source: int) -> Iterator[int]:
        return iter(()) if os.getpid() == owner else tickets(source)

    return taken


def test_data_of_large_constants_is_not_recorded():
    made = Recorder()
    weights = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    text = f"""\
ptir 1
func @f(%x: tensor<f32, 64x64>) -> tensor<f32, 64x1> {{
  %w = constant {literal_text(Literal(weights))} : tensor<f32, 64x64>
  %y = add %x, %w : tensor<f32, 64x64>
  %z = reduce_sum %y {{axes=[1], keepdims=true}} : tensor<f32, 64x1>
  return %z
}}
"""
    with observing(made), pn.settings(cache=False):
        compiler.lower(ptir.parse(text).entry)
    texts = [each.text for each in made.programs[0].passes if each.text]
    assert "constant <4096 elements> : tensor<f32, 64x64>" in texts[0]
    assert all(len(text) < 2000 for text in texts)


def test_the_cache_does_not_hide_a_compilation(tmp_path):
    with pn.settings(cache_dir=str(tmp_path)):
        compiler.compile(traced())
        made = Recorder()
        with observing(made):
            compiler.compile(traced())
    assert len(made.programs) == 1
    assert made.programs[0].kernels


def test_calls_are_watched_and_then_left_alone(recorder: Recorder):
    runs = recorder.programs[0].runs
    assert runs is not None
    assert len(runs.calls) == 2
    kernels = len(recorder.programs[0].kernels)
    assert all(len(call.events) == kernels for call in runs.calls)
    with pn.settings(cache=False), observing(Recorder()) as _:
        exe = compiler.compile(traced())
    for _ in range(MOST_CALLS):
        assert exe.is_watched
        exe(*arrays())
    assert not exe.is_watched
    (result,) = exe(*arrays())
    assert result.shape == (64, 1024)


def test_what_fails_is_recorded_until_there():
    made = Recorder()
    with pytest.raises(PlanishError), observing(made), pn.settings(cache=False, schedule="upcast(zz, 4)"):
        compiler.compile(traced())
    assert made.programs[0].error
    assert observer() is NOBODY
    assert active() is None
