"""Laziness is invisible: results are those of eager evaluation, and what is compiled is counted."""

from __future__ import annotations

import gc
import sys
import threading
import weakref

import hypothesis
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import planish as pn
from planish.compiler import object_code
from planish.config import settings
from planish.errors import GraphError, NanError, OutOfMemoryError
from planish.frontend import plans, session
from planish.frontend.nan_check import NanWarning


class Count:
    """What realisation does inside a `with` block."""

    def __enter__(self):
        now = session.counters
        self.start = (now.runs, now.hits, now.captured)
        return self

    def __exit__(self, *exc_info):
        now = session.counters
        self.runs, self.hits, self.captured = (
            after - before
            for after, before in zip((now.runs, now.hits, now.captured), self.start, strict=True)
        )


def data(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).uniform(0.5, 1.5, shape).astype(dtype)


# --- when work happens --------------------------------------------------------------------------------------


def test_building_an_expression_runs_nothing():
    x = pn.asarray(data(4, 5))
    with Count() as count:
        y = pn.tanh(x @ x.T) + 1
        assert y.shape == (4, 4)
        assert y.dtype is pn.float32
    assert count.runs == 0


def test_dead_expressions_cost_nothing():
    x = pn.asarray(data(3, 4))
    with Count() as count:
        y = x + 1
        for _ in range(50):
            y * 7.25
        np.testing.assert_array_equal(y.numpy(), x.numpy() + 1)
    assert count.runs == 1


def test_elements_are_computed_once():
    y = pn.asarray(data(4)) * 3
    with Count() as count:
        y.numpy()
        y.numpy()
        y.tolist()
        (y + 0).numpy()
    assert count.runs == 2


def test_realize_computes_several_in_one_plan():
    x = pn.asarray(data(3, 3))
    a, b, c = x + 1, x * 2, pn.sum(x)
    with Count() as count:
        pn.realize(a, [b, {"c": c}], None, 3)
    assert count.runs == 1
    np.testing.assert_array_equal(a.numpy(), x.numpy() + 1)
    np.testing.assert_array_equal(b.numpy(), x.numpy() * 2)
    np.testing.assert_allclose(c.numpy(), x.numpy().sum(), rtol=1e-6)


def test_results_of_one_op_are_computed_together():
    x = pn.asarray(data(6))
    total, steps = pn.scan(lambda c, a: (c + a, c), 0.0, x)
    with Count() as count:
        np.testing.assert_allclose(total.numpy(), x.numpy().sum(), rtol=1e-6)
        assert steps.shape == (6,)
        steps.numpy()
    assert count.runs == 1


def test_another_name_of_a_result_is_not_computed_again():
    y = pn.asarray(data(5)) * 2
    z = y.snapshot()
    y.realize()
    with Count() as count:
        np.testing.assert_array_equal(z.numpy(), y.numpy())
    assert count.runs == 0


def test_what_was_computed_lets_go_of_what_it_was_computed_from():
    x = pn.asarray(data(5))
    y = x * 2
    z = y + 1
    inner = weakref.ref(y)
    z.realize()
    del y
    gc.collect()
    assert inner() is None


# --- what is compiled ---------------------------------------------------------------------------------------


def test_the_same_expression_on_new_data_is_neither_captured_nor_compiled():
    def expression(x, y):
        return pn.sum(pn.exp(x) * y[None, :] - 3, axis=1)

    first = expression(pn.asarray(data(4, 6)), pn.asarray(data(6))).numpy()
    compiled = object_code.counters.compiled + object_code.counters.loaded
    with Count() as count:
        for seed in range(1, 6):
            a, b = data(4, 6, seed=seed), data(6, seed=seed + 10)
            got = expression(pn.asarray(a), pn.asarray(b)).numpy()
            np.testing.assert_allclose(got, (np.exp(a) * b[None, :] - 3).sum(1), rtol=1e-5)
    assert first.shape == (4,)
    assert (count.runs, count.hits, count.captured) == (5, 5, 0)
    assert object_code.counters.compiled + object_code.counters.loaded == compiled


def test_another_shape_or_dtype_is_another_structure():
    def expression(x):
        return pn.sqrt(x) + x

    with Count() as count:
        for shape, dtype in [((7,), np.float32), ((8,), np.float32), ((7,), np.float64), ((7,), np.float32)]:
            x = data(*shape, dtype=dtype)
            np.testing.assert_allclose(expression(pn.asarray(x)).numpy(), np.sqrt(x) + x, rtol=1e-6)
    assert (count.runs, count.captured) == (4, 3)


def test_sharing_is_part_of_the_structure():
    a, b = data(9), data(9, seed=1)
    x, y = pn.asarray(a), pn.asarray(b)
    np.testing.assert_array_equal((x * y - x).numpy(), a * b - a)
    np.testing.assert_array_equal((x * x - x).numpy(), a * a - a)
    np.testing.assert_array_equal((x * y - y).numpy(), a * b - b)


def test_arbitrary_numbers_are_parameters():
    x = pn.asarray(data(11))
    ((x * 0.123) - 7.7).numpy()
    with Count() as count:
        for step in range(10):
            rate = 0.1 / (step + 3)
            np.testing.assert_allclose(
                ((x * rate) - 7.7).numpy(), x.numpy() * np.float32(rate) - np.float32(7.7)
            )
    assert count.captured == 0


def test_numbers_that_fold_become_parameters_once_they_change():
    x = pn.asarray(data(12))
    with Count() as count:
        for step in range(12):
            np.testing.assert_array_equal(
                (x * step + 2).numpy(), x.numpy() * np.float32(step) + np.float32(2)
            )
    # at first, when it changes, and for x * 2 + 2, which has one number in two places
    assert count.captured <= 3


def test_integers_and_halves_are_compiled_in():
    x = pn.asarray(data(13))
    y = (x**2) * 0.5
    with Count() as count:
        y.numpy()
    assert count.captured == 1
    family = next(reversed(session.SESSION.plans.families.values()))
    assert family.plans[0].lifted == ()


def test_zero_and_minus_zero_are_two_numbers():
    x = pn.asarray(np.array([-1.0, -0.0, 0.0], np.float32))
    plus, minus = pn.copysign(x, 0.0).numpy(), pn.copysign(x, -0.0).numpy()
    np.testing.assert_array_equal(np.signbit(plus), [False] * 3)
    np.testing.assert_array_equal(np.signbit(minus), [True] * 3)


def test_numbers_inside_loops_are_parameters_too():
    x = pn.asarray(data(3))

    def expression(rate):
        return pn.fori_loop(0, 3, lambda i, c: c - rate * c, x)

    expression(0.37).numpy()
    with Count() as count:
        for rate in (0.21, 0.22, 0.23):
            wanted = x.numpy()
            for _ in range(3):
                wanted = wanted - np.float32(rate) * wanted
            np.testing.assert_allclose(expression(rate).numpy(), wanted, rtol=1e-6)
    assert count.captured == 0


def test_settings_are_part_of_the_key():
    x = pn.asarray(data(14))
    (x + 0.3).numpy()
    with Count() as count:
        with settings(contract=True):
            (x + 0.3).numpy()
        with settings(contract=True):
            (x + 0.3).numpy()
        (x + 0.3).numpy()
    assert (count.captured, count.hits) == (1, 2)


# --- long loops ---------------------------------------------------------------------------------------------


def test_ten_thousand_ops_neither_recurse_nor_compile_each_time():
    x = pn.asarray(np.ones(8, np.float32))
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(300)
    try:
        with Count() as count:
            y = x
            for _ in range(5000):
                y = y * 0.999 + 0.001
            got = y.numpy()
    finally:
        sys.setrecursionlimit(limit)
    np.testing.assert_allclose(got, 1.0, rtol=1e-3)
    assert count.runs == -(-10_000 // session.DEEPEST)
    # one plan for full pieces, one for what is left
    assert count.captured <= 2


@pytest.mark.parametrize("ops", [1, 3, 7, 10])
def test_pieces_of_a_loop_are_alike_whatever_its_body(ops):
    def loop(y, steps):
        for _ in range(steps):
            for number in range(ops):
                y = pn.tanh(y) if number % 2 else y * 1.01
        return y.numpy()

    x = pn.asarray(np.ones(4 + ops, np.float32))
    with Count() as count:
        loop(x, 1500)
    assert count.runs >= 1500 * ops // (2 * session.DEEPEST)
    # the way in, the pieces, and what is left
    assert count.captured <= 4


def test_the_work_per_op_of_a_long_loop_does_not_grow(monkeypatch):
    seen = []
    visit = plans._StructureReading._visit

    def counted(self, pending):
        visit(self, pending)
        seen.append(len(self.places))

    monkeypatch.setattr(plans._StructureReading, "_visit", counted)
    y = pn.asarray(np.ones(4, np.float32))
    for _ in range(2000):
        y = pn.abs(y)
    y.numpy()
    assert max(seen) <= 2 * session.DEEPEST
    assert sum(seen) == 2000


def test_a_long_trace_does_not_recurse():
    def function(x):
        for _ in range(3000):
            x = pn.abs(x)
        return x

    limit = sys.getrecursionlimit()
    lowered = None
    sys.setrecursionlimit(400)
    try:
        lowered = pn.jit(function)(pn.asarray(data(2)))
    finally:
        sys.setrecursionlimit(limit)
    np.testing.assert_array_equal(lowered.numpy(), data(2))


def test_states_that_depend_on_each_other_stay_right():
    x, v = pn.asarray(np.ones(3, np.float64)), pn.asarray(np.zeros(3, np.float64))
    a, b = np.ones(3), np.zeros(3)
    with Count() as count:
        for _ in range(600):
            v = v - x * 0.01
            x = x + v * 0.01
            b = b - a * 0.01
            a = a + b * 0.01
        np.testing.assert_allclose(x.numpy(), a, rtol=1e-12)
    # both are computed in the same runs
    assert count.runs <= 1 + 3 * 2400 // session.DEEPEST
    assert count.captured <= 3


def test_long_lists_of_operands_are_computed_in_groups():
    x = pn.asarray(data(3))

    def joined(first):
        return pn.stack([x * (first + 0.1 * n) for n in range(100)])

    wanted = np.stack([x.numpy() * np.float32(0.1 * n) for n in range(100)])
    with Count() as count:
        np.testing.assert_allclose(joined(0).numpy(), wanted, rtol=1e-6)
        joined(7.7).numpy()
    # groups of 16, and the last one; once more, when their numbers turn out to change
    assert count.captured <= 4
    assert joined(1).shape == (100, 3)
    np.testing.assert_array_equal(pn.concat([x] * 40).numpy(), np.concatenate([x.numpy()] * 40))


# --- threads ------------------------------------------------------------------------------------------------


def test_threads_may_realise_the_same_tensor():
    base = pn.asarray(data(64))
    shared = pn.tanh(base) * 3.21
    wanted = np.tanh(base.numpy()) * np.float32(3.21)
    problems: list[BaseException] = []

    def work():
        try:
            np.testing.assert_allclose((shared + 1).numpy(), wanted + 1, rtol=1e-5)
            np.testing.assert_allclose(shared.numpy(), wanted, rtol=1e-5)
        except BaseException as error:  # noqa: BLE001 - reported below
            problems.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


# --- mistakes -----------------------------------------------------------------------------------------------


def test_nan_tracing_names_the_op_and_the_line():
    x = pn.asarray(np.array([4.0, -1.0], np.float32))
    with settings(check="nan"):
        y = pn.sqrt(x)  # here
        line = sys._getframe().f_lineno - 1
        with pytest.raises(NanError) as caught:
            (y + 1).numpy()
    error = caught.value
    assert error.op == "sqrt"
    assert error.location is not None
    assert (error.location.file, error.location.line) == (__file__, line)
    assert "element [1], from -1.0" in str(error)
    # the input is as it was, and so is the expression without the setting
    np.testing.assert_array_equal(x.numpy(), [4.0, -1.0])
    np.testing.assert_array_equal(np.isnan((y + 1).numpy()), [False, True])


def test_nan_tracing_finds_a_nan_that_does_not_reach_the_result():
    x = pn.asarray(np.array([2.0, -2.0], np.float32))
    with settings(check="nan"), pytest.raises(NanError, match="log made a NaN"):
        pn.where(x > 0, pn.log(x), x).numpy()


def test_nan_tracing_lets_a_nan_of_the_data_pass():
    x = pn.asarray(np.array([1.0, np.nan], np.float32))
    for function, expected in (
        (lambda x: x * 2, [2.0, np.nan]),
        (lambda x: pn.where(x > 5, x, float("nan")), [np.nan, np.nan]),
    ):
        with settings(check="nan"), pytest.warns(NanWarning, match="holds 1 NaN already"):
            shown = function(x).numpy()
        np.testing.assert_array_equal(shown, expected)


def test_nan_tracing_looks_into_loops():
    with settings(check="nan"), pytest.raises(NanError, match="sqrt made a NaN") as caught:
        pn.fori_loop(0, 3, lambda i, c: pn.sqrt(c - 1), 1.5).numpy()
    assert caught.value.location is not None
    assert caught.value.location.file == __file__


def test_running_out_of_memory_names_the_buffer_and_the_peak():
    rows, columns = (pn.asarray(np.zeros(shape, np.float32)) for shape in ((1 << 21, 1), (1, 1 << 22)))
    y = rows * columns
    with pytest.raises(
        OutOfMemoryError, match=r"result 0, tensor<f32, 2097152x4194304>, of 32.0 TiB"
    ) as caught:
        y.numpy()
    assert caught.value.nbytes == 1 << 45
    assert caught.value.peak >= 1 << 45
    assert caught.value.location is not None
    np.testing.assert_array_equal(pn.sum(rows).numpy(), 0)
    with pytest.raises(MemoryError, match="a tensor tensor<f32, 35184372088832> takes"):
        pn.zeros((1 << 45,)).numpy()


def test_the_value_of_a_parameter_is_not_known():
    kept = []

    @pn.jit
    def function(x):
        kept.append(x)
        return x + 1

    function(pn.asarray(data(2)))
    with pytest.raises(GraphError, match="jit made while it traced a function: it depends on argument x"):
        kept[0].numpy()
    with pytest.raises(GraphError, match="return it from the function"):
        (kept[0] * 2).numpy()


# --- any expression -----------------------------------------------------------------------------------------

_UNARY = [(pn.negative, np.negative), (pn.abs, np.abs), (pn.tanh, np.tanh)]
_BINARY = [(pn.add, np.add), (pn.subtract, np.subtract), (pn.multiply, np.multiply), (pn.maximum, np.maximum)]
_NUMBERS = [0, 1, 2.0, -0.5, 0.3, 7]


def halved_twice(x, plus):
    return pn.fori_loop(0, 2, lambda i, c: c * 0.5 + plus, x)


def halved_twice_by_numpy(x, plus):
    return (x * np.float32(0.5) + plus) * np.float32(0.5) + plus


@given(st.data())
@hypothesis.settings(max_examples=25)
def test_any_expression_is_what_numpy_makes_of_it(draw):
    """Few leaves, numbers and ops, so that structures repeat, differ in one place only, and share parts."""
    pool = [(pn.asarray(x), x) for x in (data(3), data(3, seed=1))]
    for _ in range(draw.draw(st.integers(1, 12))):
        kind = draw.draw(st.integers(0, 3))
        one = draw.draw(st.sampled_from(pool))
        if kind == 0:
            ours, theirs = draw.draw(st.sampled_from(_UNARY))
            made = (ours(one[0]), theirs(one[1]))
        elif kind == 1:
            ours, theirs = draw.draw(st.sampled_from(_BINARY))
            other = draw.draw(st.sampled_from(pool))
            made = (ours(one[0], other[0]), theirs(one[1], other[1]))
        elif kind == 2:
            ours, theirs = draw.draw(st.sampled_from(_BINARY))
            number = draw.draw(st.sampled_from(_NUMBERS))
            made = (ours(number, one[0]), theirs(np.float32(number), one[1]))
        else:
            other = draw.draw(st.sampled_from(pool))
            made = (halved_twice(one[0], other[0]), halved_twice_by_numpy(one[1], other[1]))
        pool.append(made)
        if draw.draw(st.booleans()):
            np.testing.assert_allclose(made[0].numpy(), made[1], rtol=1e-5, atol=1e-6)
    pn.realize(*[ours for ours, _ in pool[-3:]])
    for ours, theirs in pool:
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-5, atol=1e-6)
