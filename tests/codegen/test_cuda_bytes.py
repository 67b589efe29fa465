"""Bytes as floats by moving bits: the expressions, evaluated for every byte, are the numbers that they stand for."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from planish import dtypes
from planish.codegen.cuda_bytes import Byte, bits_of, float_of_byte, halves_of_bytes, holds
from planish.dtypes import DType
from planish.llir.program import Ops

KINDS: dict[DType, Any] = {dtypes.float16: np.float16, dtypes.bfloat16: ml_dtypes.bfloat16}
WORD = {"w": 0x807F01FF, "v": 0x10FE9A00}


def byte_perm(low: int, high: int, chosen: int) -> int:
    """As the machine does it: each digit of the last word chooses a byte of the other two."""
    both = (high & 0xFFFFFFFF) << 32 | low & 0xFFFFFFFF
    return sum((both >> 8 * (chosen >> 4 * k & 7) & 255) << 8 * k for k in range(4))


def halves(word: int, kind: Any) -> Any:
    return np.array([word & 0xFFFF, word >> 16 & 0xFFFF], np.uint16).view(kind)


def sub2(x: int, y: int) -> int:
    low, high = (halves(x, ml_dtypes.bfloat16) - halves(y, ml_dtypes.bfloat16)).view(np.uint16)
    return int(high) << 16 | int(low)


def value(text: str, words: dict[str, int]) -> Any:
    known = {
        **words,
        "__byte_perm": byte_perm,
        "sub2_bf16": sub2,
        "__uint_as_float": lambda bits: np.uint32(bits).view(np.float32),
    }
    python = re.sub(r"(0x[0-9a-f]+)u", r"\1", re.sub(r"\((u?int\d+_t)\)", "", text))
    return eval(python, {"__builtins__": {}}, known)


def whole(byte: Byte, words: dict[str, int], source: DType) -> int:
    found = words[byte.word] >> 8 * byte.place & 255
    found = found >> byte.shift & byte.mask
    return found - 256 if source is dtypes.int8 and found > 127 else found


NIBBLE = Byte("w", 1, 0, 15), Byte("w", 1, 4, 15)
PAIRS = {
    "neighbours": (Byte("w", 0), Byte("w", 1)),
    "of two words": (Byte("w", 3), Byte("v", 2)),
    "halves of a byte": NIBBLE,
    "the same half of two": (NIBBLE[1], Byte("v", 3, 4, 15)),
    "seven bits and one": (Byte("v", 0, 1, 127), Byte("w", 3, 7, 1)),
}


@pytest.mark.parametrize("target", KINDS, ids=str)
@pytest.mark.parametrize("pair", PAIRS)
def test_two_bytes_are_two_floats(pair: str, target: DType) -> None:
    rng = np.random.default_rng(0)
    for source in (dtypes.uint8, dtypes.int8) if pair in {"neighbours", "of two words"} else (dtypes.uint8,):
        one, two = PAIRS[pair]
        found = halves_of_bytes("a", "b", source, target, {"a": one, "b": two})
        for first in range(256):
            words = {name: int(rng.integers(1 << 32)) for name in WORD}
            words[one.word] = words[one.word] & ~(255 << 8 * one.place) | first << 8 * one.place
            numbers = halves(value(found.word, words), KINDS[target]).astype(np.float64) - found.by
            assert numbers.tolist() == [whole(each, words, source) for each in (one, two)]


@pytest.mark.parametrize("target", KINDS, ids=str)
def test_bytes_that_lie_nowhere(target: DType) -> None:
    for source, numbers in ((dtypes.uint8, (200, 3)), (dtypes.int8, (-56, 3))):
        found = halves_of_bytes("a", "b", source, target, {})
        word = value(found.word, {"a": numbers[0] & 255, "b": numbers[1]})
        assert (halves(word, KINDS[target]).astype(np.float64) - found.by).tolist() == list(numbers)


@pytest.mark.parametrize("byte", [Byte("w", 2), NIBBLE[0], NIBBLE[1]], ids=str)
def test_a_byte_is_a_float(byte: Byte) -> None:
    for source in (dtypes.uint8, dtypes.int8) if byte.mask == 255 else (dtypes.uint8,):
        found = float_of_byte(byte, source)
        for first in range(256):
            words = {"w": WORD["w"] & ~(255 << 8 * byte.place) | first << 8 * byte.place}
            assert float(value(found.word, words)) - found.by == whole(byte, words, source)


def test_some_bits_of_a_byte() -> None:
    byte = Byte("w", 1)
    high = bits_of(Ops.SHR, byte, 4)
    assert high == Byte("w", 1, 4, 15)
    assert high is not None
    assert bits_of(Ops.AND, high, 3) == Byte("w", 1, 4, 3)
    assert bits_of(Ops.ADD, byte, 1) is None


def test_numbers_that_a_dtype_holds() -> None:
    assert holds(-136, dtypes.bfloat16)
    assert not holds(1023, dtypes.bfloat16)
    assert holds(1032, dtypes.float16)
    assert not holds(2051, dtypes.float16)
