"""Which buffers of a plan are written past the caches."""

from __future__ import annotations

import numpy as np
import pytest

from planish import compiler, ptir
from planish.llir.program import Prefetch, Store
from planish.ptir import Graph, tensor
from planish.ptir.dims import Dim

TARGET = "x86-64-v4"
ROW = 1 << 10


def past(function: ptir.Function, **options: object) -> list[bool]:
    """Per kernel, whether it stores past the caches."""
    lowered = compiler.lower(function, TARGET, **options)  # type: ignore[arg-type]
    return [any(isinstance(i, Store) and i.nontemporal for i in p.body) for p in lowered.programs]


def fma(size: int | Dim) -> ptir.Function:
    g = Graph("fma")
    x, y = g.input("x", tensor("f32", (size,))), g.input("y", tensor("f32", (size,)))
    return g.build(x.mul(y).add(x))


@pytest.mark.parametrize(("size", "expected"), [(1 << 21, True), ((1 << 21) - 16, False)])
def test_a_result_from_a_quarter_of_the_last_cache_on(size: int, expected: bool) -> None:
    assert past(fma(size)) == [expected]


def test_what_is_written_in_place_is_not() -> None:
    assert past(fma(1 << 21), donate=[0]) == [False]


@pytest.mark.parametrize(("rows", "expected"), [(4 << 10, False), (16 << 10, True)])
def test_what_another_kernel_reads_only_beyond_the_last_cache(rows: int, expected: bool) -> None:
    g = Graph("both")
    x = g.input("x", tensor("f32", (rows, ROW)))
    y = x.cumsum(0)
    assert past(g.build(y, y.cumsum(1)))[0] is expected
    g = Graph("last")
    x = g.input("x", tensor("f32", (rows, ROW)))
    assert past(g.build(x.cumsum(0))) == [True]


def test_named_sizes_may_be_small() -> None:
    assert past(fma(Dim.named("n", 1, 1 << 24))) == [False]


def test_a_long_elementwise_kernel_asks_for_its_inputs() -> None:
    g = Graph("f")
    x, y = (g.input(name, tensor("f32", (1 << 21,))) for name in "xy")
    (program,) = compiler.lower(g.build(x.add(y).tanh()), TARGET).programs
    assert sum(isinstance(i, Prefetch) for i in program.body) == 4  # two of them, in two parts


@pytest.mark.parametrize("backend", ["llvm", "c"])
def test_results_are_the_same_however_they_are_stored(backend: str) -> None:
    size = (1 << 21) + 5
    x, y = (np.random.default_rng(n).random(size, np.float32) for n in range(2))
    (found,) = compiler.lower(fma(size)).compile(backend)(x, y)  # type: ignore[arg-type]
    assert (found == x * y + x).all()
