"""Greater and smaller of two: by identity, by bounds, by constants, and what moves out of both.

MAX and MIN give NaN if either operand is NaN and order -0.0 below +0.0, so they are associative, commutative and
idempotent on floats too; absorption is not among the float laws, since the absorbed operand may be NaN.
"""

from __future__ import annotations

from typing import Final, cast

from planish.algebra import scalar
from planish.uop.matcher import Matcher, rule
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.pattern import INDEX, INTEGERS, constant, node
from planish.uop.symbolic.lawful import rules
from planish.uop.symbolic.letters import c, x, y

_OTHER: Final = {Ops.MAX: Ops.MIN, Ops.MIN: Ops.MAX}


def _greater(x: UOp, y: UOp) -> UOp | None:
    if x.vmin >= y.vmax:
        return x
    return y if y.vmin >= x.vmax else None


def _smaller(x: UOp, y: UOp) -> UOp | None:
    if x.vmax <= y.vmin:
        return x
    return y if y.vmax <= x.vmin else None


def _over_product(root: UOp, x: UOp, y: UOp, c: UOp) -> UOp | None:
    """A factor comes out; a negative one turns the order round."""
    factor = cast("int", c.arg)
    if factor == 0:
        return None
    return x.alu(root.op if factor > 0 else _OTHER[root.op], y) * factor


minmax: Final = Matcher(
    "minmax",
    [
        *rules(scalar.EXTREMA_OF_SAME),
        # Of user integers little is known, and finding that out costs: they are asked only about constants.
        rule(node(Ops.MAX, x, y), _greater, on=INDEX, says="max(x, y) -> the one that is never less"),
        rule(node(Ops.MIN, x, y), _smaller, on=INDEX, says="min(x, y) -> the one that is never more"),
        rule(x.max(constant("y")), _greater, on=INTEGERS, says="int: max(x, c) -> the one that is never less"),
        rule(x.min(constant("y")), _smaller, on=INTEGERS, says="int: min(x, c) -> the one that is never more"),
        *rules(scalar.EXTREMA),
        # -- what moves out, on exact numbers ---------------------------------------------------------------------
        rule((x * c).max(y * c), _over_product, on=INDEX, says="max(x*c, y*c) -> max(x, y)*c, or min"),
        rule((x * c).min(y * c), _over_product, on=INDEX, says="min(x*c, y*c) -> min(x, y)*c, or max"),
    ],
)  # fmt: skip
