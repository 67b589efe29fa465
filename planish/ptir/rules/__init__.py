"""Canonicalisation patterns, one module per family; README.md has the rules for writing rules.

Each family module offers `populate_canonicalization(patterns)`; the order of families only decides between
patterns of equal benefit at one root.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from planish.ptir.rewrite.pattern import PatternSet
from planish.ptir.rules import (
    broadcast,
    cast,
    concat,
    dynamic,
    gather,
    order,
    pad,
    pointwise,
    reshape,
    reverse,
    scatter,
    slice,
    sources,
    transpose,
)

FAMILIES: Final[tuple[Callable[[PatternSet], None], ...]] = (
    sources.populate_canonicalization,
    cast.populate_canonicalization,
    transpose.populate_canonicalization,
    reshape.populate_canonicalization,
    broadcast.populate_canonicalization,
    slice.populate_canonicalization,
    reverse.populate_canonicalization,
    pad.populate_canonicalization,
    concat.populate_canonicalization,
    gather.populate_canonicalization,
    dynamic.populate_canonicalization,
    scatter.populate_canonicalization,
    order.populate_canonicalization,
    pointwise.populate_canonicalization,
)


def populate_canonicalization(patterns: PatternSet) -> None:
    """Add every pattern that ships."""
    for populate in FAMILIES:
        populate(patterns)
