from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest

from planish.stages.rangeify import s05_simplify_ranges
from planish.stages.rangeify.s04_initial_symbolic import initial_symbolic
from planish.stages.rangeify.s05_simplify_ranges import simplify_ranges
from planish.uop.kernel_algebra import simplified
from planish.uop.node import Table, UOp
from planish.uop.ops import AxisType, Ops
from planish.uop.symbolic.cost import division_count
from tests.conftest import Golden
from tests.stages.checking import check_stage, random_outcome, some_failure, unchanged_result
from tests.stages.execution import counters, execute
from tests.stages.kernels import REDUCE, f32, i32, random_kernel, store

STAGE = "s05_simplify_ranges"


@pytest.fixture
def t() -> Iterator[Table]:
    with Table() as table:
        yield table


def prepared(sink: UOp) -> UOp:
    return initial_symbolic(sink)


# -- merging -----------------------------------------------------------------------------------------------------


def test_four_by_eight_is_thirty_two(t: Table, golden: Golden) -> None:
    i, j = t.range(4, 0), t.range(8, 1)
    kernel = store(t.param(0, f32, 32), t.param(1, f32, 32).index(i * 8 + j) * 2.0, i, j)
    after = check_stage(golden, f"{STAGE}/merge", simplify_ranges, prepared(kernel))
    assert counters(after) == ["L0<32"]
    assert division_count(after) == 0


def test_a_broadcast_axis_keeps_its_range(t: Table, golden: Golden) -> None:
    i, j, k = t.range(4, 0), t.range(8, 1), t.range(3, 2)
    value = t.param(1, f32, 96).index((i * 8 + j) * 3 + k) + t.param(2, f32, 24).index(j * 3 + k)
    after = check_stage(
        golden, f"{STAGE}/broadcast", simplify_ranges, prepared(store(t.param(0, f32, 96), value, i, j, k))
    )
    assert counters(after) == ["L0<4", "L1<24"]


def test_a_transpose_does_not_merge(t: Table) -> None:
    i, j = t.range(4, 0), t.range(8, 1)
    kernel = prepared(store(t.param(0, f32, 32), t.param(1, f32, 32).index(j * 4 + i), i, j))
    assert simplify_ranges(kernel) is kernel


def test_reduce_ranges_merge_in_any_order(t: Table, golden: Golden) -> None:
    # in memory s lies outside of r, although r comes first in the list
    r, s = t.range(4, 1, REDUCE), t.range(8, 2, REDUCE)
    i = t.range(3, 0)
    kernel = store(t.param(0, i32, 3), t.param(1, i32, 96).index(i * 32 + s * 4 + r).reduce(Ops.ADD, r, s), i)
    after = check_stage(golden, f"{STAGE}/merge_reduce", simplify_ranges, prepared(kernel))
    assert counters(after) == ["L0<3", "R2<32"]


def test_ranges_of_different_kinds_do_not_merge(t: Table) -> None:
    i, r = t.range(4, 0), t.range(8, 1, REDUCE)
    kernel = prepared(store(t.param(0, i32, 4), t.param(1, i32, 32).index(i * 8 + r).reduce(Ops.ADD, r), i))
    assert simplify_ranges(kernel) is kernel


def two_sums(t: Table) -> UOp:
    """A sum over r and s, and one over r alone: s is not where r is."""
    i, r, s = t.range(2, 0), t.range(4, 1, REDUCE), t.range(8, 2, REDUCE)
    both = t.param(1, i32, 64).index(i * 32 + r * 8 + s).reduce(Ops.ADD, r, s)
    alone = t.param(2, i32, 4).index(r).reduce(Ops.ADD, r)
    return prepared(store(t.param(0, i32, 2), both * alone, i))


def test_ranges_of_different_reduces_do_not_merge(t: Table) -> None:
    kernel = two_sums(t)
    assert simplify_ranges(kernel) is kernel


def test_a_sum_per_row_is_not_computed_per_element(t: Table) -> None:
    # the divisions that merging i and j would add are there already: only the rule about reduces forbids it
    i, j, r = t.range(4, 0), t.range(8, 1), t.range(5, 2, REDUCE)
    row = t.param(1, i32, 4).index((i * 8 + r) // 8 % 4).reduce(Ops.ADD, r)
    value = row + t.param(2, i32, 64).index((i * 8 + j) // 3) + t.param(3, i32, 64).index((i * 8 + j) // 5)
    kernel = prepared(store(t.param(0, i32, 32), value, i, j))
    assert simplify_ranges(kernel) is kernel


def test_triangles_do_not_merge(t: Table) -> None:
    i = t.range(4, 0)
    j = t.range(i + 1, 1)
    kernel = prepared(t.sink(t.param(0, f32, 16).index(i * 4 + j).store(t.const(1.0, f32)).end(i, j)))
    assert simplify_ranges(kernel) is kernel


def test_symbolic_sizes_merge(t: Table, golden: Golden) -> None:
    n = t.variable("n", 1, 9)
    i, j = t.range(4, 0), t.range(n, 1)
    flat = i * n + j
    kernel = t.sink(t.param(0, f32, 36).index(flat).store(t.param(1, f32, 36).index(flat)).end(i, j))
    after = check_stage(golden, f"{STAGE}/merge_symbolic", simplify_ranges, prepared(kernel), {n: 5})
    assert len([x for x in after.toposort() if x.op is Ops.RANGE]) == 1


# -- shrinking ---------------------------------------------------------------------------------------------------


def test_a_sum_of_padding_shrinks(t: Table, golden: Golden) -> None:
    i, r = t.range(3, 0), t.range(16, 1, REDUCE)
    inside = (r < 12) & (r >= 2)
    kernel = store(
        t.param(0, f32, 3), inside.where(t.param(1, f32, 40).index(i * 10 + r), 0.0).reduce(Ops.ADD, r), i
    )
    after = check_stage(golden, f"{STAGE}/shrink_reduce", simplify_ranges, prepared(kernel))
    assert counters(after) == ["L0<3", "R1<10"]


@pytest.mark.parametrize(
    ("op", "identity"), [(Ops.MAX, -np.inf), (Ops.MIN, np.inf), (Ops.MUL, 1.0), (Ops.ADD, 0.0)]
)
def test_only_the_identity_of_the_op_is_nothing(t: Table, op: Ops, identity: float) -> None:
    for other in (-np.inf, np.inf, 1.0, 0.0, 7.0):
        r = t.range(8, 1, REDUCE)
        value = (r < 5).where(t.param(1, f32, 8).index(r), other).reduce(op, r)
        kernel = prepared(t.sink(t.param(0, f32, 1).index(t.const(0)).store(value)))
        after = simplify_ranges(kernel)
        assert (counters(after) == ["R1<5"]) is (other == identity)
        assert unchanged_result(kernel, after)


def test_zero_times_infinity_is_not_nothing(t: Table) -> None:
    r = t.range(8, 1, REDUCE)
    x = t.param(1, f32, 5).index((r < 5).where(r, t.invalid()))
    value = (x * t.param(2, f32, 8).index(r)).reduce(Ops.ADD, r)
    kernel = prepared(t.sink(t.param(0, f32, 1).index(t.const(0)).store(value)))
    assert simplify_ranges(kernel) is kernel
    weights = np.ones(8, np.float32)
    weights[7] = np.inf
    buffers = {0: np.zeros(1, np.float32), 1: np.ones(5, np.float32), 2: weights}
    assert np.isnan(execute(simplify_ranges(kernel), buffers)[0][0])


def test_integers_times_nothing_shrink(t: Table) -> None:
    r = t.range(8, 1, REDUCE)
    x = t.param(1, i32, 5).index((r < 5).where(r, t.invalid()))
    value = (x * t.param(2, i32, 8).index(r)).reduce(Ops.ADD, r)
    kernel = prepared(t.sink(t.param(0, i32, 1).index(t.const(0)).store(value)))
    assert counters(simplify_ranges(kernel)) == ["R1<5"]


def test_a_store_that_does_not_happen_shrinks_its_loop(t: Table, golden: Golden) -> None:
    r = t.range(100, 0)
    place = t.param(0, f32, 100).index(((r >= 10) & (r < 50)).where(r, t.invalid()))
    kernel = t.sink(place.store(t.param(1, f32, 100).index(r)).end(r))
    after = check_stage(golden, f"{STAGE}/shrink_store", simplify_ranges, prepared(kernel))
    assert counters(after) == ["L0<40"]


def test_an_unguarded_store_does_not_shrink(t: Table) -> None:
    r = t.range(100, 0)
    value = (r < 50).where(t.param(1, f32, 100).index(r), 0.0)
    kernel = prepared(store(t.param(0, f32, 100), value, r))
    assert simplify_ranges(kernel) is kernel


def test_a_range_of_two_sums_shrinks_to_what_either_needs(t: Table) -> None:
    r = t.range(16, 1, REDUCE)
    one = (r < 5).where(t.param(1, i32, 16).index(r), 0).reduce(Ops.ADD, r)
    two = (r < 9).where(t.param(2, i32, 16).index(r), 0).reduce(Ops.ADD, r)
    kernel = prepared(t.sink(t.param(0, i32, 1).index(t.const(0)).store(one * two)))
    after = simplify_ranges(kernel)
    assert counters(after) == ["R1<9"]
    assert unchanged_result(kernel, after)


# -- properties --------------------------------------------------------------------------------------------------


def test_random_kernels_stay_the_same() -> None:
    outcome = random_outcome(simplify_ranges, range(300, 400), prepared)
    assert outcome.failures == []
    assert outcome.changed > 30


def test_divisions_never_become_more() -> None:
    for seed in range(60):
        with Table() as table:
            kernel = prepared(random_kernel(random.Random(seed), table))
            assert division_count(simplify_ranges(kernel)) <= division_count(kernel)


def test_merging_across_reduces_would_be_seen(t: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def any_two(closers: dict[UOp, list[UOp]]) -> Iterator[tuple[UOp, UOp]]:
        found = sorted((r for r in closers if r.arg.kind is AxisType.REDUCE), key=lambda r: r.order)  # type: ignore[attr-defined]
        if len(found) == 2:
            yield found[0], found[1]

    kernel = two_sums(t)
    monkeypatch.setattr(s05_simplify_ranges, "_candidates", any_two)
    monkeypatch.setattr(s05_simplify_ranges, "_adds_no_division", lambda *_: True)
    assert not unchanged_result(kernel, simplify_ranges(kernel))


def test_shrinking_without_proof_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s05_simplify_ranges, "_is_idle", lambda *_: True)
    assert some_failure(simplify_ranges, range(300, 360), prepared)


def test_a_wrong_quotient_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        s05_simplify_ranges, "simplified", lambda n: simplified(n) + 1 if n.op is Ops.MUL else simplified(n)
    )
    assert some_failure(simplify_ranges, range(300, 360), prepared)
