"""Random programs whose inputs are donated: views, named sizes, loops and branches, and whoever overwrites comes last."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import planish as pn
from planish import compiler, ptir
from planish.schedule.planner import plan as make_plan
from planish.schedule.sharing import share
from planish.schedule.verify import verify
from planish.uop.node import Table
from tests.ptir.generate import random_inputs, random_program
from tests.ptir.generate_ops import MAKERS
from tests.schedule.test_plan_random import close

Array = NDArray[Any]

SAVING = frozenset({
    "add", "mul", "neg", "select", "reshape", "transpose", "slice", "reverse", "concat", "reduce_max", "bitcast",
    "dynamic_update_slice", "scatter", "gather", "cond", "while", "scan", "call", "bind_dim", "dimension_size",
})  # fmt: skip
"""Ops that read memory late, through views, or change a part of it."""
LEFT_OUT = frozenset(MAKERS) - SAVING


def donated(seed: int, program: ptir.Program) -> list[int]:
    rng = random.Random(seed)
    return [n for n in range(len(program.entry.params)) if rng.random() < 0.7]


def prove(seed: int, size: int = 16) -> None:
    """The memory of a random program holds by the proof, without anything being generated."""
    program = random_program(seed, size, LEFT_OUT)
    with Table() as table:
        plan = make_plan(
            compiler.prepare(program, compiler.PIPELINE), table, frozenset(donated(seed, program))
        )
        verify(plan, share(plan))


def agree(seed: int, size: int = 12) -> None:
    """Machine code gives what the interpreter gives, and writes over nothing but what was donated."""
    program = random_program(seed, size, LEFT_OUT)
    given = donated(seed, program)
    run = compiler.lower(program, donate=given).compile()
    for attempt in range(2):
        inputs = random_inputs(program, seed + attempt, odd=False)
        arrays = [array.copy() for array in inputs]
        wanted, found = ptir.interpret(program, inputs), run(*arrays)
        assert all(map(close, wanted, found)), f"seed {seed}, donate {given}: {ptir.print(program)}"
        for number, (mine, theirs) in enumerate(zip(arrays, inputs, strict=True)):
            assert number in given or mine.tobytes() == theirs.tobytes(), f"input {number} was written"


@pytest.mark.parametrize("start", range(0, 100, 25))
def test_the_memory_of_donating_programs_is_proved(start):
    for seed in range(start, start + 25):
        prove(seed)


@pytest.mark.parametrize("seed", range(12))
def test_random_donations(seed):
    agree(seed)


@pytest.mark.fuzz
@pytest.mark.parametrize("start", range(0, 4000, 200))
def test_the_memory_of_many_donating_programs_is_proved(start):
    for seed in range(start, start + 200):
        prove(seed)


@pytest.mark.fuzz
@pytest.mark.parametrize("start", range(0, 1000, 50))
def test_many_random_donations(start):
    for seed in range(start, start + 50):
        agree(seed)


def twice(i, c):
    return c * 2


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda x: (x * 2, pn.fori_loop(0, 3, twice, x.reshape((-1,)))), (2, 2)),
        (lambda x: (pn.fori_loop(0, 3, twice, x.reshape((-1,))), x[0] + 1), (2, 2)),
        (lambda x: (pn.fori_loop(0, 3, twice, x), pn.fori_loop(0, 2, twice, x)), (4,)),
        (lambda x: (pn.fori_loop(0, 3, lambda i, c: pn.flip(c) + x, x), x - 1), (4,)),
        (lambda x: pn.cond(x[0] > 0, lambda x: (x * 2, pn.flip(x)), lambda x: (x, x + 1), x), (4,)),
        (
            lambda x: pn.fori_loop(
                0, 2, lambda i, c: pn.fori_loop(0, 2, lambda j, d: pn.flip(d) * 2, c) + 1, x
            ),
            (4,),
        ),
    ],
    ids=["view", "late row", "two loops", "captured", "branch", "nested"],
)
@pytest.mark.parametrize("named", [False, True])
def test_a_donated_input_is_overwritten_last(function, shape, named):
    x = np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)
    dims: dict[str | int, object] = {0: (pn.Dim("n", 1, 8), ...)}
    want = pn.jit(function)(pn.asarray(x))
    with pn.settings(check="spec", cache=False):
        found = pn.jit(function, donate_argnums=0, dims=dims if named else None)(pn.asarray(x.copy()))
    for one, other in zip(flat(found), flat(want), strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


def flat(found):
    return found if isinstance(found, tuple) else (found,)
