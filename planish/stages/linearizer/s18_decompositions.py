"""Stage 18, decompositions: ops the machine lacks, in terms of ops it has.

Today: floor division and remainder become the truncating machine instructions, with a correction where the signs of the
operands are not known to agree.

Before → after::

    x // y                           TRUNCDIV(x, y)                                      x, y >= 0
    x % y                            m = TRUNCMOD(x, y);  m != 0 and sign differs ? m + y : m

Would break without it: no machine divides towards minus infinity.

Holds afterwards: no FLOORDIV or FLOORMOD is left.
"""

from __future__ import annotations

from planish.uop.matcher import Matcher, rule
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.pattern import INTEGERS, anything, node
from planish.uop.rewrite import rewrite


def _agree(x: UOp, y: UOp) -> bool:
    """Whether truncating and floor division are the same here."""
    return (x.vmin >= 0 and y.vmin >= 0) or (x.vmax <= 0 and y.vmax < 0)


def _floor_mod(x: UOp, y: UOp) -> UOp:
    rest = x.alu(Ops.TRUNCMOD, y)
    if _agree(x, y):
        return rest
    differs = rest.ne(0) & (rest < 0).alu(Ops.XOR, y < 0)
    return differs.where(rest + y, rest)


def _floor_div(x: UOp, y: UOp) -> UOp:
    quotient = x.alu(Ops.TRUNCDIV, y)
    if _agree(x, y):
        return quotient
    rest = x.alu(Ops.TRUNCMOD, y)
    differs = rest.ne(0) & (rest < 0).alu(Ops.XOR, y < 0)
    return differs.where(quotient - 1, quotient)


pm_decomp = Matcher(
    "pm_decomp",
    [
        rule(
            node(Ops.FLOORDIV, anything("x"), anything("y")),
            _floor_div,
            says="x // y -> truncdiv, corrected",
            on=INTEGERS,
        ),
        rule(
            node(Ops.FLOORMOD, anything("x"), anything("y")),
            _floor_mod,
            says="x % y -> truncmod, corrected",
            on=INTEGERS,
        ),
    ],
)


def decompositions(sink: UOp) -> UOp:
    """Rewrite what the machine lacks."""
    return rewrite(sink, pm_decomp)
