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


_OTHERS: Final = 64
"""Registers of a thread beside its sums."""
_ROW, _AHEAD = 128, 6
"""Bytes of a row of an operand, and how many tiles of it there are at most."""


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
    waits: bool = False
    """Whether operands may be late."""


WARPGROUPS: Final = Engine(8 * 3072, begin=3000, end=0.085, waits=True)
WARPS: Final = Engine(16 * 700, half=3.0, resident=8)
THREADS: Final = Engine(32 * 108, half=1.8, resident=16)

WARPGROUP_TILES: Final = tuple(
    BlockTile(64 * groups, columns, speed=0.92 if columns & (columns - 1) else 1.0)
    for columns in WARPGROUP_COLUMNS
    for groups in (2, 1)
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


def _neighbours(target: Target, sizes: ProductSizes, tile: BlockTile) -> int:
    """Blocks that a multiprocessor has at once, of warpgroups that keep a tile of sums and some tiles of operands: they hide each other's waits."""
    threads = 2 * tile.rows  # 64 rows for 128 threads
    registers = threads * (tile.rows * tile.columns // threads + _OTHERS)
    steps = min(-(-sizes.k * sizes.itemsize // _ROW), _AHEAD)
    memory = (tile.rows + tile.columns) * _ROW * steps
    return max(min(target.block_registers // registers, target.local_bytes // memory), 1)


def cycles(target: Target, sizes: ProductSizes, tile: BlockTile, engine: Engine, parts: int = 1) -> float:
    """The time that a tile takes for everything, its sums cut into so many parts."""
    m, n, k, batch, itemsize = sizes
    blocks = -(-m // tile.rows) * -(-n // tile.columns) * batch * parts
    mine = -(-blocks // target.workers)
    rate = engine.bits / (8 * itemsize) * tile.speed
    if engine.half:
        rate *= 1 - 2 ** (-min(mine * tile.warps, engine.resident) * tile.busy / engine.half)
    step = tile.rows * tile.columns / rate
    if engine.waits:
        step = max(step, (tile.rows + tile.columns) * itemsize / target.bytes_per_cycle[0])
    ends = engine.begin / _neighbours(target, sizes, tile) ** 2 if engine.begin else 0.0
    time = mine * (step * -(-k // parts) + ends + engine.end * tile.rows * tile.columns)
    return time if parts == 1 else time + target.launch / 2 + 2 * _SUM * parts * m * n * batch / _TOGETHER
