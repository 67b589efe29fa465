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
    collective,
    compare,
    complex,
    concat,
    cond,
    convolution,
    diagonal,
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

FAMILIES: Final[tuple[Callable[[PatternSet], None], ...]] = tuple(
    family.populate_canonicalization
    for family in (
        sources, cast, transpose, reshape, broadcast, slice, reverse, pad, concat, gather, dynamic,
        scatter, order, pointwise, arithmetic, integer, logic, minmax, compare, select, unary, complex,
        reduce, windows, dot, diagonal, convolution, quantize, cond, loops, collective,
    )
)  # fmt: skip


def populate_canonicalization(patterns: PatternSet) -> None:
    """Add every pattern that ships."""
    for populate in FAMILIES:
        populate(patterns)
