"""Sort keys: unsigned integers of a dtype's width that compare as its numbers do (semantics section 9).

NaN is the largest of all and -0 equals +0. Descending order is that of the complements.
"""

from __future__ import annotations

from typing import Final

from planish.records import dataclass
from planish.runtime.routines.writer import Emitter, Term, lanes, vector


@dataclass(frozen=True, slots=True)
class SortKey:
    """How the bits of a dtype become a key."""

    bits: int
    signed: bool = False
    largest: int | None = None
    """Of floats: the bits of the largest number that is none of the NaNs, without its sign."""

    @property
    def kind(self) -> str:
        """The integer that holds it."""
        return f"i{self.bits}"

    @property
    def nbytes(self) -> int:
        return self.bits // 8

    def encode(self, f: Emitter, raw: Term, *, descending: bool) -> Term:
        """The key of bits, or of lanes of them."""
        kind, sign = vector(self.kind, lanes(raw.kind)), 1 << (self.bits - 1)
        signed = sign - (1 << self.bits)  # as a number with a sign
        if self.largest is not None:
            size = raw & (sign - 1)
            flipped = raw ^ ((raw >> (self.bits - 1)) | signed)
            key = f.select(size.eq(0), f.value(signed, kind), flipped)
            key = f.select(size > self.largest, f.value(-1, kind), key)
        else:
            key = raw ^ signed if self.signed else raw
        return key ^ -1 if descending else key

    def decode(self, f: Emitter, key: Term, *, descending: bool) -> Term:
        """The bits that have a key: of zeros those of +0, of NaNs those of one."""
        kind, sign = key.kind, 1 << (self.bits - 1)
        if descending:
            key = key ^ -1
        if self.largest is None:
            return key ^ (sign - (1 << self.bits)) if self.signed else key
        return f.select(key < 0, key ^ f.value(sign - (1 << self.bits), kind), key ^ -1)


KEYS: Final[dict[str, SortKey]] = {
    "bool": SortKey(8),
    **{f"uint{bits}": SortKey(bits) for bits in (8, 16, 32, 64)},
    **{f"int{bits}": SortKey(bits, signed=True) for bits in (8, 16, 32, 64)},
    "float8_e4m3fn": SortKey(8, largest=0x7E),
    "float8_e5m2": SortKey(8, largest=0x7C),
    "float16": SortKey(16, largest=0x7C00),
    "bfloat16": SortKey(16, largest=0x7F80),
    "float32": SortKey(32, largest=0x7F800000),
    "float64": SortKey(64, largest=0x7FF0000000000000),
}
"""By name of the dtype."""
