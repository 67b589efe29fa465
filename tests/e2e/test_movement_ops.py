"""pad, slice, concat, reverse and iota, alone and fused, by the PTIR interpreter, the LLIR interpreter and native code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from planish import compiler, ptir
from planish.errors import PlanishError
from planish.llir.counters import Counters
from planish.ptir.graph_value import GraphValue
from planish.ptir.interpret import interpret
from planish.schedule.elements import Elements
from planish.uop.ops import Ops

Array = NDArray[Any]
Build = Callable[..., GraphValue]


def data(shape: tuple[int, ...], dtype: str = "float32", seed: int = 0) -> Array:
    """Values that any wrong element would betray, -0.0, NaN and infinity among them."""
    rng = np.random.default_rng(seed)
    size = int(np.prod(shape))
    if dtype == "bool":
        return np.asarray(rng.integers(0, 2, shape), bool)
    values = (np.arange(1, size + 1) * rng.choice((-1, 1), size)).astype(dtype)
    if np.dtype(dtype).kind == "f" and size > 5:
        values[rng.permutation(size)[:4]] = (-0.0, np.nan, np.inf, -np.inf)
    return np.asarray(values.reshape(shape))


def function_of(build: Build, arrays: Sequence[Array]) -> ptir.Function:
    graph = ptir.Graph("f")
    inputs = [
        graph.input(f"x{number}", ptir.tensor(str(array.dtype), array.shape))
        for number, array in enumerate(arrays)
    ]
    return graph.build(build(graph, *inputs))


def bits(array: Array) -> Array:
    """Floats by their bits, so that -0.0 and NaN count; NaNs are all alike."""
    if array.dtype.kind != "f":
        return array
    plain = np.where(np.isnan(array), np.asarray(np.nan, array.dtype), array)
    return np.ascontiguousarray(plain).view(f"i{array.dtype.itemsize}")


def all_agree(build: Build, *arrays: Array) -> compiler.Lowered:
    """Three ways to run a program give the same bits."""
    function = function_of(build, arrays)
    (wanted,) = interpret(function, arrays)
    lowered = compiler.lower(function)
    for run in (lowered.interpreted(), lowered.compile()):
        (found,) = run(*arrays)
        assert found.dtype == wanted.dtype
        assert found.shape == wanted.shape
        np.testing.assert_array_equal(bits(found), bits(np.asarray(wanted)))
    return lowered


CASES: dict[str, tuple[Build, tuple[Array, ...]]] = {
    "pad": (lambda g, x: x.pad((1, 2), (2, 0)), (data((3, 4)),)),
    "pad with a value": (lambda g, x: x.pad((1, 0), (0, 3), value=-7.5), (data((3, 4)),)),
    "pad with -0.0": (lambda g, x: x.pad((1,), (1,), value=-0.0), (data((3,)),)),
    "pad with an operand": (lambda g, x, v: x.pad((2,), (1,), value=v), (data((4,)), np.array(9, np.float32))),
    "pad between": (lambda g, x: x.pad((1, 0), (2, 1), (2, 1)), (data((3, 4), "int32"),)),
    "pad between with a value": (lambda g, x: x.pad((0, 1), (0, 0), (1, 3), value=5), (data((2, 3), "int16"),)),
    "pad crops": (lambda g, x: x.pad((-1, 2), (1, -3)), (data((3, 5)),)),
    "pad crops everything": (lambda g, x: x.pad((-5,), (4,), value=3), (data((3,)),)),
    "pad crops what is between": (lambda g, x: x.pad((-2,), (-1,), (2,), value=1), (data((4,)),)),
    "pad an empty axis": (lambda g, x: x.pad((2, 0), (1, 0), value=4), (data((0, 2)),)),
    "pad bools": (lambda g, x: x.pad((1,), (2,)), (data((5,), "bool"),)),
    "pad a constant": (lambda g: g.full((2, 2), 3.0, "f32").pad((1, 1), (1, 1)), ()),
    "pad what is computed": (lambda g, x, y: x.add(y).pad((1, 1), (1, 1)), (data((3, 3)), data((3, 3), seed=1))),
    "pad of a pad of a product": (
        lambda g, x, y: x.mul(y).pad((1,), (0,), value=2).add(x.pad((0,), (1,))).pad((2,), (1,), value=3),
        (data((4,)), data((4,), seed=1)),
    ),
    "pad of a scalar's broadcast": (lambda g, x: x.broadcast_to((3,)).exp().pad((1,), (1,)), (data((1,), "int32").astype(np.float32),)),
    "pad then reduce": (lambda g, x: x.pad((1, 1), (1, 1)).reduce_max([1]), (data((3, 4), "int32"),)),
    "reduce then pad": (lambda g, x: x.reduce_sum([1]).pad((2,), (1,), value=-1), (data((3, 4), "int32"),)),
    "slice": (lambda g, x: x.slice((1, 0), (3, 4)), (data((4, 5)),)),
    "slice with strides": (lambda g, x: x.slice((1, 0), (7, 5), (2, 3)), (data((8, 5)),)),
    "slice with a stride beyond": (lambda g, x: x.slice((2,), (5,), (7,)), (data((6,)),)),
    "slice to nothing": (lambda g, x: x.slice((2,), (2,), (1,)), (data((6,)),)),
    "slice what is computed": (lambda g, x, y: x.sub(y).slice((0,), (9,), (4,)), (data((9,)), data((9,), seed=1))),
    "reverse": (lambda g, x: x.reverse([0, 2]), (data((2, 3, 4)),)),
    "reverse what is computed": (lambda g, x: x.neg().reverse([0]).add(x), (data((7,)),)),
    "concat": (lambda g, x, y: g.concat([x, y], 0), (data((2, 3)), data((4, 3), seed=1))),
    "concat along the last axis": (
        lambda g, x, y, z: g.concat([x, y, z], 1),
        (data((2, 3)), data((2, 1), seed=1), data((2, 4), seed=2)),
    ),
    "concat with nothing": (lambda g, x, y: g.concat([x, y, x], 0), (data((2, 2)), data((0, 2)))),
    "concat of nothings": (lambda g, x: g.concat([x, x], 0), (data((0, 2)),)),
    "concat of one": (lambda g, x: g.concat([x], 0), (data((3,)),)),
    "concat with a constant": (
        lambda g, x: g.concat([g.full((2,), 5, "i32"), x, g.full((1,), 0, "i32")], 0),
        (data((3,), "int32"),),
    ),
    "concat of what is computed": (
        lambda g, x, y: g.concat([x.mul(y), y.exp2(), x], 0).neg(),
        (data((3,), "int32").astype(np.float32), data((3,), "int32", 1).astype(np.float32)),
    ),
    "concat then reduce": (
        lambda g, x, y: g.concat([x, y], 1).reduce_sum([1]),
        (data((3, 20), "int32"), data((3, 17), "int32", 1)),
    ),
    "concat of sums": (
        lambda g, x, y: g.concat([x.reduce_sum([1]), y.reduce_max([1])], 0),
        (data((3, 4), "int32"), data((5, 4), "int32", 1)),
    ),
    "concat of bools": (lambda g, x, y: g.concat([x, y], 0), (data((3,), "bool"), data((2,), "bool", 1))),
    "iota": (lambda g: g.iota((5,), 0, "i32"), ()),
    "iota along an axis": (lambda g: g.iota((3, 4), 1, "i64").add(g.iota((3, 4), 0, "i64").mul(g.full((3, 4), 10, "i64"))), ()),
    "iota of floats": (lambda g: g.iota((6,), 0, "f32").exp2(), ()),
    "iota wraps": (lambda g: g.iota((300,), 0, "i8"), ()),
    "iota moved": (lambda g: g.iota((3, 4), 1, "i32").transpose((1, 0)).reshape((2, 6)).reverse([1]), ()),
    "iota padded": (lambda g: g.iota((3,), 0, "i32").pad((2,), (1,), value=-1), ()),
    "iota sliced": (lambda g: g.iota((10,), 0, "i32").slice((1,), (9,), (3,)), ()),
    "triangle": (
        lambda g, x: g.iota((4, 4), 1, "i32").le(g.iota((4, 4), 0, "i32")).select(x, g.full((4, 4), 0.0, "f32")),
        (data((4, 4)),),
    ),
    "diagonal by sum": (
        lambda g, x: g.iota((4, 4), 1, "i32").eq(g.iota((4, 4), 0, "i32")).select(x, g.full((4, 4), 0, "i32")).reduce_sum([1]),
        (data((4, 4), "int32"),),
    ),
    "lookup by one hot": (
        lambda g, table, ids: g.iota((3, 6, 2), 1, "i32")
        .eq(ids.reshape((3, 1, 1)).broadcast_to((3, 6, 2)))
        .select(table.reshape((1, 6, 2)).broadcast_to((3, 6, 2)), g.full((3, 6, 2), 0.0, "f32"))
        .reduce_sum([1]),
        (np.arange(12, dtype=np.float32).reshape(6, 2), np.array([4, -1, 6], np.int32)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_all_ways_to_run_agree(name: str) -> None:
    build, arrays = CASES[name]
    all_agree(build, *arrays)


# -- what a kernel does ------------------------------------------------------------------------------------------


def counted(build: Build, *arrays: Array) -> tuple[compiler.Lowered, list[Counters]]:
    """A program run by the LLIR interpreter, and what each of its kernels did."""
    lowered = compiler.lower(function_of(build, arrays))
    counts: list[Counters] = []
    lowered.interpreted(lambda program, counters: counts.append(counters))(*arrays)
    return lowered, counts


def has_conditions(lowered: compiler.Lowered) -> bool:
    text = lowered.as_text("llir")
    return any(word in text for word in ("cmplt", "cmple", "cmpeq", "cmpne", " if "))


def test_concat_and_pad_read_and_write_once() -> None:
    x, y = data((4, 32)), data((4, 48), seed=1)
    for build, arrays, size in (
        (lambda g, x, y: g.concat([x, y], 1), (x, y), 320),
        (lambda g, x, y: g.concat([x, y.slice((0, 0), (4, 32))], 0), (x, y), 256),
        (lambda g, x: x.pad((1, 16), (2, 16), value=2.0), (x,), 448),
    ):
        lowered, (count,) = counted(build, *arrays)
        assert count.bytes_written == count.distinct_bytes_written == 4 * size
        assert count.bytes_read == count.distinct_bytes_read
        assert not has_conditions(lowered)  # each part is a loop without a question


def test_a_lookup_reads_only_the_rows_it_needs() -> None:
    rows, width, ids = 1000, 8, np.array([3, 999, 3, 17], np.int32)

    def build(g: ptir.Graph, table: GraphValue, ids: GraphValue) -> GraphValue:
        dims = (4, rows, width)
        here = g.iota(dims, 1, "i32").eq(ids.reshape((4, 1, 1)).broadcast_to(dims))
        return here.select(
            table.reshape((1, rows, width)).broadcast_to(dims), g.full(dims, 0.0, "f32")
        ).reduce_sum([1])

    _, (count,) = counted(build, data((rows, width)), ids)
    assert sorted(traffic.read for traffic in count.traffic.values()) == [0, ids.nbytes, 4 * width * 4]
    assert count.register_bytes == 0  # no accumulator


def test_counting_needs_no_loop() -> None:
    def build(g: ptir.Graph) -> GraphValue:
        below = g.iota((50, 50), 1, "i32").le(g.iota((50, 50), 0, "i32"))
        return below.cast("i32").reduce_sum([1])

    _, (count,) = counted(build)
    assert count.executed < 50 * 10
    assert count.register_bytes == 0


def test_strided_slices_ask_nothing() -> None:
    lowered, (count,) = counted(lambda g, x: x.slice((1, 0), (8, 7), (3, 2)), data((8, 7)))
    assert not has_conditions(lowered)
    assert count.bytes_written == 3 * 4 * 4
    (read,) = (traffic for traffic in count.traffic.values() if traffic.read)
    assert read.distinct_read <= 3 * 7 * 4  # with what lies between: three rows, in whole vectors
    assert count.instructions["load"] <= 3 * 2


def test_a_kernel_is_one_for_a_chain_of_movements() -> None:
    def build(g: ptir.Graph, x: GraphValue, y: GraphValue) -> GraphValue:
        return (
            g.concat([x.pad((1, 0), (0, 1)), y.reverse([0])], 0).transpose((1, 0)).slice((0, 1), (4, 6)).neg()
        )

    lowered = all_agree(build, data((3, 3)), data((2, 4), seed=1))
    assert len(lowered.schedule.kernels) == 1


def test_what_is_found_unused_is_no_parameter() -> None:
    build, arrays = CASES["pad crops everything"]
    lowered = all_agree(build, *arrays)
    (program,) = lowered.programs
    assert len(program.params) == 1


@pytest.mark.parametrize("dims", [(3, 3), (40, 21), (7, 130)])
def test_reads_below_a_padding_of_something_computed_are_gated(dims: tuple[int, int]) -> None:
    """The interpreter refuses a read beyond the end, and next to nothing is read again for the padding alone."""
    build, _ = CASES["pad what is computed"]
    _, (found,) = counted(build, data(dims), data(dims, seed=1))
    for name in ("arg1", "arg2"):
        there = 4 * dims[0] * dims[1]
        assert found.traffic[name].distinct_read == there
        assert found.traffic[name].read <= 1.1 * there


# -- random programs ---------------------------------------------------------------------------------------------


@st.composite
def programs(draw: st.DrawFn) -> tuple[Build, tuple[Array, ...]]:
    """A chain of movements, arithmetic and reductions on integers."""
    dims = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    steps = draw(
        st.lists(st.tuples(st.sampled_from("pscrtnafk"), st.integers(0, 2**16)), min_size=1, max_size=5)
    )

    def build(g: ptir.Graph, x: GraphValue, y: GraphValue) -> GraphValue:
        value = x
        for kind, seed in steps:
            rng = np.random.default_rng(seed)
            shape = tuple(int(d) for d in value.type.dims)
            rank = len(shape)
            if kind == "p":
                low = [int(n) for n in rng.integers(-1, 3, rank)]
                high = [
                    int(max(n, -d - lo))
                    for n, d, lo in zip(rng.integers(-1, 3, rank), shape, low, strict=True)
                ]
                between = [int(n) if d else 0 for n, d in zip(rng.integers(0, 2, rank), shape, strict=True)]
                high = [
                    max(h, -(lo + d + max(d - 1, 0) * b))
                    for h, lo, d, b in zip(high, low, shape, between, strict=True)
                ]
                value = value.pad(low, high, between, value=int(rng.integers(0, 3)))
            elif kind == "s":
                starts = [int(rng.integers(0, d + 1)) for d in shape]
                limits = [int(rng.integers(s, d + 1)) for s, d in zip(starts, shape, strict=True)]
                value = value.slice(starts, limits, [int(n) for n in rng.integers(1, 4, rank)])
            elif kind == "c":
                value = g.concat([value, value.neg(), value], int(rng.integers(0, rank)))
            elif kind == "r":
                value = value.reverse([int(rng.integers(0, rank))])
            elif kind == "t":
                value = value.transpose([int(a) for a in rng.permutation(rank)])
            elif kind == "n":
                value = value.add(g.iota(shape, int(rng.integers(0, rank)), "i32"))
            elif kind == "a":
                value = value.mul(y.broadcast_to(shape))
            elif kind == "f":
                value = value.reshape((int(np.prod(shape)),))
            elif rank > 1:
                value = value.reduce_sum([int(rng.integers(0, rank))])
        return value

    return build, (data(dims, "int32"), np.array([3], np.int32))


@given(programs())
def test_random_programs_agree(program: tuple[Build, tuple[Array, ...]]) -> None:
    build, arrays = program
    all_agree(build, *arrays)


def test_a_lost_gate_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Elements, "read", lambda self, memory, indices, valid: self.table.make(Ops.INDEX, memory.dtype, (memory, *indices)))  # fmt: skip
    build, arrays = CASES["pad what is computed"]
    with pytest.raises((PlanishError, AssertionError)):
        all_agree(build, *arrays)
