"""What becomes several kernels on a GPU: sums and scans in parts, operands that are copied first (`planish.schedule.split`, `products`)."""

from __future__ import annotations

from planish.records import dataclass


@dataclass(frozen=True, slots=True)
class GpuParts:
    """From which sizes on that is faster. Timed on an H200."""

    # -- sums --------------------------------------------------------------------------------------------------------
    columns: tuple[tuple[int, int], ...] = ((1, 256), (2, 128))
    """Bytes of an element, and columns for each multiprocessor: several threads sum up each, of narrow ones several at a time."""
    wide_columns: int = 32
    """The same of all others."""
    column_terms: int = 256
    """Elements of a part of a column that is summed up, at least."""
    sums: int = 4
    """Sums for each multiprocessor, about, where those of a result are fewer than one and come in parts."""
    long_sum: int = 256
    """Terms of a sum that one thread takes too long for."""
    many_sums: int = 1 << 17
    """Sums that give each thread one."""

    # -- scans -------------------------------------------------------------------------------------------------------
    scanned_rows: int = 12
    """Rows for each multiprocessor that are scanned, by a warp each, at least: fewer leave memory idle for longer than it takes to read it twice."""
    short_scan: int = 8192
    """Elements of a row that one warp scans alone, sooner than three kernels do."""
    row_scan: int = 4096
    """Elements of a part of a scan that a warp does, at most."""
    column_scan: int = 32
    """The same of one that a thread does, at least."""

    # -- products ----------------------------------------------------------------------------------------------------
    copied: int = 1 << 29
    """Multiply-adds of a product whose operands are worth a kernel each."""
    often: int = 256
    """How often an element of an operand is used, for a copy of it to be worth while."""
    very_often: int = 2048
    """The same where rows are multiples of 16 bytes, but not of lines of the second cache: every row of a box is then in two lines."""
    channels_last: int = 1 << 22
    """Products of a convolution below which a kernel that copies costs more than it saves."""
    images: int = 64
    """Parts of images that the gradient of a depthwise kernel is summed up in, at most."""
    least_side: int = 32
    """Rows and columns of a product that tiles are worth while for."""
    least_long_side: int = 8
    """The same of sums of `long_terms`, which take longer than all else."""
    long_terms: int = 1 << 15
    """Terms from which on that is so."""
    product_terms: int = 512
    """Terms of a part of a sum of products, at least."""
    most: int = 64
    """Parts of one, at most."""
    vector_columns: int = 256
    """Columns of a matrix that a block adds up for a vector, at most."""
    vector_matrix: int = 1 << 22
    """Elements of it, at least."""
    vector_rows: int = 1024
    """Rows of a part of it, at least."""
    vector_blocks: int = 2
    """Such blocks for each multiprocessor."""
