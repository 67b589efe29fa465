"""Ahead of time: levels made when they are asked for, and passes of the user's own on the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import planish as pn
from planish import compiler, ptir
from planish.errors import PlanishError


@pytest.fixture
def stages_run(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of every stage that runs."""
    from planish.stages import pipeline

    seen: list[int] = []

    def counted(stage):
        def run(form, machine):
            seen.append(stage.number)
            return stage.run(form, machine)

        return stage._replace(run=run)

    monkeypatch.setattr(pipeline, "STAGES", tuple(map(counted, pipeline.STAGES)))
    monkeypatch.setattr(pipeline, "LINE_STAGES", tuple(map(counted, pipeline.LINE_STAGES)))
    return seen


def test_levels_are_made_when_they_are_asked_for(stages_run: list[int], tmp_path):
    x = pn.asarray(np.ones((8, 4), np.float32))
    with pn.settings(cache=True, cache_dir=str(tmp_path)):
        low = pn.jit(lambda x: (pn.tanh(x), pn.sort(x, axis=0))).lower(x)
        kernels = len(low._levels.lowered.programs)  # lowered now, to know how many there are
        assert len(stages_run) == 22 * kernels
        stages_run.clear()
        low = pn.jit(lambda x: (pn.tanh(x), pn.sort(x, axis=0))).lower(x)
        for level in ("ptir", "plan", "uop"):
            assert low.as_text(level)
            assert stages_run == []
        assert low.as_text("uop:5")
        assert stages_run == [1, 2, 3, 4, 5] * kernels
        stages_run.clear()
        assert low.as_text("llir")
        assert stages_run == [*range(1, 23)] * kernels
        stages_run.clear()
        assert low.as_text("uop:14")
        assert stages_run == [*range(1, 15)] * kernels
        low.compile()
        stages_run.clear()
        # another process would find machine code and schedules in the cache; texts are made again, once, if they are asked for
        again = pn.jit(lambda x: (pn.tanh(x), pn.sort(x, axis=0))).lower(x)
        again.compile()
        assert stages_run == []
        assert again.as_text("llir") == low.as_text("llir")
        assert again.as_text("asm") == low.as_text("asm")
        assert stages_run == [*range(1, 23)] * kernels


def test_levels_are_those_of_an_eager_lowering():
    low = pn.jit(lambda x, w: pn.tanh(x @ w)).lower(pn.TensorSpec((8, 4)), pn.TensorSpec((4, 3)))
    whole = compiler.lower(low.function)
    for level in ("ptir", "plan", "uop", "uop:3", "uop:22", "llir", "llvm", "c"):
        assert low.as_text(level) == whole.as_text(level)
    with pytest.raises(PlanishError, match="no stage 23; one of 1, 2, "):
        low.as_text("uop:23")
    with pytest.raises(PlanishError, match="unknown level 'llr'"):
        low.as_text("llr")


def test_levels_keep_the_settings_they_were_asked_for_under():
    with pn.settings(target="x86-64-v3"):
        low = pn.jit(lambda x: x * 2 + 1).lower(pn.TensorSpec((64,)))
    assert "512" not in low.as_text("asm")
    with pn.settings(target="x86-64-v3"):
        assert low.as_text("llir") == compiler.lower(low.function).as_text("llir")


class _ExpToTanh(ptir.Pattern[ptir.Inst]):
    """exp(x) -> tanh(x)."""

    roots = (ptir.ops.exp,)

    def match_and_rewrite(self, op, rw):
        rw.replace_with(op, ptir.ops.tanh, op.operands)
        return True


def test_passes_of_ones_own_reach_compiled_functions(tmp_path):
    own = ptir.CanonicalizePass(extra_patterns=(_ExpToTanh,))
    x = np.linspace(0, 1, 8, dtype=np.float32)
    with pn.settings(cache=True, cache_dir=str(tmp_path)):
        plain = pn.jit(lambda x: pn.exp(x))(pn.asarray(x))
        changed = pn.jit(lambda x: pn.exp(x), passes=[compiler.PIPELINE, own])
        np.testing.assert_allclose(changed(pn.asarray(x)).numpy(), np.tanh(x), rtol=1e-6)
        np.testing.assert_allclose(plain.numpy(), np.exp(x), rtol=1e-6)
        low = changed.lower(pn.asarray(x))
        assert "tanh" in low.as_text("ptir")
        np.testing.assert_allclose(low.compile()(pn.asarray(x)).numpy(), np.tanh(x), rtol=1e-6)
        # nothing says when a pass of one's own has changed, so nothing of it is kept
        np.testing.assert_allclose(pn.jit(lambda x: pn.exp(x))(pn.asarray(x)).numpy(), np.exp(x), rtol=1e-6)


def test_passes_may_be_text_and_mistakes_in_them_are_found_at_once():
    x = pn.asarray(np.ones((2, 3), np.float32))
    text = "inline,expand,expand-complex,canonicalize{max-iterations=1},dce"
    assert pn.jit(lambda x: x.T + 1, passes=text)(x).shape == (3, 2)
    with pytest.raises(PlanishError, match="no pass 'csee'; did you mean cse"):
        pn.jit(lambda x: x, passes="csee")


def test_a_pass_that_breaks_the_program_is_told_as_such():
    @dataclass(frozen=True)
    class Breaks:
        """Takes the results away."""

        name: ClassVar[str] = "breaks"

        def run(self, program, context=None):
            program.entry.body.set_results([])
            return ptir.PassResult(True)

    with pytest.raises(
        PlanishError,
        match=r"changed what @.* takes and gives: 1 parameters and 1 results have become 1 and 0",
    ):
        pn.jit(lambda x: x + 1, passes=[compiler.PIPELINE, Breaks()])(pn.asarray(1.0))
