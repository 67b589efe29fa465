"""Bits and lattices: and, or, xor, not, and the laws that max and min share with them.

`and`/`or` of bools and integers and `min`/`max` of whatever has no NaN form lattices: absorption holds. Idempotence
and repetition hold for floats too.
"""

from __future__ import annotations

from planish.ptir.rules.lawful import laws
from planish.ptir.rules.rule import family

by_law = laws(__name__)

FoldBitUnit = by_law("FoldBitUnit", benefit=4)
FoldBitZero = by_law("FoldBitZero", benefit=4)
ReplaceXorOfOnesByNot = by_law("ReplaceXorOfOnesByNot", benefit=3)
FoldXorOfSame = by_law("FoldXorOfSame", benefit=4)
CancelXorOfXor = by_law("CancelXorOfXor", benefit=3)
FoldIdempotentOfSame = by_law("FoldIdempotentOfSame", benefit=4)
FoldRepeatedOperand = by_law("FoldRepeatedOperand", benefit=3)
FoldAbsorption = by_law("FoldAbsorption", benefit=3)
FoldComplement = by_law("FoldComplement", benefit=3)
CancelNotsOfXor = by_law("CancelNotsOfXor", benefit=2)
JoinNots = by_law("JoinNots")
ReassociateBits = by_law("ReassociateBits", benefit=2)

populate_canonicalization = family(__name__)
