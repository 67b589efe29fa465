"""Bits of integers: shifts beyond the width, counting ones and leading zeros, powers, the Threefry cipher."""

from __future__ import annotations

from typing import Final, cast

from planish import dtypes
from planish.stages.linearizer.decompositions.division import word_of
from planish.stages.linearizer.decompositions.support import Support
from planish.uop.matcher import Rule, rule
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.pattern import INTEGERS, anything, constant, node

_X, _Y, _C = anything("x"), anything("y"), constant("c")


# -- shifts ---------------------------------------------------------------------------------------------------------


def _in_width(y: UOp, width: int) -> UOp:
    below = y < width
    return below if y.vmin >= 0 else below & (y >= 0)


def _fits(y: UOp, width: int) -> bool:
    return y.vmin >= 0 and y.vmax < width


def _guard_shl(x: UOp, y: UOp) -> UOp | None:
    width = x.dtype.bits
    return None if _fits(y, width) else _in_width(y, width).where(x << (y & (width - 1)), 0)


def _guard_shr(x: UOp, y: UOp) -> UOp | None:
    width = x.dtype.bits
    if _fits(y, width):
        return None
    beyond = x >> (width - 1) if x.dtype.is_signed else x.const_like(0)
    return _in_width(y, width).where(x >> (y & (width - 1)), beyond)


SHIFT_GUARDS: Final[list[Rule]] = [
    rule(
        node(Ops.SHL, _X, _Y), _guard_shl, says="x << y -> 0 <= y < width ? x << y & width-1 : 0", on=INTEGERS
    ),
    rule(
        node(Ops.SHR, _X, _Y),
        _guard_shr,
        says="x >> y -> 0 <= y < width ? x >> y & width-1 : the sign",
        on=INTEGERS,
    ),
]


def _product_by_shift(x: UOp, c: UOp) -> UOp | None:
    factor = cast("int", c.arg)
    size = abs(factor)
    if size < 2 or size & (size - 1):
        return None
    shifted = x << (size.bit_length() - 1)
    # MIN is its own negative.
    return shifted if factor > 0 or size == 1 << (x.dtype.bits - 1) else -shifted


SHIFTS: Final = rule(_X * _C, _product_by_shift, says="x * ±2**k -> ±(x << k)", on=INTEGERS)


# -- counting -------------------------------------------------------------------------------------------------------


def _repeated(byte: int, width: int) -> int:
    return int.from_bytes(bytes([byte]) * (width // 8), "little")


def _popcount(root: UOp, x: UOp) -> UOp | None:
    """Sums of ever wider fields, the bytes by one product."""
    width = x.dtype.bits
    if width < 8:
        return None
    word = x.cast(word_of(x.dtype).scalar)
    word = word - ((word >> 1) & _repeated(0x55, width))
    word = (word & _repeated(0x33, width)) + ((word >> 2) & _repeated(0x33, width))
    word = (word + (word >> 4)) & _repeated(0x0F, width)
    if width > 8:
        word = (word * _repeated(0x01, width)) >> (width - 8)
    return word.cast(root.dtype.scalar)


def _clz(root: UOp, x: UOp) -> UOp | None:
    """The width less the ones, once the highest bit is copied to all below it."""
    width = x.dtype.bits
    if width < 8:
        return None
    word = x.cast(word_of(x.dtype).scalar)
    distance = 1
    while distance < width:
        word = word | (word >> distance)
        distance *= 2
    return (width - word.alu(Ops.POPCOUNT)).cast(root.dtype.scalar)


# -- powers ---------------------------------------------------------------------------------------------------------


def _power(x: UOp, y: UOp) -> UOp:
    """x ** y by squaring, a factor chosen per bit of y. A negative power of anything but ±1 is 0."""
    one = x.const_like(1)
    result, square = one, x
    bits = max(y.vmax, 0).bit_length()
    for k in range(bits):
        taken = (y & (1 << k)).ne(0) if k < x.dtype.bits - x.dtype.is_signed else y < 0
        result = taken.where(result * square, result)
        if k + 1 < bits:
            square = square * square
    if y.vmin >= 0:
        return result
    odd = (y & 1).ne(0)
    inverse = x.eq(1).where(one, x.eq(-1).where(odd.where(x, one), 0))
    return (y < 0).where(inverse, result)


def _constant_power(x: UOp, c: UOp) -> UOp | None:
    exponent = cast("int", c.arg)
    if exponent < 0:
        return None
    result, square = None, x
    while exponent:
        if exponent & 1:
            result = square if result is None else result * square
        exponent >>= 1
        square = square * square if exponent else square
    return x.const_like(1) if result is None else result


# -- random bits ----------------------------------------------------------------------------------------------------

_ROTATIONS: Final = (13, 15, 26, 6, 17, 29, 16, 24)
_PARITY: Final = 0x1BD11BDA
_ROUNDS: Final = 20


def _threefry(x: UOp, y: UOp) -> UOp:
    """Threefry-2x32 with 20 rounds on 32-bit words: word 0 is the high half of counter, key and result."""
    word = dtypes.uint32
    keys = [(y >> 32).cast(word), y.cast(word)]
    keys.append(keys[0] ^ keys[1] ^ _PARITY)
    a, b = (x >> 32).cast(word) + keys[0], x.cast(word) + keys[1]
    for number in range(_ROUNDS):
        turn = _ROTATIONS[number % len(_ROTATIONS)]
        a = a + b
        b = ((b << turn) | (b >> (32 - turn))) ^ a
        if number % 4 == 3:
            block = number // 4 + 1
            a = a + keys[block % 3]
            b = b + keys[(block + 1) % 3] + block
    return (a.cast(dtypes.uint64) << 32) | b.cast(dtypes.uint64)


def bit_rules(support: Support) -> list[Rule]:
    """What the target lacks of the ops on bits."""
    candidates = [
        (
            Ops.POPCOUNT,
            rule(node(Ops.POPCOUNT, _X), _popcount, says="popcount(x) -> sums of fields", on=INTEGERS),
        ),
        (
            Ops.CLZ,
            rule(node(Ops.CLZ, _X), _clz, says="clz(x) -> width - popcount(x | x>>1 | …)", on=INTEGERS),
        ),
        (Ops.POW, rule(node(Ops.POW, _X, _C), _constant_power, says="x ** c -> x x² x⁴ …", on=INTEGERS)),
        (
            Ops.POW,
            rule(node(Ops.POW, _X, _Y), _power, says="x ** y -> a factor x**2**k per bit of y", on=INTEGERS),
        ),
        (
            Ops.THREEFRY,
            rule(node(Ops.THREEFRY, _X, _Y), _threefry, says="threefry(x, y) -> 20 rounds", on=INTEGERS),
        ),
    ]
    return [rule_ for op, rule_ in candidates if support.lacks(op)]
