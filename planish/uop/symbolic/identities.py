"""Arithmetic identities: neutral and absorbing elements, signs, rounding, powers.

Integers wrap and `index` is exact, so their laws are those of a ring. Of floats only what holds bit for bit is here:
`x + -0.0`, `x * 1`, signs, division by powers of two. Never `x * 0`, `x - x`, `x + 0.0` (see `fastmath`).
"""

from __future__ import annotations

import math
from typing import Final, cast

from planish.uop.matcher import Matcher, rule
from planish.uop.node import UOp
from planish.uop.ops import COMMUTATIVE, CONSTANTS, Ops
from planish.uop.pattern import FLOAT, INDEX, INTEGERS, INTEGRAL, Pattern, node
from planish.uop.symbolic.letters import ARITHMETIC, SIGNED, absolute, c, known, x, y, z

_EVEN: Final = (Ops.ABS, Ops.COS, Ops.COSH)
_ROUNDING: Final = (Ops.FLOOR, Ops.CEIL, Ops.TRUNC, Ops.ROUND)


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


def _mulacc(x: Pattern, y: Pattern | int, z: Pattern | int | float) -> Pattern:
    return node(Ops.MULACC, x, y, z)


identities: Final = Matcher(
    "identities",
    [
        # One place puts constants to the right, so every other rule looks for them there only.
        rule(node(COMMUTATIVE, known("c"), x), _constant_last, says="c ∘ x -> x ∘ c"),
        # -- sums -------------------------------------------------------------------------------------------------
        rule(x + 0, x, on=INTEGRAL),
        rule(x + -0.0, x, on=FLOAT),
        rule(x - x, 0, on=INTEGERS),
        rule(x - c, x + -c, on=FLOAT, says="float: x - c -> x + -c"),
        rule(node(Ops.SUB, 0, x), -x, on=INTEGERS, says="0 - x -> -x"),
        rule(node(Ops.SUB, -0.0, x), -x, on=FLOAT, says="-0.0 - x -> -x"),
        rule(x + -y, x - y, on=ARITHMETIC, says="x + -y -> x - y"),
        rule(x - -y, x + y, on=ARITHMETIC, says="x - -y -> x + y"),
        rule(node(Ops.NEG, -x), x, on=ARITHMETIC, says="-(-x) -> x"),
        rule(-(x - y), y - x, on=INTEGERS, says="-(x - y) -> y - x"),
        rule((x + y) - x, y, on=INTEGERS, says="(x + y) - x -> y"),
        rule((x - y) + y, x, on=INTEGERS, says="(x - y) + y -> x"),
        rule(x - (x + y), -y, on=INTEGERS, says="x - (x + y) -> -y"),
        rule(x - (x - y), y, on=INTEGERS, says="x - (x - y) -> y"),
        # -- products ---------------------------------------------------------------------------------------------
        rule(x * 1, x, on=INTEGRAL | FLOAT),
        rule(x * 0, 0, on=INTEGRAL),
        rule(x * -1, -x, on=ARITHMETIC, says="x * -1 -> -x"),
        rule(-x * c, x * -c, on=ARITHMETIC, says="-x * c -> x * -c"),
        rule(-x * -y, x * y, on=ARITHMETIC, says="-x * -y -> x * y"),
        # -- quotients of floats ----------------------------------------------------------------------------------
        rule(x / c, _as_product, on=FLOAT, says="x / c -> x * (1/c), 1/c exact"),
        rule(node(Ops.FDIV, 1.0, x), node(Ops.RECIP, x), on=FLOAT, says="1.0 / x -> recip(x)"),
        rule(-x / -y, x / y, on=FLOAT, says="-x / -y -> x / y"),
        rule(-x / c, x / -c, on=FLOAT, says="-x / c -> x / -c"),
        # -- truncating quotients (the flooring ones: see divmod) -------------------------------------------------
        rule(node(Ops.TRUNCDIV, x, 1), x, on=INTEGRAL, says="truncdiv(x, 1) -> x"),
        rule(node(Ops.TRUNCDIV, x, -1), -x, on=INTEGRAL, says="truncdiv(x, -1) -> -x"),
        rule(node(Ops.TRUNCDIV, x, 0), 0, on=INTEGERS, says="truncdiv(x, 0) -> 0"),
        rule(
            node(Ops.TRUNCMOD, x, c), 0, when=lambda c: c.arg in {1, -1, 0}, on=INTEGERS,
            says="truncmod(x, c) -> 0, c in {-1, 0, 1}",
        ),
        rule(node(Ops.TRUNCMOD, x, x), 0, on=INTEGERS, says="truncmod(x, x) -> 0"),
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
        # -- powers -----------------------------------------------------------------------------------------------
        rule(x**0, 1, on=INTEGRAL | FLOAT, says="x ** 0 -> 1"),
        rule(x**1, x, on=INTEGRAL | FLOAT, says="x ** 1 -> x"),
        rule(x**2, x * x, on=INTEGRAL | FLOAT, says="x ** 2 -> x * x"),
        rule(x**-1, node(Ops.RECIP, x), on=FLOAT, says="x ** -1 -> recip(x)"),
        rule(node(Ops.POW, 1, x), 1, on=INTEGRAL | FLOAT, says="1 ** x -> 1"),
        # -- multiply-add -----------------------------------------------------------------------------------------
        rule(_mulacc(x, 1, z), x + z, on=INTEGRAL | FLOAT, says="mulacc(x, 1, z) -> x + z"),
        rule(_mulacc(x, 0, z), z, on=INTEGRAL, says="mulacc(x, 0, z) -> z"),
        rule(_mulacc(x, y, 0), x * y, on=INTEGRAL, says="mulacc(x, y, 0) -> x * y"),
        rule(_mulacc(x, y, -0.0), x * y, on=FLOAT, says="mulacc(x, y, -0.0) -> x * y"),
    ],
)  # fmt: skip
