"""Random programs that assign to tensors under transforms, against plain Python (`transform_oracle`)."""

from __future__ import annotations

import numpy as np
import pytest

import planish as pn
from tests.frontend import transform_oracle
from tests.frontend.assignment_programs import compiled, source
from tests.frontend.transform_chains import PLANISH, wrapper

GIVEN = ([0.3, -0.7, 1.1, 0.45], [-0.2, 0.9, 0.6, -1.3])


def check(seed: int, device: str) -> None:
    text = source(seed)
    program = compiled(text)
    expected = program(transform_oracle, wrapper(transform_oracle), *map(transform_oracle.Array, GIVEN))
    try:
        with pn.settings(device=device):
            made = program(PLANISH, wrapper(PLANISH), *[pn.asarray(x, dtype=pn.float64) for x in GIVEN])
            pn.realize(made)
            for ours, theirs in zip(made, expected, strict=True):
                np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-7, atol=1e-9)
    except Exception as error:
        error.add_note(f"seed {seed}\n{text}")
        raise


@pytest.mark.parametrize("start", range(0, 80, 20))
def test_programs_interpreted(start):
    for seed in range(start, start + 20):
        check(seed, "interpreter")


def test_programs_compiled():
    for seed in range(1000, 1004):
        check(seed, "cpu")


@pytest.mark.fuzz
@pytest.mark.parametrize("start", range(10_000, 14_000, 100))
def test_many_programs(start):
    for seed in range(start, start + 100):
        check(seed, "interpreter")
