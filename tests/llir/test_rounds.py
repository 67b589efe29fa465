"""Rounds through a ring: the steps of all buffers are written out, and results stay what they were."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

import planish as pn
from planish import compiler
from planish.codegen import cuda
from planish.config import settings
from planish.llir.interpret import interpret
from planish.llir.program import Compute, Immediate, Loop, Ops, Program


def product(k: int, buffers: int, stay: int = 0) -> Program:
    more = f", stay={stay}" if stay else ""
    schedule = f"tensor_core(wgmma_m64n8_bf16_f32_kk, i, j, k, buffers={buffers}, engine=true{more})"
    specs = pn.TensorSpec((128, k), pn.bfloat16), pn.TensorSpec((16, k), pn.bfloat16)
    with settings(schedule=schedule):
        (program,) = compiler.lower(pn.jit(lambda a, b: a @ b.T).lower(*specs).function, "sm_90").programs
    return program


def bounds(program: Program) -> list[tuple[int, int]]:
    """Of loops over rounds or steps: how many, and how many are written out."""
    found = [
        (i.bound.value, i.unroll)
        for i in program.body
        if isinstance(i, Loop) and isinstance(i.bound, Immediate)
    ]
    return cast("list[tuple[int, int]]", found[:2])


@pytest.mark.parametrize(
    ("k", "buffers", "stay", "wanted"),
    [
        (384, 3, 0, [(2, 1), (3, 3)]),
        (384, 2, 1, [(3, 1), (2, 2)]),
        (320, 3, 0, [(5, 5), (5, 5)]),  # no whole rounds, but few steps
        (448, 3, 0, [(7, 1), (7, 0)]),
    ],
)
def test_steps_are_in_rounds(k: int, buffers: int, stay: int, wanted: Any) -> None:
    program = product(k, buffers, stay)
    assert bounds(program) == wanted
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (rows, k)).astype(np.float32) for rows in (128, 16))
    given = [x.astype(pn.bfloat16.numpy).reshape(-1) for x in (a, b)]
    out = np.zeros(128 * 16, given[0].dtype)
    interpret(program, [out, *given])
    np.testing.assert_array_equal(
        out.astype(np.float32).reshape(128, 16), (a @ b.T).astype(out.dtype).astype(np.float32)
    )


def test_no_remainder_is_left_where_rounds_are_whole() -> None:
    program = product(512, 4)
    assert not any(isinstance(i, Compute) and i.op in {Ops.TRUNCMOD, Ops.TRUNCDIV} for i in program.body)
    text = cuda.render(program)
    waits = [line.strip() for line in text.splitlines() if line.strip().startswith("barrier_wait(")]
    assert len(waits) == 2
    assert all("/" not in line and " % 4" not in line for line in waits)
