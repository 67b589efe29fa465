"""Left sides for rules that random instances reach too seldom: builders by rule name.

A builder gets a `Maker`, whose leaves and randomness it uses, and returns a node of the shape the rule is about.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from planish import dtypes
from planish.uop.node import UOp
from planish.uop.ops import Ops
from tests.uop.proof.instances import Maker


def _sum_of_parts(m: Maker) -> UOp:
    """(x // c)*(c*m) + (x % c)*m."""
    x, c, f = m.leaf(dtypes.index), m.rng.choice([2, 3, 4, 8]), m.rng.choice([1, 2, -3, 4])
    return x // c * (c * f) + x % c * f


def _sum_of_nested_parts(m: Maker) -> UOp:
    """((x // c) % d)*(c*m) + (x % c)*m."""
    x, c, d, f = (
        m.leaf(dtypes.index),
        m.rng.choice([2, 3, 4]),
        m.rng.choice([2, 3, 5]),
        m.rng.choice([1, 2, -3]),
    )
    return x // c % d * (c * f) + x % c * f


def _sum_of_symbolic_parts(m: Maker) -> UOp:
    """(x // n)*n*m + (x % n)*m."""
    x, n, f = (
        m.leaf(dtypes.index),
        m.table.variable("n", *m.rng.choice([(1, 4), (-3, -1), (2, 5)])),
        m.rng.choice([1, 2, -3]),
    )
    quotient = x // n * n
    return quotient * f + x % n * f


def _what_is_left(m: Maker) -> UOp:
    """x*m - (x // c)*(c*m)."""
    x, c, f = m.leaf(dtypes.index), m.rng.choice([2, 3, 4, 8]), m.rng.choice([1, 2, -3, 4])
    return x * f + x // c * (-c * f)


def _reduce_of_constant_range(m: Maker) -> UOp:
    x, op = m.leaf(m.scalar(None)), m.rng.choice([Ops.MAX, Ops.MIN])
    ranges = [m.table.const(0), m.range()][: m.rng.randint(1, 2)]
    return x.reduce(op, *ranges)


def _reduce_of_nothing(m: Maker) -> UOp:
    return m.leaf(m.scalar(None)).reduce(m.rng.choice([Ops.MAX, Ops.MIN]))


def _after_computed(m: Maker) -> UOp:
    stored = m.effect()
    read = m.table.make(Ops.LOAD, dtypes.int8, (stored.src[0],))
    waits = m.rng.choice([m.table.make(Ops.GROUP, dtypes.void, (stored,)), read + 1])
    return m.leaf(dtypes.int8).after(waits)


EXAMPLES: Final[dict[str, Callable[[Maker], UOp]]] = {
    "(x // c)*(c*m) + (x % c)*m -> x*m": _sum_of_parts,
    "((x // c) % d)*(c*m) + (x % c)*m -> (x % (c*d))*m": _sum_of_nested_parts,
    "(x // n)*n*m + (x % n)*m -> x*m": _sum_of_symbolic_parts,
    "x*m - (x // c)*(c*m) -> (x % c)*m": _what_is_left,
    "reduce(x, constant) -> reduce(x)": _reduce_of_constant_range,
    "reduce(x) -> x": _reduce_of_nothing,
    "after(x, f(e)) -> after(x, e), f without effect": _after_computed,
}
