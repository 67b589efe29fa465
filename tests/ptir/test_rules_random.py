"""Canonicalisation of random programs over all ops: the same results, and a normal form that stays.

Reductions may be reordered by a rule, so float results are compared exactly only in programs without them.
"""

from __future__ import annotations

import numpy as np
import pytest

from planish.ptir.function import Program
from planish.ptir.passes import PassManager
from tests.ptir import golden_cases as golden
from tests.ptir.generate import HOST, ROUNDING, random_inputs, random_program

PIPELINE = "canonicalize{expensive-checks=true},cse,dce"


def check(program: Program, seed: int, *, close: bool):
    original = program.clone()
    PassManager.parse(PIPELINE).run(program)
    assert not golden.problems(program)
    inputs = random_inputs(original, seed, odd=not close)
    wanted = golden.run(original, inputs)
    given = golden.run(program, [np.array(array) for array in inputs])
    for number, (left, right) in enumerate(zip(wanted, given, strict=True)):
        found = golden.difference(left, right, close=close)
        assert found is None, (
            f"seed {seed}, result {number}:\n{found}\n{golden.show(original)}\n{golden.show(program)}"
        )


def check_idempotent(program: Program):
    golden.canonicalize(program)
    text = golden.show(program)
    again = golden.canonicalize(program)
    assert not again.changed, f"a second run still finds something to do:\n{again}\n{text}"


@pytest.mark.parametrize("seed", range(40))
def test_the_pipeline_keeps_exact_results(seed: int):
    check(random_program(seed, exclude=ROUNDING | HOST), seed, close=False)


@pytest.mark.parametrize("seed", range(40, 60))
def test_the_pipeline_keeps_rounded_results(seed: int):
    check(random_program(seed, exclude=HOST), seed, close=True)


@pytest.mark.parametrize("seed", range(60, 90))
def test_a_second_run_finds_nothing_to_do(seed: int):
    check_idempotent(random_program(seed, size=30))


@pytest.mark.fuzz
@pytest.mark.parametrize("start", range(10_000, 12_000, 100))
def test_many_programs_keep_exact_results(start: int):
    for seed in range(start, start + 100):
        program = random_program(seed, size=25, exclude=ROUNDING | HOST)
        check_idempotent(program.clone())
        check(program, seed, close=False)


@pytest.mark.fuzz
@pytest.mark.parametrize("start", range(12_000, 12_500, 100))
def test_many_programs_keep_rounded_results(start: int):
    for seed in range(start, start + 100):
        check(random_program(seed, size=25, exclude=HOST), seed, close=True)
