"""The larger and the smaller of vectors on AVX-512: one instruction that knows -0 from 0, and NaN by hand."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from planish import dtypes
from planish.codegen import llvm, symbols
from planish.dtypes import DType
from planish.llir.builder import Builder
from planish.llir.interpret import interpret
from planish.llir.program import Ops, Program
from planish.runtime.cpu import CompiledModule, host

SPECIAL = (
    0.0,
    -0.0,
    float("nan"),
    float("inf"),
    float("-inf"),
    1.0,
    -1.0,
    5e-324,
    -5e-324,
    1e-45,
    3.5,
    -7e30,
)
PAIRS = np.array(list(product(SPECIAL, SPECIAL)))


def extreme(op: Ops, dtype: DType, lanes: int, constant: float | None = None) -> Program:
    """z = op(x, y), a vector at a time."""
    b = Builder("extreme")
    z, x, y = (b.param(name, dtype, len(PAIRS)) for name in "zxy")
    with b.loop(len(PAIRS) // lanes) as i:
        at = b.mul(i, lanes)
        first, second = (b.load(b.address(memory, at), dtype.vec(lanes)) for memory in (x, y))
        b.store(b.address(z, at), b.compute(op, first, second if constant is None else constant))
    return b.program()


@pytest.mark.parametrize("op", [Ops.MAX, Ops.MIN])
@pytest.mark.parametrize(
    ("dtype", "lanes"),
    [
        (dtypes.float32, 16),
        (dtypes.float32, 4),
        (dtypes.float32, 2),
        (dtypes.float32, 1),
        (dtypes.float64, 8),
        (dtypes.float64, 1),
    ],
)
def test_every_pair_of_special_values(op: Ops, dtype: DType, lanes: int) -> None:
    program = extreme(op, dtype, lanes)
    source = llvm.render(program, avx512=True)
    assert source.count("= call") == 1
    assert "mask.range" in source
    if not host().avx512:
        pytest.skip("this machine has no AVX-512")
    given = [np.ascontiguousarray(PAIRS[:, k].astype(dtype.numpy)) for k in range(2)]
    wanted, found = (np.zeros(len(PAIRS), dtype.numpy) for _ in range(2))
    interpret(program, [wanted, *given])
    CompiledModule(source).function(symbols.kernel("extreme"), 3)(*(a.ctypes.data for a in (found, *given)))
    is_nan = np.isnan(wanted)
    np.testing.assert_array_equal(np.isnan(found), is_nan)
    assert found[~is_nan].tobytes() == wanted[~is_nan].tobytes()


def test_other_machines_widths_and_constants_are_left_to_llvm() -> None:
    assert "llvm.maximum" in llvm.render(extreme(Ops.MAX, dtypes.float32, 16))
    assert "llvm.maximum" in llvm.render(extreme(Ops.MAX, dtypes.float32, 3), avx512=True)
    assert "llvm.maximum" in llvm.render(extreme(Ops.MAX, dtypes.float32, 16, 0.0), avx512=True)
