"""The movement rules on random programs: same results, a normal form that stays, and no pattern breaks its word."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from tests.ptir import golden_cases as golden
from tests.ptir.movement_programs import MovementPrograms


def check(seed: int, steps: int):
    program = MovementPrograms(seed, steps=steps).build()
    original = program.clone()
    golden.canonicalize(program)
    assert not golden.problems(program)
    again = golden.canonicalize(program)
    assert not again.changed, f"a second run still finds something to do:\n{again}"
    rng = np.random.default_rng(zlib.crc32(str(seed).encode()))
    for sizes in golden.size_choices(original.entry):
        inputs = golden.random_inputs(original.entry, sizes, rng, tame=bool(rng.random() < 0.5))
        wanted = golden.run(original, inputs)
        given = golden.run(program, inputs)
        for number, (left, right) in enumerate(zip(wanted, given, strict=True)):
            found = golden.difference(left, right, close=False)
            if found is not None:
                print(golden.show(original), golden.show(program), sep="\n")
            assert found is None, f"seed {seed}, result {number}:\n{found}"


@pytest.mark.parametrize("seed", range(60))
def test_random_programs_keep_their_meaning(seed: int):
    check(seed, steps=8)


@pytest.mark.fuzz
@pytest.mark.parametrize("start", range(1000, 3000, 100))
def test_many_random_programs_keep_their_meaning(start: int):
    for seed in range(start, start + 100):
        check(seed, steps=16)
