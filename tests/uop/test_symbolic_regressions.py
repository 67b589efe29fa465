"""Mistakes the algebra once made, each with the expression that showed it."""

from __future__ import annotations

import numpy as np

from planish import dtypes
from planish.uop.evaluate import evaluate
from planish.uop.node import Table
from planish.uop.ops import Ops
from planish.uop.symbolic import simplify
from planish.uop.symbolic.cost import cost


def test_a_divisor_that_is_an_unfolded_number_is_not_symbolic() -> None:
    with Table() as t:
        x = t.variable("x", -7, 1)
        node = x % (t.const(-4) * t.const(-1))
        values = np.arange(-7, 2)
        assert evaluate(simplify(node), {x: values}).tolist() == (values % 4).tolist()


def test_a_division_does_not_move_where_it_could_divide_by_zero() -> None:
    with Table() as t:
        p, u = t.make(Ops.DEFINE_GLOBAL, dtypes.bool_.ptr(1), (), 0).index(t.const(0)), t.variable("u", 0, 5)
        chosen = p.where(t.const(-6), t.const(12)) % p.where(t.const(4), u)
        assert not [n for n in simplify(chosen).toposort() if n.op is Ops.FLOORMOD and n.src[1] is u]
        constant = t.const(32) // p.where(t.const(0), t.const(-4))
        assert simplify(constant).op is Ops.FLOORDIV


def test_constant_factors_stay_in_their_branches() -> None:
    with Table() as t:
        x, y = t.variable("x", 0, 9), t.variable("y", 0, 9)
        node = (x < y).where(x * -1, x * 12)
        assert cost(simplify(node)) <= cost(node)


def test_the_result_is_never_dearer_than_the_input() -> None:
    """`x % 4` is used twice; rewriting one use alone would compute it twice."""
    with Table() as t:
        x, y = t.variable("x", 0, 99), t.variable("y", 0, 9)
        shared = x % 8
        node = (y * 8 + shared) * 3 // 6 + shared
        assert cost(simplify(node)) <= cost(node)
        assert simplify(simplify(node)) is simplify(node)


def test_a_store_to_nowhere_is_nothing_in_whatever_order_rules_fire() -> None:
    with Table() as t:
        place = t.param(0, dtypes.float32, 4).index(t.invalid())
        stored = place.store(t.const(1.0, dtypes.float32))
        assert not [n for n in simplify(t.sink(stored)).toposort() if n.op is Ops.STORE]


def test_a_comparison_is_decided_by_one_side_of_a_minimum_and_by_a_quotient() -> None:
    """What holds for n - 8 holds for min(o*8, n - 8); 2*((n + 1) // 2) is n or n + 1."""
    with Table() as t:
        n = t.variable("n", 8, 40)
        o = t.range(simplify((n + 7) // 8), 0)
        half = simplify((n + 1) // 2)
        start, strided = (o * 8).alu(Ops.MIN, n - 8), (o * 4).alu(Ops.MIN, half - 4)
        asked = {
            start + 7 < n: True,
            start + 8 < n: None,
            strided * 2 + 6 < n: True,
            strided * 2 + 7 < n: None,
            (o * 8).alu(Ops.MAX, n) < n: False,
            (o * 8).alu(Ops.MAX, n + -1) < n: None,
            n < start: False,
            n + -9 < start: None,
        }
        sizes, turns = np.repeat(np.arange(8, 41), 5), np.tile(np.arange(5), 33)
        within = turns < (sizes + 7) // 8
        values = {n: sizes[within], o: turns[within]}
        for question, answer in asked.items():
            found, want = simplify(question), evaluate(question, values)
            assert (found.arg if found.op is Ops.CONST else None) is answer
            assert (np.broadcast_to(evaluate(found, values), want.shape) == want).all()


def test_factors_that_differ_in_coefficients_alone_have_no_order() -> None:
    """Such sums compare as equals: their product was turned round for ever."""
    with Table() as t:
        n, i, j = t.variable("n", 0, 3), t.range(4, 0), t.range(3, 1)
        first, second, third = n + i * 8 + j * 2, n + i * 4 + j, n + i * 2 + j * 3
        products = [first * second, second * first, first * (second * third), third * 7 * first * second * 3]
        axes = np.meshgrid(np.arange(4), np.arange(4), np.arange(3), indexing="ij")
        values = dict(zip((n, i, j), axes, strict=True))
        for product in products:
            found = simplify(product)
            assert simplify(found) is found
            assert (evaluate(found, values) == evaluate(product, values)).all()
