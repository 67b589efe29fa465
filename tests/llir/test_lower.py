"""From linear UOps to LLIR: every op that a linear program may hold, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from planish import dtypes
from planish.dtypes import AddrSpace, DType
from planish.errors import LoweringError
from planish.llir.interpret import interpret
from planish.llir.lower import lower
from planish.llir.program import Load, Loop, Program, Store
from planish.llir.text import parse, print_program
from planish.llir.tiles import MMA_M16N8K16
from planish.llir.verify import verify
from planish.uop import spec
from planish.uop.access_hints import AccessHints
from planish.uop.hardware_index import index_named
from planish.uop.node import Table, UOp
from planish.uop.ops import Axis, AxisType, Ops, TensorCoreOp
from tests.llir.helpers import Array, assert_allocated_agrees, assert_native_agrees, numbers

f32, i32, boolean, void = dtypes.float32, dtypes.int32, dtypes.bool_, dtypes.void


@pytest.fixture
def table() -> Iterator[Table]:
    with Table() as t:
        yield t


def program_of(*effects: UOp, checked: bool = True) -> Program:
    """The nodes in the order they were made, which is a linear program."""
    sink = effects[0].table.sink(*effects)
    lines = sink.toposort()
    if checked:
        spec.check(lines, "program")
    program = lower("k", lines)
    verify(program)
    return program


def number(t: Table, value: int, dtype: DType = i32) -> UOp:
    return t.const(value, dtype)


def place(buffer: UOp, index: UOp, *gate: UOp) -> UOp:
    return buffer.table.make(Ops.INDEX, buffer.dtype, (buffer, index, *gate))


def load(at: UOp, dtype: DType, *rest: UOp, hint: AccessHints | None = None) -> UOp:
    return at.table.make(Ops.LOAD, dtype, (at, *rest), hint)


def store(at: UOp, value: UOp, *gate: UOp, hint: AccessHints | None = None) -> UOp:
    return at.table.make(Ops.STORE, void, (at, value, *gate), hint)


def memory(t: Table, op: Ops, dtype: DType, size: int, slot: int = 0) -> UOp:
    space = {Ops.DEFINE_LOCAL: AddrSpace.LOCAL, Ops.DEFINE_REG: AddrSpace.REG}[op]
    return t.make(op, dtype.ptr(size, space), (), slot)


def run(program: Program, *arrays: Array) -> list[Array]:
    assert_allocated_agrees(program, arrays)
    return assert_native_agrees(program, list(arrays))


def test_vectors_loops_and_lanes(table: Table) -> None:
    t = table
    z, x = t.param(0, f32, 16), t.param(1, f32, 16)
    i = t.range(number(t, 4), 0)
    at = i * 4
    v = load(place(x, at), f32.vec(4), hint=AccessHints(nontemporal=True))
    turned = t.make(
        Ops.CAT, f32.vec(4), (v.gep(3, 2), t.make(Ops.VECTORIZE, f32.vec(2), (v.gep(1), v.gep(0))))
    )
    scaled = turned * t.vconst([1.0, 2.0, 3.0, 4.0], f32) + t.const(0.5, f32.vec(4))
    end = store(place(z, at), scaled, hint=AccessHints(nontemporal=True, align=4)).end(i)
    # CAT is one of the ops that the last stages may leave or not: LLIR takes it either way
    program = program_of(end, checked=False)
    given = np.arange(16, dtype=np.float32)
    result = run(program, np.zeros(16, np.float32), given)
    wanted = given.reshape(4, 4)[:, ::-1] * np.arange(1, 5, dtype=np.float32) + np.float32(0.5)
    np.testing.assert_array_equal(result[0].reshape(4, 4), wanted)
    assert next(i for i in program.body if isinstance(i, Load)).nontemporal
    stored = next(i for i in program.body if isinstance(i, Store))
    assert (stored.align, stored.nontemporal) == (4, True)


def test_gates_of_places_loads_and_stores(table: Table) -> None:
    t = table
    z, x = t.param(0, f32, 8), t.param(1, f32, 8)
    i = t.range(number(t, 12), 0)
    inside, even = i < 8, (i & 1).eq(0)
    from_place = load(place(x, i, inside), f32)
    with_alternative = load(place(x, i), f32, t.const(7.0, f32), inside)
    both = load(place(x, i, inside), f32, t.const(5.0, f32), even)
    total = from_place + with_alternative + both
    end = store(place(z, i, inside), total, even).end(i)
    given = np.arange(8, dtype=np.float32)
    result = run(program_of(end), np.full(8, -1, np.float32), given)
    wanted = [3 * v if v % 2 == 0 else -1 for v in range(8)]
    assert result[0].tolist() == wanted


def test_a_vector_gate_meets_a_scalar_one(table: Table) -> None:
    t = table
    z, x = t.param(0, f32, 4), t.param(1, f32, 4)
    yes = number(t, 1).ne(0)
    lanes = t.vconst([True, False, True, False], boolean)
    value = load(place(x, number(t, 0), yes), f32.vec(4), t.const(9.0, f32.vec(4)), lanes)
    program = program_of(store(place(z, number(t, 0)), value))
    assert run(program, np.zeros(4, np.float32), np.ones(4, np.float32))[0].tolist() == [1, 9, 1, 9]


def test_a_vector_of_indices_gathers(table: Table) -> None:
    t = table
    z, x, p = t.param(0, f32, 8), t.param(1, f32, 8), t.param(2, i32, 8)
    i = t.range(number(t, 2), 0)
    where = load(place(p, i * 4), i32.vec(4))
    end = store(place(z, where), load(place(x, where), f32.vec(4)).alu(Ops.NEG)).end(i)
    given, order = numbers(f32, 8), np.asarray([3, 1, 4, 7, 5, 2, 6, 0], np.int32)
    np.testing.assert_array_equal(run(program_of(end), np.zeros(8, np.float32), given, order)[0], -given)


def test_casts_and_bits(table: Table) -> None:
    t = table
    z, x = t.param(0, i32, 2), t.param(1, f32, 1)
    value = load(place(x, number(t, 0)), f32)
    program = program_of(
        store(place(z, number(t, 0)), value.cast(i32)), store(place(z, number(t, 1)), value.bitcast(i32))
    )
    given = np.asarray([-2.75], np.float32)
    assert run(program, np.zeros(2, np.int32), given)[0].tolist() == [-2, int(given.view(np.int32)[0])]


def test_accumulators_may_be_vectors(table: Table) -> None:
    t = table
    z, x = t.param(0, f32, 4), t.param(1, f32, 12)
    acc = memory(t, Ops.DEFINE_REG, f32.vec(4), 1)
    zero = number(t, 0)
    init = store(place(acc, zero), t.const(0.0, f32.vec(4)))
    i = t.range(number(t, 3), 0, AxisType.REDUCE)
    inside = acc.after(init, i)
    update = store(
        place(inside, zero), load(place(inside, zero), f32.vec(4)) + load(place(x, i * 4), f32.vec(4))
    )
    end = update.end(i)
    result = load(place(acc.after(end), zero), f32.vec(4))
    program = program_of(store(place(z, zero), result))
    given = np.arange(12, dtype=np.float32)
    assert run(program, np.zeros(4, np.float32), given)[0].tolist() == [12, 15, 18, 21]


def test_if_guards_an_effect(table: Table) -> None:
    t = table
    z = t.param(0, i32, 8)
    i = t.range(number(t, 8), 0)
    begin = t.make(Ops.IF, void, (i < 3,))
    write = store(place(z, i), i + 1)
    close = t.make(Ops.ENDIF, void, (begin,))
    group = t.make(Ops.GROUP, void, (write, close))
    program = program_of(group.end(i), checked=False)
    assert run(program, np.zeros(8, np.int32))[0].tolist() == [1, 2, 3, 0, 0, 0, 0, 0]


def test_threads_share_local_memory(table: Table) -> None:
    t = table
    z, x = t.param(0, f32, 8), t.param(1, f32, 8)
    shared = memory(t, Ops.DEFINE_LOCAL, f32, 4)
    g = t.make(Ops.SPECIAL, i32, (number(t, 2),), index_named("gidx0"))
    lane = t.make(Ops.SPECIAL, i32, (number(t, 4),), index_named("lidx0"))
    fill = store(place(shared, lane), load(place(x, g * 4 + lane), f32))
    fence = t.make(Ops.BARRIER, void, (fill,))
    turned = load(place(shared.after(fence), number(t, 3) - lane), f32)
    program = program_of(store(place(z, g * 4 + lane), turned))
    out = np.zeros(8, np.float32)
    found = interpret(program, [out, np.arange(8, dtype=np.float32)])
    assert out.tolist() == [3, 2, 1, 0, 7, 6, 5, 4]
    assert (found.blocks, found.threads, found.local_bytes) == (2, 4, 16)


def test_variables_bound_loops(table: Table) -> None:
    t = table
    z = t.param(0, i32, 8)
    n = t.variable("n", 0, 8, i32)
    i = t.range(n, 0)
    program = program_of(store(place(z, i), i * 2).end(i))
    out = np.zeros(8, np.int32)
    interpret(program, [out], {"n": 3})
    assert out.tolist() == [0, 2, 4, 0, 0, 0, 0, 0]
    assert "%0 = variable n in 0..8 : i32" in print_program(program)


def wmma(t: Table, core: TensorCoreOp, lanes: tuple[int, int, int]) -> UOp:
    z = t.param(0, f32, lanes[2])
    a, b, c = (t.const(value, f32.vec(n)) for value, n in zip((2.0, 3.0, 1.0), lanes, strict=True))
    result = t.make(Ops.WMMA, f32.vec(lanes[2]), (a, b, c), core)
    return t.sink(store(place(z, number(t, 0)), result))


def test_tensor_cores_are_described_by_the_target(table: Table) -> None:
    plain = lower("k", wmma(table, TensorCoreOp("plain", (2, 3, 4)), (8, 12, 6)).toposort())
    out = np.zeros(6, np.float32)
    interpret(plain, [out])
    assert out.tolist() == [25.0] * 6
    known = {"mma": MMA_M16N8K16}
    program = lower("k", wmma(table, TensorCoreOp("mma", (16, 8, 16)), (8, 4, 4)).toposort(), tiles=known)
    assert program.tiles == (MMA_M16N8K16,)
    with pytest.raises(
        LoweringError, match=r"a thread holds 256 elements of a, not the 8 lanes.*describe the tensor core"
    ):
        lower("k", wmma(table, TensorCoreOp("mma", (16, 8, 16)), (8, 4, 4)).toposort())
    with pytest.raises(
        LoweringError, match=r"computes \(8, 8, 8\), the target describes it as \(16, 8, 16\)"
    ):
        lower("k", wmma(table, TensorCoreOp("mma", (8, 8, 8)), (8, 4, 4)).toposort(), tiles=known)


def test_unroll_hints_are_given_per_range(table: Table) -> None:
    t = table
    z = t.param(0, i32, 8)
    i = t.range(number(t, 8), 0)
    lines = t.sink(store(place(z, i), i).end(i)).toposort()
    (loop,) = (
        x for x in lower("k", lines, unroll={Axis((0,), AxisType.LOOP): 4}).body if isinstance(x, Loop)
    )
    assert loop.unroll == 4


def test_parameters_are_in_the_order_of_their_slots(table: Table) -> None:
    t = table
    late, early = t.param(10, f32, 1), t.param(2, f32, 1)
    zero = number(t, 0)
    program = program_of(store(place(late, zero), load(place(early, zero), f32)))
    assert [b.name for b in program.params] == ["arg2", "arg10"]
    assert (
        [b.number for b in program.params]
        == [2, 10]
        == [b.slot for b in parse(print_program(program)).params]
    )


def test_what_has_no_form_is_refused_by_name(table: Table) -> None:
    t = table
    z = t.param(0, f32, 4)
    i = t.range(number(t, 4), 0)
    reduced = t.const(1.0, f32).reduce(Ops.ADD, i)
    with pytest.raises(LoweringError, match="REDUCE has no LLIR form; in REDUCE; an earlier stage"):
        lower("k", t.sink(store(place(z, number(t, 0)), reduced)).toposort())
    two = t.make(Ops.INDEX, z.dtype, (z, number(t, 0), number(t, 1)))
    with pytest.raises(LoweringError, match="INDEX with 2 indices"):
        lower("k", t.sink(store(two, t.const(1.0, f32))).toposort())
    j = t.range(number(t, 4), 1)
    with pytest.raises(LoweringError, match="END of 2 ranges"):
        lower("k", t.sink(store(place(z, i), j.cast(f32)).end(i, j)).toposort())
    unknown = t.make(Ops.DEFINE_GLOBAL, f32.ptr(-1), (), 1)
    with pytest.raises(LoweringError, match="no known size"):
        lower("k", t.sink(store(place(unknown, number(t, 0)), t.const(1.0, f32))).toposort())
