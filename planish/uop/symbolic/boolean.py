"""What only bools can do: comparisons and extrema of bools are logic, and two comparisons of one value join."""

from __future__ import annotations

from typing import Final, cast

from planish.algebra import scalar
from planish.uop.matcher import Matcher, rule
from planish.uop.node import UOp
from planish.uop.pattern import INTEGRAL
from planish.uop.symbolic.lawful import rules
from planish.uop.symbolic.letters import a, b, x, y


def _is_empty(a: UOp, b: UOp) -> bool:
    """No integer lies strictly between b and a."""
    return cast("int", a.arg) - cast("int", b.arg) <= 1


def _covers(a: UOp, b: UOp) -> bool:
    """Every integer is below a or above b."""
    return cast("int", b.arg) < cast("int", a.arg)


_below_a, _below_b = (x < a).of(INTEGRAL), (x < b).of(INTEGRAL)
_above_a, _above_b = (a < x).of(INTEGRAL), (b < x).of(INTEGRAL)

boolean: Final = Matcher(
    "boolean",
    [
        # -- comparisons of bools ---------------------------------------------------------------------------------
        *rules(scalar.OF_BOOLS),
        # -- two comparisons of one value -------------------------------------------------------------------------
        rule(_below_a & _below_b, x < a.min(b), says="x < a & x < b -> x < min(a, b)"),
        rule(_below_a | _below_b, x < a.max(b), says="x < a | x < b -> x < max(a, b)"),
        rule(_above_a & _above_b, a.max(b) < x, says="a < x & b < x -> max(a, b) < x"),
        rule(_above_a | _above_b, a.min(b) < x, says="a < x | b < x -> min(a, b) < x"),
        rule(_below_a & _above_b, False, when=_is_empty, says="x < a & b < x -> False, a <= b + 1"),
        rule(_below_a | _above_b, True, when=_covers, says="x < a | b < x -> True, b < a"),
        rule(
            (x < y).of(INTEGRAL) | (y < x).of(INTEGRAL), x.ne(y), says="x < y | y < x -> x != y",
        ),
        rule(
            (x <= y).of(INTEGRAL) & (y <= x).of(INTEGRAL), x.eq(y), says="x <= y & y <= x -> x == y",
        ),
        # NOT turns a comparison into the opposite one, so contradictions look like this.
        rule((x < y).of(INTEGRAL) & (y <= x).of(INTEGRAL), False, says="x < y & y <= x -> False"),
        rule((x < y).of(INTEGRAL) | (y <= x).of(INTEGRAL), True, says="x < y | y <= x -> True"),
        rule(x.eq(y) & x.ne(y), False, says="x == y & x != y -> False"),
        rule(x.eq(y) | x.ne(y), True, says="x == y | x != y -> True"),
    ],
)  # fmt: skip
