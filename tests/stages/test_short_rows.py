"""Short rows: several share a warp, and a block; what is computed of them can be executed after every stage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import planish as pn
from planish import compiler, ptir
from tests.stages.every_stage import check_function

ROWS: dict[str, Any] = {
    "sums": lambda x: pn.sum(x, axis=1),
    "greatest": lambda x: pn.argmax(x, axis=1),
    "softmax": pn.nn.softmax,
    "centred": lambda x: (x - pn.mean(x, axis=1, keepdims=True)) * 2.0,
    "sums beside elements": lambda x: (pn.sum(x, axis=1), x * 2.0),
}


@pytest.mark.parametrize("shape", [(3, 24), (4, 24), (8, 40), (3, 64), (4, 64)], ids=str)
@pytest.mark.parametrize("name", ROWS)
def test_every_stage_of_rows_that_share_a_warp(name: str, shape: tuple[int, int]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    function = pn.jit(ROWS[name]).lower(pn.asarray(x)).function
    assert "group(" in "; ".join(
        str(action) for choice in compiler.lower(function, "sm_90").choices for action in choice.actions
    )
    wanted = [np.asarray(each) for each in ptir.interpret(function, [x])]

    def judge(number: int, found: NDArray[Any], where: str) -> None:
        np.testing.assert_allclose(found, wanted[number], rtol=2e-5, atol=2e-6, err_msg=where)

    report = check_function(function, [x], judge, "sm_90")
    assert {11, 12, 21} <= report.executed.keys()
