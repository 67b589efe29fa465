"""Bytes and bits of them as floats of 16 bits: what is written for a GPU, computed here, is exact for every byte."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from planish import dtypes
from planish.codegen.cuda_bytes import Above, Byte, bits_of, halves_of_bytes
from planish.dtypes import DType
from planish.llir.program import Ops

LOW, HIGH = "low", "high"
_WORD = 0xFFFFFFFF


def permuted(x: int, y: int, selector: int) -> int:
    """`__byte_perm`."""
    given = x | y << 32
    return sum((given >> 8 * (selector >> 4 * k & 7) & 0xFF) << 8 * k for k in range(4))


def floats(above: Above, words: list[int], dtype: DType) -> list[float]:
    """The two floats that the text is, as they should be."""
    text = re.sub(r"\b(0x[0-9a-f]+|\d+)u\b", r"\1", above.word).replace("(uint32_t)(uint8_t)", "")
    names = {
        "__byte_perm": permuted,
        "w": SimpleNamespace(at=words),
        LOW: words[0] & 255,
        HIGH: words[1] & 255,
    }
    found = eval(text, names) & _WORD
    bits = np.array([found & 0xFFFF, found >> 16], np.uint16)
    if dtype is dtypes.bfloat16:
        values = (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    else:
        values = bits.view(np.float16).astype(np.float64)
    return [float(v) * 2.0**p - by for v, p, by in zip(values, above.powers, above.by, strict=True)]


BYTES = {
    "neighbours": (Byte("w.at[0]", 0), Byte("w.at[0]", 1)),
    "the other two": (Byte("w.at[0]", 2), Byte("w.at[0]", 3)),
    "of two words": (Byte("w.at[0]", 3), Byte("w.at[1]", 1)),
}
HALVES = {
    "of a byte": (Byte("w.at[0]", 1, 0, 15), Byte("w.at[0]", 1, 4, 15)),
    "low, two bytes apart": (Byte("w.at[0]", 0, 0, 15), Byte("w.at[0]", 2, 0, 15)),
    "high, two bytes apart": (Byte("w.at[0]", 0, 4, 15), Byte("w.at[0]", 2, 4, 15)),
    "high, of the upper bytes": (Byte("w.at[0]", 1, 4, 15), Byte("w.at[0]", 3, 4, 15)),
    "two bits": (Byte("w.at[0]", 1, 2, 3), Byte("w.at[0]", 3, 2, 3)),
    "six bits of a byte": (Byte("w.at[0]", 2, 2, 63), Byte("w.at[0]", 2, 0, 63)),
    "of two words": (Byte("w.at[0]", 3, 4, 15), Byte("w.at[1]", 1, 0, 15)),
}


def value(byte: Byte, words: list[int], *, signed: bool) -> int:
    word = words[int(byte.word[-2])]
    found = word >> 8 * byte.place >> byte.shift & byte.mask
    return found - 256 if signed and found > 127 else found


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("name", "source"),
    [
        *((name, source) for name in (*BYTES, "unknown") for source in (dtypes.uint8, dtypes.int8)),
        *(
            (f"halves {name}", dtypes.uint8) for name in HALVES
        ),  # bits of a byte with a sign are not told apart
    ],
    ids=str,
)
def test_they_are_exact(dtype: DType, name: str, source: DType) -> None:
    signed = source is dtypes.int8
    known: dict[str, Any] = {}
    if name != "unknown":
        one, two = BYTES[name] if name in BYTES else HALVES[name.removeprefix("halves ")]
        known = {LOW: one, HIGH: two}
    else:
        one, two = Byte("w.at[0]", 0), Byte("w.at[1]", 0)
    rng = np.random.default_rng(1)
    above = halves_of_bytes(LOW, HIGH, source, dtype, known)
    for k in range(256):
        words = [int(x) for x in rng.integers(0, 1 << 32, 2)]
        for byte in (one, two):
            place = int(byte.word[-2])
            words[place] = words[place] & ~(255 << 8 * byte.place) | k << 8 * byte.place
        wanted = [value(byte, words, signed=signed) for byte in (one, two)]
        assert floats(above, words, dtype) == wanted
        assert floats(above.less(8), words, dtype) == [each - 8 for each in wanted]
    assert above.left in {0, 2, 6}
    assert max(abs(by) for by in above.by) <= (1 << 11 if dtype is dtypes.float16 else 1 << 8)


def test_bits_that_are_taken_of_a_byte() -> None:
    byte = Byte("w.at[0]", 1)
    assert bits_of(Ops.AND, byte, 15) == Byte("w.at[0]", 1, 0, 15)
    assert bits_of(Ops.SHR, byte, 4) == Byte("w.at[0]", 1, 4, 15)
    assert bits_of(Ops.ADD, byte, 4) is None
