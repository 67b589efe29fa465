"""Control flow: cond, switch, while_loop, scan, fori_loop, map: eager, compiled and interpreted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import planish as pn
from planish.errors import DTypeError, GraphError, PlanishError, ShapeError
from planish.frontend import session

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def as_written(function):
    return function


def under_jit(function):
    return pn.jit(function)


def interpreted(function):
    def run(*args):
        return function(*[x.to_device("interpreter") for x in args])

    return run


ways = pytest.mark.parametrize("way", [as_written, under_jit, interpreted])


def close(tree: Any, wanted: Any) -> None:
    if isinstance(tree, pn.Tensor):
        np.testing.assert_allclose(tree.numpy(), wanted, rtol=1e-6)
    else:
        assert len(tree) == len(wanted)
        for key in tree if isinstance(tree, dict) else range(len(tree)):
            close(tree[key], wanted[key])


@dataclass
class State:
    at: Any
    speed: Any


class Pair(NamedTuple):
    first: Any
    second: Any


# --- cond and switch ----------------------------------------------------------------------------------------


@ways
@pytest.mark.parametrize("sign", [1, -1])
def test_cond_takes_one_branch(way, sign):
    @way
    def function(x, w):
        return pn.cond(pn.sum(x) > 0, lambda a: {"k": (a * w, 1)}, lambda a: {"k": (a - w, 2)}, x)

    x, w = X * sign + 0.5 * sign, np.float32(3)
    wanted = {"k": (x * w, 1) if sign > 0 else (x - w, 2)}
    close(function(pn.asarray(x), pn.asarray(w)), wanted)


def test_cond_runs_only_the_branch_it_takes():
    # the branch not taken would go round for ever
    forever = pn.while_loop
    x = pn.asarray(X)
    result = pn.cond(
        pn.sum(x) > 1e9,
        lambda: forever(lambda v: pn.isfinite(v), lambda v: v * 1, pn.asarray(np.float32(1))),
        lambda: pn.asarray(np.float32(7)),
    )
    assert result.item() == 7


def test_cond_takes_a_python_bool():
    close(pn.cond(True, lambda: pn.asarray(X), lambda: pn.asarray(X) * 2), X)


def test_a_number_takes_the_dtype_of_the_other_branch():
    x = pn.asarray(np.float16(2))
    result = pn.cond(x > 0, lambda: x, lambda: 0)
    assert result.dtype is pn.float16
    assert result.item() == 2


@ways
def test_branches_nest(way):
    @way
    def function(x):
        return pn.cond(x > 0, lambda: pn.cond(x > 10, lambda: x * 100, lambda: x * 10), lambda: -x)

    for value in (20, 5, -3):
        wanted = value * 100 if value > 10 else value * 10 if value > 0 else -value
        assert function(pn.asarray(np.int32(value))).item() == wanted


@ways
@pytest.mark.parametrize("count", [1, 2, 5])
def test_switch_takes_the_nearest_branch(way, count):
    branches = [lambda a, n=n: a * 10**n for n in range(count)]
    function = way(lambda i, a: pn.switch(i, branches, a))
    for index in (-3, 0, 1, 2, 3, 4, 9):
        got = function(pn.asarray(np.int64(index)), pn.asarray(np.int64(7)))
        assert got.item() == 7 * 10 ** min(max(index, 0), count - 1)


# --- loops --------------------------------------------------------------------------------------------------


@ways
def test_while_loop_goes_on_as_long_as_it_should(way):
    @way
    def function(limit, w):
        def body(state):
            return State(state.at + state.speed, state.speed * w)

        return pn.while_loop(lambda state: state.at < limit, body, State(pn.zeros_like(limit), limit * 0 + 1))

    got = function(pn.asarray(np.float32(100)), pn.asarray(np.float32(2)))
    at, speed = 0.0, 1.0
    while at < 100:
        at, speed = at + speed, speed * 2
    assert (got.at.item(), got.speed.item()) == (at, speed)


def test_while_loop_may_run_never():
    close(pn.while_loop(lambda v: v > 5, lambda v: v * 2, pn.asarray(np.float32(1))), 1)


@ways
@pytest.mark.parametrize(("most", "wanted"), [(0, 1), (3, 8), (100, 1024)])
def test_while_loop_ends_after_max_steps(way, most, wanted):
    function = way(lambda x: pn.while_loop(lambda v: v < 1000, lambda v: v * 2, x, max_steps=most))
    assert function(pn.asarray(np.int64(1))).item() == wanted


@ways
@pytest.mark.parametrize("reverse", [False, True])
def test_scan_carries_and_stacks(way, reverse):
    w = pn.asarray(np.float32(0.5))

    @way
    def function(xs, ys):
        def step(carry, pair):
            total = carry["total"] + pair.first * pair.second * w
            return {"total": total, "n": carry["n"] + 1}, (total, [pair.first])

        return pn.scan(step, {"total": pn.zeros((3,)), "n": 0}, Pair(xs, ys), reverse=reverse)

    a, b = np.random.default_rng(1).uniform(size=(2, 5, 3)).astype(np.float32)
    products = a * b * np.float32(0.5)
    if reverse:
        totals = products[::-1].cumsum(0)[::-1]
        last = totals[0]
    else:
        totals = products.cumsum(0)
        last = totals[-1]
    close(function(pn.asarray(a), pn.asarray(b)), ({"total": last, "n": 5}, (totals, [a])))


def test_scan_without_sequences_has_a_length():
    last, squares = pn.scan(lambda i, _: (i + 1, i * i), 0, length=4)
    assert last.item() == 4
    close(squares, [0, 1, 4, 9])


def test_scan_of_no_steps():
    last, stacked = pn.scan(lambda c, x: (c + x, c), 1.5, pn.zeros((0,)))
    assert last.item() == 1.5
    assert stacked.shape == (0,)


def test_scan_along_a_named_size_compiles_once():
    @pn.jit(dims={"x": (pn.Dim("n", 1, 9),)})
    def function(x):
        return pn.scan(lambda c, a: (c + a, c), 0.0, x)

    for count in (1, 4, 9):
        x = np.arange(count, dtype=np.float32) + 1
        close(function(pn.asarray(x)), (x.sum(), x.cumsum() - x))
    assert function.cache_info().misses == 1


@ways
def test_fori_loop_counts(way):
    function = way(lambda x: pn.fori_loop(2, 6, lambda i, c: c * 2 + i, x))
    wanted = 1
    for i in range(2, 6):
        wanted = wanted * 2 + i
    assert function(pn.asarray(np.int64(1))).item() == wanted


@ways
def test_fori_loop_takes_bounds_from_tensors(way):
    function = way(lambda low, high: pn.fori_loop(low, high, lambda i, c: c + i, 0))
    for low, high in [(0, 5), (3, 4), (4, 2)]:
        got = function(pn.asarray(np.int32(low)), pn.asarray(np.int64(high)))
        assert got.item() == sum(range(low, high))


def test_fori_loop_backwards_runs_never():
    close(pn.fori_loop(5, 2, lambda i, c: c + 1, pn.asarray(np.float32(3))), 3)


@ways
def test_map_stacks(way):
    function = way(lambda x, w: pn.map(lambda row: {"s": pn.sum(row * w), "r": row}, x))
    w = np.float32(2)
    close(function(pn.asarray(X), pn.asarray(w)), {"s": (X * w).sum(1), "r": X})


def test_loops_nest_and_see_what_is_outside():
    w = pn.asarray(np.float32(2))

    def outer(c, row):
        inner, _ = pn.scan(lambda d, a: (d + a * w + c * 0, None), 0.0, row)
        return c + inner, pn.while_loop(lambda v: v < inner, lambda v: v + w, 0.0)

    total, steps = pn.scan(outer, 0.0, pn.asarray(X))
    sums = (X * 2).sum(1)
    close(total, sums.sum())
    close(steps, np.ceil(sums / 2) * 2)


def test_a_loop_with_new_data_is_not_compiled_again():
    def run(x):
        return pn.scan(lambda c, a: (c * 0.5 + a, c), 0.0, pn.asarray(x))[0].numpy()

    run(X[0])
    before = session.counters.captured
    for row in (X[1], X[0] * 7):
        total = np.float32(0)
        for a in row:
            total = total * np.float32(0.5) + a
        np.testing.assert_allclose(run(row), total)
    assert session.counters.captured == before


def test_numbers_take_the_dtype_that_the_body_gives_them():
    x = pn.asarray(np.arange(3, dtype=np.float64))
    total, _ = pn.scan(lambda c, a: (c + a, None), 0, x)
    assert total.dtype is pn.float64
    assert total.item() == 3
    kept = pn.while_loop(lambda c: c < 1, lambda c: 5, pn.asarray(np.int8(0)))
    assert kept.dtype is pn.int8


# --- mistakes -----------------------------------------------------------------------------------------------


def line_of(error: PlanishError) -> str:
    assert error.location is not None
    assert error.location.file == __file__
    return error.location.file


def test_branches_must_agree_in_every_leaf():
    x = pn.asarray(X)
    with pytest.raises(
        DTypeError, match=r"the result\['b'\]\[1\] is float32\[2, 3\] in .* and bool\[2, 3\]"
    ) as caught:
        pn.cond(x.sum() > 0, lambda: {"a": 1, "b": (1, x)}, lambda: {"a": 2, "b": (2, x > 1)})
    line_of(caught.value)
    with pytest.raises(ShapeError, match=r"the result is float32\[3\] in .* and float32\[2\]"):
        pn.cond(x.sum() > 0, lambda: x[0], lambda: x[:, 0])

    def second():
        return {"a": x, "b": x}

    with pytest.raises(PlanishError, match=r"\['b'\] only in what second returns"):
        pn.cond(x.sum() > 0, lambda: {"a": x}, second)


def test_a_predicate_is_one_bool():
    x = pn.asarray(X)
    with pytest.raises(
        DTypeError, match=r"cond: the predicate is bool\[2, 3\], not one bool.*any\(\) or all\(\)"
    ):
        pn.cond(x > 0, lambda: x, lambda: x)
    with pytest.raises(DTypeError, match=r"while_loop: <lambda> returns float32\[\], not one bool"):
        pn.while_loop(lambda v: v, lambda v: v, 1.0)
    with pytest.raises(DTypeError, match="the index is float32"):
        pn.switch(pn.asarray(np.float32(1)), [lambda: x])
    with pytest.raises(PlanishError, match="there are no branches"):
        pn.switch(0, [])


def test_what_goes_round_keeps_its_type():
    x = pn.asarray(X)

    def widens(carry):
        return carry[0], carry[1][:1]

    with pytest.raises(
        ShapeError,
        match=r"the carried value\[1\] is float32\[2, 3\] in init and float32\[1, 3\] in what widens",
    ):
        pn.while_loop(lambda c: c[0] < 1, widens, (0.0, x))
    with pytest.raises(DTypeError, match=r"the carried value is float32\[3\] in init and int64\[3\]"):
        pn.scan(lambda c, a: (pn.astype(c, pn.int64), None), x[0], x)
    with pytest.raises(PlanishError, match=r"init is \* and what <lambda> returns is tuple"):
        pn.fori_loop(0, 3, lambda i, c: (c, c), 1.0)


def test_scan_needs_a_pair_and_a_length():
    x = pn.asarray(X)
    with pytest.raises(PlanishError, match=r"has to return a pair \(carry, y\), not Tensor"):
        pn.scan(lambda c, a: c + a, x[0], x)
    with pytest.raises(PlanishError, match="neither xs nor length"):
        pn.scan(lambda c, a: (c, None), 0.0)
    with pytest.raises(ShapeError, match=r"xs\[1\] has 3 steps \(float32\[3\]\), xs\[0\] has 2"):
        pn.scan(lambda c, a: (c, None), 0.0, (x, x[0]))
    with pytest.raises(ShapeError, match=r"xs has no axis to go along"):
        pn.scan(lambda c, a: (c, None), 0.0, x[0, 0])
    with pytest.raises(ShapeError, match="the length is -1"):
        pn.scan(lambda c, a: (c, None), 0.0, length=-1)
    with pytest.raises(DTypeError, match=r"init\['name'\] is neither a tensor nor a number"):
        pn.scan(lambda c, a: (c, None), {"name": "n"}, x)


def test_values_inside_a_loop_are_not_known():
    x = pn.asarray(X)

    def step(c, a):
        return (c + a if c.sum() > 0 else c), None

    with pytest.raises(
        GraphError, match="while scan traces the function: it depends on what scan gives to step"
    ) as caught:
        pn.scan(step, x[0], x)
    assert caught.value.op == "bool"
    line_of(caught.value)


def test_a_value_cannot_leave_its_loop():
    x = pn.asarray(X)
    kept = []

    def step(c, a):
        kept.append(c * 2)
        return c + a, None

    pn.scan(step, x[0], x)
    with pytest.raises(GraphError, match="return it from the function"):
        kept[0].numpy()
    with pytest.raises(GraphError, match="a value of a finished scan is used inside map"):
        pn.map(lambda a: a + kept[0], x)


def test_inputs_stay_usable_after_an_error():
    x = pn.asarray(X)
    with pytest.raises(ShapeError):
        pn.scan(lambda c, a: (c[:1], None), x[0], x)
    np.testing.assert_array_equal(pn.scan(lambda c, a: (c + a, None), x[0], x)[0].numpy(), X[0] + X.sum(0))
