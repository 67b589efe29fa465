from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from planish import dtypes
from planish.stages.expander import s08_post_opt_symbolic
from planish.stages.expander.s08_post_opt_symbolic import pm_move_where_on_load, post_opt_symbolic
from planish.stages.rangeify.s04_initial_symbolic import initial_symbolic
from planish.uop.infix import infix
from planish.uop.node import Table, UOp
from planish.uop.ops import Ops
from planish.uop.rewrite import rewrite
from tests.conftest import Golden
from tests.stages.checking import check_stage, random_outcome, unchanged_result
from tests.stages.execution import execute
from tests.stages.kernels import REDUCE, buffers_of, f32, i32, store

STAGE = "s08_post_opt_symbolic"


@pytest.fixture
def t() -> Iterator[Table]:
    with Table() as table:
        yield table


def value_of(sink: UOp) -> str:
    return infix(sink.src[0].src[0].src[1])


def moved(t: Table, value: UOp, *ranges: UOp) -> str:
    kernel = initial_symbolic(store(t.param(0, value.dtype, 1000), value, *ranges))
    after = post_opt_symbolic(kernel)
    assert unchanged_result(kernel, after)
    return value_of(after)


def test_a_condition_moves_into_the_index(t: Table, golden: Golden) -> None:
    i = t.range(10, 0)
    value = (i < 5).where(t.param(1, f32, 10).index(i), 0.0) * 2.0
    after = check_stage(
        golden, f"{STAGE}/move", post_opt_symbolic, initial_symbolic(store(t.param(0, f32, 10), value, i))
    )
    assert value_of(after) == "get(data1, where(L0 < 5, L0, INVALID)) * 2.0"


def test_from_either_branch(t: Table) -> None:
    i = t.range(10, 0)
    x = t.param(1, f32, 10).index(i)
    assert moved(t, (i < 5).where(t.const(0.0, f32), x), i) == "get(data1, where(4 < L0, L0, INVALID))"
    assert moved(t, (i.eq(3)).where(t.const(0.0, f32), x), i) == "get(data1, where(ne(L0, 3), L0, INVALID))"


@pytest.mark.parametrize(
    ("dtype", "zero", "other"), [(f32, 0.0, -0.0), (i32, 0, 1), (dtypes.float16, 0.0, 2.0)]
)
def test_only_a_select_with_zero_moves(t: Table, dtype: dtypes.DType, zero: float, other: float) -> None:
    i = t.range(10, 0)
    x = t.param(1, dtype, 10).index(i)
    assert moved(t, (i < 5).where(x, zero), i) == "get(data1, where(L0 < 5, L0, INVALID))"
    assert "INVALID" not in moved(t, (i < 5).where(x, other), i)


def test_a_bool_is_false_where_it_is_not_loaded(t: Table) -> None:
    i = t.range(10, 0)
    x = t.param(1, dtypes.bool_, 10).index(i)
    kernel = store(t.param(0, dtypes.bool_, 10), (i < 5).where(x, False), i)
    found = rewrite(kernel, pm_move_where_on_load)  # with the algebra it would be an AND
    assert value_of(found) == "get(data1, where(L0 < 5, L0, INVALID))"
    assert unchanged_result(kernel, found)


def test_clauses_about_other_ranges_stay(t: Table, golden: Golden) -> None:
    i, j = t.range(10, 0), t.range(8, 1)
    value = ((i < 5) & (j < 3)).where(t.param(1, f32, 10).index(i), 0.0)
    after = check_stage(
        golden,
        f"{STAGE}/clauses",
        post_opt_symbolic,
        initial_symbolic(store(t.param(0, f32, 80), value, i, j)),
    )
    assert value_of(after) == "where(L1 < 3, get(data1, where(L0 < 5, L0, INVALID)), 0.0)"


def test_clauses_that_read_memory_stay(t: Table) -> None:
    i = t.range(10, 0)
    mask = t.param(2, i32, 10).index(i) < 3
    text = moved(t, ((i < 5) & mask).where(t.param(1, f32, 10).index(i), 0.0), i)
    assert text == "where(get(data2, L0) < 3, get(data1, where(L0 < 5, L0, INVALID)), 0.0)"


def test_clauses_that_are_there_already_leave(t: Table) -> None:
    i = t.range(10, 0)
    x = t.param(1, f32, 10).index((i < 5).where(i, t.invalid()))
    assert moved(t, (i < 5).where(x, 0.0), i) == "get(data1, where(L0 < 5, L0, INVALID))"
    both = moved(t, ((i < 5) & (i >= 2)).where(x, 0.0), i)
    assert both == "get(data1, where((L0 < 5) & (1 < L0), L0, INVALID))"


def test_what_is_computed_keeps_its_select(t: Table) -> None:
    i = t.range(10, 0)
    x = t.param(1, f32, 10).index(i)
    assert moved(t, (i < 5).where(x + 1.0, 0.0), i).startswith("where(L0 < 5")


def test_ranges_that_a_reduce_no_longer_needs(t: Table, golden: Golden) -> None:
    i, r, s = t.range(3, 0), t.range(4, 1, REDUCE), t.range(5, 2, REDUCE)
    whole = t.const(3.0, f32).reduce(Ops.ADD, r) + t.param(1, f32, 15).index(i * 5 + s).reduce(Ops.MAX, r, s)
    after = check_stage(
        golden, f"{STAGE}/unused", post_opt_symbolic, initial_symbolic(store(t.param(0, f32, 3), whole, i))
    )
    assert value_of(after) == "reduce_max(get(data1, L0 * 5 + R2), R2) + 12.0"
    inexact = store(t.param(0, f32, 3), t.param(1, f32, 15).index(i).reduce(Ops.ADD, r), i)
    assert any(n is r for n in post_opt_symbolic(inexact).toposort())


def test_random_kernels_stay_the_same() -> None:
    outcome = random_outcome(post_opt_symbolic, range(800, 920), initial_symbolic)
    assert outcome.failures == []
    assert outcome.changed > 3


def test_moving_a_select_with_another_number_would_be_seen(monkeypatch: pytest.MonkeyPatch, t: Table) -> None:
    monkeypatch.setattr(s08_post_opt_symbolic, "_is_zero", lambda x, c: True)
    i = t.range(10, 0)
    kernel = store(t.param(0, f32, 10), (i < 5).where(t.param(1, f32, 10).index(i), 7.0), i)
    assert not unchanged_result(kernel, post_opt_symbolic(kernel))


def test_a_sum_of_the_gated_loads_is_the_sum(t: Table) -> None:
    i, r = t.range(3, 0), t.range(8, 1, REDUCE)
    inside = (r + i >= 1) & (r + i < 7)
    kernel = initial_symbolic(
        store(t.param(0, f32, 3), inside.where(t.param(1, f32, 12).index(i + r), 0.0).reduce(Ops.ADD, r), i)
    )
    after = post_opt_symbolic(kernel)
    assert "where" in value_of(after)
    buffers = buffers_of(kernel)
    np.testing.assert_array_equal(
        execute(after, buffers)[0], [buffers[1][max(1 - i, 0) + i : 7].sum() for i in range(3)]
    )
