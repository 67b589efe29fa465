"""Bytes, or some bits of them, as floats in the registers of a GPU, those of 16 bits two at a time, without a conversion.

The last bits of a large float are a whole number: 0x6400 | u is 1024 + u in float16, 0x4300 | u is 128 + u in bfloat16, there of seven
bits alone, so that the eighth chooses what is taken off; 0x4b000000 | u is 2²³ + u in float32, one to a register. Bytes are moved below such a number by one permutation of the bytes of words, and
what they are too large by is taken off by the sum that follows, if a number is subtracted there anyway: all of it is exact.
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

    @property
    def moved(self) -> str:
        """A word in whose place it begins with the bits that are meant."""
        return f"{self.word} >> {self.shift}" if self.shift else self.word


class Above(NamedTuple):
    """A float32, or a word of two floats of 16 bits, that is a whole number too large."""

    word: str
    by: int


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
    large, seven = f"{upper << 8:#x}{upper << 8:04x}u", False
    if one is None or two is None:
        numbers = f"((uint32_t)(uint8_t){low} | (uint32_t)(uint8_t){high} << 16 | {large})"
    elif one.word == two.word and one.mask == two.mask == _BYTE:
        numbers = f"__byte_perm({one.word}, {upper * 0x01010101:#x}u, 0x4{two.place}4{one.place})"
    else:
        both = (
            f"__byte_perm({one.moved}, {two.moved}, 0x{two.place + 4}{two.place + 4}{one.place}{one.place})"
        )
        numbers = f"(({both} & {one.mask | two.mask << 16:#x}u) | {large})"
        seven = (one.mask | two.mask) <= _SEVEN
    if target.scalar is dtypes.float16:
        return Above(f"({numbers} ^ 0x800080u)", start + 128) if signed else Above(numbers, start)
    if seven:
        return Above(numbers, start)
    # the eighth bit: of a number without a sign it stands for 128 more, of one with a sign for as much less
    taken = f"{numbers} & 0x43804380u" if signed else f"({numbers} & 0x800080u) ^ 0x43804380u"
    return Above(f"sub2_bf16({numbers} & 0x437f437fu, {taken})", 0 if signed else -128)


def float_of_byte(byte: Byte, source: DType) -> Above:
    """A byte as a float32, so much too large."""
    if byte.mask == _BYTE:
        bits = f"__byte_perm({byte.word}, 0x4b000000u, 0x755{byte.place})"
    else:
        by = 8 * byte.place + byte.shift
        bits = f"(({byte.word} >> {by}) & {byte.mask:#x}u | 0x4b000000u)"
    if source.scalar is dtypes.int8:
        return Above(f"__uint_as_float({bits} ^ 0x80u)", _SINGLE + 128)
    return Above(f"__uint_as_float({bits})", _SINGLE)


def holds(number: int, dtype: DType) -> bool:
    """Whether a whole number is one of a dtype's."""
    return abs(number) <= 1 << _DIGITS[dtype.scalar]
