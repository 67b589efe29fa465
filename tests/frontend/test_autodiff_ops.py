"""Every op against finite differences in float64, both directions against each other, and second derivatives."""

from __future__ import annotations

import numpy as np
import pytest

from planish import ptir
from planish.errors import GraphError
from planish.frontend.autodiff import jvp, vjp
from planish.frontend.autodiff.instruction import is_differentiable
from planish.frontend.autodiff.rules import CONTROL, DERIVATIVES, FLAT, LINEAR, OPAQUE, RULES
from planish.ptir import ops
from tests.frontend.derivative_cases import CASES, Case

SMOOTH = [case for case in CASES if case.op not in OPAQUE and any(a.dtype.kind in "fc" for a in case.inputs)]


def test_every_op_has_its_place():
    tables = [set(FLAT), set(DERIVATIVES), set(LINEAR), set(RULES), set(CONTROL), set(OPAQUE)]
    assert set().union(*tables) == set(ops.REGISTRY)
    assert sum(map(len, tables)) == len(ops.REGISTRY)


def test_every_op_is_tested():
    assert {case.op for case in CASES} | {"return", "call"} == set(ops.REGISTRY)


def inner(left, right) -> float:
    return sum(float(np.real(np.vdot(a, b))) for a, b in zip(left, right, strict=True))


class Point:
    """A function at a point, with a direction for it to move in and one to look at it from."""

    def __init__(self, function, arrays, seed=0):
        self.function = function
        self.arrays = list(arrays)
        self.rng = np.random.default_rng(seed)
        self.moving = [n for n, p in enumerate(function.params) if is_differentiable(p.type)]
        self.tangents = [self.like(self.arrays[n]) for n in self.moving]
        self.results = self.smooth(ptir.interpret(function, self.arrays))
        self.cotangents = [self.like(y) for y in self.results]

    def like(self, array):
        t = self.rng.standard_normal(array.shape)
        t = (t + 1j * self.rng.standard_normal(array.shape)) if array.dtype.kind == "c" else t
        return np.asarray(t, array.dtype)

    def smooth(self, results):
        return [y for y in results if y.dtype.kind in "fc"]

    def forward(self):
        moved = ptir.interpret(jvp(self.function), [*self.arrays, *self.tangents])
        return moved[len(self.function.results) :]

    def backward(self):
        pulled = ptir.interpret(vjp(self.function), [*self.arrays, *self.cotangents])
        return pulled[len(self.function.results) :]

    def difference(self, step=1e-6):
        sides = []
        for sign in (step, -step):
            arrays = list(self.arrays)
            for n, t in zip(self.moving, self.tangents, strict=True):
                arrays[n] = arrays[n] + sign * t
            sides.append(self.smooth(ptir.interpret(self.function, arrays)))
        return [(a - b) / (2 * step) for a, b in zip(*sides, strict=True)]

    def check(self, tolerance):
        forward, backward = self.forward(), self.backward()
        for exact, rough in zip(forward, self.difference(), strict=True):
            np.testing.assert_allclose(
                exact, rough, rtol=tolerance, atol=tolerance * max(1, np.abs(rough).max(initial=0))
            )
        left, right = inner(self.cotangents, forward), inner(backward, self.tangents)
        assert abs(left - right) <= 1e-9 * max(1.0, abs(left), np.sqrt(inner(backward, backward))), (
            left,
            right,
        )
        return forward, backward


@pytest.mark.parametrize("case", SMOOTH, ids=lambda case: case.name)
def test_derivatives(case: Case):
    function = case.function()
    for transformed in (jvp(function), vjp(function)):
        ptir.verify(transformed)
    point = Point(function, case.inputs)
    _, backward = point.check(2e-7)
    program = ptir.Program([vjp(function)])
    ptir.PassManager.parse("canonicalize,cse,dce").run(program)
    again = ptir.interpret(program, [*point.arrays, *point.cotangents])[len(function.results) :]
    for a, b in zip(backward, again, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("case", [case for case in SMOOTH if case.second], ids=lambda case: case.name)
def test_second_derivatives(case: Case):
    first = Point(case.function(), case.inputs)
    if not first.results:
        return
    gradient = vjp(case.function())
    ptir.verify(vjp(gradient))
    Point(gradient, [*first.arrays, *first.cotangents]).check(5e-6)


def test_a_custom_call_has_no_derivative():
    (case,) = [case for case in CASES if case.op == "custom_call"]
    for transform in (jvp, vjp):
        with pytest.raises(GraphError, match="custom_call has no derivative") as caught:
            transform(case.function())
        assert caught.value.location is not None
        assert caught.value.location.file.endswith("derivative_cases.py")


def test_calls_are_inlined():
    g = ptir.Graph("square")
    x = g.input("x", ptir.tensor("f64", (3,)))
    callee = g.build(x.mul(x))
    g = ptir.Graph("main")
    x = g.input("x", ptir.tensor("f64", (3,)))
    program = g.build_program(g.call(callee, x.sin())[0])
    Point(vjp(program), [np.array([0.1, 0.2, 0.3]), np.ones(3)]).check(1e-6)
    with pytest.raises(GraphError, match="calls another function"):
        vjp(program.entry)
