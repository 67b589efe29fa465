"""Where a processor says what it has: the bits of CPUID by LLVM's names of features, and of XCR0 for what the system keeps.

A row is leaf, subleaf, register (eax, ebx, ecx, edx) and bit; leaf -1 is XCR0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

Bit = tuple[int, int, int, int]

_EXTENDED: Final = 0x80000001
BITS: Final[dict[str, Bit]] = {
    "sse3": (1, 0, 2, 0), "pclmul": (1, 0, 2, 1), "ssse3": (1, 0, 2, 9), "fma": (1, 0, 2, 12), "sse4.1": (1, 0, 2, 19),
    "sse4.2": (1, 0, 2, 20), "movbe": (1, 0, 2, 22), "popcnt": (1, 0, 2, 23), "aes": (1, 0, 2, 25), "avx": (1, 0, 2, 28),
    "f16c": (1, 0, 2, 29), "bmi": (7, 0, 1, 3), "avx2": (7, 0, 1, 5), "bmi2": (7, 0, 1, 8), "avx512f": (7, 0, 1, 16),
    "avx512dq": (7, 0, 1, 17), "adx": (7, 0, 1, 19), "avx512ifma": (7, 0, 1, 21), "avx512cd": (7, 0, 1, 28),
    "sha": (7, 0, 1, 29), "avx512bw": (7, 0, 1, 30), "avx512vl": (7, 0, 1, 31), "avx512vbmi": (7, 0, 2, 1),
    "avx512vbmi2": (7, 0, 2, 6), "gfni": (7, 0, 2, 8), "vaes": (7, 0, 2, 9), "vpclmulqdq": (7, 0, 2, 10),
    "avx512vnni": (7, 0, 2, 11), "avx512bitalg": (7, 0, 2, 12), "avx512vpopcntdq": (7, 0, 2, 14),
    "avx512vp2intersect": (7, 0, 3, 8), "amx-bf16": (7, 0, 3, 22), "avx512fp16": (7, 0, 3, 23), "amx-tile": (7, 0, 3, 24),
    "amx-int8": (7, 0, 3, 25), "avxvnni": (7, 1, 0, 4), "avx512bf16": (7, 1, 0, 5), "amx-fp16": (7, 1, 0, 21),
    "avxifma": (7, 1, 0, 23), "avxvnniint8": (7, 1, 3, 4), "avxneconvert": (7, 1, 3, 5), "lzcnt": (_EXTENDED, 0, 2, 5),
    "sse4a": (_EXTENDED, 0, 2, 6), "xop": (_EXTENDED, 0, 2, 11), "fma4": (_EXTENDED, 0, 2, 16), "tbm": (_EXTENDED, 0, 2, 21),
}  # fmt: skip
"""Those of which instruction selection makes use; others change no code."""
_KEPT: Final[dict[str, tuple[int, ...]]] = {"avx": (1, 2), "avx512f": (5, 6, 7), "amx-tile": (17, 18)}
"""The state that a system has to keep for a feature to be of use: bits of XCR0."""


def rows(features: Iterable[str]) -> list[tuple[str, Bit]]:
    """What has to be asked to know whether a processor has such features, each question with the name of what it lacks if not."""
    wanted = [name for name in features if name in BITS]
    asked = [(name, BITS[name]) for name in wanted]
    asked += [(f"{name} (of the system)", (-1, 0, 0, bit)) for name in wanted for bit in _KEPT.get(name, ())]
    return asked
