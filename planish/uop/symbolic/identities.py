"""Arithmetic identities: neutral and absorbing elements, signs, rounding, powers.

Integers wrap and `index` is exact, so their laws are those of a ring. Of floats only what holds bit for bit is here:
`x + -0.0`, `x * 1`, signs, division by powers of two. Never `x * 0`, `x - x`, `x + 0.0` (see `fastmath`).
"""

from __future__ import annotations

import math
from typing import Final, cast

from planish.algebra import scalar
from planish.uop.matcher import Matcher, rule
from planish.uop.node import UOp
from planish.uop.ops import COMMUTATIVE, CONSTANTS, Ops
from planish.uop.pattern import FLOAT, INDEX, INTEGRAL, node
from planish.uop.symbolic.lawful import rules
from planish.uop.symbolic.letters import SIGNED, absolute, c, known, x, y

_EVEN: Final = (Ops.ABS, *[Ops[name.upper()] for name in scalar.EVEN])
_ROUNDING: Final = tuple([Ops[name.upper()] for name in scalar.ROUNDING])


def _constant_last(root: UOp, c: UOp, x: UOp) -> UOp | None:
    return None if x.op in CONSTANTS else root.replace(src=(x, c))


def _as_product(root: UOp, x: UOp, c: UOp) -> UOp | None:
    """x / c as x * (1/c) if 1/c is exact: then both round the same real number, once."""
    divisor = cast("float", c.arg)
    if divisor == 0 or not math.isfinite(divisor) or abs(math.frexp(divisor)[0]) != 0.5:
        return None
    factor = cast("float", root.dtype.scalar.const(1.0 / divisor))
    return x * factor if factor == 1.0 / divisor and math.isfinite(factor) else None


def _not_negative(x: UOp) -> bool:
    return x.vmin >= 0


def _not_positive(x: UOp) -> bool:
    return x.vmax <= 0


def _from_integer(x: UOp) -> bool:
    return x.dtype.is_integral or x.dtype.is_bool


identities: Final = Matcher(
    "identities",
    [
        # One place puts constants to the right, so every other rule looks for them there only.
        rule(node(COMMUTATIVE, known("c"), x), _constant_last, says="c ∘ x -> x ∘ c"),
        *rules(scalar.SUMS),
        *rules(scalar.PRODUCTS),
        # -- quotients of floats ----------------------------------------------------------------------------------
        rule(x / c, _as_product, on=FLOAT, says="x / c -> x * (1/c), 1/c exact"),
        *rules(scalar.QUOTIENTS),
        # -- truncating quotients (the flooring ones: see divmod) -------------------------------------------------
        *rules(scalar.TRUNCATING),
        rule(
            node(Ops.TRUNCDIV, x, y), x // y, when=lambda x, y: x.vmin >= 0 and y.vmin > 0, on=INDEX,
            says="truncdiv(x, y) -> x // y, 0 <= x, 0 < y",
        ),
        rule(
            node(Ops.TRUNCMOD, x, y), x % y, when=lambda x, y: x.vmin >= 0 and y.vmin > 0, on=INDEX,
            says="truncmod(x, y) -> x % y, 0 <= x, 0 < y",
        ),
        # -- signs and rounding -----------------------------------------------------------------------------------
        rule(absolute(x), x, when=_not_negative, on=INTEGRAL, says="|x| -> x, 0 <= x"),
        rule(absolute(x), -x, when=_not_positive, on=INTEGRAL, says="|x| -> -x, x <= 0"),
        rule(
            node(_EVEN, -x), lambda root, x: root.replace(src=(x,)), on=SIGNED | FLOAT,
            says="even(-x) -> even(x)",
        ),
        rule(
            node(_EVEN, absolute(x)), lambda root, x: root.replace(src=(x,)), on=SIGNED | FLOAT,
            says="even(|x|) -> even(x)",
        ),
        rule(node(_ROUNDING, node(_ROUNDING, name="x")), x, says="round(round(x)) -> round(x)"),
        rule(
            node(_ROUNDING, node(Ops.CAST, x, name="y")), y, when=_from_integer,
            says="round(float(i)) -> float(i)",
        ),
        *rules(scalar.POWERS),
        *rules(scalar.MULTIPLY_ADD),
    ],
)  # fmt: skip
