"""vmap as users call it: axes as trees, nesting, errors at their line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import planish as pn
from planish.errors import DTypeError, PlanishError, ShapeError
from planish.frontend.tensor.application import apply
from planish.frontend.trace import trace
from planish.frontend.transforms import grad, vmap
from planish.ptir import ops

RNG = np.random.default_rng(5)


def numbers(*shape):
    return RNG.standard_normal(shape)


def close(tensor, wanted, tolerance=1e-12):
    np.testing.assert_allclose(np.asarray(tensor.numpy()), wanted, rtol=tolerance, atol=tolerance)


def test_axes_in_and_out():
    a, b = numbers(3, 4), numbers(5, 3)
    x, y = pn.asarray(a), pn.asarray(b)
    close(vmap(pn.vecdot, in_axes=(1, None))(x, y[0]), a.T @ b[0])
    c = numbers(2, 4)
    made = vmap(lambda u, v: u[:, None] * v, in_axes=(1, -1), out_axes=-1)(x, pn.asarray(c))
    close(made, a[:, None, :] * c)
    made = vmap(lambda u: {"row": u * 2, "sum": pn.sum(u)}, in_axes=1, out_axes={"row": 1, "sum": 0})(x)
    close(made["row"], a * 2)
    close(made["sum"], a.sum(0))


def test_axes_are_prefixes_of_trees():
    p: Any = {"w": pn.asarray(numbers(3, 2)), "rest": (pn.asarray(numbers(2, 3)), 2.0)}
    made = vmap(
        lambda p, x: p["w"] * p["rest"][0] * p["rest"][1] + x, in_axes=({"w": 0, "rest": (1, None)}, None)
    )(p, 1.0)
    close(made, p["w"].numpy() * p["rest"][0].numpy().T * 2.0 + 1.0)


def test_what_is_not_mapped_may_be_anything():
    made = vmap(lambda x, how, *, shift: x + shift if how == "add" else x, in_axes=(0, None))(
        pn.asarray(numbers(3)), "add", shift=pn.asarray(np.arange(3.0))
    )
    assert made.shape == (3,)


def test_results_that_are_the_same_for_all():
    x = pn.asarray(numbers(3))
    same, own, number = vmap(lambda a: (pn.asarray(np.arange(2.0)), a, 7), out_axes=(None, 0, None))(x)
    close(same, [0, 1])
    close(own, x.numpy())
    close(number, 7)
    close(vmap(lambda a: pn.asarray(np.arange(2.0)))(x), [[0, 1]] * 3)
    with pytest.raises(PlanishError, match="out_axes is None for a result that differs"):
        vmap(lambda a: a, out_axes=None)(x)


def test_nesting():
    a, b = numbers(3), numbers(4)
    table = vmap(lambda x: vmap(lambda y: x * y + x)(pn.asarray(b)))(pn.asarray(a))
    close(table, np.outer(a, b) + a[:, None])
    close(
        vmap(vmap(lambda x, y: x - y, in_axes=(None, 0)), in_axes=(0, None))(pn.asarray(a), pn.asarray(b)),
        a[:, None] - b,
    )


def test_per_example_gradients():
    w, xs, ys = numbers(3), numbers(5, 3), numbers(5)

    def loss(w, x, y):
        return (pn.vecdot(w, x) - y) ** 2

    found = vmap(grad(loss), in_axes=(None, 0, 0))(*map(pn.asarray, (w, xs, ys)))
    close(found, 2 * (xs @ w - ys)[:, None] * xs)


def test_every_example_stops_by_itself():
    def collatz_like(x):
        condition = trace("while", lambda n, s: [s < 20.0], [n0._type, x._type])
        body = trace("while", lambda n, s: [n + 1, s * 2.0], [n0._type, x._type])
        return apply(ops.while_, n0, x, bodies=(condition, body))

    n0 = pn.asarray(np.array(0))
    steps, ends = vmap(lambda x: tuple(collatz_like(x)))(pn.asarray(np.array([1.0, 30.0, 6.0])))
    close(steps, [5, 0, 2])
    close(ends, [32, 30, 24])


def test_errors():
    x, y = pn.asarray(numbers(3, 2)), pn.asarray(numbers(4))
    with pytest.raises(
        ShapeError, match=r"the numbers of examples differ: 3 \(float64\[3, 2\] along axis 0\), 4"
    ) as caught:
        vmap(lambda a, b: a)(x, y)
    assert caught.value.location is not None
    assert caught.value.location.file == __file__
    with pytest.raises(ShapeError, match=r"float64\[4\] has no axis 1 to map over"):
        vmap(lambda a, b: a, in_axes=(0, 1))(x, y)
    with pytest.raises(PlanishError, match="in_axes has 3 entries for 2 arguments"):
        vmap(lambda a, b: a, in_axes=(0, 0, 0))(x, y)
    with pytest.raises(PlanishError, match="nothing to map over"):
        vmap(lambda a: a, in_axes=None)(x)
    with pytest.raises(PlanishError, match="does not fit a tree"):
        vmap(lambda a: a, in_axes=({"a": 0},))(x)
    with pytest.raises(DTypeError, match="a str is no tensor"):
        vmap(lambda a: a)("text")
    with pytest.raises(ShapeError, match="out_axes is 5"):
        vmap(lambda a: a, out_axes=5)(x)


# --- gradients of what only some examples ask for ---


def rooted(v):
    """Flat or steep without end where the other branch is taken."""
    return pn.cond(v > 0, lambda v: pn.sqrt(v) * v, lambda v: pn.log(1 - v), v)


def dwindling(v):
    """Its steps have no slope where it has ended."""
    return pn.while_loop(lambda c: c > 0, lambda c: pn.sqrt(c) - 1, v, max_steps=4)


def choosing(v):
    count = (v > 0).astype(pn.int64) + (v > 2).astype(pn.int64)
    return pn.switch(count, [lambda v: v * 3, pn.sqrt, lambda v: 1 / (v - 2)], v)


GUARDED = {"cond": rooted, "while_loop": dwindling, "switch": choosing}


@pytest.mark.parametrize("name", GUARDED)
def test_gradients_do_not_see_what_other_examples_take(name: str):
    f = GUARDED[name]
    x = pn.asarray([4.0, 0.0, 1.0, 2.0, 30.0, -1.0], dtype=pn.float64)
    expected = vmap(grad(f))(x)
    assert np.isfinite(expected.numpy()).all()

    def total(x):
        return pn.sum(vmap(f)(x) * x)

    product = expected * x + vmap(f)(x)
    close(grad(total)(x), product)
    close(pn.jit(grad(total))(x), product)
    close(grad(lambda x: pn.sum(vmap(vmap(f))(x.reshape(2, 3)).reshape(6) * x))(x), product)
    close(vmap(grad(lambda x: pn.sum(vmap(f)(x))))(x.reshape(2, 3)).reshape(6), expected)
    close(grad(lambda x: pn.sum(pn.map(lambda row: pn.sum(vmap(f)(row)), x.reshape(3, 2))))(x), expected)
    close(pn.jvp(grad(total), (x,), (pn.ones_like(x),))[0], product)
    # and the way back of the way back
    second = vmap(grad(grad(f)))(x)
    close(pn.sum(pn.hessian(lambda x: pn.sum(vmap(f)(x)))(x), axis=1), second)


def test_gradients_by_what_all_examples_share():
    x = pn.asarray([4.0, 0.0, -1.0], dtype=pn.float64)

    def total(w, x):
        return pn.sum(vmap(lambda v: pn.cond(v > 0, lambda v: pn.sqrt(v) * w, lambda v: v * w, v))(x))

    w = pn.asarray(2.0, dtype=pn.float64)
    close(grad(total)(w, x), 1.0)
    close(grad(total)(w, -x - 1), -6.0)  # none takes the first branch
