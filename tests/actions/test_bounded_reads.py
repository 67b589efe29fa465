"""A loop that runs on reads nothing that is not there: the three proofs of `bounded_reads.py`, held to all values of small sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planish.actions.bounded_reads import is_periodic, reads_nothing_new, stays_inside
from planish.actions.padding import longer
from planish.uop.node import Table, UOp
from planish.uop.ops import Ops
from planish.uop.rewrite import substitute
from planish.uop.symbolic import simplify
from tests.stages.kernels import f32


@pytest.fixture
def t() -> Iterator[Table]:
    with Table() as table:
        yield table


def elements(place: UOp, ranges: list[UOp], size: Mapping[UOp, UOp]) -> set[int]:
    """All that a gated read asks for, with sizes put in."""
    found: set[int] = set()
    gate, index = place.src[1].src[:2]
    fixed = {r: cast("int", simplify(substitute(r.src[0], size)).arg) for r in ranges}
    for values in product(*(range(n) for n in fixed.values())):
        here = {**size, **{r: r.const_like(v) for r, v in zip(ranges, values, strict=True)}}
        if simplify(substitute(gate, here)).arg:
            found.add(cast("int", simplify(substitute(index, here)).arg))
    return found


def test_windows_over_named_sizes_read_nothing_new(t: Table) -> None:
    high, wide = t.variable("high", 4, 64), t.variable("wide", 4, 64)
    i, j, k = t.range(3, 0), t.range(high, 1), t.range(wide, 2)
    y, x = t.range(3, 3), t.range(3, 4)
    row, column = j + y - 1, k + x - 1
    index = (i * high + row) * wide + column
    gate = (row >= 0) & (row < high) & (column >= 0) & (column < wide)
    place = t.param(1, f32, 3 * 64 * 64).index(gate.where(index, t.invalid()))
    assert reads_nothing_new(place, j)
    assert reads_nothing_new(place, k)
    assert not reads_nothing_new(place, i)  # no gate knows it
    assert not any(
        stays_inside(place, r) for r in (i, j, k)
    )  # by the largest sizes nothing is known of smaller ones
    for gate, index, why in (
        (row < high + 2, row, "rows that no window reaches now"),
        (row < high, row + j, "the loop outside of the sum"),
        ((row < high) & (y < 2), row, "windows cut off"),
        (row >= 0, row, "no end"),
        (j * 3 - y * 2 < high * 3 - 2, j * 3 - y * 2 + 4, "values between those that the sum has"),
    ):
        assert not reads_nothing_new(t.param(1, f32, 4096).index(gate.where(index, t.invalid())), j), why


def test_strided_windows_over_named_sizes_read_nothing_new(t: Table) -> None:
    wide = t.variable("wide", 4, 64)
    for stride, taps, before in ((2, 3, 1), (2, 5, 2), (3, 3, 1), (2, 2, 0)):
        k = t.range(simplify((wide + (2 * before - taps)) // stride + 1), 2)
        x = t.range(taps, 4)
        column = k * stride + x - before
        place = t.param(1, f32, 64).index(((column >= 0) & (column < wide)).where(column, t.invalid()))
        on = longer(k, 8)
        further = substitute(place, {k: on})
        for size in (4, 5, 8, 13):
            now = elements(place, [k, x], {wide: wide.const_like(size)})
            then = elements(further, [on, x], {wide: wide.const_like(size)})
            assert not reads_nothing_new(place, k) or then <= now
        assert reads_nothing_new(place, k) is (stride == 2 and taps > 2)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_what_is_proved_is_so(data: st.DataObject) -> None:
    number = data.draw
    with Table() as t:
        n = t.variable("n", 3, 6)
        r, s, u = t.range(n, 0), t.range(number(st.integers(1, 4)), 1), t.range(number(st.integers(1, 3)), 2)
        factors = [number(st.sampled_from(f)) for f in ((1, 1, 2, 3), (1, 1, 2, -1, -2), (0, 0, 1))]
        sum_ = r * factors[0] + s * factors[1] + u * factors[2] + number(st.integers(-2, 2))
        gate = (sum_ >= number(st.integers(-1, 1))) & (sum_ < n + number(st.integers(-1, 2)))
        if number(st.booleans()):
            gate = gate & (s < number(st.integers(1, 4)))
        rows = n if number(st.integers(0, 2)) == 0 else n.const_like(0)
        index = sum_ * number(st.sampled_from((1, 2))) + u * rows + 8
        if number(st.integers(0, 3)) == 0:
            index = index + r
        gate, index = simplify(gate), simplify(index)
        if gate.op is Ops.CONST:
            return
        place = t.param(1, f32, 4096).index(gate.where(index, t.invalid()))
        if reads_nothing_new(place, r):
            new = longer(r, 4)
            after = substitute(place, {r: new})
            for size in (3, 4, 5, 6):
                put = {n: n.const_like(size)}
                assert elements(after, [new, s, u], put) <= elements(place, [r, s, u], put)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 9), st.integers(1, 4), st.integers(2, 5), st.sampled_from(["%", "//", "both"]))
def test_phases_that_run_on_read_nothing_new(size: int, step: int, multiple: int, seen: str) -> None:
    """Held to all values; and a remainder alone, of all that there are, is always taken."""
    with Table() as t:
        r, other = t.range(size, 0), t.range(3, 1)
        parts = {"%": r % step, "//": r // step, "both": r // step * 8 + r % step}
        index = simplify(parts[seen] * 3 + other)
        place = t.param(1, f32, 4096).index(index)
        further = longer(r, multiple)
        then = substitute(index, {r: further})
        found = is_periodic(place, r, further.vmax)

        def values(expression: UOp, counter: UOp) -> set[int]:
            return {
                cast("int", simplify(substitute(expression, {counter: t.const(a), other: t.const(b)})).arg)
                for a in range(counter.vmax + 1)
                for b in range(3)
            }

        if found:
            assert values(then, further) <= values(index, r)
        elif seen == "%" and 1 < step <= size and further is not r:
            assert r not in index.ranges


def test_a_loop_that_a_read_knows_by_something_else_has_no_period(t: Table) -> None:
    r = t.range(6, 0)
    for index in (-r + 5, r + 1):
        place = t.make(Ops.INDEX, f32, (t.param(0, f32, 16), index))
        assert not is_periodic(place, r, 7)


def test_what_a_square_of_named_sizes_reads_is_gated_on_both_sides(t: Table) -> None:
    """At the largest sizes all of x[i * wide + j] is there, j < wide or not; of one row there is nothing behind it."""
    high, wide = t.variable("high", 1, 512), t.variable("wide", 1, 512)
    i, j = t.range(512, 0), t.range(512, 1)
    index = i * wide + j
    place = t.param(1, f32, 512 * 512).index((i < high).where(index, t.invalid()))
    assert not stays_inside(place, j)
    fixed = t.param(1, f32, 512 * 512).index((i < 500).where(i * 512 + j, t.invalid()))
    assert stays_inside(fixed, j)
