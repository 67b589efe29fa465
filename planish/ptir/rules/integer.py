"""Division, remainders and shifts of integers by constants (semantics section 2)."""

from __future__ import annotations

from planish.ptir.rules.lawful import laws
from planish.ptir.rules.rule import family

by_law = laws(__name__)

NormalizeUnsignedDivision = by_law("NormalizeUnsignedDivision", benefit=2)
FoldDivisionByUnit = by_law("FoldDivisionByUnit", benefit=4)
FoldRemainderByUnit = by_law("FoldRemainderByUnit", benefit=4)
FoldDivisionOfDivision = by_law("FoldDivisionOfDivision", benefit=2)
FoldRemainderOfRemainder = by_law("FoldRemainderOfRemainder", benefit=2)
FoldDivisionOfRemainder = by_law("FoldDivisionOfRemainder", benefit=3)
FoldShiftByConstant = by_law("FoldShiftByConstant", benefit=3)
FoldShiftOfShift = by_law("FoldShiftOfShift", benefit=2)
ReplaceShiftBackByMask = by_law("ReplaceShiftBackByMask")

populate_canonicalization = family(__name__)
