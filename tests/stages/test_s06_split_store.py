from __future__ import annotations

from collections.abc import Iterator

import pytest

from planish.stages.rangeify import s06_split_store
from planish.stages.rangeify.cuts import RangePart, restricted
from planish.stages.rangeify.s04_initial_symbolic import initial_symbolic
from planish.stages.rangeify.s06_split_store import split_store
from planish.uop.node import Table, UOp
from planish.uop.ops import COMPARISONS, Ops
from tests.conftest import Golden
from tests.stages.checking import check_stage, random_outcome, some_failure, unchanged_result
from tests.stages.execution import counters, iterations
from tests.stages.kernels import REDUCE, f32, i32, store

STAGE = "s06_split_store"


@pytest.fixture
def t() -> Iterator[Table]:
    with Table() as table:
        yield table


def prepared(sink: UOp) -> UOp:
    return initial_symbolic(sink)


def conditions(sink: UOp) -> int:
    return sum(n.op in COMPARISONS for n in sink.toposort())


def concat(t: Table, rows: int, *widths: int) -> UOp:
    """Tensors of these widths side by side."""
    total = sum(widths)
    i, j = t.range(rows, 0), t.range(total, 1)
    value, end = t.const(0.0, f32), total
    for slot, width in reversed(list(enumerate(widths, 1))):
        start = end - width
        x = t.param(slot, f32, rows * width).index(
            ((j >= start) & (j < end)).where(i * width + j - start, t.invalid())
        )
        value, end = (x if end == total else (j < end).where(x, value)), start
    return prepared(store(t.param(0, f32, rows * total), value, i, j))


def test_a_conditional_store_keeps_its_condition(t: Table, golden: Golden) -> None:
    # The seed's example: only the first half is stored, so the second half is no loop at all.
    i = t.range(100, 0)
    place = t.param(0, f32, 100).index((i < 50).where(i, t.invalid()))
    kernel = prepared(t.sink(place.store(t.param(1, f32, 100).index(i)).end(i)))
    after = check_stage(golden, f"{STAGE}/conditional", split_store, kernel)
    assert counters(after) == ["L0_4<50"]
    assert conditions(after) == 0


def test_both_halves_store_what_they_should(t: Table, golden: Golden) -> None:
    i = t.range(100, 0)
    value = (i < 50).where(t.param(1, f32, 100).index(i), t.param(2, f32, 100).index(i))
    after = check_stage(
        golden, f"{STAGE}/halves", split_store, prepared(store(t.param(0, f32, 100), value, i))
    )
    assert counters(after) == ["L0_4<50", "L0_5<50"]
    assert [effect.op for effect in after.src] == [Ops.END, Ops.END]
    assert conditions(after) == 0


def test_a_concatenation_is_one_loop_per_operand(t: Table, golden: Golden) -> None:
    after = check_stage(golden, f"{STAGE}/concat", split_store, concat(t, 3, 16, 40))
    assert counters(after) == ["L0_4<3", "L0_5<3", "L1_4<16", "L1_5<40"]
    assert conditions(after) == 0
    assert iterations(after) == 3 * 56


def test_short_inner_parts_stay_together(t: Table) -> None:
    kernel = concat(t, 3, 5, 40)
    assert split_store(kernel) is kernel


def test_outer_parts_may_be_short(t: Table) -> None:
    kernel = concat(t, 1, 1, 2, 1)  # i has one value: j is the outermost range
    after = split_store(kernel)
    assert counters(after) == ["L1_5<2"]  # of one value, the others are no ranges any more
    assert len(after.src) == 3
    assert unchanged_result(kernel, after)


def test_padding_on_all_sides(t: Table, golden: Golden) -> None:
    i, j = t.range(6, 0), t.range(64, 1)
    inside = (i >= 1) & (i < 5) & (j >= 16) & (j < 48)
    value = t.param(1, f32, 128).index(inside.where((i - 1) * 32 + j - 16, t.invalid()))
    after = check_stage(
        golden, f"{STAGE}/pad", split_store, prepared(store(t.param(0, f32, 384), value, i, j))
    )
    assert conditions(after) == 0
    # above, below, and left, middle, right of what is between
    assert len(after.src) == 5
    assert iterations(after) == 6 * 64


def windowed(t: Table, rows: int, columns: int, reach: int) -> UOp:
    """Sums of the neighbours of each element along both axes, as far as there are any."""
    i, j, total = t.range(rows, 0), t.range(columns, 1), t.const(0, i32)
    for up in range(-reach, reach + 1):
        for right in range(-reach, reach + 1):
            y, x = i + up, j + right
            inside = (y >= 0) & (y < rows) & (x >= 0) & (x < columns)
            total = total + t.param(1, i32, rows * columns).index(inside.where(y * columns + x, t.invalid()))
    return prepared(store(t.param(0, i32, rows * columns), total, i, j))


@pytest.mark.parametrize(
    ("reach", "rows", "counts"), [(1, 40, [1, 38, 1]), (2, 40, [2, 36, 2]), (2, 12, [1, 1, 8, 1, 1])]
)
def test_a_rim_is_one_loop(t: Table, reach: int, rows: int, counts: list[int]) -> None:
    kernel = windowed(t, rows, 40, reach)
    after = split_store(kernel)
    # rows as told (one of them is no range); columns are never cut, not even in a part of one row
    assert sorted(counters(after)) == sorted(
        [
            *(f"L0_{4 + n}<{count}" for n, count in enumerate(counts) if count > 1),
            *(f"L1_{4 + n}<40" for n in range(len(counts))),
        ]
    )
    assert iterations(after) == rows * 40
    assert unchanged_result(kernel, after)


def test_a_sum_that_several_parts_need_is_not_computed_twice(t: Table) -> None:
    i, j, r = t.range(4, 0), t.range(40, 1), t.range(8, 2, REDUCE)
    row = t.param(1, i32, 32).index(i * 8 + r).reduce(Ops.ADD, r)
    value = (j < 20).where(row, row * t.param(2, i32, 40).index(j))
    kernel = prepared(store(t.param(0, i32, 160), value, i, j))
    assert split_store(kernel) is kernel


def test_a_sum_that_one_part_needs_goes_there(t: Table) -> None:
    i, j, r = t.range(4, 0), t.range(40, 1), t.range(8, 2, REDUCE)
    row = t.param(1, i32, 32).index(i * 8 + r).reduce(Ops.ADD, r)
    kernel = prepared(store(t.param(0, i32, 160), (j < 20).where(row, t.param(2, i32, 40).index(j)), i, j))
    after = split_store(kernel)
    assert sum(n.op is Ops.REDUCE for n in after.toposort()) == 1
    assert conditions(after) == 0
    assert unchanged_result(kernel, after)


def test_each_part_has_reduce_ranges_of_its_own(t: Table, golden: Golden) -> None:
    i, r = t.range(8, 0), t.range(5, 1, REDUCE)
    x, y = t.param(1, i32, 20).index(i * 5 + r), t.param(2, i32, 20).index((i - 4) * 5 + r)
    gated = y.replace(src=(y.src[0], (i >= 4).where(y.src[1], t.invalid())))
    first = x.replace(src=(x.src[0], (i < 4).where(x.src[1], t.invalid())))
    kernel = prepared(store(t.param(0, i32, 8), (i < 4).where(first, gated).reduce(Ops.ADD, r), i))
    after = check_stage(golden, f"{STAGE}/reduce", split_store, kernel)
    assert counters(after) == ["L0_4<4", "L0_5<4", "R1_4<5", "R1_5<5"]


def test_the_number_of_loops_is_limited(t: Table) -> None:
    kernel = concat(t, 1, *[16] * 8)
    assert len(split_store(kernel).src) == 8
    assert split_store(kernel, parts=6) is kernel


def test_conditions_on_data_or_two_ranges_do_not_split(t: Table) -> None:
    i, j = t.range(20, 0), t.range(20, 1)
    mask = t.param(1, i32, 20).index(i)
    for condition in (mask < 5, i < j, i + j < 7):
        kernel = prepared(
            store(t.param(0, f32, 400), condition.where(t.param(2, f32, 400).index(i * 20 + j), 1.0), i, j)
        )
        assert split_store(kernel) is kernel


def test_named_sizes_are_places_to_cut(t: Table) -> None:
    n = t.variable("n", 8, 90)
    i = t.range(n, 0)
    x, y = t.param(1, f32, 90), t.param(2, f32, 90)
    for condition, parts in (
        (i < 3, 2), (i < n - 1, 2), ((i > 2) & (i < n - 2), 3), (i + 5 < n, 2), (i.eq(n - 1), 2),
        (i < 9, 0),  # not certain to lie inside
        (i < n // 2, 0),  # nor is this seen to
        ((i < 7) | (i > n - 6), 0),  # in no certain order: there is one cut
    ):  # fmt: skip
        value = condition.where(x.index(i), y.index(n - 1 - i))
        kernel = prepared(store(t.param(0, f32, 90), value, i))
        after = split_store(kernel)
        assert not parts or (len(after.src), conditions(after)) == (parts, 0)
        for size in (8, 9, 31, 90):
            assert unchanged_result(kernel, after, {n: size})


def test_random_kernels_stay_the_same() -> None:
    outcome = random_outcome(split_store, range(500, 600), prepared)
    assert outcome.failures == []
    assert outcome.changed > 25


def test_a_part_that_starts_at_the_wrong_place_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def from_zero(r: UOp, part: RangePart, path: tuple[int, ...]) -> tuple[UOp, UOp]:
        new, _ = restricted(r, part, path)
        return new, new

    monkeypatch.setattr(s06_split_store, "restricted", from_zero)
    assert some_failure(split_store, range(500, 560), prepared)


def test_sharing_ranges_between_parts_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s06_split_store, "_own_names", lambda effect, number: {})
    assert some_failure(split_store, range(500, 560), prepared)


def test_the_seeds_mistake_would_be_seen(t: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    # dropping the condition instead of what it guards: the second half stores as well
    i = t.range(100, 0)
    place = t.param(0, f32, 100).index((i < 50).where(i, t.invalid()))
    kernel = prepared(t.sink(place.store(t.param(1, f32, 100).index(i)).end(i)))
    whole = prepared(store(t.param(0, f32, 100), t.param(1, f32, 100).index(i), i))
    assert unchanged_result(kernel, split_store(kernel))
    assert not unchanged_result(kernel, whole)
