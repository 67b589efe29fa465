"""Bit by bit: AND, OR, XOR, NOT on integers, `index` and bools at once, and shifts.

A bool is an integer of one bit here, so the laws of propositional logic are these laws; what only bools can do is in
`boolean`. Shifts move bits out at both ends: beyond the width SHL gives 0 and SHR copies of the sign.
"""

from __future__ import annotations

from typing import Final

from planish.algebra import scalar
from planish.uop.matcher import Matcher, rule
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.pattern import INTEGERS, INTEGRAL, node
from planish.uop.symbolic.lawful import rules
from planish.uop.symbolic.letters import SIGNED, UNSIGNED, a, b, c, integer, x


def _is_mask_above(x: UOp, c: UOp) -> bool:
    """Whether c has all the bits that x can have."""
    value = integer(c)
    return value & (value + 1) == 0 and x.vmin >= 0 and x.vmax <= value


def _in_width(c: UOp) -> bool:
    return 0 <= integer(c) < c.dtype.bits


def _beyond_width(c: UOp) -> bool:
    return not _in_width(c)


def _shift_left_twice(x: UOp, a: UOp, b: UOp) -> UOp | None:
    if not (_in_width(a) and _in_width(b)):
        return None
    total = integer(a) + integer(b)
    return x << total if total < x.dtype.bits else x.const_like(0)


def _shift_right_twice(x: UOp, a: UOp, b: UOp) -> UOp | None:
    if not (_in_width(a) and _in_width(b)):
        return None
    total = integer(a) + integer(b)
    if total < x.dtype.bits:
        return x >> total
    return x >> (x.dtype.bits - 1) if x.dtype.is_signed else x.const_like(0)


bitwise: Final = Matcher(
    "bitwise",
    [
        *rules(scalar.BITWISE),
        rule(x & c, x, when=_is_mask_above, on=INTEGRAL, says="x & 2**n-1 -> x, 0 <= x < 2**n"),
        # -- shifts -----------------------------------------------------------------------------------------------
        rule(node((Ops.SHL, Ops.SHR), x, 0), x, says="x << 0, x >> 0 -> x"),
        rule(node((Ops.SHL, Ops.SHR), 0, x), 0, says="0 << x, 0 >> x -> 0"),
        rule(x << c, 0, when=_beyond_width, on=INTEGERS, says="x << c -> 0, c beyond the width"),
        rule(
            x >> c, lambda x: x >> (x.dtype.bits - 1), when=_beyond_width, on=SIGNED,
            says="signed: x >> c -> x >> width-1, c beyond the width",
        ),
        rule((x << a) << b, _shift_left_twice, on=INTEGERS, says="(x << a) << b -> x << a+b"),
        rule((x >> a) >> b, _shift_right_twice, on=INTEGERS, says="(x >> a) >> b -> x >> a+b"),
        rule(
            (x >> c) << c, lambda x, c: x & x.const_like(-1 << integer(c)), when=_in_width, on=INTEGERS,
            says="(x >> c) << c -> x & -2**c",
        ),
        rule(
            (x << c) >> c, lambda x, c: x & x.const_like((1 << x.dtype.bits - integer(c)) - 1),
            when=_in_width, on=UNSIGNED, says="unsigned: (x << c) >> c -> x & 2**(width-c)-1",
        ),
        rule(
            (x << a) & c, 0, when=lambda a, c: _in_width(a) and 0 <= integer(c) < 1 << integer(a), on=INTEGERS,
            says="(x << a) & c -> 0, 0 <= c < 2**a",
        ),
        rule(
            x >> c, 0, on=INTEGRAL,
            when=lambda x, c: x.vmin >= 0 and x.vmax.bit_length() <= integer(c),
            says="x >> c -> 0, 0 <= x < 2**c",
        ),
    ],
)  # fmt: skip
