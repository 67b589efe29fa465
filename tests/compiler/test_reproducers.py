"""An internal error leaves a file behind by which `planish bisect` finds the stage at fault."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import planish as pn
from planish import compiler, ptir
from planish.cli import main
from planish.compiler import bisect, scheduling
from planish.errors import InternalError, LoweringError
from planish.ptir.rewrite.reproducer import read_reproducer
from planish.stages import pipeline


def _function() -> ptir.Function:
    graph = ptir.Graph("f")
    return graph.build(graph.input("x", ptir.tensor("f32", (8,))).exp())


def _break(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def broken(*args: object) -> None:
        raise error

    monkeypatch.setattr(scheduling, "lower_to_llir", broken)
    monkeypatch.setattr(bisect, "lower_to_llir", broken)


def test_a_bug_leaves_a_file_that_bisect_accepts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    _break(monkeypatch, KeyError("lost"))
    with (
        pn.settings(cache=False, dump_dir=str(tmp_path), fastmath=True),
        pytest.raises(InternalError, match="KeyError: 'lost'") as caught,
    ):
        compiler.compile(_function())
    place = caught.value.reproducer
    assert place is not None
    assert Path(place).parent == tmp_path
    found = read_reproducer(Path(place).read_text())
    assert found.pipeline == compiler.PIPELINE
    assert (found.facts["target"], found.facts["set"]) == ("host", "fastmath=True")
    assert isinstance(caught.value.__cause__, KeyError)
    assert main(["bisect", place]) == 1
    assert "LLIR: it fails\n  KeyError: 'lost'" in capsys.readouterr().out
    assert "PLANISH_FASTMATH" not in os.environ


def test_a_refusal_is_no_bug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    _break(monkeypatch, LoweringError("not this"))
    with pn.settings(cache=False, dump_dir=str(tmp_path)), pytest.raises(LoweringError):
        compiler.lower(_function())
    assert not list(tmp_path.glob("reproducer-*"))


def test_an_internal_error_stays_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    error = InternalError("lost")
    _break(monkeypatch, error)
    with pn.settings(cache=False, dump_dir=str(tmp_path)), pytest.raises(InternalError) as caught:
        compiler.lower(_function(), passes=None)
    assert caught.value is error
    assert error.reproducer is not None
    assert read_reproducer(Path(error.reproducer).read_text()).pipeline == ""


def test_where_nothing_can_be_written_the_error_is_told_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "file" / "x"))
    _break(monkeypatch, KeyError("lost"))
    with pytest.raises(InternalError) as caught, pn.settings(cache=False):
        compiler.lower(_function())
    assert caught.value.reproducer is None


def test_a_stage_that_raises_anything_is_named(monkeypatch: pytest.MonkeyPatch):

    def broken(*args: object) -> None:
        raise ZeroDivisionError("by zero")

    stage = next(s for s in pipeline.STAGES if s.number == 4)
    monkeypatch.setattr(
        pipeline, "STAGES", [s._replace(run=broken) if s is stage else s for s in pipeline.STAGES]
    )
    culprit = bisect.bisect(ptir.Program([_function()]), [np.ones(8, np.float32)])
    assert culprit is not None
    assert (culprit.finding.stage, culprit.finding.kind) == (4, "crash")
    assert "ZeroDivisionError: by zero" in culprit.finding.what


def test_an_internal_error_of_a_run_leaves_its_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pn.settings(cache=False, dump_dir=str(tmp_path)):
        made = compiler.compile(_function())

        def broken(*args: object) -> None:
            raise InternalError("the code of a function returned 77")

        monkeypatch.setattr(made, "_compute", broken)
        with pytest.raises(InternalError) as caught:
            made.general(np.ones(8, np.float32))
        assert caught.value.reproducer is not None
        found = read_reproducer(Path(caught.value.reproducer).read_text())
        assert found.pipeline == ""
        assert "exp" in Path(caught.value.reproducer).read_text()
        assert main(["bisect", caught.value.reproducer]) == 0  # its code is right: the fault is the run's

        def theirs(*args: object) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(made, "_compute", theirs)
        with pytest.raises(ZeroDivisionError):
            made.general(np.ones(8, np.float32))
    assert len(list(tmp_path.glob("reproducer-*"))) == 1
