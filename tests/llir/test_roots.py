"""Roots of vectors on AVX-512, refined from an estimate where there is little else to do: the same bits as the instruction's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from planish import dtypes
from planish.codegen import llvm, symbols
from planish.llir.builder import Builder
from planish.llir.program import Ops, Program
from planish.runtime.cpu import CompiledModule, host

F32 = dtypes.float32
ONE, FOUR, LEAST, INFINITY = 0x3F800000, 0x40800000, (127 - 100) << 23, 0x7F800000


def roots(size: int, lanes: int = 16, others: int = 0) -> Program:
    """z = √x, and so many products more."""
    b = Builder("roots")
    z, x = b.param("z", F32, size), b.param("x", F32, size)
    with b.loop(size // lanes) as i:
        at = b.mul(i, lanes)
        value = b.compute(Ops.SQRT, b.load(b.address(x, at), F32.vec(lanes)))
        for _ in range(others):
            value = b.mul(value, value)
        b.store(b.address(z, at), value)
    return b.program()


def is_refined(program: Program) -> bool:
    return "rsqrt14" in llvm.render(program, avx512=True)


def found(x: NDArray[Any]) -> NDArray[Any]:
    result = np.empty_like(x)
    CompiledModule(llvm.render(roots(x.size), avx512=True)).function(symbols.kernel("roots"), 2)(
        result.ctypes.data, x.ctypes.data
    )
    return result


def test_it_is_refined_where_nothing_else_is_to_be_done() -> None:
    assert is_refined(roots(64))
    assert is_refined(roots(64, others=11))
    assert not is_refined(
        roots(64, others=12)
    )  # that takes as long as the instruction, and does not wait for it
    assert not is_refined(roots(64, lanes=8))
    assert "rsqrt14" not in llvm.render(roots(64))


@pytest.mark.skipif(not host().avx512, reason="this machine has no AVX-512")
def test_every_mantissa_has_the_right_root() -> None:
    """Powers of four change the exponent alone."""
    for start in range(ONE, FOUR, 1 << 22):
        x = np.arange(start, start + (1 << 22), dtype=np.uint32).view(np.float32)
        np.testing.assert_array_equal(found(x), np.sqrt(x))


@pytest.mark.skipif(not host().avx512, reason="this machine has no AVX-512")
def test_edges_and_what_has_no_root() -> None:
    bits = [
        0,
        1,
        0x80000000,
        LEAST - 1,
        LEAST,
        LEAST + 1,
        0x00800000,
        INFINITY - 1,
        INFINITY,
        0x7FC00000,
        0xBF800000,
    ]
    for others in (ONE, 0x42280000):  # one lane of them among good ones, at every place
        for bad in bits:
            x = np.full((16, 16), others, np.uint32)
            np.fill_diagonal(x, bad)
            given = x.ravel().view(np.float32)
            with np.errstate(invalid="ignore"):
                wanted = np.sqrt(given)
            result = found(given)
            is_nan = np.isnan(wanted)
            np.testing.assert_array_equal(np.isnan(result), is_nan)
            assert result[~is_nan].tobytes() == wanted[~is_nan].tobytes()


@pytest.mark.slow
@pytest.mark.skipif(not host().avx512, reason="this machine has no AVX-512")
def test_every_float_has_the_right_root() -> None:
    for start in range(LEAST, INFINITY, 1 << 23):
        x = np.arange(start, start + (1 << 23), dtype=np.uint32).view(np.float32)
        assert found(x).tobytes() == np.sqrt(x).tobytes()
