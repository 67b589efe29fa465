"""Loops that finish a sum of several threads are run by those who store it; where all look at it, by all."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import compiler
from planish.codegen import cuda
from planish.config import settings
from planish.llir.interpret import interpret
from planish.llir.program import Program

FEW = re.compile(r"\? \d+ : 0\)")
"""A loop that most threads do not run."""


def program_of(function: Any, x: Any) -> Program:
    (program,) = compiler.lower(pn.jit(function).lower(pn.asarray(x)).function, "sm_90").programs
    return program


@pytest.mark.parametrize("blocks", [1, 3])
def test_one_thread_of_a_group_adds_up_the_parts(blocks: int) -> None:
    x = np.random.default_rng(blocks).standard_normal((64, 16 * blocks)).astype(np.float32)
    with settings(schedule="upcast(i, 4); local(i.outer, 4); group(j, 16)", check="spec"):
        program = program_of(lambda x: pn.sum(x, axis=0), x)
    assert len(FEW.findall(cuda.render(program))) == 1
    result = np.zeros(16 * blocks, np.float32)
    counters = interpret(program, [result, x])
    np.testing.assert_allclose(result, x.sum(0), rtol=1e-4, atol=1e-4)
    # 64 threads add up 4 rows each; then four threads the 16 parts, one for each access of sixteen bytes
    assert counters.instructions["end"] == blocks * (64 * 4 + 4 * 16)


def test_a_sum_that_all_look_at_is_added_up_by_all() -> None:
    rows = np.zeros((4, 8192), np.float32)
    assert "__syncthreads" in cuda.render(program_of(pn.nn.softmax, rows))
    assert not FEW.search(cuda.render(program_of(pn.nn.softmax, rows)))
