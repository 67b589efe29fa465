"""Intervals: sound always, tight for independent operands, exhaustively on small domains."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import numpy as np
import pytest

from planish import dtypes
from planish.dtypes import DType
from planish.errors import GraphError
from planish.uop import arithmetic, bounds
from planish.uop.evaluate import evaluate
from planish.uop.hardware_index import index_named
from planish.uop.node import Table, UOp
from planish.uop.ops import Ops, UnrolledLanes
from tests.uop.integers import BINARY, UNARY

DOMAIN = range(-5, 7)
INTERVALS = [(a, b) for a in DOMAIN for b in DOMAIN if a <= b]


@pytest.mark.parametrize("op", BINARY, ids=lambda op: op.name)
def test_binary_on_index_is_exact_for_all_intervals(op):
    table = {(x, y): BINARY[op](x, y) for x in DOMAIN for y in DOMAIN}
    for a, b in INTERVALS:
        columns = {y: [table[x, y] for x in range(a, b + 1)] for y in DOMAIN}
        ends = {y: (min(column), max(column)) for y, column in columns.items()}
        for c, d in INTERVALS:
            low = min(ends[y][0] for y in range(c, d + 1))
            high = max(ends[y][1] for y in range(c, d + 1))
            assert bounds.interval(op, dtypes.index, (a, b), (c, d)) == (low, high), ((a, b), (c, d))


@pytest.mark.parametrize("op", UNARY, ids=lambda op: op.name)
def test_unary_on_index_is_exact_for_all_intervals(op):
    for a in range(-36, 37):
        values = []
        for b in range(a, 37):
            values.append(UNARY[op](b))
            assert bounds.interval(op, dtypes.index, (a, b)) == (min(values), max(values)), (a, b)


def test_ternary_on_index_is_exact():
    ends = [(-3, -1), (-2, 2), (0, 0), (1, 3)]
    for x, y, z in itertools.product(ends, repeat=3):
        values = [
            p * q + r for p, q, r in itertools.product(*(range(low, high + 1) for low, high in (x, y, z)))
        ]
        assert bounds.interval(Ops.MULACC, dtypes.index, x, y, z) == (min(values), max(values))
    for condition, expected in {(0, 0): (4, 9), (1, 1): (-2, 1), (0, 1): (-2, 9)}.items():
        assert bounds.interval(Ops.WHERE, dtypes.index, condition, (-2, 1), (4, 9)) == expected


@pytest.mark.parametrize("seed", range(4))
def test_remainder_of_wide_intervals_is_tight(seed):
    rng = random.Random(seed)
    for _ in range(250):
        a = rng.randint(-90, 90)
        b = a + rng.randint(0, 30)
        c = rng.randint(-60, 60)
        d = c + rng.randint(0, 60)
        values = [BINARY[Ops.FLOORMOD](x, y) for x in range(a, b + 1) for y in range(c, d + 1)]
        found = bounds.interval(Ops.FLOORMOD, dtypes.index, (a, b), (c, d))
        assert found == (min(values), max(values)), ((a, b), (c, d))


def test_remainder_with_too_many_quotients_stays_sound():
    # 10**12 has about a million distinct quotients here: the answer is sound, and quick.
    low, high = bounds.interval(Ops.FLOORMOD, dtypes.index, (10**12, 10**12), (3, 10**6))
    assert low == 0
    assert max(10**12 % y for y in range(3, 2000)) <= high < 10**6


# -- wrapping integers -----------------------------------------------------------------------------------------


def domain_of(dtype: DType) -> np.ndarray:
    return np.arange(int(dtype.min or 0), int(dtype.max or 0) + 1)


def intervals_of(dtype: DType) -> list[tuple[int, int]]:
    low, high = int(dtype.min or 0), int(dtype.max or 0)
    ends = sorted({low, low + 1, -17, -5, -1, 0, 1, 3, 7, 10, 64, high - 1, high} & set(range(low, high + 1)))
    return [(a, b) for a in ends for b in ends if a <= b]


WRAPPING = [op for op in (*BINARY, *UNARY) if op not in (Ops.POPCOUNT, Ops.CLZ)]


@pytest.mark.parametrize("dtype", [dtypes.int4, dtypes.uint4, dtypes.int8, dtypes.uint8], ids=str)
@pytest.mark.parametrize("op", WRAPPING, ids=lambda op: op.name)
def test_wrapping_integers_are_sound_and_tight_where_nothing_wraps(op, dtype):
    domain = domain_of(dtype)
    low = int(domain[0])
    carried = domain.astype(arithmetic.carrier(dtype))
    shapes = (carried[:, None], carried[None, :]) if op in BINARY else (carried,)
    with np.errstate(all="ignore"):
        values = arithmetic.apply(op, dtype, *shapes).astype(np.int64)
    for sources in itertools.product(intervals_of(dtype), repeat=len(shapes)):
        part = values[tuple(slice(a - low, b - low + 1) for a, b in sources)]
        found = bounds.interval(op, dtype, *sources)
        reached = (int(part.min()), int(part.max()))
        assert found[0] <= reached[0] <= reached[1] <= found[1], sources
        if found != reached:
            # Only what wraps may be wide, and then it is everything.
            assert found == (domain[0], domain[-1]), (sources, found, reached)
            assert wraps(op, dtype, sources), (sources, found, reached)


def wraps(op: Ops, dtype: DType, sources: tuple[tuple[int, int], ...]) -> bool:
    function: Callable[..., int] = BINARY.get(op) or UNARY[op]
    operands = [range(a, b + 1) for a, b in sources]
    if op in (Ops.SHL, Ops.SHR):
        operands[1] = range(max(operands[1].start, 0), min(operands[1].stop, dtype.bits))
    return any(
        dtype.wrap(exact) != exact for exact in itertools.starmap(function, itertools.product(*operands))
    )


@pytest.mark.parametrize("dtype", [dtypes.int8, dtypes.uint8, dtypes.uint4], ids=str)
def test_bit_counts_are_exact(dtype):
    domain = domain_of(dtype)
    for op in (Ops.POPCOUNT, Ops.CLZ):
        values = arithmetic.apply(op, dtype, domain.astype(arithmetic.carrier(dtype)))
        for a, b in intervals_of(dtype):
            part = values[a - domain[0] : b - domain[0] + 1]
            assert bounds.interval(op, dtype, (a, b)) == (part.min(), part.max()), (op, a, b)


def test_what_wraps_as_a_whole_moves():
    assert bounds.interval(Ops.ADD, dtypes.int8, (120, 125), (10, 11)) == (-126, -120)
    assert bounds.interval(Ops.ADD, dtypes.int8, (120, 125), (0, 11)) == (-128, 127)
    assert bounds.interval(Ops.NEG, dtypes.int8, (-128, -128)) == (-128, -128)
    assert bounds.interval(Ops.SUB, dtypes.uint8, (0, 0), (1, 2)) == (254, 255)


def test_casts():
    cast = bounds.interval
    assert cast(Ops.CAST, dtypes.int8, (100, 130)) == (-128, 127)
    assert cast(Ops.CAST, dtypes.uint8, (-3, -1)) == (253, 255)
    assert cast(Ops.CAST, dtypes.index, (-3, 200)) == (-3, 200)
    assert cast(Ops.CAST, dtypes.bool_, (-3, 200)) == (0, 1)
    assert cast(Ops.CAST, dtypes.bool_, (1, 200)) == (1, 1)
    assert cast(Ops.CAST, dtypes.bool_, (-7, -1)) == (1, 1)
    assert cast(Ops.CAST, dtypes.bool_, (0, 0)) == (0, 0)


# -- nodes -----------------------------------------------------------------------------------------------------


@pytest.fixture
def t():
    with Table() as table:
        yield table


def test_leaves(t):
    assert t.const(-7).bounds == (-7, -7)
    assert t.const(True, dtypes.bool_).bounds == (1, 1)
    assert t.vconst([3, -1, 2]).bounds == (-1, 3)
    assert t.variable("n", -4, 9).bounds == (-4, 9)
    assert t.range(10, 0).bounds == (0, 9)
    assert t.make(Ops.SPECIAL, dtypes.index, (t.const(32),), index_named("gidx0")).bounds == (0, 31)
    assert t.invalid().bounds == (-(1 << 63), (1 << 63) - 1)
    n = t.variable("n", -4, 9)
    assert t.range(n, 0).bounds == (0, 8)
    assert t.range(t.variable("m", -4, 0), 1).bounds == (0, 0)


def test_memory_and_floats(t):
    r = t.range(10, 0)
    loaded = t.param(0, dtypes.int8, 100).index(r)
    assert loaded.bounds == (-128, 127)
    assert loaded.cast(dtypes.index).bounds == (-128, 127)
    assert (loaded.cast(dtypes.index) * 1000).bounds == (-128000, 127000)
    real = t.param(1, dtypes.float32, 100).index(r)
    assert real.bounds is None
    assert (real < real).bounds == (0, 1)
    assert real.cast(dtypes.uint8).bounds == (0, 255)
    assert real.cast(dtypes.index).bounds == (-(1 << 63), (1 << 63) - 1)
    assert real.cast(dtypes.bool_).bounds == (0, 1)
    assert real.cast(dtypes.int32).bitcast(dtypes.uint32).bounds == (0, (1 << 32) - 1)
    assert t.sink().bounds is None
    with pytest.raises(GraphError, match="no integer bounds"):
        _ = real.vmin


def test_lanes(t):
    x, y = t.variable("x", 0, 3), t.variable("y", 10, 20)
    pair = t.make(Ops.VECTORIZE, dtypes.index.vec(2), (x, y))
    assert pair.bounds == (0, 20)
    assert pair.gep(1).bounds == (10, 20)
    assert t.vconst([5, 6, 70]).gep(0, 1).bounds == (5, 6)
    both = t.make(Ops.CAT, dtypes.index.vec(4), (pair, pair + pair))
    assert both.bounds == (0, 40)
    assert both.gep(0).bounds == (0, 40)
    spread = t.make(Ops.UNROLL, dtypes.index, (pair,), UnrolledLanes((((0,), 2),)))
    assert spread.bounds == (0, 20)


@pytest.mark.parametrize(
    "op", [Ops.ADD, Ops.MUL, Ops.MAX, Ops.MIN, Ops.AND, Ops.OR, Ops.XOR], ids=lambda op: op.name
)
@pytest.mark.parametrize("dtype", [dtypes.index, dtypes.int8, dtypes.uint8], ids=str)
def test_reductions_are_sound(t, op, dtype):
    n = t.variable("n", 0, 4)
    for low, high in [(-3, 2), (1, 3), (0, 0), (2, 2), (-2, -1), (0, 200)]:
        if dtype.is_unsigned and low < 0:
            continue
        top = min(high, int(dtype.max or high))
        x = t.variable("x", low, top, dtype)
        for bound in (1, 3, n):
            r = t.range(bound, 0)
            body = x + r.cast(dtype) if low >= 0 else x - r.cast(dtype)
            node = body.reduce(op, r)
            env = {x: np.arange(low, top + 1), n: np.arange(5)[:, None]}
            values = evaluate(node, env)
            assert node.vmin <= values.min(), (low, high, bound)
            assert values.max() <= node.vmax, (low, high, bound)


def test_sums_over_ranges(t):
    r, s = t.range(10, 0), t.range(t.variable("n", 2, 4), 1)
    assert (r * 2).reduce(Ops.ADD, r).bounds == (0, 180)
    assert (r - 3).reduce(Ops.ADD, r, s).bounds == (-120, 240)
    assert r.reduce(Ops.MAX, r).bounds == (0, 9)
    assert r.reduce(Ops.XOR, r).bounds == (0, 15)
    assert t.variable("b", 2, 3).reduce(Ops.MUL, t.range(1000, 2)).bounds == (-bounds.LIMIT, bounds.LIMIT)


def test_huge_products_stay_small_numbers(t):
    x = t.variable("x", 2, 1 << 40)
    for _ in range(300):
        x = x * x
    assert x.bounds == (-bounds.LIMIT, bounds.LIMIT)


def test_a_deep_chain_needs_no_recursion(t):
    x = t.variable("x", 0, 63)
    for i in range(20_000):
        x = x + 1 if i % 2 else x * -1
    assert x.bounds == (0, 63)


@pytest.mark.parametrize("seed", range(3))
def test_random_graphs_are_sound(t, seed):
    """Shared subexpressions of all dtypes: every value of every node lies in its interval."""
    rng = random.Random(seed)
    names = {
        t.variable(name, low, high): (low, high)
        for name, low, high in [("a", -3, 4), ("b", 0, 5), ("c", -2, -1)]
    }
    a, b, c = names
    env = {
        node: np.arange(low, high + 1).reshape([-1 if i == k else 1 for i in range(3)])
        for k, (node, (low, high)) in enumerate(names.items())
    }
    kinds = [dtypes.index, dtypes.int8, dtypes.uint8, dtypes.bool_]
    pool: dict[DType, list[UOp]] = {
        dtypes.index: [a, b, c],
        dtypes.int8: [],
        dtypes.uint8: [],
        dtypes.bool_: [a < b],
    }
    for dtype in (dtypes.int8, dtypes.uint8):
        pool[dtype] = [x.cast(dtype) for x in names] + [t.const(100, dtype)]
    arithmetic_ops = [op for op in BINARY if not op.name.startswith("CMP") and op is not Ops.POW]
    for _ in range(400):
        dtype = rng.choice(kinds)
        x, y = rng.choice(pool[dtype]), rng.choice(pool[dtype])
        if dtype is dtypes.bool_:
            made = x.alu(rng.choice([Ops.AND, Ops.OR, Ops.XOR]), y)
        elif dtype is dtypes.index and abs(x.vmax) + abs(y.vmax) + abs(x.vmin) + abs(y.vmin) > 10**6:
            made = x.alu(rng.choice([Ops.FLOORMOD, Ops.MIN, Ops.FLOORDIV]), y % 13)
        else:
            made = x.alu(rng.choice(arithmetic_ops), y)
        pool[dtype].append(made)
        pool[dtypes.bool_].append(x.alu(rng.choice([Ops.CMPLT, Ops.CMPLE, Ops.CMPEQ, Ops.CMPNE]), y))
        target = rng.choice(kinds)
        pool[target].append(made.cast(target))
        pool[dtype].append(rng.choice(pool[dtypes.bool_]).where(x, y))
    roots = [x for nodes in pool.values() for x in nodes]
    for node in rng.sample(roots, 150):
        values = evaluate(node, env)
        assert node.vmin <= values.min(), node
        assert values.max() <= node.vmax, node
