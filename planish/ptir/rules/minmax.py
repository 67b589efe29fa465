"""Maxima and minima: bounds that do not bind, clamps in one order, and signs.

The order has -0 below +0 and NaN beyond both ends (semantics 3.3): a constant that is not NaN compares by its
place in it.
"""

from __future__ import annotations

from planish.ptir.rules.lawful import by_laws
from planish.ptir.rules.rule import family

by_laws(
    __name__, FoldUselessBound=4, FoldExtremeBound=4, NormalizeClamp=2, FoldEmptyClamp=3,
    ReplaceMaxOfOppositesByAbs=3, SinkNegBelowMinMax=1,
)  # fmt: skip

populate_canonicalization = family(__name__)
