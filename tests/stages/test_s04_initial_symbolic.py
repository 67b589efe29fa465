"""Stage 4: the algebra on whole kernels, and what the stages before and after it rely on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from planish import dtypes
from planish.stages import pipeline
from planish.stages.rangeify.s03_split_ranges import split_ranges
from planish.stages.rangeify.s04_initial_symbolic import initial_symbolic
from planish.stages.rangeify.s05_simplify_ranges import simplify_ranges
from planish.stages.rangeify.s06_split_store import split_store
from planish.target import TARGETS
from planish.uop.kernel_algebra import kernel_sym, pm_flatten_range
from planish.uop.nest import axes_of
from planish.uop.node import Table, UOp
from planish.uop.ops import AxisType, Ops
from planish.uop.symbolic import simplify
from tests.conftest import Golden
from tests.placed import Action, ActionKind
from tests.stages.checking import check_stage, random_outcome, unchanged_result
from tests.stages.kernels import REDUCE, f32, i32, store


@pytest.fixture
def t() -> Iterator[Table]:
    with Table() as table:
        yield table


def divisions(sink: UOp) -> int:
    return sum(n.op in {Ops.FLOORDIV, Ops.FLOORMOD} for n in sink.toposort())


def test_what_division_took_apart_is_put_together(t: Table, golden: Golden) -> None:
    i, j = t.range(6, 0), t.range(8, 1)
    flat = i * 8 + j
    x = t.param(1, f32, 48).index((flat // 8) * 8 + flat % 8)
    kernel = store(t.param(0, f32, 48), x, i, j)
    after = check_stage(golden, "s04_initial_symbolic/divmod", initial_symbolic, kernel)
    assert divisions(kernel) == 2
    assert divisions(after) == 0


def test_every_rule_family_works_in_a_kernel(t: Table) -> None:
    i = t.range(6, 0)
    x = t.param(1, i32, 6).index(i)
    out = t.param(0, i32, 6)
    for value, wanted in (
        (x + (t.const(2, i32) + t.const(3, i32)), x + 5),  # constants
        (x * 1 + 0, x),  # identities
        ((i < 10).where(x, 7), x),  # comparisons that bounds decide
        (x.cast(dtypes.int64).cast(i32), x),  # casts that cancel
        ((i < 3).where((i < 3).where(x, 1), 2), (i < 3).where(x, 2)),  # selects with the same condition
    ):
        after = initial_symbolic(store(out, value, i))
        assert after is initial_symbolic(store(out, wanted, i))


def test_integers_leave_a_reduction_and_floats_do_not(t: Table) -> None:
    i, r = t.range(4, 0), t.range(5, 1, REDUCE)
    for dtype, leaves in ((i32, True), (f32, False)):
        x = t.param(1, dtype, 20).index(i * 5 + r)
        kernel = store(t.param(0, dtype, 4), (x * 3).reduce(Ops.ADD, r), i)
        reduced = next(n for n in initial_symbolic(kernel).toposort() if n.op is Ops.REDUCE)
        assert (reduced.src[0].op is not Ops.MUL) is leaves


def test_ends_and_reductions_list_ranges(t: Table) -> None:
    a, b, r = t.range(3, 0), t.range(4, 1), t.range(5, 2, REDUCE)
    x = t.param(1, f32, 60).index(a * 20 + b * 5 + r).reduce(Ops.ADD, r)
    ended = t.param(0, f32, 12).index(a * 4 + b).store(x).end(a * 4 + b)
    after = initial_symbolic(t.sink(ended))
    assert after.src[0].src[1:] == (a, b)
    assert pm_flatten_range(after.src[0]) is None


def test_flattening_never_merges_loops(t: Table) -> None:
    """Which loops become one is decided in stage 5, by what it costs; here nothing but the lists changes."""
    a, b = t.range(3, 0), t.range(4, 1)
    kernel = store(t.param(0, f32, 12), t.param(1, f32, 12).index(a * 4 + b), a, b)
    assert initial_symbolic(kernel).src[0].src[1:] == (a, b)
    (flat,) = axes_of(simplify_ranges(initial_symbolic(kernel)))
    assert flat.src[0].arg == 12


def test_the_outer_part_of_a_split_range_runs_on_threads(t: Table) -> None:
    i = t.range(12, 0)
    x = t.param(1, f32, 4).index(i % 4)
    kernel = store(t.param(0, f32, 12), x, i)
    split = initial_symbolic(split_ranges(kernel))
    assert [r.src[0].arg for r in axes_of(split)] == [3, 4]
    machine = pipeline.Machine(TARGETS["x86-64-v3"], lambda sink: [Action(ActionKind.THREAD, 0, 3)])
    for step in pipeline.steps(split, machine):
        if step.stage.number == 7:
            kinds = {r.arg.kind for r in step.form.toposort() if r.op is Ops.RANGE}  # type: ignore[union-attr]
            assert AxisType.THREAD in kinds


def test_on_a_gpu_stores_are_not_split(t: Table) -> None:
    i = t.range(100, 0)
    x = (i < 50).where(t.param(1, f32, 100).index(i), 0.0)
    kernel = store(t.param(0, f32, 100), x, i)
    assert split_store(kernel) is not kernel
    for name, splits in (("x86-64-v3", True), ("cuda", False)):
        machine = pipeline.Machine(TARGETS[name], lambda sink: [])
        (step,) = [s for s in pipeline.steps(kernel, machine) if s.stage.number == 6]
        assert step.changed is splits


def test_nothing_is_left_to_do_afterwards(t: Table) -> None:
    i = t.range(6, 0)
    kernel = store(t.param(0, f32, 6), t.param(1, f32, 6).index((i * 4) // 4), i)
    after = initial_symbolic(kernel)
    assert all(kernel_sym(n) is None for n in after.toposort())
    assert simplify(after) is after


def test_random_kernels_stay_the_same() -> None:
    failures, changed = random_outcome(initial_symbolic, range(60))
    assert failures == []
    assert changed > 20


def test_dropping_a_condition_would_be_seen(t: Table) -> None:
    i = t.range(6, 0)
    x = t.param(1, f32, 6).index(i)
    out = t.param(0, f32, 6)
    assert not unchanged_result(store(out, (i < 3).where(x, 0.0), i), store(out, x, i))
