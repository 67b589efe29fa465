"""Panels of products of matrices on CPUs: what is copied so that it lies together, and how much of it stays near (`planish.optimize.contraction`)."""

from __future__ import annotations

from planish.records import dataclass


@dataclass(frozen=True, slots=True)
class Panels:
    """By timing products on processors whose second cache has one or two MiB."""

    part: tuple[int, int] = (2, 5)
    """The part of the second cache that a panel may fill: the other operand and the result pass through it, too. Shorter panels are
    worse on both sides: results are read and written once more for each (2048³ with a panel of a tenth: 1.26 times as long)."""
    near: int = 4
    """The part of the second cache (one of so many) that something else than a panel may fill and still be near when it is used again."""
    again: int = 6
    """A panel that so many rows of tiles read is worth copying."""
    alone: int = 24
    """The same for one that is all there is of an operand: it lies together already, but not near."""
    far_again: int = 2
    """The same for one of several of an operand that does not stay in the second cache between rows of tiles."""
    turned_again: int = 2
    """The same for one whose lanes are not contiguous: the copy is the only fast way to read it."""
    few_rows: int = 16
    """Rows of tiles that are little work for what a panel costs to fetch: then that is what counts."""
    walked: int = 64
    """Rows of an operand that are walked side by side, from end to end: memory is asked for what follows in each before it is needed.
    From 32 to 128 it makes little difference; of more, pages come and go with every panel."""
    steps: int = 16
    """Steps of a reduction for each row of tiles, for which it is worth to read and write the results once more."""
    block_rows: int = 256
    """Rows of a block that are enough to copy a panel for."""
    dot_products: int = 1 << 14
    """Products of pairs or fours of narrow elements below which staging costs more than it saves."""
    dot_rows: int = 4
    """Rows for which it is worth to stage a panel of those."""
    dot_part: tuple[int, int] = (1, 4)
    """The part of the second cache that all rows may fill, to be staged once and not for every panel."""
