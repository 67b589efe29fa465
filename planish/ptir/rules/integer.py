"""Division, remainders and shifts of integers by constants (semantics section 2)."""

from __future__ import annotations

from planish.ptir.rules.lawful import by_laws
from planish.ptir.rules.rule import family

by_laws(
    __name__,
    NormalizeUnsignedDivision=2, FoldDivisionByUnit=4, FoldRemainderByUnit=4, FoldDivisionOfDivision=2,
    FoldRemainderOfRemainder=2, FoldDivisionOfRemainder=3, FoldShiftByConstant=3, FoldShiftOfShift=2,
    ReplaceShiftBackByMask=1,
)  # fmt: skip

populate_canonicalization = family(__name__)
