"""Register allocation: the same results on few registers, spills where they must be, and the pressure that is reported."""

from __future__ import annotations

import numpy as np
import pytest

from planish import dtypes
from planish.errors import LoweringError, PlanishError
from planish.llir.builder import Builder
from planish.llir.interpret import interpret
from planish.llir.program import Immediate, Instruction, Program, Register, Reload, Spill
from planish.llir.regalloc import BANKS, Pressure, allocate, bank_of, pressure
from planish.llir.verify import verify
from tests.llir import kernels
from tests.llir.generate import arguments, random_program
from tests.llir.helpers import Array, assert_allocated_agrees, assert_same, copies, numbers

f32, i32 = dtypes.float32, dtypes.int32


def in_limits(program: Program, registers: int) -> None:
    verify(program, allocated=True)
    for instruction in program.body:
        for register in (*instruction.registers, *([instruction.target] if instruction.target else [])):
            assert register.bank == bank_of(register.dtype)
            assert 0 <= register.number < registers


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_compute_the_same(seed: int) -> None:
    program = random_program(seed)
    assert_allocated_agrees(program, arguments(program, seed))
    for registers in (4, 8, 32):
        in_limits(allocate(program, registers).program, registers)


@pytest.mark.fuzz
@pytest.mark.parametrize("start", range(1000, 2000, 50))
def test_many_random_programs_compute_the_same(start: int) -> None:
    for seed in range(start, start + 50):
        print("seed", seed)
        program = random_program(seed, 100)
        assert_allocated_agrees(program, arguments(program, seed))


def test_random_programs_do_spill() -> None:
    counts = [allocate(random_program(seed), 4) for seed in range(20)]
    assert sum(a.spills > 5 and a.reloads > 5 for a in counts) > 10


@pytest.mark.parametrize(
    "program",
    [kernels.add(), kernels.matmul(3, 4, 5), kernels.register_tile(3, 2, 4, 4)],
    ids=lambda p: p.name,
)
def test_kernels_compute_the_same(program: Program) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-9, 9, b.elements).astype(b.dtype.numpy) for b in program.params]
    assert_allocated_agrees(program, arrays)


def alive_together(count: int) -> Program:
    """Loads of as many values, then their sum: all are alive at once."""
    b = Builder("together")
    x, z = b.param("x", f32, count), b.param("z", f32, 1)
    base = b.address(x, 0)
    values = [b.load(b.address(base, i)) for i in range(count)]
    total = values[0]
    for value in values[1:]:
        total = b.add(total, value)
    b.store(b.address(z, 0), total)
    return b.program()


def test_pressure_counts_what_is_alive_at_once() -> None:
    assert pressure(alive_together(12)) == Pressure(scalar=12, vector=0, pointer=2)
    enough, few = allocate(alive_together(12), 12), allocate(alive_together(12), 11)
    assert (enough.spills, enough.reloads, enough.slots, enough.spill_bytes) == (0, 0, 0, 0)
    assert few.spills == few.slots == 1
    assert few.spill_bytes == 4
    assert enough.pressure == few.pressure == Pressure(12, 0, 2)


@pytest.mark.parametrize(("rows", "vectors"), [(6, 4), (13, 2), (8, 3), (7, 4)])
def test_pressure_of_a_register_tile_is_the_known_formula(rows: int, vectors: int) -> None:
    """rows·vectors accumulators, the vectors of one row of B, and one broadcast."""
    found = pressure(kernels.register_tile(rows, vectors, 8), vector_bytes=64)
    # while an accumulator is in flight it is also in a register of its own
    assert rows * vectors + vectors + 1 <= found.vector <= rows * vectors + vectors + 2


def test_wide_vectors_count_as_several_registers() -> None:
    b = Builder("wide")
    x = b.param("x", f32, 64)
    value = b.load(b.address(x, 0), f32.vec(64))
    b.store(b.address(x, 0), b.add(value, value))
    assert pressure(b.program()).vector == 1  # the sum takes the place of what it adds up
    assert pressure(b.program(), vector_bytes=64).vector == 4


def test_accumulators_in_register_memory_count() -> None:
    assert pressure(kernels.matmul(2, 2, 2)).scalar > pressure(kernels.add()).scalar
    b = Builder("held")
    own = b.memory("own", f32, 10)
    with b.loop(10) as i:
        b.store(b.address(own, i), 1.0)
    assert pressure(b.program()).scalar == 10 + 1


def test_values_that_enter_a_loop_live_through_it() -> None:
    b = Builder("through")
    x = b.param("x", f32, 4)
    outside = [b.load(b.address(x, i)) for i in range(4)]
    with b.loop(3):
        first = b.load(b.address(x, 0))
        b.store(b.address(x, 0), b.add(first, outside[0]))
        # read last here, but the next iteration reads them again
        for value in outside[1:]:
            b.store(b.address(x, 1), value)
    assert pressure(b.program()).scalar == 4 + 1 + 1
    assert_allocated_agrees(b.program(), [numbers(f32, 4)])


def test_spills_are_placed_where_they_cost_least() -> None:
    b = Builder("cheap")
    x = b.param("x", f32, 8)
    rare = [b.load(b.address(x, i)) for i in range(4)]
    with b.loop(100):
        often = [b.load(b.address(x, i)) for i in range(3)]
        b.store(b.address(x, 0), b.add(b.add(often[0], often[1]), often[2]))
    for i, value in enumerate(rare):
        b.store(b.address(x, i), value)
    found = allocate(b.program(), 5)
    inside = False
    for instruction in found.program.body:
        inside = inside or instruction.mnemonic == "loop"
        if instruction.mnemonic == "end":
            break
        assert not (inside and isinstance(instruction, Spill | Reload)), (
            "what the loop uses stays in registers"
        )


def test_a_loop_counter_may_be_spilled() -> None:
    b = Builder("counters")
    z = b.param("z", i32, 243)
    with b.loop(3) as i, b.loop(3) as j, b.loop(3) as k, b.loop(3) as n, b.loop(3) as m:
        at = m
        for counter, step in ((i, 81), (j, 27), (k, 9), (n, 3)):
            at = b.add(at, b.mul(counter, step))
        b.store(b.address(z, at), at)
    found = allocate(b.program(), 4)
    assert found.spills
    out = np.zeros(243, np.int32)
    interpret(found.program, [out])
    np.testing.assert_array_equal(out, np.arange(243))


def test_building_many_lanes_is_cut_to_pairs() -> None:
    b = Builder("lanes")
    x, z = b.param("x", f32, 16), b.param("z", f32, 40)
    values = [b.load(b.address(x, i)) for i in range(16)]
    b.store(b.address(z, 0), b.build(*values[:13]))
    parts = [b.load(b.address(x, 2 * i), f32.vec(2)) for i in range(7)]
    b.store(b.address(z, 13), b.concat(*parts, values[3]))
    b.store(b.address(z, 30), b.splat(values[2], 8))
    for registers in (4, 32):
        program = allocate(b.program(), registers).program
        assert all(len(set(i.registers)) <= 3 for i in program.body)
    assert_allocated_agrees(b.program(), [numbers(f32, 16), np.zeros(40, np.float32)])


def test_variables_arrive_in_registers() -> None:
    b = Builder("variables")
    names = [b.variable(f"n{i}", 0, 100) for i in range(4)]
    z = b.param("z", i32, 8)
    values = [b.load(b.address(z, i)) for i in range(4)]
    for i, (n, value) in enumerate(zip(names, values, strict=True)):
        b.store(b.address(z, i), b.add(n, value))
    given = {f"n{i}": 10 * i for i in range(4)}
    expected, found = [np.arange(8, dtype=np.int32)], [np.arange(8, dtype=np.int32)]
    interpret(b.program(), expected, given)
    interpret(allocate(b.program(), 4).program, found, given)
    assert_same(expected, found)
    assert found[0].tolist()[:4] == [0, 11, 22, 33]


def test_too_few_registers_are_refused() -> None:
    with pytest.raises(LoweringError, match="3 registers of a bank are too few; give at least 4"):
        allocate(kernels.add(), 3)


def test_allocation_is_deterministic() -> None:
    program = random_program(5)
    assert allocate(program, 8) == allocate(program, 8)


def test_an_interpreter_that_forgot_a_spill_would_be_noticed() -> None:
    """The comparison has teeth: without its spills an allocated program goes wrong or cannot run."""
    program = random_program(3)
    arrays = arguments(program)
    expected = copies(arrays)
    interpret(program, expected)
    placed = allocate(program, 4).program
    swapped: list[Instruction] = [
        Reload(i.result, max(i.slot - 1, 0)) if isinstance(i, Reload) else i for i in placed.body
    ]
    broken = Program(placed.name, placed.params, placed.locals, tuple(swapped))
    with pytest.raises((AssertionError, TypeError, AttributeError, ValueError, PlanishError)):
        _compare(broken, arrays, expected)


def _compare(program: Program, arrays: list[Array], expected: list[Array]) -> None:
    found = copies(arrays)
    interpret(program, found)
    assert_same(expected, found)


def test_banks_follow_from_dtypes() -> None:
    assert [bank_of(t) for t in (f32, f32.vec(4), f32.ptr(4), f32.ptr(4).vec(2))] == ["s", "v", "p", "p"]
    assert BANKS == ("s", "v", "p")
    assert str(Register(3, f32, "s")) == "%s3"
    assert Immediate(1.0, f32).dtype is f32
