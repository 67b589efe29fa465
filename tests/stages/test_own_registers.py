"""LOCAL memory that no thread shares becomes registers: when it does, when it must not, and that nothing else changes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planish import dtypes
from planish.llir.interpret import interpret
from planish.llir.program import Barrier, Loop, Program
from planish.target import TARGETS
from planish.uop.node import Table, UOp
from planish.uop.ops import AxisType, Ops
from tests.stages.kernels import Array
from tests.stages.memory_kernels import compiled, keep, read

f32 = dtypes.float32
GPU = TARGETS["sm_90"]
GLOBAL, LOCAL = AxisType.GLOBAL, AxisType.LOCAL


@pytest.fixture
def t() -> Iterator[Table]:
    with Table() as table:
        yield table


Sizes = tuple[int, int, int]
"""Of two axes of threads, and of a loop."""


def rows(t: Table, sizes: Sizes, wrote: tuple[int, ...], asks: tuple[int, ...]) -> UOp:
    """Rows that the threads of a block fill, the axes in one order, and read in another one: each thread a sum."""
    total = prod(sizes)
    g = t.range(3, 0, GLOBAL)
    threads = [t.range(sizes[0], 10, LOCAL), t.range(sizes[1], 11, LOCAL)]

    def place(order: tuple[int, ...], loop: UOp) -> UOp:
        index = t.const(0)
        for axis in order:
            index = index * sizes[axis] + (*threads, loop)[axis]
        return index

    r = t.range(sizes[2], 3, AxisType.REDUCE)
    fills, walks = place(wrote, t.range(sizes[2], 2)), place(asks, r)
    kept = keep(t.param(1, f32, 3 * total).index(g * total + fills) * 2.0, fills)
    weighted = read(kept, walks) * t.param(2, f32, sizes[2]).index(r)
    summed = t.make(Ops.REDUCE, f32, (weighted, r), Ops.ADD)
    out = (g * sizes[0] + threads[0]) * sizes[1] + threads[1]
    return t.sink(t.param(0, f32, 3 * sizes[0] * sizes[1]).index(out).store(summed).end(g, *threads))


def expected(x: Array, weights: Array, sizes: Sizes, asks: tuple[int, ...]) -> Array:
    """The same, of whole arrays."""
    shape = [sizes[axis] for axis in asks]
    row = (x * 2).reshape(3, *shape)
    by_axis = row.transpose(0, *(1 + asks.index(axis) for axis in range(3)))
    found: Array = (by_axis * weights).sum(-1).reshape(-1)
    return found


def counted(program: Program) -> tuple[int, int, int]:
    """Elements in LOCAL memory, in registers (an accumulator among them), and barriers."""
    local = sum(b.size for b in program.locals if b.space.name == "LOCAL")
    own = sum(b.size for b in program.locals if b.space.name == "REG")
    return local, own, sum(isinstance(i, Barrier) for i in program.body)


ORDERS = list(permutations(range(3)))


@given(
    st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 5)),
    st.sampled_from(ORDERS),
    st.sampled_from(ORDERS),
)
def test_any_order_of_axes(sizes: Sizes, wrote: tuple[int, ...], asks: tuple[int, ...]) -> None:
    with Table() as t:
        program = compiled(rows(t, sizes, wrote, asks), GPU)
    x = np.arange(3 * prod(sizes), dtype=np.float32)
    weights = np.arange(1, sizes[2] + 1, dtype=np.float32)
    found = np.zeros(3 * sizes[0] * sizes[1], np.float32)
    interpret(program, [found, x, weights])
    np.testing.assert_array_equal(found, expected(x, weights, sizes, asks))
    local, _, barriers = counted(program)
    if wrote == asks:
        assert (local, barriers) == (0, 0)


def test_what_a_thread_reads_again_is_in_registers(t: Table) -> None:
    program = compiled(rows(t, (4, 8, 6), (2, 0, 1), (2, 0, 1)), GPU)
    assert counted(program) == (0, 6 + 1, 0)
    unrolled = [i.unroll for i in program.body if isinstance(i, Loop)]
    assert unrolled == [6, 6]  # registers have no numbers when the code runs


def test_what_another_thread_wrote_is_not(t: Table) -> None:
    assert counted(compiled(rows(t, (4, 8, 6), (2, 0, 1), (2, 1, 0)), GPU)) == (4 * 8 * 6, 1, 1)
    # a piece of a row for each thread, then every eighth element
    assert counted(compiled(rows(t, (4, 8, 6), (0, 1, 2), (2, 0, 1)), GPU)) == (4 * 8 * 6, 1, 1)


def test_not_more_than_there_are(t: Table) -> None:
    """A thread of a block of 1024 has 64 registers."""
    assert counted(compiled(rows(t, (32, 32, 32), (2, 0, 1), (2, 0, 1)), GPU)) == (0, 32 + 1, 0)
    assert counted(compiled(rows(t, (32, 32, 33), (2, 0, 1), (2, 0, 1)), GPU)) == (32 * 32 * 33, 1, 1)
