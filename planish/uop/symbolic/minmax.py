"""Greater and smaller of two: by identity, by bounds, by constants, and what moves out of both.

MAX and MIN give NaN if either operand is NaN and order -0.0 below +0.0, so they are associative, commutative and
idempotent on floats too; absorption is not among the float laws, since the absorbed operand may be NaN.
"""

from __future__ import annotations

import math
from typing import Final, cast

from planish.uop.matcher import Matcher, rule
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.pattern import FLOAT, INDEX, INTEGERS, INTEGRAL, constant, node
from planish.uop.symbolic.letters import a, b, c, x, y, z

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


def _joined(root: UOp, x: UOp, a: UOp, b: UOp) -> UOp:
    return x.alu(root.op, a.alu(root.op, b))


minmax: Final = Matcher(
    "minmax",
    [
        rule(x.max(x), x, on=INTEGRAL | FLOAT, says="max(x, x) -> x"),
        rule(x.min(x), x, on=INTEGRAL | FLOAT, says="min(x, x) -> x"),
        # Of user integers little is known, and finding that out costs: they are asked only about constants.
        rule(node(Ops.MAX, x, y), _greater, on=INDEX, says="max(x, y) -> the one that is never less"),
        rule(node(Ops.MIN, x, y), _smaller, on=INDEX, says="min(x, y) -> the one that is never more"),
        rule(x.max(constant("y")), _greater, on=INTEGERS, says="int: max(x, c) -> the one that is never less"),
        rule(x.min(constant("y")), _smaller, on=INTEGERS, says="int: min(x, c) -> the one that is never more"),
        rule(x.max(-math.inf), x, on=FLOAT, says="max(x, -inf) -> x"),
        rule(x.min(math.inf), x, on=FLOAT, says="min(x, inf) -> x"),
        rule(x.max(a).max(b), _joined, on=INTEGRAL | FLOAT, says="max(max(x, a), b) -> max(x, max(a, b))"),
        rule(x.min(a).min(b), _joined, on=INTEGRAL | FLOAT, says="min(min(x, a), b) -> min(x, min(a, b))"),
        rule(x.max(x.max(y).named("z")), z, on=INTEGRAL | FLOAT, says="max(x, max(x, y)) -> max(x, y)"),
        rule(x.min(x.min(y).named("z")), z, on=INTEGRAL | FLOAT, says="min(x, min(x, y)) -> min(x, y)"),
        rule(x.max(x.min(y)), x, on=INTEGRAL, says="max(x, min(x, y)) -> x"),
        rule(x.min(x.max(y)), x, on=INTEGRAL, says="min(x, max(x, y)) -> x"),
        # -- what moves out, on exact numbers ---------------------------------------------------------------------
        rule((x + z).max(y + z), x.max(y) + z, on=INDEX, says="max(x + z, y + z) -> max(x, y) + z"),
        rule((x + z).min(y + z), x.min(y) + z, on=INDEX, says="min(x + z, y + z) -> min(x, y) + z"),
        rule((x + c).max(x), x + c.max(0), on=INDEX, says="max(x + c, x) -> x + max(c, 0)"),
        rule((x + c).min(x), x + c.min(0), on=INDEX, says="min(x + c, x) -> x + min(c, 0)"),
        rule((x * c).max(y * c), _over_product, on=INDEX, says="max(x*c, y*c) -> max(x, y)*c, or min"),
        rule((x * c).min(y * c), _over_product, on=INDEX, says="min(x*c, y*c) -> min(x, y)*c, or max"),
    ],
)  # fmt: skip
