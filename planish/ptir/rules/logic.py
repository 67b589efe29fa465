"""Bits and lattices: and, or, xor, not, and the laws that max and min share with them.

`and`/`or` of bools and integers and `min`/`max` of whatever has no NaN form lattices: absorption holds. Idempotence
and repetition hold for floats too.
"""

from __future__ import annotations

from planish.ptir.rules.lawful import by_laws
from planish.ptir.rules.rule import family

by_laws(
    __name__, FoldBitUnit=4, FoldBitZero=4, ReplaceXorOfOnesByNot=3, FoldXorOfSame=4, CancelXorOfXor=3,
    FoldIdempotentOfSame=4, FoldRepeatedOperand=3, FoldAbsorption=3, FoldComplement=3, CancelNotsOfXor=2,
    JoinNots=1, ReassociateBits=2,
)  # fmt: skip

populate_canonicalization = family(__name__)
