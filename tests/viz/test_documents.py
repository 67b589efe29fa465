"""Documents: all of them are what their types say, from memory and from a file alike."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import planish as pn
from planish import compiler, ptir
from planish.actions.text import parse_schedule
from planish.compiler.observer import observing
from planish.errors import PlanishError
from planish.optimize.searched import Attempted, Measured, Outcome, Search
from planish.target import find
from planish.viz import documents, rule_schema, schema
from planish.viz.dumps import DumpedRecording
from planish.viz.edit import edited
from planish.viz.journey import Journey
from planish.viz.kernel_view import KernelView
from planish.viz.recorder import Recorder
from planish.viz.recording import Comparison, Documents, Recording, record
from planish.viz.search import search
from planish.viz.search_tree import tree_of
from planish.viz.storage import StoredRecording, is_recording
from tests.viz.conftest import traced

TYPES = {
    "index.json": schema.Index,
    "search.json": schema.SearchResults,
    "fusion.json": schema.FusionView,
    "memory.json": schema.MemoryPlan,
    "patterns.json": rule_schema.Patterns,
    "timeline.json": schema.LaunchTimeline,
    "why.json": schema.ScheduleWhy,
    "steps": schema.StepPage,
    "step": schema.SingleStep,
    "level": schema.SourceText,
    "pass": schema.Level,
    "stage": schema.Level,
    "failed.json": rule_schema.Failed,
    "node": rule_schema.NodeWhy,
    "rule": rule_schema.RuleFailures,
}


def paths(recording: Documents) -> Iterator[str]:
    """Every kind of document, of single steps a few."""
    yield from ("index.json", "search.json", *recording.program_paths())
    for program in recording.index.programs:
        for each in program.passes:
            yield from (f"{each.id}/step/{step}.json" for step in range(min(each.steps, 2)))
        yield from (f"{program.id}/rule/{rule}.json" for rule in list(recording.index.rules)[:5])
        for kernel in program.kernels:
            yield f"{kernel.id}/why.json"
            yield from (f"{kernel.id}/level/{level}.json" for level in kernel.levels if level != "asm")
            for number, _, steps, _ in (row for row in kernel.stages if row[0] in {0, 7, 11, 18, 21}):
                yield f"{kernel.id}/stage/{int(number)}.json"
                yield f"{kernel.id}/stage/{int(number)}/steps/0.json"
                yield f"{kernel.id}/stage/{int(number)}/failed.json"
                yield f"{kernel.id}/stage/{int(number)}/node/7.json"
                yield from (
                    f"{kernel.id}/stage/{int(number)}/step/{step}.json" for step in range(min(int(steps), 2))
                )


def plain(document: object) -> object:
    return json.loads(json.dumps(documents.plain(document)))


def type_of(path: str) -> type:
    *folders, name = path.split("/")
    return TYPES.get(name) or TYPES[folders[-1]]


def test_documents_are_of_their_types(recording: Recording):
    for path in paths(recording):
        document = recording.document(path)
        assert document is not None, path
        assert list(documents.problems(plain(document), type_of(path))) == [], path


def test_a_file_gives_the_same_documents(recording: Recording, tmp_path: Path):
    recording.save(tmp_path / "a.planish")
    assert is_recording(tmp_path / "a.planish")
    stored = StoredRecording(tmp_path / "a.planish")
    for path in paths(recording):
        assert plain(stored.document(path)) == plain(recording.document(path)), path


@pytest.mark.parametrize(
    "path", ["", "p0", "p7/pass/0.json", "p0/pass/99.json", "p0/k/99/why.json", "p0/k/0/stage/99.json",
             "p0/k/0/stage/4/step/99999.json", "p0/k/0/level/sass.json", "../index.json", "p0/k/0/stage/4/steps/99.json",
             "r9/timeline.json", "p0/beam/0.json", "p0/rule/u9999.json", "p9/rule/u0.json",
             "p0/k/0/stage/4/node/999999.json", "p0/k/0/stage/99/failed.json"],
)  # fmt: skip
def test_there_is_no_such_document(recording: Recording, path: str):
    assert recording.document(path) is None


def test_a_type_finds_what_is_wrong():
    pair = {"producer": "a", "consumer": "b", "fused": False, "reason": "", "tensor": "t", "sibling": True}
    good = {"pairs": [pair], "left_out": 0}
    assert list(documents.problems(good, schema.FusionView)) == []
    assert list(documents.problems({"pairs": [{"producer": 1}]}, schema.FusionView))
    assert list(documents.problems({"pairs": [], "left_out": 0, "more": 1}, schema.FusionView)) == [
        "$: FusionView has no more"
    ]
    assert list(documents.problems({}, schema.FusionView)) == [
        f"$: FusionView lacks {each}" for each in ("pairs", "left_out")
    ]


def test_kernels_that_are_two_say_why(recording: Recording):
    program = recording.index.programs[0]
    assert [kernel.name.partition("_")[0] for kernel in program.kernels] == ["reduce", "rows"]
    fusion = recording.document("p0/fusion.json")
    assert isinstance(fusion, schema.FusionView)
    (pair,) = fusion.pairs
    assert (pair.producer, pair.consumer) == ("p0/k/0", "p0/k/1")
    assert "product of matrices" in pair.reason


def test_siblings_say_why_they_are_two():
    def three(x, w):
        return x @ w, pn.cumsum(x, axis=0), pn.sum(x * x, axis=-1)

    with record() as made, pn.settings(cache=False):
        compiler.compile(pn.jit(three).lower(*(np.zeros((64, 64), np.float32),) * 2).function)
    fusion = made().document("p0/fusion.json")
    assert isinstance(fusion, schema.FusionView)
    reasons = [pair.reason for pair in fusion.pairs if pair.sibling and pair.tensor == "x"]
    assert len(reasons) == 3
    assert sum("is a product of matrices" in reason for reason in reasons) == 1
    assert (
        sum("64x64 here, 64 there" in reason or "64 here, 64x64 there" in reason for reason in reasons) == 2
    )


def test_rules_say_why_they_did_not_apply(recording: Recording):
    for kernel in recording.index.programs[0].kernels:
        for row in kernel.stages:
            level = recording.document(f"{kernel.id}/stage/{int(row[0])}.json")
            failed = recording.document(f"{kernel.id}/stage/{int(row[0])}/failed.json")
            assert isinstance(level, schema.Level)
            assert isinstance(failed, rule_schema.Failed)
            tried = {each.rule for each in level.statistics if each.tried > each.applied}
            told = {each.rule for each in failed.rules}
            assert failed.unknown == 0
            assert told <= tried
            assert all(sum(f.count for f in each.failed) == each.looked for each in failed.rules)
            assert not any("it was not offered" in f.reason for each in failed.rules for f in each.failed)
            if row[0] in {4, 8, 14, 18}:
                assert told


def test_a_node_says_which_rule_took_it(recording: Recording):
    page = recording.document("p0/k/0/stage/8/steps/0.json")
    assert isinstance(page, schema.StepPage)
    rule, node = page.steps[0][:2]
    said = recording.document(f"p0/k/0/stage/8/node/{node}.json")
    assert isinstance(said, rule_schema.NodeWhy)
    assert [each.rule for each in said.rules if each.applied] == [rule]
    assert all(each.reason for each in said.rules)


@pytest.fixture(scope="session")
def on_a_gpu() -> Recording:
    """The recording of a program for a GPU, which need not be there."""
    made = Recorder()
    with observing(made), pn.settings(cache=False):
        compiler.lower(traced(), target=find("sm_90"))
    return Recording(made, "gpu")


def test_accesses_of_a_gpu_say_how_wide_they_are(on_a_gpu: Recording):
    for kernel in on_a_gpu.index.programs[0].kernels:
        why = on_a_gpu.document(f"{kernel.id}/why.json")
        assert isinstance(why, schema.ScheduleWhy)
        assert why.loads
        for load in why.loads:
            assert load.wide == (load.lanes > 1)
            assert load.reason


def test_kernels_say_what_they_come_from(recording: Recording):
    product, rows = recording.index.programs[0].kernels
    assert product.origin.endswith("dot_general")
    assert "exp" in rows.origin
    assert "dot_general" not in rows.origin
    assert "conftest.py:" in product.origin


def test_accesses_say_how_wide_they_are(recording: Recording):
    for kernel in recording.index.programs[0].kernels:
        why = recording.document(f"{kernel.id}/why.json")
        assert isinstance(why, schema.ScheduleWhy)
        assert any(action.taken for action in why.schedule)
        refused = [action for action in why.schedule if not action.legal]
        assert refused
        assert all(action.reason.startswith("refused: ") and not action.taken for action in refused)
        assert all(load.reason for load in why.loads)
        assert all(load.wide == (load.lanes > 1) for load in why.loads)
        assert any(load.store for load in why.loads)
        assert why.nest.loops


def test_the_memory_plan_is_that_of_the_executable(recorder: Recorder, recording: Recording):
    lowered = recorder.programs[0].lowered
    memory = recording.document("p0/memory.json")
    assert lowered is not None
    assert isinstance(memory, schema.MemoryPlan)
    assert memory.peak == lowered.memory.peak
    spans = [(span.offset, span.offset + span.bytes) for span in memory.buffers if span.offset is not None]
    assert max(end for _, end in spans) == memory.peak
    assert [label for label in memory.labels if label] == [k.name for k in lowered.plan.kernels]


def test_the_timeline_has_the_work_of_each_launch(recording: Recording):
    timeline = recording.document("r0/timeline.json")
    assert isinstance(timeline, schema.LaunchTimeline)
    flops = {kernel.id: kernel.flops for kernel in recording.index.programs[0].kernels}
    assert len(timeline.events) == 2 * len(flops)
    for event in timeline.events:
        assert event.kernel is not None
        assert event.flops == flops[event.kernel]
        assert event.gflops == pytest.approx(event.flops / event.us / 1e3, rel=0.01)
    starts = [event.start_us for event in timeline.events]
    assert starts == sorted(starts)


def test_search_finds_names_rules_and_steps(recording: Recording):
    kinds = {kind for kind, _, _ in search(recording, "reduce").results}
    assert {"kernel", "level"} <= kinds
    rule = next(rule for rule in recording.index.rules.values() if rule.engine == "uop")
    assert any(kind == "rule" for kind, _, _ in search(recording, rule.name.split()[0]).results)
    assert any(kind == "step" and "?step=" in id for kind, id, _ in search(recording, "index").results)
    assert search(recording, "").results == []
    assert search(recording, "no such thing at all").results == []


def test_rules_say_where_they_are_written(recording: Recording):
    for rule in recording.index.rules.values():
        if rule.name in {"fold", "unused"}:
            continue
        assert rule.file.startswith("planish/"), rule
        assert rule.line > 0
        assert rule.equation


# -- schedules that are tried ------------------------------------------------------------------------------------------


def view_of(recording: Recording, number: str = "1") -> KernelView:
    view = recording.kernel("0", number)
    assert view is not None
    return view


def test_the_schedule_of_a_kernel_gives_its_code(recording: Recording):
    view = view_of(recording)
    answer = edited(view, "; ".join(view.facts.schedule))
    assert answer.legal
    assert answer.levels["llir"] == view.llir
    assert answer.estimate_us == recording.index.programs[0].kernels[1].estimate_us


def test_a_schedule_that_does_not_fit_says_which_step(recording: Recording):
    answer = edited(view_of(recording), "upcast(j, 16); upcast(zz, 4)")
    assert not answer.legal
    assert answer.refused is not None
    assert answer.refused.step == 2
    assert "zz" in answer.refused.reason
    answer = edited(view_of(recording), "upcast(j")
    assert answer.refused is not None
    assert edited(view_of(recording), "x" * 30_000).refused is not None


@pytest.mark.slow
def test_a_schedule_is_measured_against_what_the_kernel_computes(recording: Recording):
    answer = edited(view_of(recording), "upcast(j, 16)", measure=True)
    assert answer.measured_us is not None, answer.note
    assert answer.measured_us > 0


# -- searches ----------------------------------------------------------------------------------------------------------


def test_a_search_is_a_tree():
    def tried(schedule: str, cycles: float, outcome: Outcome, seconds: float = 0.0) -> Attempted:
        return Attempted(tuple(parse_schedule(schedule)), Measured(outcome, seconds), cycles)

    trials = [
        tried("upcast(i, 2)", 10.0, Outcome.RIGHT, 1e-6),
        tried("upcast(i, 2)\nunroll(j, 4)", 8.0, Outcome.CRASHED),
        tried("thread(k, 2)\nunroll(j, 4)", 9.0, Outcome.RIGHT, 2e-6),
        tried("", 20.0, Outcome.RIGHT, 3e-6),
    ]
    made = tree_of(
        Search(trials=trials, considered=9, rounds=2, elapsed=0.5, ended="done"), ["upcast(i, 2)"], 0.001
    )
    by_schedule = {node.schedule: node for node in made.nodes}
    assert by_schedule[""].parent is None
    assert by_schedule[""].measured_us == 3.0
    assert by_schedule["upcast(i, 2)"].parent == 0
    assert by_schedule["upcast(i, 2)"].kept
    assert by_schedule["upcast(i, 2); unroll(j, 4)"].parent == by_schedule["upcast(i, 2)"].id
    assert by_schedule["upcast(i, 2); unroll(j, 4)"].action == "unroll(j, 4)"
    assert by_schedule["thread(k, 2); unroll(j, 4)"].parent == by_schedule["thread(k, 2)"].id
    assert by_schedule["thread(k, 2)"].outcome == "on the way to others"
    assert [node.id for node in made.nodes if node.kept] == [0, by_schedule["upcast(i, 2)"].id]
    assert list(documents.problems(plain(made), schema.ScheduleSearch)) == []


# -- files and folders -------------------------------------------------------------------------------------------------


def test_a_file_that_is_no_recording(tmp_path: Path):
    (tmp_path / "a.planish").write_text("no zip")
    assert not is_recording(tmp_path / "a.planish")
    with pytest.raises(PlanishError, match="no recording"):
        StoredRecording(tmp_path / "a.planish")
    with zipfile.ZipFile(tmp_path / "b.planish", "w") as archive:
        archive.writestr("index.json", '{"version": 99}')
    with pytest.raises(PlanishError, match="version 99"):
        StoredRecording(tmp_path / "b.planish")
    with zipfile.ZipFile(tmp_path / "c.planish", "w") as archive:
        archive.writestr("index.json", '{"version": 2}')
    with pytest.raises(PlanishError, match="lacks"):
        StoredRecording(tmp_path / "c.planish")


def test_a_dump_is_a_recording_without_steps(tmp_path: Path):
    with pn.settings(cache=False, dump_dir=str(tmp_path)):
        compiler.compile(traced())
    dumped = DumpedRecording(tmp_path)
    (program,) = dumped.index.programs
    assert len(program.kernels) == 2
    assert list(documents.problems(plain(dumped.index), schema.Index)) == []
    stages = program.kernels[0].stages
    assert [int(row[0]) for row in stages] == list(range(23))
    level = dumped.document("p0/k/0/stage/9.json")
    assert isinstance(level, schema.Level)
    assert level.after.startswith("uop 1")
    assert program.kernels[0].flops is None  # a text does not tell
    assert program.kernels[0].levels == []
    (tmp_path / "009_llir.txt").write_text(compiler.lower(traced()).as_text("llir"), encoding="utf-8")
    dumped = DumpedRecording(tmp_path)
    (program,) = dumped.index.programs
    assert program.kernels[1].levels == ["llir", "llvm", "c", "asm"]
    source = dumped.document("p0/k/1/level/llvm.json")
    assert isinstance(source, schema.SourceText)
    assert program.kernels[1].name in source.text
    manager = ptir.PassManager.parse("canonicalize,dce").watch(ptir.passes.DumpDir(tmp_path / "passes"))
    manager.run(ptir.Program([traced()]))
    passes = DumpedRecording(tmp_path / "passes")
    first = passes.document("p0/pass/0.json")
    assert isinstance(first, schema.Level)
    assert first.graph.nodes
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(PlanishError, match="holds no dump"):
        DumpedRecording(empty)


def test_two_recordings_are_side_by_side(recording: Recording):
    other = Recorder()
    with observing(other), pn.settings(cache=False, schedule="[rows*]\nupcast(j, 32)"):
        compiler.compile(traced())
    both = Comparison(recording, Recording(other, "other"))
    index = both.document("index.json")
    assert isinstance(index, schema.Index)
    assert index.compare is not None
    assert index.compare.programs[0].kernels[1].schedule == "upcast(j, 32)"
    assert list(documents.problems(plain(index), schema.Index)) == []
    first, second = both.document("p0/k/1/stage/7.json"), both.document("b/p0/k/1/stage/7.json")
    assert isinstance(first, schema.Level)
    assert isinstance(second, schema.Level)
    assert first.after != second.after


def test_a_journey_is_read_back_whole(recording: Recording):
    journey = view_of(recording).journey
    assert isinstance(journey, Journey)
    assert len(journey.nodes) == len(set(journey.nodes))
