"""Movement ops as index arithmetic, against NumPy doing the same to an array of positions."""

from __future__ import annotations

import random
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
import pytest

from planish import dtypes
from planish.errors import GraphError
from planish.uop.evaluate import evaluate
from planish.uop.movement import flat_index, resolve, source_indices
from planish.uop.node import Table, UOp
from planish.uop.ops import Ops, ReduceAxes
from planish.uop.shape import same_size, shape
from planish.uop.symbolic import simplify
from planish.uop.symbolic.cost import cost, division_count
from tests.uop.views import View

Step = tuple[Ops, Any]


@pytest.fixture
def table() -> Iterator[Table]:
    with Table() as made:
        yield made


# -- the reference -----------------------------------------------------------------------------------------------


def moved(array: np.ndarray, op: Ops, arg: Any) -> np.ndarray:
    """What NumPy makes of an array of positions; -1 stands for padding."""
    if op is Ops.RESHAPE:
        return array.reshape(arg)
    if op is Ops.PERMUTE:
        return array.transpose(arg)
    if op is Ops.EXPAND:
        return np.broadcast_to(array, arg)
    if op is Ops.PAD:
        return np.pad(array, arg, constant_values=-1)
    if op is Ops.SHRINK:
        return array[tuple(slice(begin, end) for begin, end in arg)]
    return np.flip(array, tuple(axis for axis, flip in enumerate(arg) if flip))


def random_shape(rng: random.Random, size: int, axes: int) -> tuple[int, ...]:
    """A shape of this size, its prime factors dealt out to axes."""
    dims = [1] * axes
    for prime in (2, 3, 5, 7, 11, 13):
        while size % prime == 0:
            dims[rng.randrange(axes)] *= prime
            size //= prime
    return tuple(dims) if size == 1 else (*dims[1:], size * dims[0])


def random_step(rng: random.Random, dims: tuple[int, ...]) -> Step:
    total = prod(dims)
    op = rng.choice(
        [
            Ops.RESHAPE,
            Ops.RESHAPE,
            Ops.RESHAPE,
            Ops.PERMUTE,
            Ops.PERMUTE,
            Ops.PAD,
            Ops.SHRINK,
            Ops.FLIP,
            Ops.EXPAND,
        ]
    )
    if op is Ops.EXPAND and (1 not in dims or total > 200):
        op = Ops.RESHAPE
    if op is Ops.PAD and total > 200:
        op = Ops.SHRINK
    if op is Ops.RESHAPE:
        return op, random_shape(rng, total, rng.randint(1, 5))
    if op is Ops.PERMUTE:
        return op, tuple(rng.sample(range(len(dims)), len(dims)))
    if op is Ops.EXPAND:
        return op, tuple(rng.choice([1, 2, 3]) if d == 1 else d for d in dims)
    if op is Ops.FLIP:
        return op, tuple(rng.random() < 0.5 for _ in dims)
    if op is Ops.PAD:
        return op, tuple((rng.choice([0, 0, 1, 2]), rng.choice([0, 0, 1])) for _ in dims)
    pairs = []
    for d in dims:
        begin = rng.randrange(d) if rng.random() < 0.5 else 0
        pairs.append((begin, rng.randint(begin + 1, d) if rng.random() < 0.5 else d))
    return op, tuple(pairs)


def random_chain(rng: random.Random, longest: int = 8) -> tuple[tuple[int, ...], list[Step]]:
    start = random_shape(rng, rng.choice([6, 8, 12, 16, 24, 30, 36, 60, 64]), rng.randint(1, 4))
    dims, steps = start, []
    for _ in range(rng.randint(1, longest)):
        op, arg = random_step(rng, dims)
        steps.append((op, arg))
        dims = moved(np.empty(dims), op, arg).shape
    return start, steps


def check_chain(table: Table, start: tuple[int, ...], steps: list[Step]) -> tuple[UOp, UOp]:
    """The index of the last view into the first array is what NumPy says; gives it, and the raw expression."""
    array = np.arange(prod(start)).reshape(start)
    buffer = table.param(0, dtypes.float32, prod(start))
    node = table.make(Ops.RESHAPE, buffer.dtype, (buffer,), start)
    view = View(table, (prod(start),)).reshape(*start)
    for op, arg in steps:
        array = moved(array, op, arg)
        node = table.make(op, node.dtype, (node,), arg)
        view = view._then(op, arg, array.shape)
    assert shape(node) == array.shape
    ranges = [table.range(size, axis) for axis, size in enumerate(array.shape)]
    place = resolve(node, ranges)
    assert place.base is buffer
    (index,) = place.indices
    env = dict(zip(ranges, np.indices(array.shape), strict=True))
    found = np.broadcast_to(np.asarray(evaluate(index, env)), array.shape)
    valid = np.ones(array.shape, bool)
    if place.valid is not None:
        valid = np.broadcast_to(evaluate(place.valid, env), array.shape)
    assert (valid == (array >= 0)).all(), f"validity of {start} {steps}"
    assert (found[valid] == array[valid]).all(), f"indices of {start} {steps}"
    gated = np.ma.filled(np.ma.asarray(evaluate(place.index, env)), -1)
    assert (gated == array).all(), f"the flat index of {start} {steps}"
    return place.index, view[tuple(ranges)]


@pytest.mark.parametrize("seed", range(20))
def test_random_chains(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(25):
        with Table() as table:
            stepwise, raw = check_chain(table, *random_chain(rng))
            assert cost(stepwise) <= cost(raw)


@pytest.mark.parametrize("seed", range(6))
def test_raw_expressions_of_random_chains_simplify_as_well(seed: int) -> None:
    """The whole expression at once: the same values, and no dearer than what came in."""
    rng = random.Random(1000 + seed)
    for _ in range(20):
        start, steps = random_chain(rng, 6)
        with Table() as table:
            stepwise, raw = check_chain(table, start, steps)
            at_once = simplify(raw)
            assert cost(at_once) <= cost(raw)
            assert simplify(at_once) is at_once
            array = np.arange(prod(start)).reshape(start)
            for step in steps:
                array = moved(array, *step)
            ranges = [table.range(size, axis) for axis, size in enumerate(array.shape)]
            env = dict(zip(ranges, np.indices(array.shape), strict=True))
            assert (np.ma.filled(np.ma.asarray(evaluate(at_once, env)), -1) == array).all()
            assert stepwise.dtype is at_once.dtype


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(100, 140))
def test_many_random_chains(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(250):
        with Table() as table:
            stepwise, raw = check_chain(table, *random_chain(rng))
            assert cost(stepwise) <= cost(raw)
            assert cost(simplify(raw)) <= cost(raw)


# -- one op at a time --------------------------------------------------------------------------------------------


def indices_of(table: Table, *sizes: int) -> list[UOp]:
    return [table.range(size, axis) for axis, size in enumerate(sizes)]


def test_permute_and_expand_add_no_arithmetic(table: Table) -> None:
    i, j, k = indices_of(table, 4, 5, 6)
    assert source_indices(Ops.PERMUTE, (2, 0, 1), (5, 6, 4), [i, j, k]) == ((j, k, i), None)
    assert source_indices(Ops.EXPAND, (4, 5, 6), (4, 1, 6), [i, j, k]) == ((i, table.const(0), k), None)


def test_reshape_keeps_axes_that_both_sides_have(table: Table) -> None:
    i, j, k = indices_of(table, 4, 5, 6)
    (a, b, c, d), valid = source_indices(Ops.RESHAPE, (4, 5, 6), (4, 1, 5, 6), [i, j, k])
    assert (a, b, c, d, valid) == (i, table.const(0), j, k, None)
    (a, b, c, d), _ = source_indices(Ops.RESHAPE, (4, 5, 6), (2, 2, 5, 6), [i, j, k])
    assert (c, d) == (j, k)
    assert division_count(a, b) == 2


def test_pad_gives_a_condition_only_where_it_can_fail(table: Table) -> None:
    i, j = indices_of(table, 6, 4)
    (a, b), valid = source_indices(Ops.PAD, ((1, 1), (0, 0)), (4, 4), [i, j])
    assert b is j
    assert simplify(i - 1) is a
    assert valid is simplify((i > 0) & (i < 5))
    inner = i * 0 + 2
    assert source_indices(Ops.PAD, ((1, 1), (0, 0)), (4, 4), [simplify(inner), j])[1] is None


def test_indices_under_padding_are_simplified_as_if_inside(table: Table) -> None:
    buffer = table.param(0, dtypes.float32, 64)
    square = table.make(Ops.RESHAPE, buffer.dtype, (buffer,), (8, 8))
    rows = table.make(Ops.RESHAPE, buffer.dtype, (square,), (64,))
    padded = table.make(Ops.PAD, buffer.dtype, (rows,), ((3, 5),))
    (i,) = indices_of(table, 72)
    place = resolve(padded, [i])
    assert place.base is buffer
    assert division_count(*place.indices) == 0


def test_scalars_have_no_indices(table: Table) -> None:
    (i,) = indices_of(table, 1)
    assert source_indices(Ops.RESHAPE, (1,), (), [i]) == ((), None)
    assert source_indices(Ops.RESHAPE, (), (1, 1), [], table=table)[0] == (table.const(0),) * 2
    with pytest.raises(GraphError, match="name the table"):
        source_indices(Ops.RESHAPE, (), (1, 1), [])


def test_flat_index_is_row_major(table: Table) -> None:
    i, j = indices_of(table, 4, 5)
    assert simplify(flat_index((4, 5), [i, j], table)) is simplify(i * 5 + j)
    assert flat_index((), [], table) is table.const(0)


def test_symbolic_sizes(table: Table) -> None:
    n = table.variable("n", 1, 100)
    i, j, k = table.range(4, 0), table.range(n, 1), table.range(6, 2)
    (flat,), _ = source_indices(Ops.RESHAPE, (4, n, 6), (n * 24,), [i, j, k])
    assert division_count(flat) == 0
    back, _ = source_indices(Ops.RESHAPE, (n * 24,), (4, n, 6), [flat])
    assert back == (i, j, k)
    assert same_size((4, n, 6), (n * 24,))
    assert not same_size((4, n, 6), (n * 25,))


def test_bad_calls_are_named(table: Table) -> None:
    i, j = indices_of(table, 4, 5)
    with pytest.raises(GraphError, match="ADD is not a movement op"):
        source_indices(Ops.ADD, (), (4,), [i])
    with pytest.raises(GraphError, match="2 indices for 1 axes"):
        source_indices(Ops.FLIP, (True,), (4,), [i, j])
    buffer = table.param(0, dtypes.float32, 20)
    with pytest.raises(GraphError, match="2 indices for 1 axes"):
        resolve(buffer, [i, j])


# -- shapes ------------------------------------------------------------------------------------------------------


def test_shapes_of_tensor_nodes(table: Table) -> None:
    buffer = table.param(0, dtypes.float32, 24)
    x = table.make(Ops.RESHAPE, buffer.dtype, (buffer,), (2, 3, 4))
    assert shape(buffer) == (24,)
    assert shape(table.make(Ops.PERMUTE, x.dtype, (x,), (2, 0, 1))) == (4, 2, 3)
    assert shape(table.make(Ops.PAD, x.dtype, (x,), ((1, 0), (0, 2), (0, 0)))) == (3, 5, 4)
    assert shape(table.make(Ops.SHRINK, x.dtype, (x,), ((0, 1), (1, 3), (0, 4)))) == (1, 2, 4)
    assert shape(table.make(Ops.FLIP, x.dtype, (x,), (True, False, True))) == (2, 3, 4)
    assert shape(table.make(Ops.REDUCE_AXIS, x.dtype, (x,), ReduceAxes(Ops.ADD, (1,)))) == (2, 1, 4)
    assert shape(table.const(1.0, dtypes.float32)) == ()
    assert shape(table.param(1, dtypes.float32, 9).index(table.const(3))) == ()
    # without indices it is the whole tensor, as a value
    assert shape(x.index()) == (2, 3, 4)
    assert shape(table.make(Ops.SCAN_AXIS, x.dtype, (x,), ReduceAxes(Ops.ADD, (1,)))) == (2, 3, 4)


def test_elements_at_positions_have_the_shape_of_the_positions(table: Table) -> None:
    buffer = table.param(0, dtypes.float32, 12)
    x = table.make(Ops.RESHAPE, dtypes.float32, (buffer.index(),), (3, 4))
    rows = table.make(Ops.RESHAPE, dtypes.int64, (table.param(1, dtypes.int64, 10).index(),), (5, 2))
    gate = table.make(Ops.RESHAPE, dtypes.bool_, (table.param(2, dtypes.bool_, 10).index(),), (5, 2))
    found = table.make(Ops.INDEX, dtypes.float32, (x, rows, table.const(1), gate))
    assert shape(found) == (5, 2)
    memory = table.make(Ops.CONTIGUOUS, dtypes.float32, (x,))
    store = table.make(
        Ops.STORE, dtypes.void, (table.make(Ops.INDEX, dtypes.float32, (memory, rows, rows)), found)
    )
    assert shape(store) == (5, 2)
    assert shape(memory.after(store)) == (3, 4)
    flat = table.make(Ops.RESHAPE, dtypes.int64, (rows,), (10,))
    with pytest.raises(GraphError, match="sources of shapes"):
        shape(table.make(Ops.INDEX, dtypes.float32, (x, rows, flat)))


def test_elementwise_ops_have_the_shape_of_their_sources(table: Table) -> None:
    scalar = table.const(2, dtypes.int32)
    tensor = table.make(
        Ops.EXPAND, dtypes.int32, (table.make(Ops.RESHAPE, dtypes.int32, (scalar,), (1,)),), (5,)
    )
    assert shape(tensor + scalar) == (5,)
    assert shape((tensor < scalar).where(tensor, scalar)) == (5,)
    other = table.make(Ops.EXPAND, dtypes.int32, (tensor.src[0],), (6,))
    with pytest.raises(GraphError, match="EXPAND"):
        shape(tensor + other)


@pytest.mark.parametrize(
    ("op", "arg"),
    [
        (Ops.RESHAPE, (5, 5)),
        (Ops.PERMUTE, (1, 0)),
        (Ops.EXPAND, (2, 3, 8)),
        (Ops.EXPAND, (2, 3)),
        (Ops.PAD, ((1, 1),)),
        (Ops.SHRINK, ((0, 1), (2, 1), (0, 4))),
        (Ops.SHRINK, ((0, 1), (2, 4), (0, 4))),
        (Ops.FLIP, (True,)),
    ],
)
def test_arguments_that_do_not_fit_are_named(table: Table, op: Ops, arg: Any) -> None:
    buffer = table.param(0, dtypes.float32, 24)
    x = table.make(Ops.RESHAPE, buffer.dtype, (buffer,), (2, 3, 4))
    with pytest.raises(GraphError, match=rf"{op.name}.*\(2, 3, 4\)"):
        shape(table.make(op, x.dtype, (x,), arg))


def test_a_long_chain_of_views_needs_no_recursion(table: Table) -> None:
    buffer = table.param(0, dtypes.float32, 6)
    node = table.make(Ops.RESHAPE, buffer.dtype, (buffer,), (2, 3))
    for _ in range(3000):
        node = table.make(Ops.PERMUTE, node.dtype, (node,), (1, 0))
    assert shape(node) == (2, 3)
    i, j = indices_of(table, 2, 3)
    assert resolve(node, [i, j]).index is simplify(i * 3 + j)


@pytest.mark.parametrize(
    ("before", "after"), [((0,), (0, 2)), ((0, 2), (0,)), ((2, 0), (0, 3, 5)), ((0,), (4, 0))]
)
def test_a_view_of_nothing_has_indices(before: tuple[int, ...], after: tuple[int, ...]) -> None:
    with Table() as t:
        indices = [t.variable(f"i{n}", 0, 3) for n in range(len(after))]
        found, valid = source_indices(Ops.RESHAPE, after, before, indices)
        assert len(found) == len(before)
        assert valid is None
