"""The analysis of a nest: by how much accesses move, what lies around what, whose order matters; against running through all iterations."""

from __future__ import annotations

from itertools import product
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planish import dtypes
from planish.uop.nest import count, trips, without_gate
from planish.uop.nest.access import steps_of
from planish.uop.nest.kernel import Nest
from planish.uop.node import Table, UOp
from planish.uop.ops import AxisType, Ops
from planish.uop.rewrite import substitute
from planish.uop.symbolic import simplify

f32 = dtypes.float32
SIZES = (3, 4, 5)


def values(index: UOp, axes: list[UOp]) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """An index at every iteration."""
    found = np.zeros(SIZES, np.int64)
    for at in product(*map(range, SIZES)):
        known = {r: r.const_like(value) for r, value in zip(axes, at, strict=True)}
        found[at] = cast("int", simplify(substitute(index, known)).arg)
    return found


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(-3, 6)), min_size=1, max_size=4),
    st.sampled_from(["plain", "quotient", "rest", "gate"]),
)
def test_steps_are_what_running_through_shows(terms: list[tuple[int, int]], form: str) -> None:
    with Table() as t:
        axes = [t.range(size, number) for number, size in enumerate(SIZES)]
        index = t.const(7)
        for which, factor in terms:
            index = index + axes[which] * factor
        if form == "quotient":
            index = index + axes[2] // 2
        elif form == "rest":
            index = index + axes[1] % 2
        place = (axes[0] < 2).where(index, t.make(Ops.INVALID, index.dtype)) if form == "gate" else index
        read = t.param(1, f32, 1000).index(place)
        sink = t.sink(t.param(0, f32, 60).index(axes[0] * 20 + axes[1] * 5 + axes[2]).store(read).end(*axes))
        nest, plain = Nest.of(sink), without_gate(read.src[1])
        at, steps = values(plain, axes), steps_of(plain)
        for number, r in enumerate(axes):
            moves = set(np.diff(at, axis=number).reshape(-1).tolist())
            step = nest.stride(read, r)
            assert step == steps.get(r, 0) or steps.get(r, 0) is None
            assert step is None or moves == {step}


def test_one_nest_answers_for_one_kernel() -> None:
    """Who asks again gets what was worked out before; reductions, writes, reads and work are those of the kernel."""
    with Table() as t:
        i, r = t.range(6, 0), t.range(8, 1, AxisType.REDUCE)
        x = t.param(1, f32, 48).index(i * 8 + r)
        total = x.reduce(Ops.ADD, r)
        sink = t.sink(t.param(0, f32, 6).index(i).store(total).end(i))
        nest = Nest.of(sink)
        assert Nest.of(sink) is nest
        assert (nest.outputs, nest.reductions, nest.reads) == ([i], [total], [x])
        assert [place.src[0].arg for place in nest.writes] == [0]
        assert nest.around[r] == {i}
        assert nest.loops(x.ranges) == (i, r)
        assert nest.work == count((i, r)) == trips(i) * trips(r)
        assert not nest.ordered
        (stored,) = [access for access in nest.accesses if access.is_store]
        assert stored.steps == {i: 1}
        assert stored.in_memory
        assert stored.footprint((i,)) == 24  # no more than the buffer has


@pytest.mark.parametrize(
    ("pitch", "collides"), [(1024, True), (1040, False), (2048, True), (16, False), (1, False)]
)
def test_lines_a_page_apart_collide(pitch: int, collides: bool) -> None:
    """Sixteen rows side by side: a first cache of eight ways holds them unless they all fall into one set."""
    with Table() as t:
        i, r = t.range(16, 0, AxisType.UPCAST), t.range(16, 1, AxisType.REDUCE)
        total = t.param(1, f32, 16 * pitch + 16).index(i * pitch + r).reduce(Ops.ADD, r)
        nest = Nest.of(t.sink(t.param(0, f32, 16).index(i).store(total).end(i)))
        (read,) = [access for access in nest.accesses if not access.is_store]
        assert read.collides(8) is collides
        assert not read.collides(16)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(1, 12), min_size=2, max_size=2),
    st.integers(1, 6),
    st.integers(1, 4),
    st.sampled_from([(0,), (1,), (0, 1)]),
)
def test_ranges_are_free_only_where_no_data_makes_them_meet(
    factors: list[int], scale: int, most: int, known_by: tuple[int, ...]
) -> None:
    """Places `a*i + b*j + c*data[…]`: whatever the data, iterations that differ in a free range never store to the same place."""
    rows, columns = 3, 4
    with Table() as t:
        i, j = t.range(rows, 0), t.range(columns, 1)
        at = sum(((i * columns, j)[which] for which in known_by), start=t.const(0))
        data = t.param(1, dtypes.int32, rows * columns).index(at).cast(dtypes.index)
        chosen = data.alu(Ops.MAX, t.const(0)).alu(Ops.MIN, t.const(most))
        place = i * factors[0] + j * factors[1] + chosen * scale
        sink = t.sink(t.param(0, f32, 1000).index(place).store(t.const(1.0, f32)).end(i, j))
        free = [r not in Nest.of(sink).ordered for r in (i, j)]
    iterations = list(product(range(rows), range(columns)))
    for one, other in product(iterations, repeat=2):
        differ = any(free[axis] and one[axis] != other[axis] for axis in (0, 1))
        same_data = all(one[axis] == other[axis] for axis in known_by)
        if not differ:
            continue
        apart = sum(f * (a - b) for f, a, b in zip(factors, one, other, strict=True))
        reachable = {0} if same_data else {scale * d for d in range(-most, most + 1)}
        assert -apart not in reachable, (one, other)


def test_a_place_in_a_row_of_its_own_has_no_order() -> None:
    """What a cross entropy gives back: one element of every row, which data chooses within the row."""
    with Table() as t:
        i = t.range(8, 0)
        chosen = t.param(1, dtypes.int32, 8).index(i).cast(dtypes.index)
        inside = chosen.alu(Ops.MAX, t.const(0)).alu(Ops.MIN, t.const(63))
        for pitch, is_free in ((64, True), (63, False)):
            place = t.param(0, f32, 600).index(i * pitch + inside)
            assert (i not in Nest.of(t.sink(place.store(t.const(1.0, f32)).end(i))).ordered) is is_free
