"""Two 16-bit floats in one register of a GPU: how they are told apart, put together, moved, and computed with at once.

A half of a word is a text that says which word it is in; where both halves of one are wanted, that is the word itself. So what
is loaded by words, computed in pairs and stored by words never leaves them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from planish import dtypes
from planish.dtypes import DType
from planish.llir.program import Ops

_OPS: Final = {Ops.ADD: "add2", Ops.SUB: "sub2", Ops.MUL: "mul2", Ops.MULACC: "fma2"}

_NATIVE: Final = """static inline uint32_t {name}({params}) {{
  uint32_t r;
  asm("{instruction} %0, {places};" : "=r"(r) : {given});
  return r;
}}"""
_THREE: Final = ("x", "y", "z")


def _native(name: str, instruction: str, count: int) -> str:
    names = _THREE[:count]
    return _NATIVE.format(
        name=name,
        instruction=instruction,
        params=", ".join(f"uint32_t {each}" for each in names),
        places=", ".join(f"%{k + 1}" for k in range(count)),
        given=", ".join(f'"r"({each})' for each in names),
    )


def _helper(name: str, params: str, text: str) -> str:
    return f"static inline uint32_t {name}({params}) {{ return {text}; }}"


_TWO: Final = "uint32_t x, uint32_t y"
_NARROW: Final = """static inline uint32_t narrow2_{short}(float low, float high) {{
  uint32_t r;
  asm("cvt.rn.{short}x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}}"""
# of bf16 every architecture has the fused op alone: a product plus -0, a sum with a factor of 1
PAIRS: Final[dict[str, tuple[str, ...]]] = {
    "add2_f16": (_native("add2_f16", "add.rn.f16x2", 2),),
    "sub2_f16": (_native("sub2_f16", "sub.rn.f16x2", 2),),
    "mul2_f16": (_native("mul2_f16", "mul.rn.f16x2", 2),),
    "fma2_f16": (_native("fma2_f16", "fma.rn.f16x2", 3),),
    "fma2_bf16": (_native("fma2_bf16", "fma.rn.bf16x2", 3),),
    "add2_bf16": ("fma2_bf16", _helper("add2_bf16", _TWO, "fma2_bf16(x, 0x3f803f80u, y)")),
    "sub2_bf16": ("fma2_bf16", _helper("sub2_bf16", _TWO, "fma2_bf16(y, 0xbf80bf80u, x)")),
    "mul2_bf16": ("fma2_bf16", _helper("mul2_bf16", _TWO, "fma2_bf16(x, y, 0x80008000u)")),
    "narrow2_f16": (_NARROW.format(short="f16"),),
    "narrow2_bf16": (_NARROW.format(short="bf16"),),
}
"""Functions of words: the names of those that one needs, and its text."""

BYTES: Final = """// bytes that lie next to each other, four to a word: taken apart, they would be put together again one by one
template <int N, class T> inline vec<uint32_t, N> bytes_at(const T *at) { return *(const vec<uint32_t, N> *)at; }"""

WORDS: Final = """// two halves as a word, and words where halves lie
inline uint32_t pack2(uint16_t low, uint16_t high) { return low | (uint32_t)high << 16; }
template <int N> inline vec<uint32_t, N> words_at(const uint16_t *at) { return *(const vec<uint32_t, N> *)at; }
template <int N> inline void put_words(uint16_t *at, vec<uint32_t, N> words) {
  vec<uint16_t, 2 * N> halves;
  memcpy(&halves, &words, sizeof(words));
  *(vec<uint16_t, 2 * N> *)at = halves;
}"""


def is_half(dtype: DType) -> bool:
    """Whether two of a dtype make a word, and are computed with at once."""
    return dtype.scalar in {dtypes.float16, dtypes.bfloat16}


def halves(word: str) -> tuple[str, str]:
    """The two halves of a word."""
    return f"(uint16_t){word}", f"(uint16_t)({word} >> 16)"


def word_of(low: str, high: str, known: Mapping[str, tuple[str, str]]) -> str:
    """Two lanes as a word; `known` tells which halves of words lanes are."""
    word = low.removeprefix("(uint16_t)")
    if (low, high) == halves(word):
        return word
    if low in known and high in known:
        (one, first), (two, second) = known[low], known[high]
        return f"__byte_perm({one}, {two}, 0x{'54' if second == 'low' else '76'}{'10' if first == 'low' else '32'})"
    return f"pack2({low}, {high})"


def function_of(op: Ops, dtype: DType) -> str | None:
    """The function that does an op on two lanes."""
    name = _OPS.get(op)
    return f"{name}_{dtype.scalar.short}" if name is not None and is_half(dtype) else None
