"""Ready-made products of matrices (`planish.compiler.ready_kernels`): for which sizes they are as fast as code of their own, and how they are shared out."""

from __future__ import annotations

from planish.records import dataclass


@dataclass(frozen=True, slots=True)
class ReadyProducts:
    """What decides of a processor.

    Below the least rows, columns and terms copying an operand and starting a tile is felt, and code for the very size is better: by timing,
    16 × 768 × 3072 takes 1.1 of its time, 8 × 512 × 512 1.8, 2000 × 100 × 3 3.5; 64 × 64 × 64 and all larger ones 0.7 to 1.05.
    """

    least_rows: int = 32
    """Rows, at least, of a product that is done so whatever it loses."""
    least_columns: int = 8
    """Columns, at least."""
    least_terms: int = 32
    """Terms of a sum, at least."""
    filled: float = 0.6
    """Of the lanes of a panel, the share that has columns: 64 × 256 × 10 takes 1.0 to 1.3 of its time, a microsecond."""
    slight_ns: float = 300.0
    """Nanoseconds that a smaller or narrower product may lose: compiling it takes as long as a hundred thousand calls lose."""
    copy: float = 2.5
    """Cycles in which a vector of the right operand is copied to a panel."""
    tile: int = 10
    """Cycles around a tile: where it begins and ends. (Like `copy` by timing 34 small products: what was lost is between a third of the estimate and
    all of it.)"""
    piece_rows: int = 48
    """Rows of a piece, at least, where rows are cut for cores: each copies the columns for itself."""
    pieces: int = 32
    """The most pieces that one product is cut into."""
    instructions: int = 3
    """In a cycle: two products and sums, and a load."""
    gathered_panels: int = 16
    """Panels of whole registers of 512 bits that meet the same rows again and again: from so many on, rows that lie across memory are gathered."""
