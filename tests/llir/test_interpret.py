"""The LLIR interpreter: grids, blocks, barriers, tiles, bounds, and what it counts."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from planish import dtypes
from planish.dtypes import AddrSpace
from planish.errors import DTypeError, ShapeError, VerifyError
from planish.llir.builder import Builder
from planish.llir.counters import Counters, Traffic
from planish.llir.interpret import interpret
from planish.llir.layout import MemoryLayout
from planish.llir.program import Immediate, Ops, Program
from planish.llir.regalloc import allocate
from planish.uop.hardware_index import index_named
from tests.llir import kernels
from tests.llir.helpers import Array, assert_native_agrees

f32, i32 = dtypes.float32, dtypes.int32


def whole(*shape: int, seed: int = 0) -> Array:
    """Small integers: every sum of products is exact in any order."""
    return np.random.default_rng(seed).integers(-8, 8, shape).astype(np.float32)


@pytest.mark.parametrize("layout", MemoryLayout)
def test_a_sum_in_either_layout(layout: MemoryLayout) -> None:
    a, b = whole(4, 5), whole(4, 5, seed=1)
    order: Literal["C", "F"] = "C" if layout is MemoryLayout.ROW_MAJOR else "F"
    arrays = [np.zeros(20, np.float32), a.ravel(order), b.ravel(order)]
    result = assert_native_agrees(kernels.add(layout=layout), arrays)
    np.testing.assert_array_equal(result[0], (a + b).ravel(order))


def test_counters_of_an_elementwise_kernel() -> None:
    c = np.zeros(20, np.float32)
    found = interpret(kernels.add(), [c, whole(20), whole(20)])
    once = Traffic(read=80, written=0, distinct_read=80, distinct_written=0)
    assert found.traffic == {"c": Traffic(0, 80, 0, 80), "a": once, "b": once}
    assert (found.bytes_read, found.bytes_written) == (160, 80)
    assert (found.distinct_bytes_read, found.distinct_bytes_written) == (160, 80)
    # per element: three addresses of a product and a sum each, and the sum itself
    assert found.instructions == {
        "loop": 5, "mul": 60, "add": 80, "address": 60, "load": 40, "store": 20, "end": 24
    }  # fmt: skip
    assert found.executed == 289
    assert (found.blocks, found.threads, found.scratch_bytes, found.register_bytes) == (1, 1, 0, 0)


def test_counters_of_a_matmul() -> None:
    m, n, k = 3, 4, 5
    a, b = whole(m, k), whole(k, n, seed=1)
    c = np.zeros(m * n, np.float32)
    found = interpret(kernels.matmul(m, n, k), [c, a.ravel(), b.ravel()])
    np.testing.assert_array_equal(c.reshape(m, n), a @ b)
    assert found.instructions["mulacc"] == m * n * k
    assert found.traffic["a"] == Traffic(4 * m * n * k, 0, 4 * m * k, 0)
    assert found.traffic["b"] == Traffic(4 * m * n * k, 0, 4 * n * k, 0)
    assert found.traffic["c"] == Traffic(0, 4 * m * n, 0, 4 * m * n)
    assert (found.register_bytes, found.scratch_bytes) == (4, 0)


def test_a_register_tile_reads_each_element_once_per_row_or_vector() -> None:
    rows, vectors, k, lanes = 6, 4, 3, 16
    a, b = whole(rows, k), whole(k, vectors * lanes, seed=1)
    arrays = [np.zeros(rows * vectors * lanes, np.float32), a.ravel(), b.ravel()]
    program = kernels.register_tile(rows, vectors, k, lanes)
    result = assert_native_agrees(program, arrays)
    np.testing.assert_array_equal(result[0].reshape(rows, -1), a @ b)
    found = interpret(program, arrays)
    assert found.traffic["a"].read == a.nbytes
    assert found.traffic["b"].read == b.nbytes
    assert found.instructions["mulacc"] == rows * vectors * k


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("registers", [None, 4, 8])
def test_a_block_adds_up_in_shared_memory(registers: int | None, reverse: bool) -> None:
    x, out = whole(4, 16), np.zeros(4, np.float32)
    program = kernels.block_sum(4, 16)
    if registers is not None:
        program = allocate(program, registers).program
    found = interpret(program, [out, x.ravel()], reverse=reverse)
    np.testing.assert_array_equal(out, x.sum(1))
    assert (found.blocks, found.threads, found.local_bytes, found.scratch_bytes) == (4, 16, 64, 4)
    assert found.instructions["barrier"] == 4 * 16 * 5
    assert found.traffic["x"] == Traffic(256, 0, 256, 0)


def run(program: Program, reverse: bool) -> Array:
    x, out = whole(2, 16), np.zeros(2, np.float32)
    interpret(program, [out, x.ravel()], reverse=reverse)
    return out


def test_a_missing_barrier_shows() -> None:
    program = kernels.block_sum(2, 16, fenced=False)
    assert not np.array_equal(run(program, False), run(program, True))


@pytest.mark.parametrize("reverse", [False, True])
def test_tiles_in_shared_memory(reverse: bool) -> None:
    size, tile = 6, 3
    a, b, c = whole(size, size), whole(size, size, seed=1), np.zeros(size * size, np.float32)
    found = interpret(kernels.tiled_matmul(size, tile), [c, a.ravel(), b.ravel()], reverse=reverse)
    np.testing.assert_array_equal(c.reshape(size, size), a @ b)
    # each element is read once per block that needs it
    assert found.traffic["a"].read == a.nbytes * (size // tile)
    assert (found.blocks, found.threads, found.local_bytes) == (4, 9, 64 + 36)


def test_unfenced_tiles_go_wrong() -> None:
    size = 4
    a, b, c = whole(size, size), whole(size, size, seed=1), np.zeros(size * size, np.float32)
    with np.errstate(all="ignore"):
        interpret(kernels.tiled_matmul(size, 2, fenced=False), [c, a.ravel(), b.ravel()])
    assert not np.array_equal(c.reshape(size, size), a @ b)


@pytest.mark.parametrize("registers", [None, 4, 32])
def test_a_group_of_threads_multiplies_tiles(registers: int | None) -> None:
    a, b, c = whole(16, 16), whole(16, 8, seed=1), whole(16, 8, seed=2)
    out = c.ravel().copy()
    program = kernels.tensor_core()
    if registers is not None:
        program = allocate(program, registers).program
    found = interpret(program, [out, a.ravel().astype(np.float16), b.ravel().astype(np.float16)])
    np.testing.assert_array_equal(out.reshape(16, 8), a @ b + c)
    assert found.instructions["tile"] == 32


def test_threads_that_never_meet_are_an_error() -> None:
    b = Builder("apart")
    t = b.special(index_named("lidx0"), 2)
    with b.loop(t):
        b.barrier()
    with pytest.raises(VerifyError, match="1 of 2 threads wait forever, thread 1 at: barrier"):
        interpret(b.program(), [])


@pytest.mark.parametrize(
    ("index", "lanes", "gate", "words"),
    [
        (4, 1, None, "%1 = load %0 : f32: @x[4] is outside its 4 elements"),
        (-1, 1, None, "@x[-1]"),
        (2, 4, None, "@x[[2, 3, 4, 5]]"),
        (2, 4, (True, True, True, False), "@x[[2, 3, 4]]"),
    ],
)
def test_an_access_outside_is_named(
    index: int, lanes: int, gate: tuple[bool, ...] | None, words: str
) -> None:
    b = Builder("outside")
    x = b.param("x", f32, 4)
    mask = None if gate is None else Immediate(gate, dtypes.bool_.vec(lanes))
    b.load(b.address(x, index), f32.vec(lanes), gate=mask)
    with pytest.raises(VerifyError) as caught:
        interpret(b.program(), [np.zeros(4, np.float32)])
    assert words in str(caught.value)


def test_a_store_outside_names_the_thread() -> None:
    b = Builder("outside")
    x = b.param("x", i32, 4)
    core = b.special(index_named("core"), 6)
    b.store(b.address(x, core), core)
    with pytest.raises(VerifyError, match=r"store %1, %0 : i32: @x\[4\] is outside its 4 elements, core = 4"):
        interpret(b.program(), [np.zeros(4, np.int32)])


def test_a_closed_gate_goes_nowhere() -> None:
    b = Builder("closed")
    x, z = b.param("x", f32, 4), b.param("z", f32, 4)
    b.store(b.address(z, 0), b.load(b.address(x, 1000), gate=False, alternative=7.0))
    b.store(b.address(z, 1000), 5.0, gate=False)
    out = np.zeros(4, np.float32)
    found = interpret(b.program(), [np.zeros(4, np.float32), out])
    assert out.tolist() == [7, 0, 0, 0]
    assert found.traffic["x"].read == 0


def test_a_lookup_is_modulo_the_entries_of_its_table() -> None:
    b = Builder("table")
    out = b.param("out", f32, 4)
    table = Immediate((1.0, 2.0), f32.vec(2))
    b.store(b.address(out, 0), b.lookup(table, Immediate((0, 3, -1, -4), i32.vec(4))))
    found = np.zeros(4, np.float32)
    interpret(b.program(), [found])
    assert found.tolist() == [1, 2, 2, 1]


def test_own_memory_starts_with_garbage_in_every_block() -> None:
    b = Builder("forgot")
    z = b.param("z", f32, 4)
    block = b.special(index_named("gidx0"), 2)
    for place, space in enumerate((AddrSpace.REG, AddrSpace.LOCAL)):
        own = b.memory(f"own{place}", f32, 1, space)
        b.store(b.address_nd(z, (block, place), (2, 1)), b.load(b.address(own, 0)))
        b.store(b.address(own, 0), 0.0)
    out = np.zeros(4, np.float32)
    interpret(b.program(), [out])
    assert out.all()


def test_the_grid_may_depend_on_variables() -> None:
    b = Builder("dynamic")
    n = b.variable("n", 0, 16)
    x = b.param("x", i32, 16)
    block = b.special(index_named("gidx0"), b.compute(Ops.TRUNCDIV, b.add(n, 3), 4))
    b.store(b.address(x, block), 1)
    for size, blocks in ((0, 0), (1, 1), (4, 1), (5, 2), (16, 4)):
        out = np.zeros(16, np.int32)
        for program in (b.program(), allocate(b.program(), 4).program):
            assert interpret(program, [out], {"n": size}).blocks == blocks
        assert out.sum() == blocks


def test_a_grid_that_depends_on_data_is_refused() -> None:
    b = Builder("data")
    x = b.param("x", i32, 1)
    b.special(index_named("gidx0"), b.load(b.address(x, 0)))
    with pytest.raises(VerifyError, match="gidx0 is not known at launch"):
        interpret(b.program(), [np.zeros(1, np.int32)])


def test_arguments_are_checked() -> None:
    program = kernels.add()
    good = [np.zeros(20, np.float32) for _ in range(3)]
    with pytest.raises(ShapeError, match="add takes 3 arrays, not 2"):
        interpret(program, good[:2])
    with pytest.raises(ShapeError, match="@c has 20 elements, the array 21"):
        interpret(program, [np.zeros(21, np.float32), *good[1:]])
    with pytest.raises(ShapeError, match="contiguous"):
        interpret(program, [np.zeros(40, np.float32)[::2], *good[1:]])
    with pytest.raises(DTypeError, match="@c holds f32, not float64"):
        interpret(program, [np.zeros(20), *good[1:]])
    b = Builder("dims")
    b.variable("n", 1, 4)
    b.param("x", f32, 4)
    interpret(b.program(), [np.zeros(2, np.float32)], {"n": 2})  # a buffer is declared at its largest
    with pytest.raises(ShapeError, match=r"n = 5 is outside 1\.\.4"):
        interpret(b.program(), [np.zeros(4, np.float32)], {"n": 5})
    with pytest.raises(ShapeError, match="variable n has no value"):
        interpret(b.program(), [np.zeros(4, np.float32)])


def test_an_array_may_be_smaller_than_its_buffer_is_declared() -> None:
    """A kernel that copies the first element of a tensor of named size has no variable itself."""
    b = Builder("first")
    out, x = b.param("out", f32, 1), b.param("x", f32, 4)
    b.store(b.address(out, 0), b.load(b.address(x, 0)))
    given = np.zeros(1, np.float32)
    interpret(b.program(), [given, np.array([7], np.float32)])
    assert given == [7]
    with pytest.raises(VerifyError, match="outside"):
        interpret(b.program(), [given, np.zeros(0, np.float32)])


def test_a_broken_program_is_not_run() -> None:
    b = Builder("broken")
    b.add(b.fresh(i32), 1)
    with pytest.raises(VerifyError, match="order"):
        interpret(b.program(), [])


def test_counters_hold_numbers_only() -> None:
    empty = interpret(Builder("nothing").program(), [])
    assert empty == Counters({}, {}, 1, 1, 0, 0)
