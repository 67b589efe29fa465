"""The kernel interpreter: every form a kernel takes on its way, and every mistake it must not let pass."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from planish import dtypes
from planish.dtypes import AddrSpace, DType
from planish.errors import DTypeError, ShapeError, VerifyError
from planish.uop.hardware_index import index_named
from planish.uop.interpret import interpret
from planish.uop.machine.loops import make_plan
from planish.uop.node import Table, UOp
from planish.uop.ops import Axis, AxisType, Bufferize, Combine, Ops, TensorCoreOp, UnrolledLanes
from planish.uop.tensor_cores import CORES, MATRICES

Array = NDArray[Any]
f32, i32, index = dtypes.float32, dtypes.int32, dtypes.index
LOOP, REDUCE, LOCAL = AxisType.LOOP, AxisType.REDUCE, AxisType.LOCAL


@pytest.fixture
def t() -> Iterator[Table]:
    with Table() as table:
        yield table


def whole(t: Table, slot: int, dtype: DType, dims: tuple[int, ...]) -> UOp:
    """A parameter as a tensor-level value."""
    memory = t.make(Ops.INDEX, dtype, (t.param(slot, dtype, int(np.prod(dims))),))
    return t.make(Ops.RESHAPE, dtype, (memory,), dims)


def view(x: UOp, op: Ops, arg: object) -> UOp:
    return x.table.make(op, x.dtype, (x,), arg)


def at(x: UOp, *indices: UOp) -> UOp:
    return x.table.make(Ops.INDEX, x.dtype, (x, *indices))


def place(buffer: UOp, i: UOp) -> UOp:
    """A place as it is from stage 13 on: a pointer."""
    return buffer.table.make(Ops.INDEX, buffer.dtype, (buffer, i))


def load(where: UOp, dtype: DType, *more: UOp) -> UOp:
    return where.table.make(Ops.LOAD, dtype, (where, *more))


def numbers(count: int, dtype: str = "f4") -> Array:
    return np.arange(1, count + 1).astype(dtype)


def special(t: Table, name: str, bound: int) -> UOp:
    return t.make(Ops.SPECIAL, index, (t.const(bound),), index_named(name))


def barrier(*effects: UOp) -> UOp:
    return effects[0].table.make(Ops.BARRIER, dtypes.void, effects)


# -- graphs --------------------------------------------------------------------------------------------------------


def test_views_are_followed_by_numbers(t: Table):
    i, j = t.range(5, 0), t.range(3, 1)
    x = view(view(view(whole(t, 1, f32, (2, 3)), Ops.PERMUTE, (1, 0)), Ops.FLIP, (True, False)), Ops.PAD, ((0, 0), (1, 2)))  # fmt: skip
    x = view(view(x, Ops.SHRINK, ((0, 3), (0, 5))), Ops.PERMUTE, (1, 0))
    sink = t.sink(at(whole(t, 0, f32, (5, 3)), i, j).store(at(x, i, j)).end(i, j))
    given = numbers(6)
    out = interpret(sink, {0: np.zeros(15, "f4"), 1: given}, undefined=[0])[0]
    expected = np.pad(given.reshape(2, 3).T[::-1], ((0, 0), (1, 2))).T
    np.testing.assert_array_equal(out.reshape(5, 3), expected)


def test_the_arrays_given_are_left_alone(t: Table):
    i = t.range(3, 0)
    out = np.zeros(3, "f4")
    after = interpret(t.sink(t.param(0, f32, 3).index(i).store(t.const(2.0, f32)).end(i)), {0: out})
    assert (out.tolist(), after[0].tolist()) == ([0, 0, 0], [2, 2, 2])


def test_reductions_and_triangles(t: Table):
    i = t.range(4, 0)
    r = t.range(i + 1, 1, REDUCE)
    total = t.param(1, f32, 4).index(r).reduce(Ops.ADD, r)
    sink = t.sink(t.param(0, f32, 4).index(i).store(total).end(i))
    assert interpret(sink, {0: np.zeros(4, "f4"), 1: numbers(4)})[0].tolist() == [1, 3, 6, 10]


def test_running_reductions(t: Table):
    i, r = t.range(2, 0), t.range(4, 1)
    x = t.param(1, i32, 8).index(i * 4 + r)
    scan = t.make(Ops.SCAN, i32, (x, r), Ops.MUL)
    sink = t.sink(t.param(0, i32, 8).index(i * 4 + r).store(scan).end(i, r))
    out = interpret(sink, {0: np.zeros(8, "i4"), 1: numbers(8, "i4")})[0]
    np.testing.assert_array_equal(out.reshape(2, 4), np.cumprod(numbers(8, "i4").reshape(2, 4), 1))


def test_running_reductions_of_two_ranges_and_of_lanes(t: Table):
    """Of two ranges the second runs faster; as lanes, those of one position stand together."""
    r, s = t.range(3, 0), t.range(4, 1, AxisType.UPCAST)
    x = t.param(1, i32, 12).index(r * 4 + s)
    scan = t.make(Ops.SCAN, i32, (x, r, s), Ops.ADD)
    sink = t.sink(t.param(0, i32, 12).index(r * 4 + s).store(scan).end(r, s))
    out = interpret(sink, {0: np.zeros(12, "i4"), 1: numbers(12, "i4")})[0]
    np.testing.assert_array_equal(out, np.cumsum(numbers(12, "i4")))
    with Table() as other:
        q = other.range(3, 0)
        lanes = other.vconst(range(8)) + other.make(Ops.VECTORIZE, dtypes.index.vec(8), (q * 8,) * 8)
        wide = other.make(Ops.INDEX, i32.vec(8), (other.param(1, i32, 24), lanes))
        both = other.make(Ops.SCAN, i32.vec(8), (wide, q, other.const(4)), Ops.ADD)
        place = other.make(Ops.INDEX, i32.vec(8), (other.param(0, i32, 24), lanes))
        out = interpret(other.sink(place.store(both).end(q)), {0: np.zeros(24, "i4"), 1: numbers(24, "i4")})[
            0
        ]
    np.testing.assert_array_equal(out.reshape(12, 2), np.cumsum(numbers(24, "i4").reshape(12, 2), 0))


def test_staged_rows(t: Table):
    """A row of squares, stored once, read back to front."""
    i, j, k = t.range(2, 0), t.range(3, 1), t.range(3, 2)
    x = t.param(1, f32, 6).index(i * 3 + j)
    row = t.make(Ops.BUFFERIZE, f32, (x * x, j), Bufferize("local"))
    read = t.make(Ops.INDEX, f32, (row, k * -1 + 2))
    sink = t.sink(t.param(0, f32, 6).index(i * 3 + k).store(read).end(i, k))
    out = interpret(sink, {0: np.zeros(6, "f4"), 1: numbers(6)})[0]
    np.testing.assert_array_equal(out.reshape(2, 3), (numbers(6).reshape(2, 3) ** 2)[:, ::-1])
    beyond = t.make(Ops.INDEX, f32, (row, k + 1))
    wrong = t.sink(t.param(0, f32, 6).index(i * 3 + k).store(beyond).end(i, k))
    with pytest.raises(VerifyError, match="index 3 is outside a row of 3"):
        interpret(wrong, {0: np.zeros(6, "f4"), 1: numbers(6)})


def test_gates_and_invalid_indices(t: Table):
    i = t.range(4, 0)
    inside = (i < 3).where(i + 1, t.invalid())
    x = t.param(1, f32, 4).index(inside)
    gated = t.param(0, f32, 4).index((t.const(0) < i).where(i, t.invalid()))
    sink = t.sink(gated.store(x).end(i))
    out = interpret(sink, {0: np.full(4, 9, "f4"), 1: numbers(4)})[0]
    assert out.tolist() == [9, 3, 4, 0]
    by_gate = t.param(0, f32, 4).index(i, gate=i < 2).store(t.param(1, f32, 4).index(i + 2, gate=i < 2))
    assert interpret(t.sink(by_gate.end(i)), {0: np.full(4, 9, "f4"), 1: numbers(4)})[0].tolist() == [3, 4, 9, 9]  # fmt: skip


def test_unrolled_axes(t: Table):
    u = t.make(Ops.UNROLL, index, (t.vconst(range(4)),), UnrolledLanes((((1,), 4),)))
    i = t.range(2, 0)
    x = t.param(1, f32, 8).index(i * 4 + u)
    wide = t.make(Ops.CONTRACT, f32.vec(4), (x,), UnrolledLanes((((1,), 4),)))
    total = t.make(Ops.REDUCE, f32, (wide,), Ops.ADD)
    stores = t.param(0, f32, 10).index(i * 4 + u).store(x * 2.0).end(i)
    sums = t.param(2, f32, 2).index(i).store(total)
    out = interpret(t.sink(stores, sums.end(i)), {0: np.zeros(10, "f4"), 1: numbers(8), 2: np.zeros(2, "f4")})
    assert out[0].tolist() == [2, 4, 6, 8, 10, 12, 14, 16, 0, 0]
    assert out[2].tolist() == [10, 26]


def accumulator(t: Table, outer: UOp, r: UOp, x: UOp, *, init: bool = True) -> UOp:
    """Σ x over r as stage 11 makes it."""
    register = t.make(Ops.DEFINE_REG, f32.ptr(1, AddrSpace.REG), (), 0)
    zero = t.const(0)
    started = register.after(outer).index(zero).store(t.const(0.0, f32))
    inside = (register.after(started, r) if init else register.after(r)).index(zero)
    return register.after(inside.store(inside + x).end(r)).index(zero)


def test_accumulators(t: Table):
    i, r = t.range(3, 0), t.range(4, 1, REDUCE)
    x = t.param(1, f32, 12).index(i * 4 + r)
    sink = t.sink(t.param(0, f32, 3).index(i).store(accumulator(t, i, r, x)).end(i))
    # the loop that accumulates is a loop, the one around it an axis with a register for each of its values
    plan = make_plan(sink.toposort())
    assert plan.loops == {r}
    assert list(plan.private.values()) == [(i,)]
    assert interpret(sink, {0: np.zeros(3, "f4"), 1: numbers(12)})[0].tolist() == [10, 26, 42]


def test_an_accumulator_that_is_not_started_is_found(t: Table):
    i, r = t.range(3, 0), t.range(4, 1, REDUCE)
    x = t.param(1, f32, 12).index(i * 4 + r)
    sink = t.sink(t.param(0, f32, 3).index(i).store(accumulator(t, i, r, x, init=False)).end(i))
    with pytest.raises(
        VerifyError, match=r"register 0\[0\] is read before anything is written there, at R1 = 0"
    ):
        interpret(sink, {0: np.zeros(3, "f4"), 1: numbers(12)})


def test_an_accumulator_that_is_read_inside_its_loop(t: Table):
    """A running sum as stage 11 makes it: the loop is not an axis although it stores to memory."""
    r = t.range(5, 0)
    register = t.make(Ops.DEFINE_REG, f32.ptr(1, AddrSpace.REG), (), 0)
    zero = t.const(0)
    started = register.index(zero).store(t.const(0.0, f32))
    inside = register.after(started, r).index(zero)
    update = inside.store(inside + t.param(1, f32, 5).index(r))
    so_far = register.after(update).index(zero)
    sink = t.sink(t.param(0, f32, 5).index(r).store(so_far).end(r))
    assert make_plan(sink.toposort()).loops == {r}
    assert interpret(sink, {0: np.zeros(5, "f4"), 1: numbers(5)})[0].tolist() == [1, 3, 6, 10, 15]


def test_loads_stores_and_lanes(t: Table):
    """Vectors from consecutive elements, from places one by one, an alternative where the gate is closed."""
    i = t.range(2, 0, LOOP)
    a, out = t.param(1, f32, 8), t.param(0, f32, 8)
    four = load(place(a, i * 4), f32.vec(4))
    turned = four.gep(3, 2, 1, 0)
    places = t.make(Ops.VECTORIZE, index.vec(4), tuple(i * 4 + lane for lane in range(4)))
    stored = place(out, places).store(turned + t.const(1.0, f32.vec(4)))
    got = interpret(t.sink(stored.end(i)), {0: np.zeros(8, "f4"), 1: numbers(8)})[0]
    assert got.tolist() == [5, 4, 3, 2, 9, 8, 7, 6]
    maybe = load(place(a, i * 100), f32, t.const(-1.0, f32), i < 1)
    gated = t.make(Ops.STORE, dtypes.void, (place(out, i), maybe, t.const(True, dtypes.bool_)))
    assert interpret(t.sink(gated.end(i)), {0: np.zeros(8, "f4"), 1: numbers(8)})[0][:2].tolist() == [1, -1]


def test_variables_have_a_value_within_bounds(t: Table):
    n = t.variable("n", 1, 8)
    i = t.range(n, 0)
    sink = t.sink(t.param(0, f32, 8).index(i).store((i + n).cast(f32)).end(i))
    assert interpret(sink, {0: np.zeros(8, "f4")}, {"n": 3})[0].tolist() == [3, 4, 5, 0, 0, 0, 0, 0]
    with pytest.raises(ShapeError, match="variable n has no value"):
        interpret(sink, {0: np.zeros(8, "f4")})
    with pytest.raises(ShapeError, match=r"n = 9 is outside 1\.\.8"):
        interpret(sink, {0: np.zeros(8, "f4")}, {"n": 9})


def test_dims_that_are_expressions(t: Table):
    n = t.variable("n", 1, 4)
    i, j = t.range(n, 0), t.range(2, 1)
    x = view(
        view(t.make(Ops.INDEX, f32, (t.param(1, f32, 8),)), Ops.SHRINK, ((0, n * 2),)), Ops.RESHAPE, (2, n)
    )
    read = at(view(x, Ops.PERMUTE, (1, 0)), i, j)
    sink = t.sink(t.param(0, f32, 8).index(i * 2 + j).store(read).end(i, j))
    assert interpret(sink, {0: np.zeros(8, "f4"), 1: numbers(8)}, {"n": 3})[0][:6].tolist() == [
        1,
        4,
        2,
        5,
        3,
        6,
    ]


def test_buffers_are_checked(t: Table):
    i = t.range(3, 0)
    sink = t.sink(t.param(0, f32, 3).index(i).store(t.const(2.0, f32)).end(i))
    with pytest.raises(ShapeError, match="buffer 0 is not given"):
        interpret(sink, {})
    with pytest.raises(DTypeError, match="buffer 0 holds f32, not float64"):
        interpret(sink, {0: np.zeros(3)})


# -- order ---------------------------------------------------------------------------------------------------------


def test_scatter_keeps_its_order(t: Table):
    """Of several values for one place the last one stays; what is added is all added."""
    i = t.range(4, 0)
    where = t.param(1, i32, 4).index(i).cast(index)
    replaced = t.sink(t.param(0, f32, 3).index(where).store(t.param(2, f32, 4).index(i)).end(i))
    given = {0: np.zeros(3, "f4"), 1: np.array([2, 0, 2, 0], "i4"), 2: numbers(4)}
    assert interpret(replaced, given)[0].tolist() == [4, 0, 3]
    element = t.param(0, f32, 3).index(where)
    added = t.sink(element.store(element + t.param(2, f32, 4).index(i)).end(i))
    assert interpret(added, given)[0].tolist() == [6, 0, 4]


def test_what_a_loop_changes_is_read_anew_in_every_iteration(t: Table):
    """Even if the place does not depend on the loop, and the other loop is an axis."""
    i, u = t.range(3, 0), t.range(4, 1, AxisType.UPCAST)
    element = t.param(0, f32, 4).index(u)
    product = element * t.param(1, f32, 12).index(i * 4 + u)
    sink = t.sink(element.store(product).end(i, u))
    out = interpret(sink, {0: np.ones(4, "f4"), 1: numbers(12)})[0]
    np.testing.assert_array_equal(out, numbers(12).reshape(3, 4).prod(0))


def test_one_place_with_two_values_is_a_race(t: Table):
    i = t.range(4, 0)
    sink = t.sink(t.param(0, f32, 4).index(i // 2).store(i.cast(f32)).end(i))
    with pytest.raises(
        VerifyError, match=r"buffer 0\[0\] gets two different values, and nothing orders them, at L0 = 1"
    ):
        interpret(sink, {0: np.zeros(4, "f4")})
    same = t.sink(t.param(0, f32, 4).index(i // 2).store((i // 2).cast(f32)).end(i))
    assert interpret(same, {0: np.zeros(4, "f4")})[0].tolist() == [0, 1, 0, 0]


def test_cores_do_not_wait_for_each_other(t: Table):
    """A scatter in parallel is a race even though a loop would be none."""
    i = special(t, "core", 4)
    where = t.param(1, i32, 4).index(i).cast(index)
    sink = t.sink(t.param(0, f32, 3).index(where).store(t.param(2, f32, 4).index(i)))
    given = {0: np.zeros(3, "f4"), 1: np.array([2, 0, 2, 1], "i4"), 2: numbers(4)}
    with pytest.raises(VerifyError, match="two different values"):
        interpret(sink, given)
    given[1] = np.array([2, 0, 1, 2], "i4")
    given[2][3] = 1
    assert interpret(sink, given)[0].tolist() == [2, 3, 1]


def test_two_loops_over_one_buffer_run_in_the_order_they_say(t: Table):
    i, j = t.range(4, 0), t.range(4, 1)
    out = t.param(0, f32, 4)
    first = out.index(i).store(i.cast(f32)).end(i)
    element = out.after(first).index(j * -1 + 3)
    second = t.param(1, f32, 4).index(j).store(element * 10.0).end(j)
    got = interpret(t.sink(second), {0: np.zeros(4, "f4"), 1: np.zeros(4, "f4")}, undefined=[0, 1])
    assert got[1].tolist() == [30, 20, 10, 0]


@pytest.mark.parametrize("offset", [-1, 2])
def test_accesses_outside_are_found_and_placed(t: Table, offset: int):
    i, j = t.range(3, 0), t.range(2, 1)
    x = t.param(1, f32, 6).index(i * 2 + j + offset)
    sink = t.sink(t.param(0, f32, 6).index(i * 2 + j).store(x).end(i, j))
    bad, here = (-1, "L0 = 0, L1 = 0") if offset < 0 else (6, "L0 = 2, L1 = 0")
    with pytest.raises(
        VerifyError, match=rf"buffer 1\[{bad}\] is outside its 6 elements, at {here}"
    ) as caught:
        interpret(sink, {0: np.zeros(6, "f4"), 1: numbers(6)})
    assert " = index %" in str(caught.value)


def test_an_index_outside_a_view_is_found_although_memory_is_there(t: Table):
    i = t.range(4, 0)
    half = view(whole(t, 1, f32, (8,)), Ops.SHRINK, ((0, 3),))
    sink = t.sink(t.param(0, f32, 4).index(i).store(at(half, i)).end(i))
    with pytest.raises(VerifyError, match="index 3 is outside a view of size 3, at L0 = 3"):
        interpret(sink, {0: np.zeros(4, "f4"), 1: numbers(8)})


def test_outputs_are_not_read_before_they_are_written(t: Table):
    i = t.range(4, 0)
    element = t.param(0, f32, 4).index(i)
    sink = t.sink(element.store(element + 1.0).end(i))
    assert interpret(sink, {0: numbers(4)})[0].tolist() == [2, 3, 4, 5]
    with pytest.raises(VerifyError, match="read before anything is written"):
        interpret(sink, {0: numbers(4)}, undefined=[0])


# -- threads -------------------------------------------------------------------------------------------------------


def exchange(t: Table, wait: bool) -> UOp:
    """Each thread of a block leaves a value in LOCAL memory and takes its neighbour's."""
    block, thread = special(t, "gidx0", 3), special(t, "lidx0", 4)
    local = t.make(Ops.DEFINE_LOCAL, f32.ptr(4, AddrSpace.LOCAL), (), 0)
    x = load(place(t.param(1, f32, 12), block * 4 + thread), f32)
    left = place(local, thread).store(x)
    taken = load(place(local.after(barrier(left) if wait else left), (thread + 1) % 4), f32)
    return t.sink(place(t.param(0, f32, 12), block * 4 + thread).store(taken))


def test_threads_share_local_memory(t: Table):
    out = interpret(exchange(t, wait=True), {0: np.zeros(12, "f4"), 1: numbers(12)})[0]
    np.testing.assert_array_equal(out.reshape(3, 4), np.roll(numbers(12).reshape(3, 4), -1, 1))


def test_a_missing_barrier_is_found(t: Table):
    with pytest.raises(VerifyError, match=r"LOCAL buffer 0\[\d\] is read while another thread writes it"):
        interpret(exchange(t, wait=False), {0: np.zeros(12, "f4"), 1: numbers(12)})


def test_overwriting_what_another_thread_still_reads_is_found(t: Table):
    thread = special(t, "lidx0", 4)
    local = t.make(Ops.DEFINE_LOCAL, f32.ptr(4, AddrSpace.LOCAL), (), 0)
    filled = place(local, thread).store(thread.cast(f32))
    taken = load(place(local.after(barrier(filled)), (thread + 1) % 4), f32)

    def again(*waits: UOp) -> UOp:
        second = place(local.after(*waits), thread).store(taken * 2.0)
        final = load(place(local.after(barrier(second)), thread), f32)
        return t.sink(place(t.param(0, f32, 4), thread).store(final))

    used = place(t.param(1, f32, 4), thread).store(taken)
    given = {0: np.zeros(4, "f4"), 1: np.zeros(4, "f4")}
    assert interpret(again(barrier(used)), given)[0].tolist() == [2, 4, 6, 0]
    with pytest.raises(VerifyError, match="is written while another thread uses it"):
        interpret(again(used), given)


def test_local_ranges_share_memory_before_they_are_threads(t: Table):
    i, thread = t.range(2, 0, AxisType.GLOBAL), t.range(4, 1, LOCAL)
    local = t.make(Ops.DEFINE_LOCAL, f32.ptr(4, AddrSpace.LOCAL), (), 0)
    left = local.index(thread).store(t.param(1, f32, 8).index(i * 4 + thread))
    taken = local.after(barrier(left)).index((thread + 1) % 4)
    sink = t.sink(t.param(0, f32, 8).index(i * 4 + thread).store(taken).end(i, thread))
    out = interpret(sink, {0: np.zeros(8, "f4"), 1: numbers(8)})[0]
    np.testing.assert_array_equal(out.reshape(2, 4), np.roll(numbers(8).reshape(2, 4), -1, 1))


def test_tiles_of_one_thread(t: Table):
    """A tensor core that nobody described is row-major in the lanes of one thread."""
    core = TensorCoreOp("rows", (2, 2, 3))
    a, b = load(place(t.param(1, f32, 6), t.const(0)), f32.vec(6)), load(place(t.param(2, f32, 6), t.const(0)), f32.vec(6))  # fmt: skip
    product = t.make(Ops.WMMA, f32.vec(4), (a, b, t.const(1.0, f32.vec(4))), core)
    sink = t.sink(place(t.param(0, f32, 4), t.const(0)).store(product))
    out = interpret(sink, {0: np.zeros(4, "f4"), 1: numbers(6), 2: numbers(6)})[0]
    x = numbers(6)
    np.testing.assert_array_equal(out.reshape(2, 2), x.reshape(2, 3) @ x.reshape(3, 2) + 1)


def _scattered(t: Table, slot: int, name: str, matrix: str, thread: UOp) -> UOp:
    """What a thread holds of a matrix in row-major memory, element by element."""
    core = CORES[name]
    places = core.places(matrix)  # type: ignore[arg-type]
    dtype = core.dtype(matrix)  # type: ignore[arg-type]
    size = places.size
    lanes = []
    for lane in range(places.shape[1]):
        # thread -> element, written as a sum over the bits of the thread number
        number = t.const(int(places[0, lane]))
        for bit in range(places.shape[0].bit_length() - 1):
            step = int(places[1 << bit, lane]) - int(places[0, lane])
            number = number + (thread // (1 << bit)) % 2 * step
        lanes.append(load(place(t.param(slot, dtype.scalar, size), number), dtype.scalar))
    return t.make(Ops.VECTORIZE, dtype, tuple(lanes))


@pytest.mark.parametrize("name", [n for n, core in CORES.items() if core.threads > 1 and core.inputs.name == "float16" and not core.in_memory("b")])  # fmt: skip
def test_tiles_over_the_threads_of_a_warp(t: Table, name: str):
    core = CORES[name]
    thread = special(t, "lidx0", core.threads)
    a, b, c = (_scattered(t, slot, name, matrix, thread) for slot, matrix in ((1, "a"), (2, "b"), (3, "c")))
    product = t.make(Ops.WMMA, core.dtype("c"), (a, b, c), core.arg)
    places = core.places("c")
    out = t.param(0, core.output, places.size)
    stores = []
    for lane in range(places.shape[1]):
        number = t.const(int(places[0, lane]))
        for bit in range(5):
            number = number + (thread // (1 << bit)) % 2 * (
                int(places[1 << bit, lane]) - int(places[0, lane])
            )
        stores.append(place(out, number).store(product.gep(lane)))
    rng = np.random.default_rng(0)
    x, y, z = (rng.integers(-4, 5, core.shape(m)) for m in MATRICES)
    narrow, wide = core.inputs.numpy, core.output.numpy
    given = {0: np.zeros(z.size, wide), 1: x.astype(narrow).ravel(), 2: y.astype(narrow).ravel(), 3: z.astype(wide).ravel()}  # fmt: skip
    got = interpret(t.sink(*stores), given)[0]
    np.testing.assert_array_equal(got.reshape(z.shape), (x @ y + z).astype(wide))


# -- lists ---------------------------------------------------------------------------------------------------------


def test_lists_run_line_by_line(t: Table):
    a, out, five = t.param(1, f32, 5), t.param(0, f32, 5), t.const(5, i32)
    r = t.make(Ops.RANGE, i32, (five,), Axis((0,), LOOP))
    two = t.const(2, i32)
    even = (r % two).eq(t.const(0, i32))
    source, target = place(a, r), place(out, r)
    x = load(source, f32)
    begin = t.make(Ops.IF, dtypes.void, (even,))
    store = target.store(x)
    finish = t.make(Ops.ENDIF, dtypes.void, (begin,))
    end = store.end(r)
    lines = [
        a,
        out,
        five,
        two,
        t.const(0, i32),
        r,
        r % two,
        even,
        source,
        x,
        target,
        begin,
        store,
        finish,
        end,
    ]
    got = interpret(lines, {0: np.zeros(5, "f4"), 1: numbers(5)})[0]
    assert got.tolist() == [1, 0, 3, 0, 5]


def test_a_register_in_a_list_is_one_register(t: Table):
    """What a line forgets to set again is still there from the iteration before."""
    three = t.const(3, i32)
    r = t.make(Ops.RANGE, i32, (three,), Axis((0,), LOOP))
    zero = t.const(0, i32)
    register, out = t.make(Ops.DEFINE_REG, f32.ptr(1, AddrSpace.REG), (), 0), t.param(0, f32, 3)
    started = place(register, zero).store(t.const(0.0, f32))
    there = place(register.after(started, r), zero)
    added = there.store(load(there, f32) + t.const(1.0, f32))
    seen = load(place(register.after(added), zero), f32)
    target = place(out, r)
    store = target.store(seen)
    end = store.end(r)
    body = [line for line in t.sink(end).toposort() if r in line.ranges or line is end]
    before = [line for line in t.sink(end).toposort() if line not in body]
    assert interpret([*before, *body], {0: np.zeros(3, "f4")})[0].tolist() == [1, 2, 3]
    again = [*(line for line in before if line is not started), r, started, *body[1:]]
    assert interpret(again, {0: np.zeros(3, "f4")})[0].tolist() == [1, 1, 1]


def test_threads_of_a_list_wait_at_barriers(t: Table):
    sink = exchange(t, wait=True)
    out = interpret(sink.toposort(), {0: np.zeros(12, "f4"), 1: numbers(12)})[0]
    np.testing.assert_array_equal(out.reshape(3, 4), np.roll(numbers(12).reshape(3, 4), -1, 1))
    thread = special(t, "lidx0", 4)
    begin = t.make(Ops.IF, dtypes.void, (thread < 2,))
    wait, finish = t.make(Ops.BARRIER, dtypes.void, (begin,)), t.make(Ops.ENDIF, dtypes.void, (begin,))
    lines = [t.const(4), thread, t.const(2), thread < 2, begin, wait, finish]
    with pytest.raises(VerifyError, match="not every thread of the block comes to this barrier"):
        interpret(lines, {})


# -- size ----------------------------------------------------------------------------------------------------------


def test_depth_is_no_limit(t: Table):
    i = t.range(2, 0)
    x = t.param(1, f32, 2).index(i)
    for _ in range(3000):
        x = x + 1.0
    sink = t.sink(t.param(0, f32, 2).index(i).store(x).end(i))
    assert interpret(sink, {0: np.zeros(2, "f4"), 1: np.zeros(2, "f4")})[0].tolist() == [3000, 3000]


def test_large_kernels_are_run_in_parts(t: Table):
    """Beyond a number of elements the outermost range is a loop."""
    i, r = t.range(64, 0), t.range(1 << 17, 1, REDUCE)
    x = t.param(1, f32, 1).index(t.const(0)) + (r % 2).cast(f32)
    sink = t.sink(t.param(0, f32, 64).index(i).store((x + i.cast(f32)).reduce(Ops.MAX, r)).end(i))
    assert make_plan(sink.toposort()).loops == {i}


@pytest.mark.parametrize("op", [Ops.ADD, Ops.MAX, Ops.MUL])
@pytest.mark.parametrize("width", [2, 8, 32])
def test_neighbouring_threads_combine_their_values(op: Ops, width: int) -> None:
    t = Table()
    rows, warp = t.range(3, 0, AxisType.GLOBAL), t.range(width, 1, AxisType.WARP)
    source, target = t.param(1, f32, 3 * width), t.param(0, f32, 3)
    x = source.index(rows * width + warp)
    total = t.make(Ops.COMBINE, f32, (x, warp), Combine(op, width))
    sink = t.sink(target.index(rows).store(total).end(rows))
    data = np.random.default_rng(width).standard_normal(3 * width).astype(np.float32)
    values = data.reshape(3, width)
    while values.shape[1] > 1:  # in each step with the thread whose number differs in the highest bit
        half = values.shape[1] // 2
        a, b = values[:, :half], values[:, half:]
        values = {Ops.ADD: a + b, Ops.MAX: np.maximum(a, b), Ops.MUL: a * b}[op]
    found = interpret(sink, {0: np.zeros(3, np.float32), 1: data})
    np.testing.assert_array_equal(found[0], values[:, 0])
