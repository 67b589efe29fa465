"""Kernels for the stage tests: a few written by hand, and random ones over random views."""

from __future__ import annotations

import random
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planish import dtypes
from planish.dtypes import DType
from planish.stages.rangeify.s01_early_movement_ops import early_movement_ops
from planish.uop.node import Table, UOp
from planish.uop.ops import AxisType, Ops
from planish.uop.shape import shape

Array = NDArray[Any]
f32, i32 = dtypes.float32, dtypes.int32
REDUCE = AxisType.REDUCE


def memory(table: Table, slot: int, dtype: DType, dims: tuple[int, ...]) -> UOp:
    """A parameter as a tensor-level value of these dims."""
    whole = table.make(Ops.INDEX, dtype, (table.param(slot, dtype, prod(dims)),))
    return table.make(Ops.RESHAPE, dtype, (whole,), dims)


def move(x: UOp, op: Ops, arg: object) -> UOp:
    return x.table.make(op, x.dtype, (x,), arg)


def contents(sizes: dict[int, tuple[DType, int]], seed: int = 0) -> dict[int, Array]:
    """Small whole numbers, exact in every dtype and every order of summation."""
    rng = np.random.default_rng(seed)
    return {slot: rng.integers(-8, 9, size).astype(d.numpy) for slot, (d, size) in sizes.items()}


def buffers_of(sink: UOp, seed: int = 0) -> dict[int, Array]:
    """Contents for all parameters of a kernel; what it writes starts as 77."""
    sizes: dict[int, tuple[DType, int]] = {}
    for node in sink.toposort():
        if node.op is Ops.DEFINE_GLOBAL:
            assert isinstance(node.arg, int)
            sizes[node.arg] = (node.dtype.base, node.dtype.size)  # type: ignore[attr-defined]
    found = contents(sizes, seed)
    written = {n.src[0].src[0].arg for n in sink.toposort() if n.op is Ops.STORE}
    for slot in written & found.keys():
        assert isinstance(slot, int)
        found[slot][:] = 77
    return found


def store(out: UOp, value: UOp, *ranges: UOp) -> UOp:
    """SINK(END(STORE(out[row-major], value), ranges))."""
    table = value.table
    flat = table.const(0)
    for r in ranges:
        flat = flat * r.src[0] + r
    return table.sink(out.index(flat).store(value).end(*ranges))


# -- random ------------------------------------------------------------------------------------------------------


def _factors(rng: random.Random, size: int) -> tuple[int, ...]:
    """Dims whose product is the size."""
    dims: list[int] = []
    while size > 1 and rng.random() < 0.8:
        divisors = [d for d in range(2, size + 1) if size % d == 0]
        dims.append(rng.choice(divisors))
        size //= dims[-1]
    return (*dims, size) if size > 1 or not dims else tuple(dims)


def random_view(rng: random.Random, table: Table, slot: int, dtype: DType, dims: tuple[int, ...]) -> UOp:
    """A chain of movement ops over memory that ends in these dims."""
    # built backwards in thought: start from some dims and move until the wanted size can be cut out of it
    x = memory(table, slot, dtype, tuple(rng.randint(1, 5) for _ in range(rng.randint(1, 3))))
    for _ in range(rng.randint(0, 3)):
        old = shape(x)
        assert all(isinstance(d, int) for d in old)
        have = [int(d) for d in old if isinstance(d, int)]
        kind = rng.choice((Ops.PERMUTE, Ops.RESHAPE, Ops.PAD, Ops.FLIP, Ops.SHRINK))
        if kind is Ops.PERMUTE:
            x = move(x, kind, tuple(rng.sample(range(len(have)), len(have))))
        elif kind is Ops.RESHAPE:
            x = move(x, kind, _factors(rng, prod(have)))
        elif kind is Ops.PAD:
            x = move(x, kind, tuple((rng.randint(0, 2), rng.randint(0, 2)) for _ in have))
        elif kind is Ops.FLIP:
            x = move(x, kind, tuple(rng.random() < 0.5 for _ in have))
        else:
            ends = [(begin := rng.randint(0, d - 1), rng.randint(begin + 1, d)) for d in have]
            x = move(x, kind, tuple(ends))
    size = prod(int(d) for d in shape(x) if isinstance(d, int))
    wanted = prod(dims)
    x = move(x, Ops.RESHAPE, (size,))
    if size < wanted:
        before = rng.randint(0, wanted - size)
        x = move(x, Ops.PAD, ((before, wanted - size - before),))
    elif size > wanted:
        begin = rng.randint(0, size - wanted)
        x = move(x, Ops.SHRINK, ((begin, begin + wanted),))
    return move(x, Ops.RESHAPE, dims)


def random_condition(rng: random.Random, ranges: list[UOp]) -> UOp:
    r = rng.choice(ranges)
    assert isinstance(r.src[0].arg, int)
    c = rng.randint(0, r.src[0].arg)
    made = rng.choice((r < c, r.table.const(c) <= r, r.eq(c), r.ne(c), (r * 2 + 1) < c, r % 2 < 1))
    if rng.random() < 0.3:
        made = made & (rng.choice(ranges) < rng.randint(1, 6))
    return made


def random_kernel(rng: random.Random, table: Table) -> UOp:
    """An elementwise or reducing kernel over random views, some of it under conditions; views resolved."""
    dtype = rng.choice((f32, i32, i32))
    dims = tuple(rng.choice((1, 2, 3, 4, 6, 8)) for _ in range(rng.randint(1, 3)))
    loops = [table.range(d, number) for number, d in enumerate(dims)]
    inner = [
        table.range(rng.choice((1, 2, 4, 6)), len(dims) + number, REDUCE)
        for number in range(rng.choice((0, 0, 1, 2)))
    ]
    everything = loops + inner
    sizes = tuple(int(r.src[0].arg) for r in everything)  # type: ignore[call-overload]
    slots = iter(range(1, 9))

    def element() -> UOp:
        view = random_view(rng, table, next(slots), dtype, sizes)
        return table.make(Ops.INDEX, dtype, (view, *everything))

    def value() -> UOp:
        made = element()
        for _ in range(rng.randint(0, 2)):
            kind = rng.random()
            if kind < 0.4:
                made = random_condition(rng, everything).where(
                    made, rng.choice((made.const_like(0), element()))
                )
            elif kind < 0.7:
                made = made + element()
            else:
                made = made * rng.choice((made.const_like(2), rng.choice(everything).cast(dtype)))
        return made

    result = value()
    if inner:
        op = rng.choice((Ops.ADD, Ops.ADD, Ops.MAX, Ops.MIN))
        result = result.reduce(op, *inner)
    sink = store(table.param(0, dtype, prod(dims)), result, *loops)
    if rng.random() < 0.3:  # a store that does not always happen
        ended = sink.src[0]
        place, x = ended.src[0].src
        gate = random_condition(rng, loops)
        gated = place.replace(src=(place.src[0], gate.where(place.src[1], table.invalid())))
        sink = table.sink(gated.store(x).end(*loops))
    return early_movement_ops(sink)


def random_reduction(rng: random.Random, table: Table) -> UOp:
    """A reduction that asks about its ranges: counts, gathers, sums of numbers, and some that need their loop."""
    dtype = rng.choice((f32, i32, dtypes.int8, dtypes.int64))
    i, j = table.range(rng.choice((1, 3, 5)), 0), table.range(rng.choice((1, 2, 7)), 1)
    r, s = table.range(rng.choice((1, 4, 9)), 2, REDUCE), table.range(rng.choice((2, 5)), 3, REDUCE)
    n = table.variable("n", -2, 12)
    data = table.param(1, i32, 64).index(i * 7 + j)

    def number() -> UOp:
        return rng.choice(
            (n, i, j, i + j, table.const(rng.randint(-1, 10)), data.cast(dtypes.index), n * 2 + i - 3, n - j)
        )

    def condition() -> UOp:
        about = rng.choice((r, r, r * 2 + 1, r - i, number() - r, s))
        left, right = rng.choice(((about, number()), (number(), about)))
        made = left.alu(rng.choice((Ops.CMPLT, Ops.CMPLE, Ops.CMPEQ, Ops.CMPEQ, Ops.CMPNE)), right)
        if rng.random() < 0.25:
            made = r.cast(i32).alu(rng.choice((Ops.CMPEQ, Ops.CMPLT, Ops.CMPLE)), data)
        if rng.random() < 0.3:
            made = made & rng.choice((i < 2, r < number(), data < 3, s.eq(n)))
        return made.logical_not() if rng.random() < 0.15 else made

    def body() -> UOp:
        return rng.choice(
            (
                table.const(rng.choice((1, 2, -3)), dtype),
                table.param(2, dtype, 64).index(i * 7 + j),
                table.param(3, dtype, 64).index(r * 5 + s),
                table.param(4, dtype, 64).index(r * 3 + i),
                r.cast(dtype),
                (r * 3 - i).cast(dtype),
            )
        )

    op = rng.choice((Ops.ADD, Ops.ADD, Ops.ADD, Ops.MAX, Ops.MIN, Ops.MUL))
    nothing: float | None = {Ops.ADD: 0, Ops.MUL: 1}.get(op)
    if nothing is None:
        nothing = dtype.min if op is Ops.MAX else dtype.max
    assert nothing is not None
    kind = rng.random()
    if kind < 0.55:
        value = condition().where(body(), table.const(nothing, dtype))
    elif kind < 0.65:
        value = condition().where(table.const(nothing, dtype), body())
    elif kind < 0.75:
        value = condition().cast(dtype) * body()
    elif kind < 0.85:
        value = condition().where(body(), body()) + body()
    else:
        value = body()
    ranges = rng.choice(((r,), (r, s), (s, r)))
    if s not in ranges:
        value = value + s.cast(dtype) if rng.random() < 0.1 else value
        ranges = (r, s) if s in value.ranges else ranges
    reduced = value.reduce(op, *ranges)
    return store(table.param(0, dtype, 64), reduced, i, j)
