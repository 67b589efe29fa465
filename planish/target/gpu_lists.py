"""Lists on a GPU: rows that data chooses are gone through in their order, by many at once (`planish.optimize.gpu.scattered`)."""

from __future__ import annotations

from planish.records import dataclass


@dataclass(frozen=True, slots=True)
class GpuLists:
    """From which lengths on which way is faster. Timed on an H200."""

    claimed: int = 32
    """Rows that are worth that a list is gone through many times."""
    blocks: int = 16
    """Blocks for each multiprocessor, at most: they run at once, and each has less to do for rows of its own."""
    long: int = 1024
    """Entries of a list that take a block longer than others take to go through it as well."""
    warps: int = 32
    """Warps of a multiprocessor, each a block: as many go through lists at once, each through a part, or for a share of the rows."""
    warp_steps: int = 64
    """Entries at a time of a list that a warp goes through alone, sooner than many do that have less to store each."""
    parted: int = 1 << 15
    """Entries of a list that is worth tables of parts: a shorter one is gone through in its order."""
    part: int = 256
    """Entries of a part, at least."""
    fewest_parts: int = 4
    table_bytes: int = 64 << 20
    """Bytes of all tables, at most."""
