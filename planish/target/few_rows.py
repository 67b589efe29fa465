"""Few rows against a long matrix on a GPU, as decoding has them: who reads how much of the matrix (`planish.optimize.gpu.thin` and `decode`)."""

from __future__ import annotations

from typing import NamedTuple

from planish.records import dataclass


class StoredRows(NamedTuple):
    """How many rows something is for, at most, and how a warp goes about a matrix that is stored narrow."""

    rows: int
    steps: int
    """Accesses of a thread to each row of the matrix, of sixteen bytes, that are made at once."""
    columns: int
    """Tiles of columns of a warp, at most, which share what is read of the rows."""
    buffers: int = 0
    """Tiles of the matrix in shared memory; 0: it is read straight to registers."""
    own: bool = False
    """Whether each thread fetches what it needs of them itself."""
    rows_too: bool = False
    """Whether the few rows are fetched to shared memory as well."""


@dataclass(frozen=True, slots=True)
class FewRows:
    """Timed on an H200."""

    # -- by threads --------------------------------------------------------------------------------------------------
    fewest: int = 4
    """Rows whose products each thread adds up by itself: with more, it takes longer than the memory, so that others may do it faster."""
    most: int = 16
    """Rows that a thread has registers for."""
    columns: int = 64
    """Columns of the matrix, at least."""

    # -- by the tensor cores of warps --------------------------------------------------------------------------------
    of_bytes: tuple[StoredRows, ...] = (
        StoredRows(4, 2, 1, 3),
        StoredRows(8, 2, 2, 2, rows_too=True),
        StoredRows(16, 2, 1),
    )
    """The fastest, bf16 and 8 bits: the more rows there are, the more is read of them for each byte of the matrix."""
    of_parts: tuple[StoredRows, ...] = (StoredRows(8, 1, 2), StoredRows(16, 1, 8, 2, own=True))
    """The same of 4 bits."""
    warps: tuple[int, int] = (4, 8)
    """Warps that share a sum: more of them where a multiprocessor has few columns."""
    few_tiles: int = 4
    """Tiles of columns for each multiprocessor, up to which that is so."""
    blocks: float = 1.9
    """Blocks for each multiprocessor, at least, as far as there are enough columns."""
    resident: int = 28
    """Warps of a multiprocessor that read the matrix straight to their registers (`codegen/cuda_blocks.py`)."""
