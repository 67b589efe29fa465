"""What is said of a plan is so: why something is in memory, and whose memory that is."""

from __future__ import annotations

import re

import numpy as np

import planish as pn

X = pn.TensorSpec((8, 8))


def test_what_the_host_takes_is_no_result():
    exe = pn.jit(lambda x: pn.linalg.eigh(x @ x.T)[0]).lower(X).compile()
    told = exe.why()
    assert "in memory: taken: a loop, a branch, a size or an op on the host takes it from memory" in told
    assert "it is a result" in pn.jit(lambda x: x @ x.T).lower(X).compile().why()


def test_a_plan_says_which_buffers_are_one_memory():
    step = pn.jit(lambda x: pn.fori_loop(0, 9, lambda i, c: pn.tanh(c) + 1.0, x), donate_argnums=0)
    told = step.lower(X).as_text("plan")
    assert re.search(r"^b0: f32\[64\] parameter 0 donated$", told, re.MULTILINE)
    assert re.search(r"^b\d+: f32\[64\] result 0, in the memory of b0$", told, re.MULTILINE)
    out = step(pn.asarray(np.zeros((8, 8), np.float32)))
    assert out.shape == (8, 8)


def test_an_effect_is_told_by_something_that_changes():
    exe = pn.jit(lambda x: pn.tanh(x) + 1.0).lower(pn.TensorSpec((512, 512))).compile()
    lines = [line for line in exe.why().splitlines() if " by the model" in line]
    assert lines
    for line in lines:
        found = re.search(r"; (?:\S+ )?(\S+) -> (\S+) (?:cycles|pieces), ", line)
        assert found is not None
        assert found.group(1) != found.group(2)
