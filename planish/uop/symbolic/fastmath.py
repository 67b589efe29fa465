"""Laws of real numbers that floats break: for programs that ask for them, never on their own.

They may change rounding, signed zeros, and what happens to NaN and infinities. `sym + fastmath` is the matcher to use.
"""

from __future__ import annotations

import math
from typing import Final, cast

from planish.uop.matcher import Matcher, rule
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.pattern import FLOAT, Pattern, node, where
from planish.uop.symbolic.letters import a, b, c, x, y, z
from planish.uop.symbolic.reduce import count_repeats, hoist_factors, reduction, split_sum


def _as_product(root: UOp, x: UOp, c: UOp) -> UOp | None:
    divisor = cast("float", c.arg)
    if divisor == 0 or not math.isfinite(divisor):
        return None
    factor = cast("float", root.dtype.scalar.const(1.0 / divisor))
    return x * factor if math.isfinite(factor) and factor else None


def _op(op: Ops, *of: Pattern) -> Pattern:
    return node(op, *of)


fastmath: Final = Matcher(
    "fastmath",
    [
        rule(x + 0.0, x, on=FLOAT, says="fast: x + 0.0 -> x"),
        rule(x - x, 0.0, on=FLOAT, says="fast: x - x -> 0"),
        rule(x * 0, 0.0, on=FLOAT, says="fast: x * 0 -> 0"),
        rule(x / x, 1.0, on=FLOAT, says="fast: x / x -> 1"),
        rule(x / c, _as_product, on=FLOAT, says="fast: x / c -> x * (1/c)"),
        rule((x / y) * y, x, on=FLOAT, says="fast: (x / y) * y -> x"),
        rule(x * _op(Ops.RECIP, y), x / y, on=FLOAT, says="fast: x * recip(y) -> x / y"),
        rule(_op(Ops.RECIP, _op(Ops.RECIP, x)), x, on=FLOAT, says="fast: recip(recip(x)) -> x"),
        rule(_op(Ops.RECIP, _op(Ops.SQRT, x)), _op(Ops.RSQRT, x), on=FLOAT, says="fast: recip(sqrt(x)) -> rsqrt(x)"),
        rule(_op(Ops.SQRT, x) * _op(Ops.SQRT, x), x, on=FLOAT, says="fast: sqrt(x) * sqrt(x) -> x"),
        rule(x**0.5, _op(Ops.SQRT, x), on=FLOAT, says="fast: x ** 0.5 -> sqrt(x)"),
        rule(_op(Ops.EXP, _op(Ops.LOG, x)), x, on=FLOAT, says="fast: exp(log(x)) -> x"),
        rule(_op(Ops.LOG, _op(Ops.EXP, x)), x, on=FLOAT, says="fast: log(exp(x)) -> x"),
        rule((x + a) + b, x + (a + b), on=FLOAT, says="fast: (x + a) + b -> x + (a + b)"),
        rule((x * a) * b, x * (a * b), on=FLOAT, says="fast: (x * a) * b -> x * (a * b)"),
        rule((x * y) + (x * z), x * (y + z), on=FLOAT, says="fast: x*y + x*z -> x * (y + z)"),
        rule(where(x < y, x, y), x.min(y), on=FLOAT, says="fast: where(x < y, x, y) -> min(x, y)"),
        rule(where(x < y, y, x), x.max(y), on=FLOAT, says="fast: where(x < y, y, x) -> max(x, y)"),
        rule(reduction(x, Ops.ADD), count_repeats, on=FLOAT, says="fast: sum(x, r) -> x * size(r), x without r"),
        rule(reduction(node(Ops.MUL), Ops.ADD), hoist_factors, on=FLOAT, says="fast: sum(x * y, r) -> sum(x, r) * y, y without r"),
        rule(reduction(node(Ops.ADD), Ops.ADD), split_sum, on=FLOAT, says="fast: sum(x + y, r) -> sum(x, r) + sum(y, r), y without r"),
    ],
)  # fmt: skip
