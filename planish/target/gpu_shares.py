"""How work is shared out among the threads of a GPU so that all of it is busy: what templates go by (`planish.optimize.gpu`)."""

from __future__ import annotations

from planish.records import dataclass


@dataclass(frozen=True, slots=True)
class GpuShares:
    """Threads, columns and elements are those of one multiprocessor where that is said. Timed on an H200."""

    # -- blocks and threads ------------------------------------------------------------------------------------------
    block: int = 256
    """Threads of a block, where nothing says otherwise: of elements, of a long sum, of a few columns, of pixels."""
    shared_block: int = 128
    """Threads of a block that several short rows or sums share."""
    busy_threads: int = 256
    """Threads of a multiprocessor that keep memory busy, along rows."""
    busy_columns: int = 512
    """The same of threads that go down a column each, to sum it up or to scan it."""
    few_elements: int = 1024
    """Elements for each multiprocessor up to which small blocks are tried: large ones would leave some idle."""
    few_blocks: int = 64
    """Results of one row each, at least: with fewer a sum in parts keeps more of the machine busy."""
    nearly_all: tuple[int, int] = (9, 10)
    """Of all multiprocessors, how many have to have a block of columns that are scanned in one pass."""
    neighbours: int = 64
    """Neighbouring threads of a block, at most, along what lies together but is no whole number of warps: whole sectors are."""

    # -- what a thread has to do -------------------------------------------------------------------------------------
    accesses: int = 2
    """Accesses of a thread to what it shares, at least: the more threads there are, the more is under way at once."""
    alone_terms: int = 64
    """Terms of a reduction that one thread does alone."""
    loads_ahead: int = 4
    """Iterations of a loop whose loads the compiler brings forward together, if those that are masked are as many: sums of 3333 x 3000 halves over
    1111 rows took 21.9 us by 16 threads to a column, 70 rows each, and 14.5 us by 8 threads with 144."""
    rows_ahead: int = 4
    """Rows of a matrix that a thread has asked for at once."""
    sum_terms: int = 4
    """Terms of each thread that shares a long sum with a block, at least."""

    # -- rows --------------------------------------------------------------------------------------------------------
    shortest_row: int = 24
    """Elements of a row that several threads share: of fewer, one does all."""
    row_elements: int = 64
    """Elements of a short row that one of its threads has, at most."""
    kept_elements: int = 64
    """Elements of a kept row that a thread has registers for."""
    narrow_team: int = 512
    """Threads that share a row of narrow elements, at most: a second block has room beside, whose arithmetic hides what this one waits for."""
    more_threads: int = 4
    """How many times as many threads may be faster where sums are long and results are few: 16 x 300 x 777 halves, over the outer two, took 11.8 us by
    two teams for each sum, and 4.1 us by eight."""

    # -- columns -----------------------------------------------------------------------------------------------------
    column_team: int = 32
    """Threads that share a column, at most."""
    wide_column_team: int = 16
    """The same where each has several columns, and so more to read, unless that leaves the GPU idle."""
    shared_terms: int = 8
    """Terms of a sum that threads had better share, where they would else be too few for that."""
    filled_columns: int = 2048
    """Columns for each multiprocessor from which on each has a thread of its own: more threads to a column read no faster, and then meet (the sum of
    128 x 4096 x 4095 over its middle: 2534 us by one thread each, 3532 us by 32)."""
    all_columns: int = 128
    """Neighbouring threads, at most, of columns that are all there are: rows then lie one behind the other, wherever sectors begin."""

    # -- scans -------------------------------------------------------------------------------------------------------
    scanned_elements: int = 64
    """Elements of a row that a warp is worth."""
    scan_tile: int = 8 << 10
    """Bytes of a tile of columns that are scanned, if they are not too many rows."""
    scan_ahead: int = 40 << 10
    """Bytes that a multiprocessor has asked for, of which nothing is there yet: less leaves memory idle, more gains nothing."""
    scan_buffers: tuple[int, int] = (3, 16)
    """Such tiles of a block, at least and at most."""

    # -- windows -----------------------------------------------------------------------------------------------------
    shared_taps: int = 128
    """Taps of a window that several threads may share: the pixels of an image, of the gradient of weights."""
    group_channels: int = 8
    """Channels of a group that a thread has all of, and sums up by itself."""
    pixel_sums: int = 32
    """Sums of a thread that has several outputs of a pixel: what it has registers for."""
    pixel_rows: int = 8
    """Rows of pixels of a block, at most."""
