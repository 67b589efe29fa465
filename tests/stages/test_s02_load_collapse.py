from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from planish import dtypes
from planish.stages.rangeify import counting, s02_load_collapse
from planish.stages.rangeify.counting import multiples_are_exact
from planish.stages.rangeify.s02_load_collapse import isolate, load_collapse
from planish.uop.infix import infix
from planish.uop.node import Table, UOp
from planish.uop.ops import Ops
from planish.uop.rewrite import substitute
from tests.conftest import Golden
from tests.stages.checking import check_stage, random_outcome, unchanged_result
from tests.stages.execution import execute, same
from tests.stages.kernels import REDUCE, buffers_of, f32, i32, random_kernel, random_reduction, store

STAGE = "s02_load_collapse"


@pytest.fixture
def t() -> Iterator[Table]:
    with Table() as table:
        yield table


class Asked:
    """A kernel that stores one reduced value per i, and the letters its value is written in."""

    def __init__(self, t: Table) -> None:
        self.t = t
        self.i = t.range(6, 0)
        self.k = t.range(64, 1, REDUCE)
        self.n = t.variable("n", -5, 100)
        self.x = t.param(1, f32, 128)
        self.w = t.param(2, i32, 128)
        self.ids = t.param(3, i32, 6)
        self.id = self.ids.index(self.i)

    def const(self, value: float, dtype: Any = f32) -> UOp:
        return self.t.const(value, dtype)

    def kernel(self, value: UOp) -> UOp:
        return store(self.t.param(0, value.dtype, 6), value, self.i)

    def collapsed(self, value: UOp) -> str:
        """The value after the stage, as text; checked by execution."""
        before = self.kernel(value)
        after = load_collapse(before)
        buffers = buffers_of(before)
        if 3 in buffers:
            buffers[3][:] = [0, 63, 64, -1, 5, 2**31 - 1]
        for n in (-5, -1, 0, 1, 63, 64, 65, 100):
            assert same(execute(before, buffers, {self.n: n}), execute(after, buffers, {self.n: n}))
        return infix(after.src[0].src[0].src[1])


@pytest.fixture
def ask(t: Table) -> Asked:
    return Asked(t)


def is_loop(text: str) -> bool:
    return "reduce_" in text


# -- counting ----------------------------------------------------------------------------------------------------


def test_counting_k_at_least_length(ask: Asked, golden: Golden) -> None:
    # the seed's example: sum(1 for k in 0..64 if k >= length) is clamp(64 - length, 0, 64)
    length = ask.t.variable("length", -5, 100)
    value = (ask.k >= length).where(ask.const(1, i32), ask.const(0, i32)).reduce(Ops.ADD, ask.k)
    kernel = ask.kernel(value)
    after = load_collapse(kernel)
    for n in (-5, 0, 7, 64, 100):
        assert after is check_stage(golden, f"{STAGE}/count", load_collapse, kernel, {length: n})
        assert set(execute(after, buffers_of(kernel), {length: n})[0]) == {min(max(64 - n, 0), 64)}
    assert infix(after.src[0].src[0].src[1]) == "int32(max(max(length, 0) * -1 + 64, 0))"


def test_conditions_from_both_sides(ask: Asked) -> None:
    inside = (ask.k >= 3) & (ask.k < ask.n)
    one, zero = ask.const(1, i32), ask.const(0, i32)
    assert ask.collapsed(inside.where(one, zero).reduce(Ops.ADD, ask.k)) == "int32(max(min(n, 64) + -3, 0))"
    assert not is_loop(ask.collapsed((ask.k * 3 + 1 < ask.n).cast(i32).reduce(Ops.ADD, ask.k)))
    assert not is_loop(ask.collapsed((ask.n - ask.k * 5 <= 2).cast(i32).reduce(Ops.ADD, ask.k)))


def test_a_factor_comes_out_of_the_count(ask: Asked) -> None:
    each = ask.w.index(ask.i)
    text = ask.collapsed(((ask.k < ask.n).cast(i32) * each).reduce(Ops.ADD, ask.k))
    assert text == "int32(max(min(n, 64), 0)) * get(data2, L0)"


def test_counting_in_floats_is_exact_or_a_loop(ask: Asked) -> None:
    inside = ask.k < ask.n
    for value, counts in (
        (1.0, True),
        (0.5, True),
        (-3.0, True),
        (0.1, False),
        (-0.5, False),
        (np.inf, False),
    ):
        text = ask.collapsed(inside.where(ask.const(value), ask.const(0.0)).reduce(Ops.ADD, ask.k))
        assert is_loop(text) is not counts, value
    assert is_loop(ask.collapsed(inside.where(ask.x.index(ask.i), 0.0).reduce(Ops.ADD, ask.k)))


def test_no_terms_make_positive_zero(ask: Asked) -> None:
    value = (ask.k < ask.n).where(ask.const(-3.0), ask.const(0.0)).reduce(Ops.ADD, ask.k)
    after = load_collapse(ask.kernel(value))
    found = execute(after, buffers_of(after), {ask.n: 0})[0]
    assert not np.signbit(found).any()


@pytest.mark.parametrize(
    ("value", "times", "dtype", "exact"),
    [
        (1.0, 2**24, dtypes.float32, True),
        (1.0, 2**24 + 1, dtypes.float32, False),
        (3.0, 2**23, dtypes.float32, False),
        (2.0**-140, 1000, dtypes.float32, True),
        (1.0, 2048, dtypes.float16, True),
        (1.0, 2049, dtypes.float16, False),
        (1024.0, 64, dtypes.float16, False),  # beyond the greatest
        (1.0, 256, dtypes.bfloat16, True),
        (0.1, 2, dtypes.float32, False),
        (0.0, 10**9, dtypes.float64, True),
        (np.nan, 2, dtypes.float64, False),
    ],
)
def test_multiples(value: float, times: int, dtype: Any, exact: bool) -> None:
    assert multiples_are_exact(float(dtype.const(value)), times, dtype) is exact
    if exact and times < 10**5:  # sum them up one by one, rounding each time
        total = np.zeros((), dtype.numpy)
        for number in range(1, times + 1):
            total = (total + np.asarray(value, dtype.numpy)).astype(dtype.numpy)
            assert float(total) == value * number


# -- ranges that only repeat -------------------------------------------------------------------------------------


def test_unused_ranges(ask: Asked) -> None:
    each, element = ask.w.index(ask.i), ask.x.index(ask.i)
    assert ask.collapsed(each.reduce(Ops.ADD, ask.k)) == "get(data2, L0) * 64"
    assert ask.collapsed(element.reduce(Ops.MAX, ask.k)) == "get(data1, L0)"
    assert ask.collapsed(element.reduce(Ops.MIN, ask.k)) == "get(data1, L0)"
    assert ask.collapsed(each.reduce(Ops.AND, ask.k)) == "get(data2, L0)"
    assert ask.collapsed(each.reduce(Ops.XOR, ask.k)) == "int32(0)"
    assert ask.collapsed(ask.const(3, i32).reduce(Ops.MUL, ask.k)) == f"int32({dtypes.int32.wrap(3**64)})"
    assert not is_loop(ask.collapsed(each.reduce(Ops.MUL, ask.k)))
    assert is_loop(ask.collapsed(element.reduce(Ops.ADD, ask.k)))
    assert is_loop(ask.collapsed(element.reduce(Ops.MUL, ask.k)))


def test_a_range_that_may_be_empty_is_no_repetition(t: Table) -> None:
    n = t.variable("n", 0, 9)
    k, i = t.range(n, 1, REDUCE), t.range(4, 0)
    kernel = store(t.param(0, f32, 4), t.param(1, f32, 4).index(i).reduce(Ops.MAX, k), i)
    after = load_collapse(kernel)
    assert any(x.op is Ops.REDUCE for x in after.toposort())


def test_powers_by_squaring_are_few(ask: Asked) -> None:
    after = load_collapse(ask.kernel(ask.w.index(ask.i).reduce(Ops.MUL, ask.k)))
    assert sum(x.op is Ops.MUL and x.dtype is i32 for x in after.toposort()) == 6


# -- gathers -----------------------------------------------------------------------------------------------------


def lookup(ask: Asked) -> UOp:
    return ask.k.cast(i32).eq(ask.id).where(ask.x.index(ask.k), 0.0).reduce(Ops.ADD, ask.k)


def test_a_gather_reads_one_element(ask: Asked, golden: Golden) -> None:
    kernel = ask.kernel(lookup(ask))
    buffers = buffers_of(kernel)
    buffers[3][:] = [0, 63, 64, -1, 5, -(2**31)]
    after = check_stage(golden, f"{STAGE}/gather", load_collapse, kernel, buffers=buffers)
    found = execute(after, buffers)[0]
    np.testing.assert_array_equal(found, [buffers[1][0], buffers[1][63], 0, 0, buffers[1][5], 0])


def test_a_gather_keeps_special_values(ask: Asked) -> None:
    kernel = ask.kernel(lookup(ask))
    buffers = buffers_of(kernel)
    buffers[3][:] = [0, 1, 2, 3, 4, 5]
    buffers[1][:5] = [-0.0, np.nan, np.inf, -np.inf, 1e-45]
    before, after = execute(kernel, buffers)[0], execute(load_collapse(kernel), buffers)[0]
    np.testing.assert_array_equal(after, before)
    np.testing.assert_array_equal(np.signbit(after), np.signbit(before))
    assert not np.signbit(after[0])  # -0.0 + 0.0


def test_gathers_by_other_ops_and_with_more_conditions(ask: Asked) -> None:
    here = ask.k.eq(ask.id.cast(dtypes.index))
    element, low = ask.x.index(ask.k), ask.const(-np.inf)
    assert not is_loop(ask.collapsed(here.where(element, low).reduce(Ops.MAX, ask.k)))
    assert not is_loop(ask.collapsed(here.where(element, 1.0).reduce(Ops.MUL, ask.k)))
    # the greatest of an element and 1.0: split into both
    assert "get(data1" in ask.collapsed(here.where(element, 1.0).reduce(Ops.MAX, ask.k))
    both = here & (ask.k < ask.n) & (ask.i < 3)
    assert not is_loop(ask.collapsed(both.where(element, 0.0).reduce(Ops.ADD, ask.k)))
    assert not is_loop(
        ask.collapsed(
            (63 - ask.k).eq(ask.id.cast(dtypes.index)).where(element * 2.0, 0.0).reduce(Ops.ADD, ask.k)
        )
    )
    assert not is_loop(
        ask.collapsed(here.logical_not().where(ask.const(0.0), element).reduce(Ops.ADD, ask.k))
    )
    twice = ask.x.index(ask.t.param(4, i32, 64).index(ask.k).cast(dtypes.index).max(0))
    assert not is_loop(ask.collapsed(here.where(twice, 0.0).reduce(Ops.ADD, ask.k)))


def test_a_product_with_a_one_hot_is_a_gather_of_integers_only(ask: Asked) -> None:
    hot = ask.k.cast(i32).eq(ask.id)
    assert not is_loop(ask.collapsed((hot.cast(i32) * ask.w.index(ask.k)).reduce(Ops.ADD, ask.k)))
    # on floats 0 * inf is NaN, so the product is not a choice
    product = (hot.cast(f32) * ask.x.index(ask.k)).reduce(Ops.ADD, ask.k)
    kernel = ask.kernel(product)
    assert load_collapse(kernel) is kernel
    buffers = buffers_of(kernel)
    buffers[1][7], buffers[3][:] = np.inf, 2
    assert np.isnan(execute(load_collapse(kernel), buffers)[0]).all()


def test_loads_of_a_gather_are_never_outside(ask: Asked) -> None:
    after = load_collapse(ask.kernel(lookup(ask)))
    buffers = buffers_of(after)
    for far in (-(2**31), -1, 64, 2**31 - 1):
        buffers[3][:] = far
        assert (execute(after, buffers)[0] == 0).all()  # evaluate refuses an index outside of its buffer


# -- sums of numbers, extrema, any and all -----------------------------------------------------------------------


def test_sums_of_numbers(ask: Asked) -> None:
    k, i = ask.k, ask.i
    assert ask.collapsed(k.cast(i32).reduce(Ops.ADD, k)) == "int32(2016)"
    assert ask.collapsed(k.cast(f32).reduce(Ops.ADD, k)) == "float32(2016.0)"
    assert (
        ask.collapsed((k <= i).where(k.cast(i32), ask.const(0, i32)).reduce(Ops.ADD, k))
        == "int32(L0 * (L0 + 1) // 2)"
    )
    assert ask.collapsed((k * 3 + i).cast(i32).reduce(Ops.ADD, k)) == "int32(L0 * 64 + 6048)"
    assert ask.collapsed(k.cast(i32).reduce(Ops.MAX, k)) == "int32(63)"
    assert ask.collapsed((k <= i).cast(dtypes.int64).reduce(Ops.ADD, k)) == "int64(L0 + 1)"
    narrow = ask.collapsed(k.cast(dtypes.int8).reduce(Ops.ADD, k))
    assert narrow == f"int8({dtypes.int8.wrap(2016)})"
    short = ask.t.range(40, 1, REDUCE)
    assert not is_loop(ask.collapsed(short.cast(dtypes.float16).reduce(Ops.ADD, short)))
    assert is_loop(ask.collapsed(k.cast(dtypes.float16).reduce(Ops.ADD, k)))  # terms may sum up to 13 bits


def test_any_and_all(ask: Asked) -> None:
    assert ask.collapsed((ask.k < ask.n).reduce(Ops.OR, ask.k)) == "0 < n"
    assert ask.collapsed((ask.k < ask.n).reduce(Ops.AND, ask.k)) == "63 < n"
    both = (ask.k < ask.n) & (ask.k >= ask.i)
    assert not is_loop(ask.collapsed(both.reduce(Ops.OR, ask.k)))
    assert not is_loop(ask.collapsed(both.reduce(Ops.AND, ask.k)))
    flags = ask.t.param(5, dtypes.bool_, 64)
    flag = (ask.k.eq(ask.n) & flags.index(ask.k)).reduce(Ops.OR, ask.k)
    assert not is_loop(ask.collapsed(flag))
    high = (ask.k >= ask.n).where(ask.x.index(ask.i), ask.const(-np.inf)).reduce(Ops.MAX, ask.k)
    assert ask.collapsed(high) == "where(n < 64, get(data1, L0), -inf)"


# -- what keeps its loop -----------------------------------------------------------------------------------------


def test_plain_reductions_stay(ask: Asked) -> None:
    k, i = ask.k, ask.i
    for value in (
        ask.x.index(k).reduce(Ops.ADD, k),
        (ask.x.index(k) * ask.x.index(k + i)).reduce(Ops.ADD, k),
        (k < ask.n).where(ask.x.index(k), 0.0).reduce(Ops.ADD, k),
        (k % 3 < 1).where(ask.const(1, i32), ask.const(0, i32)).reduce(Ops.ADD, k),
    ):
        kernel = ask.kernel(value)
        assert load_collapse(kernel) is kernel


def test_a_loop_inside_a_loop_is_left_alone(ask: Asked) -> None:
    s = ask.t.range(5, 2, REDUCE)
    inner = ask.w.index(ask.k + s).reduce(Ops.ADD, s)  # depends on k
    value = ask.k.eq(ask.id.cast(dtypes.index)).where(inner, 0).reduce(Ops.ADD, ask.k)
    kernel = ask.kernel(value)
    assert load_collapse(kernel) is kernel


def test_one_range_of_several_collapses(ask: Asked, golden: Golden) -> None:
    s = ask.t.range(5, 2, REDUCE)
    value = ask.k.eq(ask.n).where(ask.w.index(ask.k + s), 0).reduce(Ops.ADD, ask.k, s)
    after = check_stage(golden, f"{STAGE}/one_of_two", load_collapse, ask.kernel(value), {ask.n: 9})
    (reduce,) = [x for x in after.toposort() if x.op is Ops.REDUCE]
    assert reduce.src[1:] == (s,)


def test_a_range_whose_size_another_gives_goes_first(t: Table) -> None:
    k = t.range(8, 1, REDUCE)
    s = t.range(k + 1, 2, REDUCE)
    total = s.cast(i32).reduce(Ops.ADD, s, k)
    kernel = t.sink(t.param(0, i32, 1).index(t.const(0)).store(total))
    after = load_collapse(kernel)
    assert [x for x in after.toposort() if x.op is Ops.RANGE] == [k]
    assert unchanged_result(kernel, after)


def test_the_question_is_about_one_range_alone(ask: Asked) -> None:
    other = ask.t.range(9, 5, REDUCE)
    length = ask.id.cast(dtypes.index) * other
    value = ((ask.k < length) & (ask.x.index(ask.i) < 1.0)).where(ask.w.index(ask.k + other), 0)
    question = isolate(Ops.ADD, value, ask.k)
    assert question is not None
    inside = question.reduce.toposort()
    assert [n for n in inside if n.op is Ops.RANGE] == [ask.k]
    # the length, the other range, and (a float has no variable) a condition on an element
    assert set(question.inputs.values()) == {length, other, ask.x.index(ask.i) < 1.0}
    bounds = {n: n.bounds for n, each in question.inputs.items() if each is length or each is other}
    assert set(bounds.values()) == {length.bounds, other.bounds}
    assert {n.op for n in bounds} == {Ops.DEFINE_VAR}
    assert substitute(question.reduce, question.inputs) is value.reduce(Ops.ADD, ask.k)


def test_names_like_those_of_stand_ins_are_left_alone(ask: Asked) -> None:
    mine = ask.t.variable("_input0", 0, 9)
    kernel = ask.kernel((ask.k < mine).cast(i32).reduce(Ops.ADD, ask.k))
    assert load_collapse(kernel) is kernel


def test_conditions_around_loads_without_a_loop_are_another_stage(ask: Asked) -> None:
    kernel = ask.kernel((ask.i < 3).where(ask.x.index(ask.i), 0.0))
    assert load_collapse(kernel) is kernel


# -- properties --------------------------------------------------------------------------------------------------


def failures(seeds: range) -> list[int]:
    found = []
    for seed in seeds:
        with Table() as t:
            kernel = random_reduction(random.Random(seed), t)
            n, buffers = t.variable("n", -2, 12), buffers_of(kernel, seed)
            try:
                after = load_collapse(kernel)
                right = all(
                    same(execute(kernel, buffers, {n: v}), execute(after, buffers, {n: v}))
                    for v in (-2, 3, 12)
                )
            except Exception:  # noqa: BLE001  a planted bug may fail in any way
                right = False
            if not right:
                found.append(seed)
    return found


def test_random_reductions_stay_the_same() -> None:
    assert failures(range(120)) == []
    collapsed = 0
    for seed in range(120):
        with Table() as t:
            kernel = random_reduction(random.Random(seed), t)
            collapsed += load_collapse(kernel) is not kernel
    assert collapsed > 60


@pytest.mark.fuzz
def test_many_random_reductions_stay_the_same() -> None:
    assert failures(range(1000, 6000)) == []


def test_random_kernels_stay_the_same() -> None:
    assert random_outcome(load_collapse, range(700, 760), make=random_kernel).failures == []


@pytest.mark.parametrize(
    ("module", "name", "planted"),
    [
        (counting, "multiples_are_exact", lambda *_: True),
        (s02_load_collapse, "_is_nothing", lambda root, x: True),
        (s02_load_collapse, "_is_exact", lambda op, dtype: True),
        (s02_load_collapse, "holds", lambda dtype, x: True),
        (s02_load_collapse, "exact_integers", lambda dtype: 1 << 64),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_planted_bugs_are_seen(
    ask: Asked, monkeypatch: pytest.MonkeyPatch, module: Any, name: str, planted: Callable[..., object]
) -> None:
    """Each guard is needed: without it, one of these comes out wrong."""
    large = ask.t.range(2000, 1, REDUCE)
    values = [
        (ask.k < ask.n).where(ask.const(0.1), 0.0).reduce(Ops.ADD, ask.k),
        (ask.k < 3).where(ask.const(2.0**25), ask.const(1.0)).reduce(Ops.ADD, ask.k),
        (ask.k < ask.n).where(ask.const(1.0), ask.const(2.0)).reduce(Ops.ADD, ask.k),
        large.cast(dtypes.int8).eq(ask.id.cast(dtypes.int8)).cast(i32).reduce(Ops.ADD, large),
        (large * 1001).cast(f32).reduce(Ops.ADD, large),
    ]
    kernels = [ask.kernel(value) for value in values]
    assert all(unchanged_result(kernel, load_collapse(kernel), {ask.n: 33}) for kernel in kernels)
    monkeypatch.setattr(module, name, planted)
    assert not all(unchanged_result(kernel, load_collapse(kernel), {ask.n: 33}) for kernel in kernels)


def test_a_gather_without_validity_would_be_seen(ask: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = ask.kernel(lookup(ask))
    buffers = buffers_of(kernel)
    buffers[3][:] = 64
    honest = s02_load_collapse._at
    monkeypatch.setattr(
        s02_load_collapse, "_at", lambda x, r, e, inside: honest(x, r, e, inside.const_like(True))
    )
    assert not same(execute(kernel, buffers), execute(load_collapse(kernel), buffers))
