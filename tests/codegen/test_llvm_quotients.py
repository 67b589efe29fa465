"""Quotients of lanes that a mask hides: LLVM 22 takes 0 / 0 for 0 and drops the mask, unless it does not see what divides."""

from __future__ import annotations

import numpy as np
import pytest

import planish as pn
from planish import compiler
from planish.config import settings


@pytest.mark.parametrize(
    "schedule", ["pad_to(l, 8); upcast(l, 8)", "pad_to(l, 16); upcast(l, 16)", "upcast(l, 7)"]
)
def test_hidden_quotients_of_zeros_stay_hidden(schedule: str) -> None:
    """The gradient of a mean over windows two apart: every other lane is no window, and 0 / 0 there."""
    rng = np.random.default_rng(0)
    x, slope = (rng.standard_normal(dims).astype(np.float32) for dims in ((2, 3, 6, 7), (2, 3, 4, 4)))
    pool = pn.nn.AvgPool2d((3, 2), 2, 1, True)
    traced = pn.jit(lambda x, slope: pn.vjp(pool, x)[1](slope)[0]).lower(pn.asarray(x), pn.asarray(slope))
    with settings(schedule=schedule):
        lowered = compiler.lower(traced.function)
    (found,), (wanted,) = lowered.compile()(x, slope), lowered.interpreted()(x, slope)
    np.testing.assert_array_equal(found, wanted)
    assert np.isfinite(found).all()
