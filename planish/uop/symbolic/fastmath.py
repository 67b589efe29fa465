"""Laws of real numbers that floats break: for programs that ask for them, never on their own.

They may change rounding, signed zeros, and what happens to NaN and infinities. `sym + fastmath` is the matcher to use.
"""

from __future__ import annotations

import math
from typing import Final, cast

from planish.algebra import scalar
from planish.uop.matcher import Matcher, rule
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.pattern import FLOAT, node
from planish.uop.symbolic.lawful import rules
from planish.uop.symbolic.letters import c, x
from planish.uop.symbolic.reduce import count_repeats, hoist_factors, reduction, split_sum


def _as_product(root: UOp, x: UOp, c: UOp) -> UOp | None:
    divisor = cast("float", c.arg)
    if divisor == 0 or not math.isfinite(divisor):
        return None
    factor = cast("float", root.dtype.scalar.const(1.0 / divisor))
    return x * factor if math.isfinite(factor) and factor else None


fastmath: Final = Matcher(
    "fastmath",
    [
        *rules(scalar.FAST),
        rule(x / c, _as_product, on=FLOAT, says="fast: x / c -> x * (1/c)"),
        *rules(scalar.FAST_TERMS),
        rule(reduction(x, Ops.ADD), count_repeats, on=FLOAT, says="fast: sum(x, r) -> x * size(r), x without r"),
        rule(reduction(node(Ops.MUL), Ops.ADD), hoist_factors, on=FLOAT, says="fast: sum(x * y, r) -> sum(x, r) * y, y without r"),
        rule(reduction(node(Ops.ADD), Ops.ADD), split_sum, on=FLOAT, says="fast: sum(x + y, r) -> sum(x, r) + sum(y, r), y without r"),
    ],
)  # fmt: skip
