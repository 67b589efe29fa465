"""The proof machinery itself: wrong rules are caught in every domain, right ones pass, z3 terms mean what ops mean."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
import z3

from planish import dtypes
from planish.uop.evaluate import evaluate
from planish.uop.matcher import Rule, rule
from planish.uop.node import Table
from planish.uop.ops import Ops
from planish.uop.pattern import BITS, BOOL, FLOAT, INDEX, INTEGERS, INTEGRAL, anything, constant, node, where
from tests.uop.proof import z3expr
from tests.uop.proof.equal import check
from tests.uop.proof.rules import prove_rule

x, y, z = anything("x"), anything("y"), anything("z")
p, q = anything("p", BOOL), anything("q", BOOL)
a, b, c = constant("a"), constant("b"), constant("c")

RIGHT: list[Rule] = [
    rule(x + 0, x, on=INTEGRAL),
    rule(x * 1, x, on=INTEGRAL | FLOAT),
    rule((x + a) + b, x + (a + b), on=INTEGRAL, says="index and int: associativity"),
    rule(
        (x // a) // b,
        x // (a * b),
        when=lambda a, b: a.arg > 0 and b.arg > 0,
        on=INDEX,
        says="nested quotients",
    ),
    rule(
        x % y,
        x,
        when=lambda x, y: x.vmin >= 0 and y.vmin > x.vmax,
        on=INTEGRAL,
        says="small dividend, symbolic",
    ),
    rule(x - x, 0, on=INTEGERS),
    rule(p & (p | q), p, on=BOOL, says="absorption"),
    rule(x + -0.0, x, on=FLOAT),
    rule(where(p, x, x), x, says="same branches"),
    rule(~(x < y), y <= x, says="int: not less", on=BOOL, when=lambda x: not x.dtype.is_float),
]

WRONG: list[Rule] = [
    # index: the sign of the remainder, rounding, a missing sign condition
    rule(x % c, node(Ops.TRUNCMOD, x, c), on=INDEX, says="floor is not trunc"),
    rule((x // a) // b, x // (a * b), on=INDEX, says="nested quotients without signs"),
    rule((x + y) // c, x // c + y // c, on=INDEX, says="division does not distribute"),
    rule(x % y, x, on=INDEX, when=lambda x, y: x.vmin >= 0 and x.vmax < y.vmax, says="the other end of the divisor"),
    # wrapping integers: exact reasoning where values wrap
    rule((x * c) // c, x, on=INTEGERS, when=lambda c: c.arg > 1, says="the product may wrap"),
    rule(x + a < b, x < b - a, on=INTEGERS, says="the sum may wrap"),
    rule(x < x + 1, True, on=INTEGERS, says="the greatest has no successor"),
    # bools
    rule(p ^ q, p | q, on=BOOL, says="xor is not or"),
    rule(p & ~q, p, on=BOOL, says="forgets a conjunct"),
    # floats
    rule(x + 0.0, x, on=FLOAT, says="-0.0 + 0.0 is +0.0"),
    rule(x * 0.0, 0.0, on=FLOAT, says="NaN, infinity and -0.0"),
    rule(x.eq(x), True, on=FLOAT, says="NaN differs from itself"),
    rule((x + y) + z, x + (y + z), on=FLOAT, says="floats do not reassociate"),
    rule(~(x < y), y <= x, says="float: not less", on=BOOL),
    rule(x - x, 0.0, on=FLOAT, says="inf - inf"),
    # a guard too weak by one
    rule(x % c, x, when=lambda x, c: x.vmin >= 0 and x.vmax <= c.arg, on=INTEGRAL, says="at most, not below"),
    rule(x // c, 0, when=lambda x, c: x.vmax < c.arg, on=INTEGRAL, says="forgets the lower bound"),
    rule(x >> c, 0, when=lambda c: c.arg >= 4, on=BITS, says="shifts by less than the width"),
]  # fmt: skip


@pytest.mark.parametrize("right", RIGHT, ids=lambda r: r.name)
def test_right_rules_pass(right):
    proof = prove_rule(right, attempts=600, wanted=16)
    assert proof.fired >= 3
    assert not proof.wrong, proof.wrong


@pytest.mark.parametrize("wrong", WRONG, ids=lambda r: r.name)
def test_planted_mistakes_are_caught(wrong):
    proof = prove_rule(wrong, attempts=1500, wanted=60)
    assert proof.fired
    assert proof.wrong, str(proof)


def test_a_rule_that_cannot_fire_is_seen():
    never = rule(x + 0, x, when=lambda x: x.vmin > x.vmax, on=INDEX, says="never")
    assert prove_rule(never, attempts=100).fired == 0


def test_a_change_of_dtype_is_wrong():
    changed = rule(x < y, lambda x, y: x.max(y), says="a comparison became a number", on=INTEGRAL)
    assert prove_rule(changed, attempts=100).wrong


def test_a_lost_effect_is_wrong():
    lost = rule(node(Ops.AFTER, x, rest=True), x, says="after(x, e) -> x")
    assert prove_rule(lost, attempts=300).wrong


def test_a_gate_that_is_forgotten_is_wrong():
    nowhere = node(Ops.INVALID)
    assert prove_rule(rule(where(p, x, nowhere), x, on=INDEX, says="forgets its gate"), attempts=300).wrong
    zero = rule(where(p, x, nowhere) * 0, 0, on=INDEX, says="zero times nowhere")
    assert prove_rule(zero, attempts=300).wrong


def test_a_new_zero_divisor_is_wrong():
    t = Table()
    n = t.variable("n", 0, 3)
    assert check(n * 0, n * 0 // n).wrong is not None
    assert check((n + 1) // (n + 1), t.const(1)).wrong is None


def test_ranges_stay_below_symbolic_bounds():
    t = Table()
    n = t.variable("n", 1, 6)
    i = t.range(n, 0)
    assert check(i // n, t.const(0)).wrong is None
    assert check(i < n - 1, t.const(True, dtypes.bool_)).wrong is not None
    big = t.variable("m", 1, 1 << 40)
    j = t.range(big, 1)
    assert check(j % big, j).how == "z3"


# -- z3 --------------------------------------------------------------------------------------------------------

ALL_OPS = [
    Ops.ADD, Ops.SUB, Ops.MUL, Ops.FLOORDIV, Ops.FLOORMOD, Ops.TRUNCDIV, Ops.TRUNCMOD, Ops.MAX, Ops.MIN, Ops.CMPLT, Ops.CMPLE,
    Ops.CMPEQ, Ops.CMPNE,
]  # fmt: skip
BIT_OPS = [Ops.AND, Ops.OR, Ops.XOR, Ops.SHL, Ops.SHR]


def value_of(term) -> int:
    found = z3.simplify(term)
    if z3.is_bool(found):
        return int(z3.is_true(found))
    return int(found.as_long())


@pytest.mark.parametrize("dtype", [dtypes.index, dtypes.int4, dtypes.uint4], ids=str)
def test_z3_terms_mean_what_evaluate_says(dtype):
    t = Table()
    values = range(-5, 6) if dtype.is_index else range(int(dtype.min or 0), int(dtype.max or 0) + 1)
    x, y = (t.variable(name, values[0], values[-1], dtype) for name in "xy")
    for op in [*ALL_OPS, *([] if dtype.is_index else BIT_OPS)]:
        node = x.alu(op, y)
        expected = evaluate(node, {x: np.array(values)[:, None], y: np.array(values)[None, :]})
        for (i, u), (j, v) in itertools.product(enumerate(values), repeat=2):
            if not dtype.is_index and (u + v) % 2 and abs(u) > 1:
                continue  # half of the wrapping ones are enough
            known = {x: _literal(dtype, u), y: _literal(dtype, v)}
            found = value_of(z3expr.translate(node, dict(known)))
            if not (node.dtype.is_bool or dtype.is_index):
                found = dtype.wrap(found)
            assert found == int(expected[i, j]), (op, u, v)


def _literal(dtype, value):
    return z3.IntVal(value) if dtype.is_index else z3.BitVecVal(value, dtype.bits)


def test_z3_casts():
    t = Table()
    values = np.arange(-300, 300, 7)
    x = t.variable("x", -300, 300)
    narrow = (dtypes.int8, dtypes.uint8, dtypes.bool_)
    for target, back in itertools.product(narrow, (dtypes.int16, dtypes.uint4, dtypes.index)):
        node = x.cast(target).cast(back)
        expected = evaluate(node, {x: values}).astype(object)
        for value, wanted in zip(values.tolist(), expected.tolist(), strict=True):
            found = value_of(z3expr.translate(node, {x: z3.IntVal(value)}))
            assert back.wrap(found) == int(wanted), (target, back, value)


def test_z3_finds_what_sampling_misses():
    t = Table()
    x = t.variable("x", 0, 10**9)
    left = (x.ne(123_456_789)).where(x, x + 1)
    verdict = check(left, x + 0, random.Random(1))
    assert verdict.how == "z3"
    assert verdict.wrong is not None
