"""Random scatters (`scatter_programs`): machine code writes in order what meets at one place, on one thread and on two."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import planish as pn
from tests.frontend.scatter_programs import scatter


def check(seed: int) -> None:
    program = scatter(seed)

    def function(x: Any, y: Any, idx: Any) -> Any:
        n, m = x.shape[0], y.shape[0]
        ones = pn.ones((n + program.more, program.width), dtype=getattr(pn, program.dtype))
        at = program.places(pn, pn.arange(m), n, m, idx)
        return getattr(ones.at[at], program.kind)(y)

    m = pn.Dim("m", 1, 300)
    dims: dict[str | int, Any] = (
        {"x": (pn.Dim("n", 1, 40),), "y": (m, ...), "idx": (m,)} if program.named else {}
    )
    x, y, idx = program.given(seed)
    wanted = program.meant(y, idx)
    made = []
    for threads in (1, 2):
        with pn.settings(threads=threads):
            made.append(pn.jit(function, dims=dims)(x, y, idx).numpy())
        np.testing.assert_allclose(made[-1], wanted, rtol=1e-3, atol=1e-3, err_msg=f"seed {seed}: {program}")
    assert made[0].tobytes() == made[1].tobytes(), f"seed {seed}: {program}"


@pytest.mark.parametrize("seed", range(16))
def test_what_meets_is_done_in_order(seed: int) -> None:
    check(seed)


@pytest.mark.fuzz
@pytest.mark.parametrize("start", range(100, 1100, 50))
def test_what_meets_is_done_in_order_at_length(start: int) -> None:
    for seed in range(start, start + 50):
        check(seed)
