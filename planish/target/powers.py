"""Powers of two with whole exponents, on machines that scale by them in one instruction: rules for stage 17.

AVX-512 has `vscalef`: x 2**floor(y), rounded once. `2 ** n` is a table and a polynomial to everyone who does not know that n is
whole, and after stage 18 nobody does. Scales of blocks of numbers (`exp2(floor(log2(m)))`), shifts of floats by integers
and quantities with a power of two as a factor are such.

Every rule is exact, for all numbers, NaN and infinities among them: a factor becomes part of the scaling only where its
exponents are known to be those of numbers, since x·inf is not x·2**200.
"""

from __future__ import annotations

from typing import Final

from planish.uop.matcher import Matcher, rule
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.pattern import node

_ROUNDED: Final = frozenset({Ops.FLOOR, Ops.CEIL, Ops.TRUNC, Ops.ROUND})
_EXPONENTS: Final = {32: (-149, 127), 64: (-1074, 1023)}
"""Of the powers of two that are numbers, by the bits of a float: both ends."""


def _exponent(power: UOp) -> UOp | None:
    """The whole exponent of a power of two, as a float; None if it is none."""
    if not power.dtype.is_float or power.dtype.scalar.bits not in _EXPONENTS:
        return None
    if power.op is Ops.POW and not (power.src[0].op is Ops.CONST and power.src[0].arg == 2):
        return None
    exponent = power.src[-1]
    if exponent.op is Ops.FLOOR:
        return exponent.src[0]  # which scaling does by itself
    from_whole = exponent.op is Ops.CAST and (exponent.src[0].dtype.is_int or exponent.src[0].dtype.is_bool)
    return exponent if from_whole or exponent.op in _ROUNDED else None


def _power(root: UOp) -> UOp | None:
    exponent = _exponent(root)
    return None if exponent is None else root.const_like(1.0).alu(Ops.SCALE, exponent)


def _factor(root: UOp) -> UOp | None:
    for x, power in (root.src, root.src[::-1]):
        if power.op is not Ops.SCALE or power.src[0].op is not Ops.CONST or power.src[0].arg != 1:
            continue
        exponent, (least, most) = power.src[1], _EXPONENTS[power.dtype.scalar.bits]
        whole = exponent.src[0] if exponent.op is Ops.CAST else None
        if whole is not None and not whole.dtype.is_float and least <= whole.vmin and whole.vmax <= most:
            return x.alu(Ops.SCALE, exponent)
    return None


POWERS_OF_TWO: Final = Matcher(
    "powers of two",
    [
        rule(node((Ops.EXP2, Ops.POW)), _power, says="2**n -> scale(1, n), n a whole number"),
        rule(node(Ops.MUL), _factor, says="x * scale(1, n) -> scale(x, n), 2**n being a number"),
    ],
)
