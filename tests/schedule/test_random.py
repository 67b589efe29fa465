"""Random functions: what the scheduler makes of them computes what they mean."""

from __future__ import annotations

import numpy as np
import pytest

from planish import compiler
from tests.schedule.generate import Generator
from tests.schedule.running import reference, run_graphs, run_programs


def _equal(found: tuple[object, ...], expected: tuple[object, ...], seed: int) -> None:
    for number, (have, want) in enumerate(zip(found, expected, strict=True)):
        np.testing.assert_array_equal(have, want, err_msg=f"seed {seed}, result {number}")


@pytest.mark.parametrize("seed", [*range(60), 96, 323, 4583, 4822])
def test_graphs_of_random_functions(seed: int) -> None:
    made = Generator(seed)
    _equal(run_graphs(made.function, made.arrays).results, reference(made.function, made.arrays), seed)


@pytest.mark.parametrize("seed", range(0, 60, 6))
def test_programs_of_random_functions(seed: int) -> None:
    made = Generator(seed)
    wanted = reference(made.function, made.arrays)
    _equal(run_programs(made.function, made.arrays).results, wanted, seed)
    _equal(run_programs(made.function, made.arrays, target="x86-64-v3").results, wanted, seed)


@pytest.mark.parametrize("seed", range(3, 60, 12))
def test_native_code_of_random_functions(seed: int) -> None:
    made = Generator(seed)
    _equal(compiler.lower(made.function).compile()(*made.arrays), reference(made.function, made.arrays), seed)


@pytest.mark.fuzz
@pytest.mark.parametrize("start", range(1000, 3000, 100))
def test_many_random_functions(start: int) -> None:
    for seed in range(start, start + 100):
        made = Generator(seed, steps=20)
        wanted = reference(made.function, made.arrays)
        _equal(run_graphs(made.function, made.arrays).results, wanted, seed)
        _equal(run_programs(made.function, made.arrays, target="x86-64-v4").results, wanted, seed)
