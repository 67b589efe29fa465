"""Every op that is lowered directly, on every dtype it takes: what the GPU computes is what the interpreters compute.

Held against the PTIR interpreter within each op's bound, and by bits against the LLIR interpreter on the same kernels, as the CPU is;
but for functions that start from the GPU's own estimates, whose bounds `test_functions.py` measures over all arguments.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from planish import compiler, dtypes, ptir
from planish.compiler.grids import grid_of
from planish.compiler.launch_parameters import work_of
from planish.dtypes import DType
from planish.llir.program import Compute
from planish.uop.ops import ESTIMATES
from tests.e2e.comparing import held, same
from tests.e2e.op_cases import CASES, DYNAMIC, Maker

_INTERPRETED = 200_000
"""Instructions of all threads together that the LLIR interpreter is asked for."""


def _work(lowered: compiler.Lowered) -> int:
    if any(not grid_of(p).is_static for p in lowered.programs):
        return _INTERPRETED  # the LLIR interpreter has its turn on the CPU
    return sum(
        work_of(p, int(np.prod(grid_of(p).at(())) * np.prod(grid_of(p).threads))) for p in lowered.programs
    )


def on_host(result: Any) -> Any:
    return result.numpy()


def agree(name: str, m: Maker) -> None:
    function = m.build()
    wanted = ptir.interpret(function, m.arrays)
    lowered = compiler.lower(function, "sm_90", passes=None)
    found = [on_host(result) for result in lowered.compile()(*m.arrays)]
    estimated = any(
        isinstance(i, Compute) and i.op in ESTIMATES for program in lowered.programs for i in program.body
    )
    interpreted = lowered.interpreted()(*m.arrays) if _work(lowered) < _INTERPRETED else None
    for number, (result, expected, terms) in enumerate(zip(found, wanted, m.slack, strict=True)):
        what = f"{name} of {m.dtype.short}, result {number}"
        if interpreted is not None and not estimated:
            same(result, interpreted[number], f"{what}, GPU against interpreted")
        held(name, result, np.asarray(expected), terms, what)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [pytest.param(n, d, id=f"{n}-{d.short}") for n, (accepted, _) in CASES.items() for d in accepted],
)
def test_the_gpu_agrees(name: str, dtype: DType) -> None:
    for program in CASES[name][1]:
        m = Maker(dtype)
        program(m)
        agree(name, m)


@pytest.mark.parametrize("name", DYNAMIC)
def test_named_sizes(name: str) -> None:
    m = Maker(dtypes.float32)
    DYNAMIC[name](m)
    agree(name, m)
