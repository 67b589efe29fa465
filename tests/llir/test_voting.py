"""Loops that threads vote on: found where a gate that all threads of a warp agree on stands before all that is stored, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

import planish as pn
from planish import compiler
from planish.codegen import cuda
from planish.config import settings
from planish.llir.program import Loop, Program
from planish.llir.voting import votes_of


def scattered(columns: int, schedule: str, rows: int = 64, entries: int = 300) -> Program:
    def added(places: Any, x: Any) -> Any:
        return pn.zeros((rows, columns)).at[places].add(x)

    specs = pn.TensorSpec((entries,), pn.int32), pn.TensorSpec((entries, columns), pn.float32)
    traced = pn.jit(added).lower(*specs).function
    names = [kernel.name for kernel in compiler.lower(traced, "sm_90").plan.kernels]
    (name,) = [each for each in names if each.startswith("scatter")]
    with settings(schedule=f"[{name}]\n{schedule}"):
        lowered = compiler.lower(traced, "sm_90")
    return next(p for p, k in zip(lowered.programs, lowered.plan.kernels, strict=True) if k.name == name)


def test_the_walk_over_a_list_is_voted_on() -> None:
    program = scattered(32, "local(j, 32); claim(i, 16)")
    (counter,) = [i.counter for i in program.body if isinstance(i, Loop)]
    vote = votes_of(program)[counter]
    assert vote.gate in {i.target for i in vote.made_by}
    assert sum(i.mnemonic == "load" for i in vote.made_by) == 1
    assert not any(i.mnemonic == "store" for i in vote.made_by)
    text = cuda.render(program)
    assert text.count("__ballot_sync") == 1
    assert text.count("{") == text.count("}")


@pytest.mark.parametrize(
    ("columns", "schedule", "why"),
    [
        (1, "claim(i, 64); local(i.outer, 32)", "every thread claims rows of its own"),
        (32, "local(j, 16); claim(i, 16)", "half a warp"),
    ],
)
def test_others_are_not(columns: int, schedule: str, why: str) -> None:
    assert "__ballot_sync" not in cuda.render(scattered(columns, schedule)), why


def test_what_the_kernel_writes_decides_nothing() -> None:
    program = scattered(32, "local(j, 32); claim(i, 16)")
    listed = program.params[1].name
    assert votes_of(program)
    assert not votes_of(program, {listed})  # its memory may be that of the result
