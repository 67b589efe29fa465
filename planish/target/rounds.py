"""How long a product of matrices takes on a GPU, by the tile that a block does: rounds of blocks, each as long as its work.

All multiprocessors together do a round. A round multiplies, or waits for its operands to come from the second cache, whichever takes
longer, and begins and ends; with few warps a multiprocessor waits for each of them. The larger tile reads less for each product, the smaller one
leaves fewer multiprocessors without work at the end, and less beyond the edges: both are counted. Sums that are cut into parts have
more tiles, all of which are written and read once more.

What multiplies is one of three `Engine`s. The numbers are of an H200.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from planish.target import Target
from planish.uop.tensor_cores import WARPGROUP_COLUMNS

_SUM: Final = 4
"""Bytes of a sum."""
_TOGETHER: Final = 2000
"""Bytes per cycle of what was just written by all multiprocessors, and is read by them."""


_MOST_SUMS: Final = 128 * 256
"""Of a tile: half of the registers of a multiprocessor."""
_OTHERS: Final = 64
"""Registers of a thread beside its sums."""
_ROW, _AHEAD, _WELL_AHEAD = 128, 6, 4
"""Bytes of a row of an operand, how many tiles of it there are at most, and how many are enough for what is fetched to be there in time."""
_BARRIERS: Final = 1024
"""Bytes of LOCAL memory of a block that are for barriers, and to begin where tiles have to."""
_FETCHER: Final = 40
"""Registers of a thread that has operands fetched."""
_FEWEST: Final = 24
"""Registers of a thread beside its sums without which nothing is done, of all threads before some of them leave theirs to others."""


class ProductSizes(NamedTuple):
    """Products of matrices: rows, columns and terms of each, how many there are, and the bytes of an element."""

    m: int
    n: int
    k: int
    batch: int
    itemsize: int


class BlockTile(NamedTuple):
    """The part of the result that a block does."""

    rows: int
    columns: int
    warps: int = 0
    speed: float = 1.0
    """By the fastest, where there are many."""
    busy: float = 1.0
    """How much of a warp's waiting its own work hides, by one whose sums fill its registers."""


class Engine(NamedTuple):
    """What multiplies, in a multiprocessor."""

    bits: int
    """Multiply-adds per cycle times the bits of an element, for long; of threads, which take as long for all, of 32 bits."""
    begin: int = 0
    """Cycles of a block before its first product, if it is alone on its multiprocessor."""
    end: float = 0.0
    """Cycles for each sum after its last: it is brought to memory while nobody multiplies."""
    half: float = 0.0
    """With so many warps it is half as fast as with many; 0: that does not matter."""
    resident: int = 0
    """Warps at most: their sums fill the registers."""
    reads: float = 0.0
    """Bytes per cycle of operands that a multiprocessor gets from the second cache; 0: they are never late."""


WARPGROUPS: Final = Engine(8 * 3680, begin=3000, end=0.15, reads=66.0)
WARPS: Final = Engine(16 * 700, half=3.0, resident=8)
THREADS: Final = Engine(32 * 108, half=1.8, resident=16)

WARPGROUP_TILES: Final = tuple(
    BlockTile(64 * groups, columns, speed=0.93 if columns & (columns - 1) else 1.0)
    for columns in WARPGROUP_COLUMNS
    for groups in (2, 1, 3, 4)
    if 64 * groups * columns <= _MOST_SUMS and (groups <= 2 or columns >= 64)
)
THREAD_TILES: Final = (
    BlockTile(128, 128, 8),
    BlockTile(64, 128, 4, 0.99),
    BlockTile(64, 64, 2, 0.975),
    BlockTile(64, 64, 4, 0.875, 0.71),
    BlockTile(32, 64, 4, 0.7, 0.5),
    BlockTile(32, 32, 2, 0.65, 0.5),
)
"""Of threads with 8 x 8 sums each, then 8 x 4 and 4 x 4."""


class Rings(NamedTuple):
    """What a multiprocessor holds of warpgroups: blocks at once, and for each so many tiles of operands."""

    blocks: int
    buffers: int


def rings(target: Target, sizes: ProductSizes, tile: BlockTile, parts: int = 1) -> Rings:
    """As many blocks as there is work and are registers for, if tiles are still fetched well ahead: they hide each other's waits."""
    threads = 2 * tile.rows  # 64 rows for 128 threads
    steps = max(-(-sizes.k * sizes.itemsize // _ROW) // parts, 1)
    fetcher = 128 if steps > 1 else 0
    sums = tile.columns // 2
    fitting = min(
        target.block_registers // (threads * (sums + _OTHERS) + _FETCHER * fetcher),
        target.block_registers // ((threads + fetcher) * (sums + _FEWEST)),
    )
    memory, room = (tile.rows + tile.columns) * _ROW, target.local_bytes - _BARRIERS
    well = max(memory * min(steps, _WELL_AHEAD), 1)
    blocks = max(min(fitting, room // (well + _BARRIERS), _blocks(target, sizes, tile, parts)), 1)
    return Rings(blocks, max(min((room // blocks - _BARRIERS) // memory, _AHEAD, steps), 1))


def _blocks(target: Target, sizes: ProductSizes, tile: BlockTile, parts: int) -> int:
    """Blocks that a multiprocessor does, one after the other or at once."""
    blocks = -(-sizes.m // tile.rows) * -(-sizes.n // tile.columns) * sizes.batch * parts
    return -(-blocks // target.workers)


def cycles(target: Target, sizes: ProductSizes, tile: BlockTile, engine: Engine, parts: int = 1) -> float:
    """The time that a tile takes for everything, its sums cut into so many parts."""
    m, n, k, batch, itemsize = sizes
    mine = _blocks(target, sizes, tile, parts)
    rate = engine.bits / (8 * itemsize) * tile.speed
    if engine.half:
        rate *= 1 - 2 ** (-min(mine * tile.warps, engine.resident) * tile.busy / engine.half)
    step = tile.rows * tile.columns / rate
    ends = engine.begin + engine.end * tile.rows * tile.columns
    if engine.reads:
        step = max(step, (tile.rows + tile.columns) * itemsize / engine.reads)
        ends /= rings(target, sizes, tile, parts).blocks
    time = mine * (step * -(-k // parts) + ends)
    return time if parts == 1 else time + target.launch / 2 + 2 * _SUM * parts * m * n * batch / _TOGETHER
