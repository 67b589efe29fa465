"""Every transform around every other, and around every kind of control flow, against plain Python (`transform_oracle`)."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import planish as pn
from tests.frontend import transform_oracle
from tests.frontend.transform_chains import PLANISH, SLOPES, TRANSFORMS, wrapper

A, B = [0.3, -0.7, 1.1, 0.45], [-0.2, 0.9, 0.6, -1.3]


def result(xp: Any, chain: str, a: Any, b: Any) -> Any:
    # to a rule for a derivative what comes from outside is constant
    moving = xp.asarray([0.5, 1.0, -0.5, 0.25]) if "custom" in chain else b * 0.5

    def f(x: Any, y: Any) -> Any:
        made = xp.sin(x * y) + y
        y[1:3] = x[::-1][0:2] * moving[2]
        made[0] = y[1] * x[3]
        return made * moving

    return wrapper(xp)(chain, f)(a, b)


def check(chain: str, device: str = "interpreter") -> None:
    expected = result(transform_oracle, chain, transform_oracle.Array(A), transform_oracle.Array(B)).numpy()
    with pn.settings(device=device):
        made = result(PLANISH, chain, pn.asarray(A, dtype=pn.float64), pn.asarray(B, dtype=pn.float64))
        np.testing.assert_allclose(made.numpy(), expected, rtol=1e-7, atol=1e-9, err_msg=chain)


@pytest.mark.parametrize("outer", TRANSFORMS)
def test_pairs(outer: str):
    for inner in TRANSFORMS:
        check(f"{outer} {inner}")


@pytest.mark.fuzz
@pytest.mark.parametrize("outer", TRANSFORMS)
def test_triples(outer: str):
    for pair in itertools.product(TRANSFORMS, repeat=2):
        if sum(SLOPES.get(name, 0) for name in (outer, *pair)) <= 3:
            check(" ".join((outer, *pair)))


@pytest.mark.fuzz
@pytest.mark.parametrize("outer", TRANSFORMS)
def test_compiled_pairs(outer: str):
    for inner in TRANSFORMS:
        check(f"jit {outer} {inner}", "cpu")
