"""Scatters into a constant with one update per row: comparisons, computed where they are read, to the bit what a scatter stores."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import compiler
from planish.compiler.grids import grid_of
from planish.nn import functional
from tests.schedule.running import reference

RNG = np.random.default_rng(0)
ROWS = np.arange(6)
CHOSEN = np.array([3, 0, -1, 9, 4, 7])  # one from the end, one nowhere


def data(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def with_negative_zero() -> Any:
    return np.array([-0.0, 1.5, np.nan, -np.inf, 0.0, -2.0], np.float32)


CASES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "add": (lambda i, x: pn.zeros((6, 8)).at[pn.arange(6), i].add(x), (CHOSEN, with_negative_zero())),
    "set": (lambda i, x: pn.full((6, 8), 7.0).at[pn.arange(6), i].set(x), (CHOSEN, data(6))),
    "max": (lambda i, x: pn.zeros((6, 8)).at[pn.arange(6), i].max(x), (CHOSEN, data(6))),
    "columns": (lambda i, x: pn.zeros((8, 6)).at[i, pn.arange(6)].add(x), (CHOSEN, data(6))),
    "rows of rows": (
        lambda i, x: pn.zeros((6, 8, 5)).at[pn.arange(6), i].add(x),
        (CHOSEN, data(6, 5)),
    ),
    "two chosen": (
        lambda i, j, x: pn.zeros((6, 8, 9)).at[pn.arange(6), i, j].add(x),
        (CHOSEN, CHOSEN[::-1].copy(), data(6)),
    ),
    "diagonal": (lambda x: pn.zeros((6, 6)).at[pn.arange(6), pn.arange(6)].add(x), (data(6),)),
    "one place": (lambda i, x: pn.zeros((8, 5)).at[i].set(x), (np.array(3), data(5))),
    "unsigned": (
        lambda i, x: pn.zeros((6, 8)).at[pn.arange(6), i].add(x),
        (np.array([3, 0, 2**64 - 1, 9, 4, 7], np.uint64), data(6)),
    ),
    "narrow": (
        lambda i, x: pn.zeros((6, 8), dtype=pn.bfloat16).at[pn.arange(6), i].add(x.astype(pn.bfloat16)),
        (CHOSEN, data(6)),
    ),
    "sum of it": (
        lambda i, x: pn.sum(-pn.zeros((6, 8)).at[pn.arange(6), i].add(x), axis=1),
        (CHOSEN, with_negative_zero()),
    ),
    "sum of all": (
        lambda i, x: pn.sum(pn.zeros((6, 8)).at[pn.arange(6), i].add(x) * 2.0),
        (CHOSEN, data(6)),
    ),
    "sum of others as well": (
        lambda i, x: pn.sum(pn.exp(pn.zeros((6, 8)).at[pn.arange(6), i].add(x)), axis=1),
        (CHOSEN, data(6)),
    ),
}


@pytest.mark.parametrize("target", ["x86-64-v3", "sm_90"])
@pytest.mark.parametrize("name", CASES)
def test_elements_ask_for_their_update(name: str, target: str) -> None:
    """What the reference makes of the program, which knows nothing of this."""
    function, arrays = CASES[name]
    traced = pn.jit(function).lower(*map(pn.asarray, arrays)).function
    lowered = compiler.lower(traced, target)
    assert not any(kernel.name.startswith("scatter") for kernel in lowered.plan.kernels)
    (wanted,) = reference(traced, arrays)
    (found,) = lowered.interpreted()(*arrays)
    if name.startswith("sum"):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    else:
        assert np.asarray(found).tobytes() == wanted.tobytes()


def test_updates_that_may_meet_are_stored_one_after_the_other() -> None:
    specs = pn.TensorSpec((6, 3), pn.int64), pn.TensorSpec((6, 3), pn.float32)
    function = lambda i, x: pn.zeros((6, 8)).at[pn.arange(6)[:, None], i].add(x)  # noqa: E731
    lowered = compiler.lower(pn.jit(function).lower(*specs).function, "sm_90")
    assert any(kernel.name.startswith("scatter") for kernel in lowered.plan.kernels)


@pytest.mark.parametrize("classes", [1000, 32000, 50257, 128256])
@pytest.mark.parametrize("dtype", [pn.float32, pn.bfloat16])
def test_a_gradient_of_class_scores_reads_them_and_writes_them(classes: int, dtype: Any) -> None:
    """No zeros in memory, and no thread that does a row alone."""
    specs = pn.TensorSpec((512, classes), dtype), pn.TensorSpec((512,), pn.int64)
    traced = pn.jit(pn.grad(lambda x, t: functional.cross_entropy(x, t))).lower(*specs).function
    lowered = compiler.lower(traced, "sm_90")
    (program,) = [p for p in lowered.programs if sum(b.elements >= 512 * classes for b in p.params) > 0]
    grid = grid_of(program)
    assert len(program.params) <= 4
    assert 512 * classes / (prod(map(int, grid.blocks)) * prod(map(int, grid.threads))) <= 256
