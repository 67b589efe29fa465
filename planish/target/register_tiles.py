"""Tiles of registers on CPUs: how many sums, rows and vectors there are at once (`planish.optimize.tiles`, `lanes` and their neighbours)."""

from __future__ import annotations

from planish.records import dataclass


@dataclass(frozen=True, slots=True)
class RegisterTiles:
    """By timing kernels with one number and the other."""

    # -- products ----------------------------------------------------------------------------------------------------
    sums: int = 24
    """Sums at once, beyond which a tile gains nothing but code."""
    tall: int = 8
    """Rows beyond which the rows of an operand start to collide in the first cache."""
    edges: tuple[float, float] = (1.03, 1.045)
    """What tiles cost of which some run over an edge, of rows and of columns: addresses for every row, gates on what is stored, and panels
    that cores cannot share evenly."""
    channel_edge: float = 1.05
    """The same of tiles of channels and pixels."""
    long_sum: int = 4
    """Vectors along the reduced axis, from which on sums in lanes are worth their beginning and end."""

    # -- sums --------------------------------------------------------------------------------------------------------
    accumulators: int = 4
    """Independent sums that hide the latency of an addition."""
    shared_rows: int = 8
    """So many groups of rows have to be left, for cores to share."""
    columns: int = 4
    """Vectors side by side whose columns are reduced at once."""
    piece: int = 16
    """Such tiles next to each other that one core walks over, row by row."""
    block_rows: int = 8
    """Rows that are added up before the next columns, about: enough to hide the cost of keeping sums in memory, and no more than lines of one set
    in a first cache (8 to 12), since rows of matrices often start at multiples of a page (16: 1.3 to 1.7 times as long there)."""

    # -- elements ----------------------------------------------------------------------------------------------------
    long_row: int = 16
    """Vectors of a row for which one more, so that all but the first and the last are whole lines, is not much."""
    stream_parts: int = 4
    """Parts of a piece that are walked over at once. (On Ice Lake: two gain half as much, eight no more.)"""
    lines_together: int = 2
    """Squares along a side of a macro tile: lines of a cache, which are mostly fetched two at a time."""
    row_elements: int = 16
    """Elements of rows in a pass, at least: with fewer, loading and storing the sums takes longer than the first cache saves."""

    # -- windows -----------------------------------------------------------------------------------------------------
    copied_image: int = 12
    """Products of one element of the image, from which on it is worth a copy."""
    whole_row: int = 3
    """Vectors of a row that are all in registers: then which lanes are beside the image is known, and not found out for each vector. (Depthwise 3×3
    of 20, 28, 32, 40 and 48 pixels: 0.6 to 0.9 of the time of one vector after the other.)"""
