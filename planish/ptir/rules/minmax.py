"""Maxima and minima: bounds that do not bind, clamps in one order, and signs.

The order has -0 below +0 and NaN beyond both ends (semantics 3.3): a constant that is not NaN compares by its
place in it.
"""

from __future__ import annotations

from planish.ptir.rules.lawful import laws
from planish.ptir.rules.rule import family

by_law = laws(__name__)

FoldUselessBound = by_law("FoldUselessBound", benefit=4)
FoldExtremeBound = by_law("FoldExtremeBound", benefit=4)
NormalizeClamp = by_law("NormalizeClamp", benefit=2)
FoldEmptyClamp = by_law("FoldEmptyClamp", benefit=3)
ReplaceMaxOfOppositesByAbs = by_law("ReplaceMaxOfOppositesByAbs", benefit=3)
SinkNegBelowMinMax = by_law("SinkNegBelowMinMax")

populate_canonicalization = family(__name__)
