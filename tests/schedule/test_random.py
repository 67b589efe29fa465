"""Random functions: what the scheduler makes of them computes what they mean."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from planish import compiler
from planish.target import TARGETS
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


V4 = TARGETS["x86-64-v4"]
EXTREMES = {
    "everything that is needed again is stored": replace(V4, launch=0.0, ports=1e-3),
    "nothing is": replace(V4, bytes_per_cycle=(1e-3, 1e-3, 1e-3)),
}
"""Machines whose prices leave no doubt: on those as they are, functions this small are computed again."""


@pytest.mark.parametrize("name", EXTREMES)
@pytest.mark.parametrize("seed", range(1, 60, 3))
def test_whatever_is_stored_the_results_are_the_same(name: str, seed: int) -> None:
    made = Generator(seed)
    wanted = reference(made.function, made.arrays)
    _equal(compiler.lower(made.function, EXTREMES[name]).interpreted()(*made.arrays), wanted, seed)


def test_machines_of_extreme_prices_store_more_and_less() -> None:
    def stored(name: str) -> int:
        lowered = (compiler.lower(Generator(seed).function, EXTREMES[name]) for seed in range(12))
        return sum(len(each.plan.launches) for each in lowered)

    everything, nothing = map(stored, EXTREMES)
    assert everything > nothing


@pytest.mark.fuzz
@pytest.mark.parametrize("start", range(1000, 3000, 100))
def test_many_random_functions(start: int) -> None:
    for seed in range(start, start + 100):
        made = Generator(seed, steps=20)
        wanted = reference(made.function, made.arrays)
        _equal(run_graphs(made.function, made.arrays).results, wanted, seed)
        _equal(run_programs(made.function, made.arrays, target="x86-64-v4").results, wanted, seed)
        for target in EXTREMES.values():
            _equal(compiler.lower(made.function, target).interpreted()(*made.arrays), wanted, seed)
