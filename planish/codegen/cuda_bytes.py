"""Bytes, or some bits of them, as floats in the registers of a GPU, those of 16 bits two at a time, without a conversion.

The last bits of a large float are a whole number: 0x6400 | u is 1024 + u in float16, 0x4300 | u is 128 + u in bfloat16, there of seven
bits alone; 0x4b000000 | u is 2²³ + u in float32, one to a register. Eight bits of bfloat16 are a whole number times 2⁻¹³³, as they are:
those below the normal numbers count on where these begin. Bits that do not start at the first one are a number times a power of two. So one
permutation of the bytes of words, or none where the two bytes are where the halves of the word are, and one mask make two floats, and
what they are too large by is taken off, and the power made good, by the multiply-add that a subtraction of a number is anyway: all of it is exact.

2¹³³ is no bfloat16. What is left of it (2⁶) goes to the factor that a weight is multiplied with next, once for all that have the same one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from planish import dtypes
from planish.dtypes import DType
from planish.llir.program import Ops

_BYTE: Final = 0xFF
_SEVEN: Final = 0x7F
_START: Final = {dtypes.float16: (0x64, 1024), dtypes.bfloat16: (0x43, 128)}
"""The upper byte of a number whose last bits are whole, and the number."""
_SINGLE: Final = 1 << 23
_SMALL: Final = 133
"""Bits of a bfloat16 are a whole number times two to minus this, up to eight of them."""
_LARGEST: Final = 127
"""The largest power of two that is a bfloat16."""
_DIGITS: Final = {dtypes.float16: 11, dtypes.bfloat16: 8, dtypes.float32: 24}
"""Bits of a whole number that a dtype holds."""


class Byte(NamedTuple):
    """Where a byte is: a word, and its place in it; and which of its bits are meant."""

    word: str
    place: int
    shift: int = 0
    mask: int = _BYTE

    def text(self, kind: str) -> str:
        """Its value, of a type."""
        return f"({kind})({self.word} >> {8 * self.place})" if self.place else f"({kind}){self.word}"


class Above(NamedTuple):
    """A float32, or a word of two floats of 16 bits, that are a power of two and a whole number too large."""

    word: str
    by: tuple[int, ...]
    powers: tuple[int, ...] = (0, 0)
    """What they are to be multiplied with, as powers of two, before that is taken off."""

    def less(self, number: int) -> Above:
        """With so much more to be taken off."""
        return self._replace(by=tuple(each + number for each in self.by))

    @property
    def left(self) -> int:
        """The power of two that is too much for one factor."""
        return max(max(self.powers) - _LARGEST, 0)


def bits_of(op: Ops, byte: Byte, by: int) -> Byte | None:
    """What is left of a byte after an op with a number; None if it is not some of its bits."""
    if op is Ops.AND and by >= 0:
        return byte._replace(mask=byte.mask & by)
    if op is Ops.SHR and 0 <= by < 8:
        return byte._replace(shift=byte.shift + by, mask=byte.mask >> by)
    return None


def halves_of_bytes(low: str, high: str, source: DType, target: DType, known: Mapping[str, Byte]) -> Above:
    """Two bytes as floats of 16 bits, so much too large."""
    one, two = known.get(low), known.get(high)
    signed, (upper, start) = source.scalar is dtypes.int8, _START[target.scalar]
    masks, shifts = (_BYTE, _BYTE), (0, 0)
    if one is None or two is None:
        bits, filled = f"((uint32_t)(uint8_t){low} | (uint32_t)(uint8_t){high} << 16)", ""
    elif one.word == two.word and one.mask == two.mask == _BYTE:
        bits = f"__byte_perm({one.word}, {{above}}u, 0x4{two.place}4{one.place})"
        filled = bits.format(above=f"{upper * 0x01010101:#x}")
        bits = bits.format(above="0x0")
    else:
        masks, shifts = (one.mask << one.shift, two.mask << two.shift), (one.shift, two.shift)
        bits, filled = f"({_beside(one, two)} & {masks[0] | masks[1] << 16:#x}u)", ""
    by, powers = (0, 0), (_SMALL - shifts[0], _SMALL - shifts[1])
    if target.scalar is dtypes.float16 or max(masks) <= _SEVEN:
        bits = filled or f"({bits} | {upper << 8:#x}{upper << 8:04x}u)"
        by, powers = (start >> shifts[0], start >> shifts[1]), (-shifts[0], -shifts[1])
    if signed:  # of whole bytes: 128 more
        bits, by = f"({bits} ^ 0x800080u)", (by[0] + 128, by[1] + 128)
    return Above(bits, by, powers)


def _beside(one: Byte, two: Byte) -> str:
    """A word whose halves begin with two bytes."""
    if one.word == two.word and two.place == one.place + 2:
        return f"({one.word} >> {8 * one.place})" if one.place else one.word
    return f"__byte_perm({one.word}, {two.word}, 0x{two.place + 4}{two.place + 4}{one.place}{one.place})"


def float_of_byte(byte: Byte, source: DType) -> Above:
    """A byte as a float32, so much too large."""
    if byte.mask == _BYTE:
        bits = f"__byte_perm({byte.word}, 0x4b000000u, 0x755{byte.place})"
    else:
        by = 8 * byte.place + byte.shift
        bits = f"(({byte.word} >> {by}) & {byte.mask:#x}u | 0x4b000000u)"
    if source.scalar is dtypes.int8:
        return Above(f"__uint_as_float({bits} ^ 0x80u)", (_SINGLE + 128,))
    return Above(f"__uint_as_float({bits})", (_SINGLE,))


def holds(number: int, dtype: DType) -> bool:
    """Whether a whole number is one of a dtype's."""
    return abs(number) <= 1 << _DIGITS[dtype.scalar]
