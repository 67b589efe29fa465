from __future__ import annotations

from collections.abc import Iterator

import pytest

from planish.stages.rangeify import s03_split_ranges
from planish.stages.rangeify.s03_split_ranges import pm_split_ranges, split_ranges
from planish.stages.rangeify.s04_initial_symbolic import initial_symbolic
from planish.uop.node import Table, UOp
from planish.uop.ops import AxisType, Ops
from planish.uop.rewrite import RewriteStats, rewrite
from planish.uop.symbolic.cost import division_count
from tests.conftest import Golden
from tests.stages.checking import check_stage, random_outcome, some_failure, unchanged_result
from tests.stages.execution import counters
from tests.stages.kernels import f32, i32, store


@pytest.fixture
def t() -> Iterator[Table]:
    with Table() as table:
        yield table


def remainders(t: Table, size: int, *divisors: int) -> UOp:
    r = t.range(size, 0)
    value = t.param(1, f32, size).index(r)
    for slot, c in enumerate(divisors, 2):
        value = value + t.param(slot, f32, 64).index(r % c)
    return store(t.param(0, f32, size), value, r)


def test_twelve_modulo_four_is_three_times_four(t: Table, golden: Golden) -> None:
    after = check_stage(golden, "s03_split_ranges/modulo", split_ranges, remainders(t, 12, 4))
    assert counters(after) == ["L0_0<3", "L0_1<4"]
    assert division_count(initial_symbolic(after)) == 0


def test_divisors_of_each_other_split_together(t: Table) -> None:
    kernel = remainders(t, 48, 12, 4)
    after = initial_symbolic(split_ranges(kernel))
    assert counters(after) == ["L0_4<4", "L0_5<3", "L0_6<4"]
    assert division_count(after) == 0
    assert unchanged_result(kernel, after)


@pytest.mark.parametrize("divisors", [(4, 6), (6, 4)])
def test_the_choice_does_not_depend_on_what_is_seen_first(t: Table, divisors: tuple[int, int]) -> None:
    assert counters(split_ranges(remainders(t, 12, *divisors))) == ["L0_0<3", "L0_1<4"]


@pytest.mark.parametrize(
    ("size", "divisor"), [(12, 5), (12, 12), (12, 1), (12, 24), (10, 4)], ids=lambda n: str(n)
)
def test_only_true_divisors_split(t: Table, size: int, divisor: int) -> None:
    kernel = remainders(t, size, divisor)
    assert split_ranges(kernel) is kernel


def test_hardware_axes_and_symbolic_sizes_stay(t: Table) -> None:
    warp = t.range(12, 0, AxisType.WARP)
    n = t.variable("n", 4, 12)
    symbolic = t.range(n * 4, 1)
    for r in (warp, symbolic):
        kernel = t.sink(t.param(0, f32, 48).index(r).store(t.param(1, f32, 4).index(r % 4)).end(r))
        assert split_ranges(kernel) is kernel


def test_a_reduce_range_is_split_in_the_reduce(t: Table, golden: Golden) -> None:
    i, r = t.range(3, 0), t.range(12, 1, AxisType.REDUCE)
    value = t.param(1, i32, 36).index(i * 12 + r) * t.param(2, i32, 4).index(r % 4)
    kernel = store(t.param(0, i32, 3), value.reduce(Ops.ADD, r), i)
    after = check_stage(golden, "s03_split_ranges/reduce", split_ranges, kernel)
    assert counters(after) == ["L0<3", "R1_0<3", "R1_1<4"]


def test_ranges_are_exchanged_once_at_the_sink(t: Table) -> None:
    stats = RewriteStats()
    kernel = remainders(t, 12, 4)
    rewrite(kernel, pm_split_ranges, {}, stats=stats)
    assert stats.rewrites == 1


def test_random_kernels_stay_the_same() -> None:
    outcome = random_outcome(split_ranges, range(120))
    assert outcome.failures == []
    assert outcome.changed > 10


def test_a_forgotten_range_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = s03_split_ranges._split
    monkeypatch.setattr(s03_split_ranges, "_split", lambda r, divisors: honest(r, divisors).src[0])
    assert some_failure(split_ranges, range(120))


def test_a_wrong_step_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = s03_split_ranges._split
    monkeypatch.setattr(s03_split_ranges, "_split", lambda r, divisors: honest(r, divisors) * 1 + 1)
    assert some_failure(split_ranges, range(120))
