"""The table of stages, and what happens between them: checked, timed, printed, dumped, left out."""

from __future__ import annotations

import importlib
import random
from pathlib import Path

import numpy as np
import pytest

from planish import dtypes
from planish.config import settings
from planish.errors import SettingsError, VerifyError
from planish.filenames import file_name
from planish.stages import pipeline
from planish.stages.pipeline import LINE_STAGES, STAGES, Machine, disabled, phase_after, run, steps
from planish.target import TARGETS
from planish.uop.interpret import interpret
from planish.uop.matcher import Matcher
from planish.uop.node import Table, UOp
from planish.uop.ops import AxisType, Ops
from planish.uop.spec import PHASES
from planish.uop.text import parse, parse_lines, print_graph, print_lines
from tests.placed import Action, ActionKind
from tests.stages.kernels import buffers_of, random_kernel, store

f32 = dtypes.float32
ROOT = Path(pipeline.__file__).parent


def kernel(t: Table) -> UOp:
    """out[i] = Σ a[i, r] where r < 5, times two."""
    i, r = t.range(8, 0), t.range(6, 1, AxisType.REDUCE)
    x = (r < 5).where(t.param(1, f32, 48).index(i * 6 + r), t.const(0.0, f32))
    return store(t.param(0, f32, 8), x.reduce(Ops.ADD, r) * t.const(2.0, f32), i)


def vectors() -> Machine:
    actions = (Action(ActionKind.UPCAST, 0, 4),)
    return Machine(TARGETS["x86-64"], lambda sink: actions)


# -- the table -----------------------------------------------------------------------------------------------------


def test_all_22_stages_are_there_in_order():
    numbers = [stage.number for stage in (*STAGES, *LINE_STAGES)]
    assert numbers == list(range(1, 23))


def test_every_stage_is_a_module_of_its_own():
    for stage in (*STAGES, *LINE_STAGES):
        found = list(ROOT.glob(f"*/s{stage.number:02}_*.py"))
        assert len(found) == 1, stage


@pytest.mark.parametrize("stage", [*STAGES, *LINE_STAGES], ids=lambda stage: stage.name)
def test_the_matchers_of_a_stage_exist_by_name(stage: pipeline.PipelineStage):
    (path,) = ROOT.glob(f"*/s{stage.number:02}_*.py")
    module = importlib.import_module(f"planish.stages.{path.parent.name}.{path.stem}")
    known = {m.name: m for m in vars(module).values() if isinstance(m, Matcher)}
    known |= {name: m for name, m in vars(module).items() if isinstance(m, Matcher)}
    for name in stage.matchers:
        assert name in known or any(name in other.split(" + ") for other in known), (
            stage.name,
            sorted(known),
        )


def test_phases_are_phases_of_the_spec():
    assert set(pipeline.PHASES.values()) <= PHASES.keys()
    assert [phase_after(n) for n in (0, 1, 8, 9, 10, 11, 12, 13, 14, 15, 20, 21, 22)] == [
        "kernel", "kernel", "kernel", "unrolled", "expanded", "reduced", "reduced", "devectorized", "devectorized",
        "lowered", "lowered", "program", "program",
    ]  # fmt: skip


# -- one by one ----------------------------------------------------------------------------------------------------


def test_steps_tell_what_each_stage_made_and_how_long_it_took():
    with Table() as t:
        made = list(steps(kernel(t), vectors()))
        assert [step.stage.number for step in made] == list(range(1, 23))
        assert all(step.seconds >= 0 for step in made)
        changed = {step.stage.number for step in made if step.changed}
        assert {7, 9, 11, 13, 14, 15, 21} <= changed
        assert not {1, 3, 17} & changed
        assert made[-1].form == run(kernel(t), vectors())


def test_every_step_can_be_printed_parsed_and_executed():
    with Table() as t:
        sink = kernel(t)
        memory = buffers_of(sink)
        expected = interpret(sink, memory)
        for step in steps(sink, vectors()):
            if isinstance(step.form, UOp):
                assert parse(print_graph(step.form), t) is step.form
            else:
                assert parse_lines(print_lines(step.form), t) == step.form
            found = interpret(step.form, memory, undefined=[0])
            np.testing.assert_array_equal(found[0], expected[0], err_msg=step.stage.name)


def test_observers_see_every_graph():
    seen = []
    with Table() as t:
        run(kernel(t), vectors(), lambda stage, sink: seen.append((stage.number, sink.op)))
    assert seen == [(stage.number, Ops.SINK) for stage in STAGES]


# -- left out ------------------------------------------------------------------------------------------------------

OPTIONAL = [stage for stage in STAGES if stage.optional]


def test_stages_are_named_or_numbered():
    assert disabled(None) == disabled("") == frozenset()
    assert disabled("load collapse, split_store,16") == {2, 6, 16}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("remove reduce", r"stage 11 \(remove reduce\) cannot be left out: later stages need what it does"),
        ("22", "stage 22"),
        ("load colapse", "there is no stage 'load colapse'; did you mean 'load collapse'"),
        ("99", "there is no stage '99'"),
    ],
)
def test_what_cannot_be_left_out_is_refused(text: str, message: str):
    with pytest.raises(SettingsError, match=message):
        disabled(text)
    with (
        Table() as t,
        settings(disable_stages=text),
        pytest.raises(SettingsError, match="may be left out: load"),
    ):
        run(kernel(t))


@pytest.mark.parametrize("stage", OPTIONAL, ids=lambda stage: stage.name)
def test_without_an_optional_stage_results_are_the_same(stage: pipeline.PipelineStage):
    for seed in range(4):
        with Table() as t:
            sink = kernel(t) if not seed else random_kernel(random.Random(seed), t)
            memory = buffers_of(sink, seed)
            expected = interpret(sink, memory)
            with settings(disable_stages=stage.name):
                numbers = [step.stage.number for step in steps(sink)]
                found = interpret(run(sink, vectors() if not seed else pipeline.PLAIN), memory)
            assert stage.number not in numbers
            np.testing.assert_array_equal(found[0], expected[0], err_msg=f"seed {seed}")


def test_all_optional_stages_can_be_left_out_together():
    with Table() as t, settings(disable_stages=",".join(stage.name for stage in OPTIONAL)):
        sink = kernel(t)
        memory = buffers_of(sink)
        np.testing.assert_array_equal(interpret(run(sink), memory)[0], interpret(sink, memory)[0])


# -- checked -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [stage.number for stage in STAGES])
def test_a_stage_that_breaks_the_spec_is_named_with_the_node(number: int, monkeypatch: pytest.MonkeyPatch):
    """A STORE to a constant: illegal in every phase."""

    def broken(sink: UOp, machine: Machine) -> UOp:
        zero = sink.table.const(0.0, f32)
        return sink.table.sink(*sink.src, sink.table.make(Ops.STORE, dtypes.void, (zero, zero)))

    changed = tuple(s._replace(run=broken) if s.number == number else s for s in STAGES)
    monkeypatch.setattr(pipeline, "STAGES", changed)
    (stage,) = (s for s in STAGES if s.number == number)
    with Table() as t, settings(check="spec"), pytest.raises(VerifyError) as caught:
        run(kernel(t), vectors(), name="rows")
    text = str(caught.value)
    assert text.startswith(
        f"rows, after stage {number} ({stage.name}): the {phase_after(number)} spec is broken"
    )
    assert "a STORE writes to a place" in text
    assert " = store 0.0" in text


def test_an_access_outside_is_found_by_its_bounds():
    with Table() as t:
        i = t.range(4, 0)
        sink = store(t.param(0, f32, 4), t.param(1, f32, 4).index(i + 4), i)
        with settings(check="spec"), pytest.raises(VerifyError, match="outside its bounds") as caught:
            run(sink)
    assert "in a buffer of 4 elements" in str(caught.value)
    with Table() as t, settings(check="none"):
        run(kernel(t))


def test_a_kernel_that_is_scheduled_wrong_is_found_before_the_first_stage():
    with Table() as t:
        open_range = t.sink(t.param(0, f32, 4).index(t.range(4, 0)).store(t.const(1.0, f32)))
        with settings(check="spec"), pytest.raises(VerifyError, match=r"^kernel, as scheduled: "):
            run(open_range)


# -- printed and dumped --------------------------------------------------------------------------------------------


def test_debug_prints_every_stage(capsys: pytest.CaptureFixture[str]):
    with Table() as t, settings(debug="ir"):
        sink = kernel(t)
        lines = run(sink, vectors(), name="rows")
        last = print_lines(lines)
        first = print_graph(sink)
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"// rows: as scheduled\n{first}")
    assert [f"// rows: after stage {s.number} ({s.name})" in told.err for s in (*STAGES, *LINE_STAGES)] == [
        True
    ] * 22
    assert "// rows: after stage 3 (split ranges), unchanged\n// rows: after stage 4" in told.err
    assert last in told.err


def test_dumps_have_a_file_per_kernel_and_stage(tmp_path: Path):
    with Table() as t, settings(dump_dir=str(tmp_path)):
        sink = kernel(t)
        run(sink, vectors(), name="rows 8")
        names = sorted(path.name for path in (tmp_path / file_name("rows 8")).iterdir())
        assert names[:3] == ["00_scheduled.uop", "01_early_movement_ops.uop", "02_load_collapse.uop"]
        assert names[-2:] == ["21_linearize.uop", "22_clean_up_if.uop"]
        assert len(names) == 23
        folder = tmp_path / file_name("rows 8")
        assert parse((folder / "00_scheduled.uop").read_text(), t) is sink
        assert (folder / "01_early_movement_ops.uop").read_text() == "# as in 00_scheduled.uop\n"
        assert parse_lines((folder / "22_clean_up_if.uop").read_text(), t) == run(sink, vectors())
