"""Names and versions: what an assignment changes, and what has seen the elements before keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import nn
from planish.errors import GraphError

Function = Callable[..., Any]


def vector(*numbers: float) -> pn.Tensor:
    return pn.asarray(numbers, dtype=pn.float64)


# --- what a function has seen -------------------------------------------------------------------------------


def made_inside(a):
    c = vector(1, 1)
    u = c * a
    c[0] = 10.0
    return pn.sum(u) + pn.sum(c * a) * 0


def test_data_made_inside_is_what_it_was_when_it_was_used():
    value, slope = pn.value_and_grad(made_inside)(vector(2, 3))
    assert value.item() == 5
    assert slope.tolist() == [1, 1]
    value, slope = pn.jvp(made_inside, (vector(2, 3),), (vector(1, 10),))
    assert (value.item(), slope.item()) == (5, 11)
    assert pn.vmap(made_inside)(pn.asarray([[2.0, 3.0], [4.0, 5.0]])).tolist() == [5, 9]
    assert pn.jit(made_inside)(vector(2, 3)).item() == 5


def test_the_way_back_sees_what_the_way_there_saw():
    x, a = vector(1, 2), vector(5, 6)
    value, back = pn.vjp(lambda s: s * x, a)
    x[0] = 100.0
    a[1] = -1.0
    assert back(vector(1, 1))[0].tolist() == [1, 2]
    assert value.tolist() == [5, 12]
    _, back = pn.vjp(lambda s: s * s, a)
    a[0] = 0.0
    assert back(vector(1, 1))[0].tolist() == [10, -2]


def test_a_parameter_assigned_after_a_way_back_was_made():
    def outer(p, a):
        _, back = pn.vjp(lambda s: s * p, a)
        p[0] = 100.0
        return back(vector(1, 1))[0] + 0 * p

    expected = [1, 2]
    assert pn.jit(outer)(vector(1, 2), vector(3, 4)).tolist() == expected
    assert (
        pn.vmap(outer, (None, 0))(vector(1, 2), pn.ones((3, 2), dtype=pn.float64)).tolist() == [expected] * 3
    )
    assert pn.jvp(lambda p: outer(p, vector(3, 4)), (vector(1, 2),), (vector(1, 1),))[1].tolist() == [1, 1]


def test_a_value_of_the_trace_put_into_data_made_there():
    def f(s):
        c = vector(0, 0)
        before = c * 2 + s
        c[1] = s[0]
        return before + c

    assert pn.vmap(f)(pn.asarray([[1.0, 2.0]])).tolist() == [[1, 3]]
    assert pn.jvp(f, (vector(1, 2),), (vector(1, 1),))[1].tolist() == [1, 2]
    assert pn.vjp(f, vector(1, 2))[1](vector(1, 1))[0].tolist() == [2, 1]
    assert pn.jit(pn.grad(lambda s: pn.sum(f(s))))(vector(1, 2)).tolist() == [2, 1]


def test_a_way_back_survives_a_donation():
    x = vector(1, 2) + 0
    x.realize()
    _, back = pn.vjp(lambda s: s * x, vector(3, 4))
    pn.jit(lambda x: x * 7, donate_argnums=0)(x).realize()
    assert back(vector(1, 1))[0].tolist() == [1, 2]
    value, back = pn.vjp(lambda s: pn.exp(s) * 1, vector(0, 0))
    value.realize()
    pn.jit(lambda x: x * 7, donate_argnums=0)(value).realize()
    assert back(vector(1, 1))[0].tolist() == [1, 1]
    with pytest.raises(GraphError, match="was donated"):
        value.numpy()


# --- tensors of one's own -----------------------------------------------------------------------------------

COPIES: dict[str, Function] = {
    "asarray": lambda x: pn.asarray(x, copy=True),
    "slice": lambda x: x[:],
    "ellipsis": lambda x: x[...],
    "reshape": lambda x: x.reshape(2),
    "positive": lambda x: +x,
    "astype": lambda x: x.astype(pn.float64),
    "concat": lambda x: pn.concat([x]),
    "clip": lambda x: pn.clip(x),
    "roll": lambda x: pn.roll(x, 0),
    "at": lambda x: pn.zeros(2, dtype=pn.float64).at[:].set(x),
    "stop_gradient": pn.stop_gradient,
    "dropout": lambda x: nn.dropout(x, 0.0),
    "identity": lambda x: nn.Identity()(x),
    "jit": lambda x: pn.jit(lambda y: y)(x),
    "captured by jit": lambda x: pn.jit(lambda y: x)(pn.ones(1)),
    "checkpoint": lambda x: pn.checkpoint(lambda y: y)(x),
    "cond": lambda x: pn.cond(pn.asarray(True), lambda y: y, lambda y: y * 2, x),
    "switch": lambda x: pn.switch(0, [lambda y: y], x),
    "vjp": lambda x: pn.vjp(lambda y: y, x)[0],
    "captured by vjp": lambda x: pn.vjp(lambda y: x, pn.ones(1))[0],
    "cotangent": lambda x: pn.vjp(lambda y: y, x)[1](x)[0],
    "tangent": lambda x: pn.jvp(lambda y: y, (x,), (x,))[1],
    "vmap": lambda x: pn.vmap(lambda y: y)(x),
    "captured by vmap": lambda x: pn.vmap(lambda y: x, out_axes=None)(pn.ones(1)),
}


@pytest.mark.parametrize("name", COPIES)
@pytest.mark.parametrize("assigned", [False, True])
def test_what_is_given_back_has_a_name_of_its_own(name: str, assigned: bool):
    def program(x):
        if assigned:
            x[...] = vector(1, 2)
        copy = COPIES[name](x)
        x[0] = 5.0
        copy[1] = 7.0
        return x, copy

    def inside(x):
        # of a tensor from outside, there is a copy that can be assigned
        copy = COPIES[name](outside)
        copy[1] = 7.0
        return x + copy

    for run in (program, pn.jit(program)):
        x, copy = run(vector(1, 2))
        assert (x.tolist(), copy.tolist()) == ([5, 2], [1, 7])
    outside = vector(1, 2)
    if assigned:
        outside[0] = 1.0
    assert pn.jit(inside)(vector(10, 20)).tolist() == [11, 27]
    assert pn.grad(lambda x: pn.sum(inside(x) * x))(vector(10, 20)).tolist() == [21, 47]
    assert outside.tolist() == [1, 2]


def test_a_value_that_was_assigned_is_not_shared():
    x, v = vector(0, 0), vector(1, 2)
    x[:] = v
    v[0] = 9.0
    assert x.tolist() == [1, 2]
    x[1] = 5.0
    assert v.tolist() == [9, 2]
    y = x[:]
    y[0] = -1.0
    assert (x * 1).tolist() == [1, 5]
    assert x[pn.asarray([0, 1])].tolist() == [1, 5]


def test_gradients_of_two_pulls_are_not_shared():
    _, back = pn.vjp(lambda s: pn.sum(s), vector(1, 2))
    first = back(pn.asarray(1.0, dtype=pn.float64))[0]
    first[0] = 7.0
    assert back(pn.asarray(1.0, dtype=pn.float64))[0].tolist() == [1, 1]
    given = vector(3, 4)
    (same,) = pn.vjp(lambda s: s, vector(1, 2))[1](given)
    given[0] = 0.0
    assert same.tolist() == [3, 4]


# --- arguments ----------------------------------------------------------------------------------------------


def assigning(x, y):
    x[0] = 1.0
    y[1] = x[1]
    return x * y


ARGUMENTS: dict[str, Function] = {
    "jit": pn.jit(assigning),
    "checkpoint": pn.checkpoint(assigning),
    "grad": pn.grad(lambda x, y: pn.sum(assigning(x, y))),
    "grad by keyword": lambda x, y: pn.grad(lambda x, *, y: pn.sum(assigning(x, y)))(x, y=y),
    "vjp": lambda x, y: pn.vjp(assigning, x, y)[0],
    "jvp": lambda x, y: pn.jvp(assigning, (x, y), (x, y))[0],
    "vmap": lambda x, y: pn.vmap(assigning, (0, None))(pn.stack([x, x]), y)[1],
    "cond": lambda x, y: pn.cond(x[0] > 0, assigning, assigning, x, y),
    "switch": lambda x, y: pn.switch(0, [assigning], x, y),
    "scan": lambda x, y: pn.scan(lambda c, z: (assigning(c, z), c), x, pn.stack([y]))[0],
    "custom": lambda x, y: _custom(assigning)(x, y),
}


def _custom(function: Function) -> Function:
    made = pn.custom_jvp(function)
    made.defjvp(lambda primals, tangents: pn.jvp(function, primals, tangents))
    return made


@pytest.mark.parametrize("name", ARGUMENTS)
def test_what_a_function_assigns_to_its_arguments_stays_inside(name: str):
    """Whether it runs at once or while something else traces."""

    def program(x, y):
        a, b = x * 2, y * 2
        made = ARGUMENTS[name](a, b)
        return made, a, b

    made, a, b = program(vector(3, 4), vector(5, 6))
    assert (a.tolist(), b.tolist()) == ([6, 8], [10, 12])
    for run in (pn.jit(program), lambda *args: pn.vjp(program, *args)[0], pn.jit(pn.jit(program))):
        again = run(vector(3, 4), vector(5, 6))
        assert [x.tolist() for x in again] == [made.tolist(), [6, 8], [10, 12]]


def test_a_tensor_from_outside_cannot_be_assigned_to():
    x = vector(1, 2)

    def f(y):
        x[0] = 5.0
        return x * y

    for run in (pn.jit(f), pn.vmap(f), lambda y: pn.jvp(f, (y,), (y,)), lambda y: pn.vjp(f, y)):
        with pytest.raises(GraphError, match="from outside is assigned to while"):
            run(vector(1, 2))
    assert x.tolist() == [1, 2]


# --- versions are asked for their elements ------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [pn.int8, pn.int32, pn.int64])
def test_an_index_that_was_assigned(dtype):
    x, index = vector(10, 20, 30), pn.asarray([0, 1], dtype=dtype)
    index[0] = -1
    assert x[index].tolist() == [30, 20]
    x[index] = 0.0
    assert x.tolist() == [10, 0, 0]
    index[1] = 7
    index.realize()
    with pytest.raises(IndexError, match="index 7 is outside"):
        x[index]


def test_parts_of_what_was_assigned():
    x = vector(1, 2, 3)
    x[0] = 5.0
    assert x.at[1:].add(1.0).tolist() == [5, 3, 4]
    assert x.at[:1].add(1.0).tolist() == [6, 2, 3]
    assert pn.nonzero(x - 5)[0].tolist() == [1, 2]
    mask = pn.asarray([True, False, False])
    mask[2] = True
    assert x[mask].tolist() == [5, 3]
    np.testing.assert_array_equal(x.astype(pn.float64, copy=False).numpy(), [5, 2, 3])


def test_what_is_assigned_to_the_flat_elements_is_assigned_to_the_tensor() -> None:
    x, array = pn.arange(6).reshape(2, 3), np.arange(6).reshape(2, 3)
    for each in (x, array):
        each.flat[3] = -1
        each.flat[[0, 5]] = 9
        each.flat[1:3] *= 2
        each.put([4, -2], 7)
    np.testing.assert_array_equal(x, array)
    assert [int(one) for one in x.flat] == array.reshape(-1).tolist()
    assert int(x.flat.sum()) == array.sum()
    x.flat = 0
    np.testing.assert_array_equal(x, np.zeros((2, 3)))
    y = pn.jit(lambda x: _negated_first(x * 1))(pn.ones((2, 2)))
    np.testing.assert_array_equal(y, [[-1, 1], [1, 1]])


def _negated_first(x: pn.Tensor) -> pn.Tensor:
    x.flat[0] = -x.flat[0]
    return x
