"""const_factor and divides: against the values themselves, on expressions of every kind they look into."""

from __future__ import annotations

import random
from math import gcd

import numpy as np
import pytest

from planish import dtypes
from planish.uop.evaluate import evaluate
from planish.uop.node import Table, UOp
from planish.uop.symbolic import simplify
from planish.uop.symbolic.alignment import const_factor, divides, is_multiple
from planish.uop.symbolic.cost import division_count
from tests.uop.reading import read, standard_leaves


@pytest.mark.parametrize(
    ("text", "factor"),
    [
        ("a * 8 + b * 4", 4),
        ("(a * 8 + 4) * n", 4),
        ("a * 6 * (b * 10)", 60),
        ("x * 12 % 8", 4),
        ("x * 12 % (n * 6)", 6),
        ("x * 24 // 4", 6),
        ("x * 24 // 5", 1),
        ("where(p, a * 8, x * 12)", 4),
        ("where(p, a * 8, INVALID)", 8),
        ("max(a * 8, 12)", 4),
        ("(x * 3) << 4", 48),
        ("a * 8 + 0", 8),
        ("a * 8 + 3", 1),
        ("-(a * 8)", 8),
        ("b - a * 8", 1),
        ("b * 2 - a * 8", 2),
        # wrapping: i * 3 may be any number
        ("i * 3", 1),
        ("i * 12 % 8", 1),
        ("int64(i) * 4", 1),
    ],
)
def test_const_factor(text: str, factor: int) -> None:
    table = Table()
    assert const_factor(read(text, table, standard_leaves(table))) == factor


@pytest.mark.parametrize(
    ("text", "n", "quotient"),
    [
        ("a * 8 + b * 4", 4, "a * 2 + b"),
        ("a * 8 + b * 4", 2, "a * 4 + b * 2"),
        ("(a * 8 + 4) * n", 4, "n * (a * 2 + 1)"),
        ("a * 6 * (b * 10)", 20, "a * b * 3"),
        ("where(p, a * 8, INVALID)", 8, "where(p, a, INVALID)"),
        ("x * 12 % 8", 4, "x * 3 % 2"),
        ("max(a * 8, 12)", 4, "max(a * 2, 3)"),
        ("x * 24 // 4", 3, "x * 2"),
        ("index(0)", 7, "index(0)"),
    ],
)
def test_divides(text: str, n: int, quotient: str) -> None:
    table = Table()
    leaves = standard_leaves(table)
    found = divides(read(text, table, leaves), n)
    assert found is not None
    assert simplify(found) is simplify(read(quotient, table, leaves))


@pytest.mark.parametrize(
    ("text", "n"), [("a * 8 + 2", 4), ("a", 2), ("a * 8", 0), ("a * 8", -4), ("i * 4", 4)]
)
def test_does_not_divide(text: str, n: int) -> None:
    table = Table()
    assert divides(read(text, table, standard_leaves(table)), n) is None


def _expression(rng: random.Random, variables: list[UOp], depth: int) -> UOp:
    if depth == 0:
        return rng.choice(variables) * rng.choice([1, 2, 4, 6, 8, 12])
    x, y = _expression(rng, variables, depth - 1), _expression(rng, variables, rng.randrange(depth))
    choice = rng.randrange(8)
    if choice < 3:
        return x + y if choice else x - y
    if choice == 3:
        return x * rng.choice([2, 3, -4])
    if choice == 4:
        return x * y
    if choice == 5:
        return x % rng.choice([4, 6, 12, 16])
    if choice == 6:
        return x // rng.choice([2, 3, 4])
    return (x < y).where(x, y)


def test_random_expressions_have_the_factors_they_are_said_to_have() -> None:
    rng = random.Random(5)
    proved = 0
    for _ in range(300):
        table = Table()
        variables = [table.variable(name, low, low + 6) for name, low in (("x", -2), ("y", 0), ("z", 3))]
        node = _expression(rng, variables, rng.randint(1, 4))
        grid = np.meshgrid(*(np.arange(v.vmin, v.vmax + 1) for v in variables))
        env = dict(zip(variables, grid, strict=True))
        values = evaluate(node, env)
        factor = const_factor(node)
        assert not (values % factor).any(), (node, factor)
        for n in (2, 3, 4, 8):
            quotient = divides(node, n)
            assert (quotient is not None) == is_multiple(node, n)
            if quotient is not None:
                proved += 1
                assert (evaluate(quotient, env) * n == values).all()
    assert proved > 200


def test_simplified_expressions_divide_without_a_division() -> None:
    table = Table()
    x, n = table.variable("x", 0, 100), table.variable("n", 1, 9)
    node = simplify((x * 16 + 8) * n + x * 4)
    quotient = divides(node, 4)
    assert quotient is not None
    assert division_count(quotient) == 0


def test_factors_of_a_long_sum_need_no_recursion() -> None:
    table = Table()
    total = table.variable("x", 0, 7) * 12
    for number in range(5_000):
        total = total + table.variable(f"v{number}", 0, 7) * 18
    assert const_factor(total) == gcd(12, 18)
    assert divides(total, 6) is not None
    table.close()


def test_wrapping_integers_are_not_divided() -> None:
    table = Table()
    x = table.variable("x", 0, 255, dtypes.uint8)
    assert const_factor(x * 3) == 1
    assert divides(x * 2, 2) is None
