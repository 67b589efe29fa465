"""Random programs that assign to tensors under transforms, against plain Python (`transform_oracle`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import planish as pn
from tests.frontend import transform_oracle
from tests.frontend.assignment_programs import compiled, source
from tests.frontend.transform_chains import PLANISH, wrapper

Program = Callable[..., list[Any]]
GIVEN = ([0.3, -0.7, 1.1, 0.45], [-0.2, 0.9, 0.6, -1.3])


AROUND: dict[str, Callable[[Program], Program]] = {
    "nothing": lambda f: f,
    "jit": pn.jit,
    "vmap": lambda f: lambda *args: [x[1] for x in pn.vmap(f)(*[pn.stack([x * 0, x]) for x in args])],
    "vjp": lambda f: lambda *args: pn.vjp(f, *args)[0],
    "jvp": lambda f: lambda *args: pn.jvp(f, args, args)[0],
    "jit of jvp": lambda f: pn.jit(lambda *args: pn.jvp(f, args, args)[0]),
}
"""What the whole program is done to, besides what it does itself; its results are the same."""


def check(seed: int, device: str) -> None:
    text = source(seed)
    program = compiled(text)
    expected = program(
        transform_oracle, wrapper(transform_oracle), *[transform_oracle.Array(x) for x in GIVEN]
    )
    around = list(AROUND)[seed % len(AROUND)]
    try:
        with pn.settings(device=device):
            run = AROUND[around](lambda a0, a1: program(PLANISH, wrapper(PLANISH), a0, a1))
            made = run(*[pn.asarray(x, dtype=pn.float64) for x in GIVEN])
            pn.realize(made)
            for ours, theirs in zip(made, expected, strict=True):
                np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-7, atol=1e-9)
    except Exception as error:
        error.add_note(f"seed {seed}, {around} around\n{text}")
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
