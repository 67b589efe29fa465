"""Canonicalisation patterns, one module per family; README.md has the rules for writing rules.

Each family module offers `populate_canonicalization(patterns)`; the order of families only decides between
patterns of equal benefit at one root.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from planish.ptir.rewrite.pattern import PatternSet
from planish.ptir.rules import (
    arithmetic,
    broadcast,
    cast,
    compare,
    complex,
    concat,
    cond,
    convolution,
    dot,
    dynamic,
    gather,
    integer,
    logic,
    loops,
    minmax,
    order,
    pad,
    pointwise,
    quantize,
    reduce,
    reshape,
    reverse,
    scatter,
    select,
    slice,
    sources,
    transpose,
    unary,
    windows,
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
    arithmetic.populate_canonicalization,
    integer.populate_canonicalization,
    logic.populate_canonicalization,
    minmax.populate_canonicalization,
    compare.populate_canonicalization,
    select.populate_canonicalization,
    unary.populate_canonicalization,
    complex.populate_canonicalization,
    reduce.populate_canonicalization,
    windows.populate_canonicalization,
    dot.populate_canonicalization,
    convolution.populate_canonicalization,
    quantize.populate_canonicalization,
    cond.populate_canonicalization,
    loops.populate_canonicalization,
)


def populate_canonicalization(patterns: PatternSet) -> None:
    """Add every pattern that ships."""
    for populate in FAMILIES:
        populate(patterns)
