"""`settings(check="nan")`: the op and line at which a NaN or infinity arises, and what is there already told apart."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pytest

import planish as pn
from planish.errors import NanError
from planish.frontend.nan_check import NanWarning


def array(*values: float) -> pn.Tensor:
    return pn.asarray(np.array(values, np.float32))


def raised(function, *args) -> NanError:
    with pn.settings(check="nan"), pytest.raises(NanError) as caught:
        function(*args).numpy()
    error = caught.value
    assert error.location is not None
    assert error.location.file == __file__
    return error


def test_an_infinity_names_op_line_and_values():
    def f(x):
        return pn.exp(x) + 1  # here

    error = raised(pn.jit(f), array(1, 1000))
    assert error.op == "exp"
    assert error.location is not None
    assert error.location.line == f.__code__.co_firstlineno + 1
    assert "exp made an infinity of (tensor<f32, 2>): element [1], from 1000.0" in str(error)


@pytest.mark.parametrize(
    ("function", "op"),
    [
        (lambda x: pn.log(x - x), "log"),
        (lambda x: 1 / (x - x), "div"),
        (lambda x: pn.sum(x * 3e38), "reduce_sum"),
        (lambda x: (x * 3e19) @ (x * 3e19), "dot_general"),
        (lambda x: pn.astype(x * 70000, "float16"), "cast"),
    ],
)
def test_each_kind_of_op_that_overflows(function, op: str):
    assert raised(pn.jit(function), array(1, 1)).op == op


def test_what_is_written_into_the_program_is_meant():
    def masked(x):
        scores = pn.where(x > 0, x, -float("inf"))
        return pn.exp(scores - pn.max(scores))

    with pn.settings(check="nan"):
        shown = pn.jit(masked)(array(1, -1, 2)).numpy()
    assert shown[1] == 0


def test_arguments_that_hold_some_are_told_apart():
    x = array(1, np.nan, np.inf, -np.inf)
    with pn.settings(check="nan"), pytest.warns(NanWarning) as caught:
        pn.jit(lambda x: x * 2)(x).numpy()
    assert "1 NaN and 2 infinities already, the first at [1]" in str(caught[0].message)
    assert caught[0].filename == __file__
    # element by element: what is new is found beside what was there
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NanWarning)
        error = raised(pn.jit(lambda x: pn.log(x)), array(np.nan, 2, -1))
        assert "log made a NaN" in str(error)
        assert "element [2], from -1.0" in str(error)
        # a NaN of infinities is new
        assert raised(pn.jit(lambda x: x - x), array(np.inf, 1)).op == "sub"


def test_loops_branches_and_derivatives():
    def looped(x):
        return pn.fori_loop(0, 8, lambda i, c: c * c, x)

    assert raised(pn.jit(looped), array(1e10)).op == "mul"

    def branched(x):
        return pn.cond(x[0] > 0, lambda x: pn.sqrt(-x), lambda x: x, x)

    assert raised(pn.jit(branched), array(1, 2)).op == "sqrt"

    def loss(x):
        return pn.sum(pn.sqrt(x))  # its slope at 0 is infinite

    line = sys._getframe().f_lineno - 2
    error = raised(pn.jit(pn.grad(loss)), array(0, 1))
    assert error.location is not None
    assert error.location.line == line
    assert "infinity" in str(error)
