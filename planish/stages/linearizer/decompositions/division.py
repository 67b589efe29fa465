"""Integer division in terms of what machines have: shifts and masks, magic numbers, truncation, guards.

    x // 2**k -> x >> k               x % 2**k -> x & 2**k - 1                        whatever the sign of x
    x // c    -> (x * m) >> s         0 <= x <= n and c > 0: m = ⌈2**s / c⌉, exact for all those x
    x // c    -> ((x ^ t) // c) ^ t   t = x >> width-1, all ones where x < 0: the case above, by ~((~x) // c)
    x // y    -> truncdiv, less 1 where there is a rest whose sign is not that of y
    truncdiv(x, y) -> y = 0 ? 0 : truncdiv(x, unsafe ? 1 : y)                         a machine traps on x/0 and MIN/-1

A product that does not fit its width is taken in a wider one; of 64-bit factors the high word is put together.
"""

from __future__ import annotations

from typing import Final, NamedTuple, cast

from planish import dtypes
from planish.dtypes import DType
from planish.uop.matcher import Rule, rule
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.pattern import INTEGERS, anything, constant, node

_X, _Y, _C = anything("x"), anything("y"), constant("c")
_WORDS: Final = {8: dtypes.uint8, 16: dtypes.uint16, 32: dtypes.uint32, 64: dtypes.uint64}


class Magic(NamedTuple):
    """n // d = (n * factor) >> shift for 0 <= n <= the limit it was made for."""

    factor: int
    shift: int


def magic(divisor: int, limit: int) -> Magic:
    """The smallest magic number for divisor > 0 and 0 <= n <= limit.

    With e = factor·d - 2**s the product is (n + n·e/2**s)/d in units of 2**s; it floors to n // d as long as
    n·e < 2**s for the greatest n of rest d - 1, since every other rest leaves more room.
    """
    hardest = (limit + 1) // divisor * divisor - 1
    if hardest < 0:
        return Magic(0, 0)  # every quotient is 0
    for shift in range(2 * limit.bit_length() + 2):
        factor = -(-(1 << shift) // divisor)
        if hardest * (factor * divisor - (1 << shift)) < 1 << shift:
            return Magic(factor, shift)
    raise AssertionError("2**s beyond limit·d is always enough")


def _high_word(x: UOp, factor: int) -> UOp:
    """The high 64 bits of x times a constant, x of uint64."""
    mask = 0xFFFFFFFF
    c, d = factor >> 32, factor & mask
    a, b = x >> 32, x & mask
    low, cross1, cross2 = b * d, a * d, b * c
    middle = (low >> 32) + (cross1 & mask) + (cross2 & mask)
    return a * c + (cross1 >> 32) + (cross2 >> 32) + (middle >> 32)


def divide_by_magic(x: UOp, divisor: int, limit: int) -> UOp:
    """x // divisor for x known to lie in [0, limit]; divisor > 1."""
    factor, shift = magic(divisor, limit)
    if not factor:
        return x.const_like(0)
    dtype = x.dtype.scalar
    if limit * factor <= int(dtype.max or 0):
        return _shifted(x * factor, shift)
    for bits, word in _WORDS.items():
        if bits >= dtype.bits and limit * factor < 1 << bits:
            return _shifted(x.cast(word) * factor, shift).cast(dtype)
    wide = x.cast(dtypes.uint64)
    if factor < 1 << 64:
        # The product may take up to 128 bits.
        high = _high_word(wide, factor)
        return (_shifted(high, shift - 64) if shift >= 64 else _joined(wide, high, factor, shift)).cast(dtype)
    twos = (divisor & -divisor).bit_length() - 1
    if twos:
        # Without its factors of two the dividend is short enough for a factor of 64 bits.
        return divide_by_magic(wide >> twos, divisor >> twos, limit >> twos).cast(dtype)
    # 65 bits: x + high is taken by halves, so that it does not overflow.
    high = _high_word(wide, factor - (1 << 64))
    return _shifted(((wide - high) >> 1) + high, shift - 65).cast(dtype)


def _shifted(x: UOp, amount: int) -> UOp:
    return x >> amount if amount else x


def _joined(x: UOp, high: UOp, factor: int, shift: int) -> UOp:
    """The 128-bit product shifted by less than a word."""
    return (high << (64 - shift)) | _shifted(x * factor, shift)


def _power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


def _sign_mask(x: UOp) -> UOp:
    return x >> (x.dtype.bits - 1)


def _floordiv_constant(x: UOp, c: UOp) -> UOp | None:
    divisor = cast("int", c.arg)
    if divisor == 0:
        return x.const_like(0)
    if _power_of_two(divisor):
        return _shifted(x, divisor.bit_length() - 1)
    if divisor < 0 or x.dtype.bits < 8:
        return None  # by truncation
    if x.vmin >= 0:
        return divide_by_magic(x, divisor, x.vmax)
    mask = _sign_mask(x)
    limit = max(x.vmax, ~x.vmin)
    return divide_by_magic(x ^ mask, divisor, limit) ^ mask


def _floormod_constant(x: UOp, c: UOp) -> UOp | None:
    divisor = cast("int", c.arg)
    if divisor == 0:
        return x.const_like(0)
    if _power_of_two(divisor):
        return x & (divisor - 1)
    if divisor < 0 or x.dtype.bits < 8:
        return None
    return x - (x // c) * c


def _truncdiv_constant(x: UOp, c: UOp) -> UOp | None:
    divisor = cast("int", c.arg)
    if divisor == 0:
        return x.const_like(0)
    if x.vmin >= 0 and divisor > 0:
        return _floordiv_constant(x, c)  # not x // c: that may be a truncating division again
    width = x.dtype.bits
    if divisor < 0:
        if divisor == -(1 << (width - 1)):
            return x.eq(divisor).where(x.const_like(1), 0)
        return -x.alu(Ops.TRUNCDIV, -divisor)
    if width < 8:
        return None
    mask = _sign_mask(x)
    if _power_of_two(divisor):
        return _shifted(x + (mask & (divisor - 1)), divisor.bit_length() - 1)
    # |x| as an unsigned number holds that of MIN too.
    word = _WORDS[width]
    size = ((x ^ mask) - mask).cast(word)
    quotient = divide_by_magic(size, divisor, max(abs(x.vmin), abs(x.vmax))).cast(x.dtype.scalar)
    return (quotient ^ mask) - mask


def _truncmod_constant(x: UOp, c: UOp) -> UOp | None:
    divisor = cast("int", c.arg)
    if divisor == 0:
        return x.const_like(0)
    if x.vmin >= 0 and divisor > 0:
        return _floormod_constant(x, c)
    if x.dtype.bits < 8:
        return None
    return x - x.alu(Ops.TRUNCDIV, c) * c


CONSTANT_DIVISORS: Final[list[Rule]] = [
    rule(
        node(Ops.FLOORDIV, _X, _C), _floordiv_constant, says="x // c -> shift or magic product", on=INTEGERS
    ),
    rule(node(Ops.FLOORMOD, _X, _C), _floormod_constant, says="x % c -> mask or x - (x // c) c", on=INTEGERS),
    rule(
        node(Ops.TRUNCDIV, _X, _C),
        _truncdiv_constant,
        says="truncdiv(x, c) -> shift or magic product",
        on=INTEGERS,
    ),
    rule(
        node(Ops.TRUNCMOD, _X, _C),
        _truncmod_constant,
        says="truncmod(x, c) -> x - truncdiv(x, c) c",
        on=INTEGERS,
    ),
]


# -- floor by truncation --------------------------------------------------------------------------------------------


def _agree(x: UOp, y: UOp) -> bool:
    """Whether truncating and floor division are the same here."""
    return (x.vmin >= 0 and y.vmin >= 0) or (x.vmax <= 0 and y.vmax <= 0)


def _short(x: UOp, y: UOp) -> UOp:
    """Whether the truncated quotient is too large by one: a rest whose sign differs from the divisor's."""
    rest = x.alu(Ops.TRUNCMOD, y)
    if y.vmin >= 0:
        return rest < 0
    if y.vmax <= 0:
        return rest > 0
    return rest.ne(0) & (rest < 0).alu(Ops.XOR, y < 0)


def _floordiv(x: UOp, y: UOp) -> UOp:
    quotient = x.alu(Ops.TRUNCDIV, y)
    return quotient if _agree(x, y) else _short(x, y).where(quotient - 1, quotient)


def _floormod(x: UOp, y: UOp) -> UOp:
    rest = x.alu(Ops.TRUNCMOD, y)
    # A select, not a product with 0 or 1: that would be one more multiplication.
    return rest if _agree(x, y) else _short(x, y).where(rest + y, rest)


FLOOR_BY_TRUNCATION: Final[list[Rule]] = [
    rule(node(Ops.FLOORDIV, _X, _Y), _floordiv, says="x // y -> truncdiv, corrected", on=INTEGERS),
    rule(node(Ops.FLOORMOD, _X, _Y), _floormod, says="x % y -> truncmod, corrected", on=INTEGERS),
]


# -- guards ---------------------------------------------------------------------------------------------------------


def _traps(x: UOp, y: UOp) -> UOp | None:
    """Where the machine would trap on x / y; None if it cannot."""
    zero = y.eq(0) if y.vmin <= 0 <= y.vmax else None
    if not _overflows(x, y):
        return zero
    overflow = x.eq(-(1 << (x.dtype.bits - 1))) & y.eq(-1)
    return overflow if zero is None else zero | overflow


def _overflows(x: UOp, y: UOp) -> bool:
    least = -(1 << (x.dtype.bits - 1))
    return x.dtype.is_signed and x.vmin <= least and y.vmin <= -1 <= y.vmax


def _is_guarded(x: UOp, y: UOp) -> bool:
    """Whether the divisor is what `_guarded` makes of one."""
    if y.op is not Ops.WHERE or y.src[1] is not y.const_like(1):
        return False
    return y.src[0] is _traps(x, y.src[2])


def _guarded(x: UOp, y: UOp) -> UOp | None:
    """A divisor that does not trap: by 1, MIN gives MIN and rest 0, which MIN / -1 is to give too."""
    if _is_guarded(x, y):
        return None
    traps = _traps(x, y)
    return None if traps is None else traps.where(y.const_like(1), y)


def _guard_div(x: UOp, y: UOp) -> UOp | None:
    divisor = _guarded(x, y)
    if divisor is None:
        return None
    quotient = x.alu(Ops.TRUNCDIV, divisor)
    return y.eq(0).where(x.const_like(0), quotient) if y.vmin <= 0 <= y.vmax else quotient


def _guard_mod(x: UOp, y: UOp) -> UOp | None:
    divisor = _guarded(x, y)
    return None if divisor is None else x.alu(Ops.TRUNCMOD, divisor)


DIVISION_GUARDS: Final[list[Rule]] = [
    rule(
        node(Ops.TRUNCDIV, _X, _Y), _guard_div, says="truncdiv(x, y) -> y = 0 ? 0 : truncdiv(x, traps ? 1 : y)",
        on=INTEGERS,
    ),
    rule(
        node(Ops.TRUNCMOD, _X, _Y), _guard_mod, says="truncmod(x, y) -> truncmod(x, traps ? 1 : y)", on=INTEGERS
    ),
]  # fmt: skip


def word_of(dtype: DType) -> DType:
    """The unsigned type of an integer's width."""
    return _WORDS[dtype.bits].vec(dtype.lanes)
