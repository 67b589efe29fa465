"""How long a product of matrices takes on a GPU, by the tile that a block does: rounds of blocks, each as long as its work.

All multiprocessors together do a round. A round multiplies, or waits for its operands to come from the second cache, whichever takes
longer, and begins and ends; several blocks of a multiprocessor hide that from each other; with few warps it waits for each of them. The larger tile reads less for each product, the smaller one
leaves fewer multiprocessors without work at the end, and less beyond the edges: both are counted. Operands that the second cache does not hold come from memory in every
round, which delays products a little; least of them do where blocks of a round are in strips. Sums that are cut into parts have more tiles, all of which are written and read once more,
by another kernel, or by the blocks of a cluster, each of which reads the sums of the others where they are.

What multiplies is one of three `Engine`s. The numbers are of an H200.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, isqrt
from typing import Final, NamedTuple

from planish.target import Target
from planish.uop.tensor_cores import WARPGROUP_COLUMNS

_SUM: Final = 4
"""Bytes of a sum."""
_TOGETHER: Final = 2000
"""Bytes per cycle of what was just written by all multiprocessors, and is read by them."""


_DELAYED: Final = 0.13
"""What part of the time that operands take from memory is added to that of products (8192 cubed in strips, and row by row)."""
_BY_SEVERAL: Final = 1.45
"""How many times longer an operand takes from memory of which several blocks read the same, by one that each has a part of (128 x 4096 x 4096 in
tiles of 64 and of 128 rows, 256 x 14336 x 4096 in tiles of 128 and of 256)."""
_THIN: Final = 64
"""Rows or columns below which tiles are those that were measured when one matrix is read and little else is done: there all tiles wait for it alike."""
_STRIP: Final = range(4, 33)
"""Tiles below each other that blocks do one after the other, before they go on to the right."""
_MOST_SUMS: Final = 128 * 256
"""Of a tile: half of the registers of a multiprocessor."""
_OTHERS: Final = 64
"""Registers of a thread beside its sums."""
BESIDE: Final = 32
"""The same of one that does nothing but multiply, until it is done."""
FETCHER: Final = 32
"""Threads of a block that have operands fetched, where a multiprocessor has several blocks."""
_ROW: Final = 128
"""Bytes of a row of an operand."""
_AHEAD, _WELL_AHEAD, _LEAST_AHEAD = 8, 4, 3
"""Tiles of it that there are at most, that are enough for what is fetched to be there in time, and below which several blocks do not help."""
_WIDE: Final = 8
"""Columns of a tile from which on several blocks were measured."""
_SHALLOW: Final = 1.31
"""How many times longer products take if fewer are fetched ahead."""
_STAYING_ENDS, _STAYING_ENDS_TOGETHER = 0.8, 0.5
"""How long the ends of blocks that stay take by those of others, where each is alone and where several are together: nobody waits for what was written to
arrive. Of 126 ways to do fourteen products, the one that is chosen so was 1.2 % slower than the best."""
_FROM_OTHERS, _AMONG_THEM = 7.0, 3000
"""Bytes per cycle that a block reads of the LOCAL memory of others in its cluster, and cycles that these wait for each other (64 x 96 to 128 x 192
sums in two to six parts)."""
_BARRIERS: Final = 1024
"""Bytes of LOCAL memory of a block that are for barriers, and to begin where tiles have to."""


class ProductSizes(NamedTuple):
    """Products of matrices: rows, columns and terms of each, how many there are, and the bytes of an element."""

    m: int
    n: int
    k: int
    batch: int
    itemsize: int
    kept: int = 0
    """Bytes of a sum when it is put down to be written, if they are others than those of an element."""
    left: int = 0
    right: int = 0
    """Elements of the operands in memory, fewer than rows or columns times terms where windows overlap; 0: unknown."""


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
    """Bytes per cycle of operands that a multiprocessor gets from the second cache; 0: threads bring them, never late."""
    step: int = 0
    """Cycles of a tile of operands at least, of a block that is alone."""


WARPGROUPS: Final = Engine(8 * 3620, begin=2640, end=0.154, reads=60.0, step=360)
WARPS: Final = Engine(16 * 700, half=3.0, resident=8)
THREADS: Final = Engine(32 * 108, half=1.8, resident=16)

_SPEED: Final = {224: 0.9, 192: 0.95, 112: 0.86, 96: 0.95, 80: 0.92, 64: 0.88}
"""Of products by their columns: few of them read the left operand again and again. (Of 112 columns by 1024 x 1680 x 4096, 2048 x 560 x 4096 and
8192 x 1120 x 1024.)"""
_MANY_NARROW: Final = (80, 0.85)
"""The same for three and four groups of so few columns, whose right operand each of them reads (32768 x 320 x 960, 8192 x 1120 x 1024)."""
_SQUARE: Final = (128, 0.97)
"""Rows and columns of the tile that waits twice as often as the largest, and its speed."""


def _tile_speed(groups: int, columns: int) -> float:
    if 64 * groups == columns == _SQUARE[0]:
        return _SQUARE[1]
    return _MANY_NARROW[1] if columns == _MANY_NARROW[0] and groups > 2 else _SPEED.get(columns, 1.0)


WARPGROUP_TILES: Final = tuple(
    BlockTile(
        64 * groups,
        columns,
        speed=_tile_speed(groups, columns),
    )
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


def strip_of(target: Target, tile: BlockTile, high: int, wide: int) -> int:
    """How many tiles below each other blocks do before they go on to the right, so that a round is about as high as wide; 0: row by row."""
    if high * wide <= target.workers or min(high, wide) < _STRIP[0]:
        return 0
    best = isqrt(target.workers * tile.columns // tile.rows)
    return max((n for n in _STRIP if high % n == 0 and n <= best), default=0)


def _delay(target: Target, sizes: ProductSizes, tile: BlockTile, parts: int) -> float:
    """Cycles that products of a round are later because their operands come from memory; windows count as often as they are read."""
    terms = -(-sizes.k // parts) * sizes.itemsize
    if (sizes.m + sizes.n) * terms <= target.caches[-1]:
        return 0.0
    high, wide = -(-sizes.m // tile.rows), -(-sizes.n // tile.columns)
    here = min(target.workers, high * wide)
    strip = strip_of(target, tile, high, wide)
    rows = strip or -(-here // wide)
    lines = rows * tile.rows + (min(wide, here / rows) if strip else wide) * tile.columns
    return _DELAYED * lines * terms / (target.bytes_per_cycle[-1] * target.workers)


def _arrival(target: Target, sizes: ProductSizes, tile: BlockTile) -> float:
    """Cycles until all operands have come from memory, where they are the first time that they are read."""
    if min(sizes.m, sizes.n) < _THIN:
        return 0.0
    # (blocks beside each other run side by side, and ask for the same rows together; those below each other are far apart)
    read = sizes.left + sizes.right * (_BY_SEVERAL if sizes.m > tile.rows else 1.0)
    return read * sizes.itemsize / (target.bytes_per_cycle[-1] * target.workers)


class Rings(NamedTuple):
    """What a multiprocessor holds of warpgroups: blocks at once, and for each so many tiles of operands."""

    blocks: int
    buffers: int
    stay: bool = False
    """Whether blocks do one tile of the result after the other: only the first of them has to begin, and results have memory of their own."""


def rings(
    target: Target, sizes: ProductSizes, tile: BlockTile, parts: int = 1, *, stay: bool = True
) -> Rings:
    """The best way to share a multiprocessor: blocks hide each other's waits, and have fewer tiles fetched ahead; or they `stay`, if they may."""
    ways = (way for way in _rings(target, sizes, tile, parts) if stay or not way.stay)
    return min(ways, key=lambda way: _shared_cycles(target, sizes, tile, WARPGROUPS, parts, way))


def _rings(target: Target, sizes: ProductSizes, tile: BlockTile, parts: int) -> Iterator[Rings]:
    """As many blocks as there is work, registers and memory for."""
    threads = 2 * tile.rows  # 64 rows for 128 threads
    steps, sums = _steps(sizes, parts), tile.columns // 2
    memory, room = (tile.rows + tile.columns) * _ROW, target.local_bytes - _BARRIERS
    results = tile.rows * tile.columns * (sizes.kept or sizes.itemsize)
    most = -(-_blocks(sizes, tile, parts) // target.workers)
    for blocks in range(1, max(most, 1) + 1):
        buffers = _ring(min((room // blocks - _BARRIERS) // memory, _AHEAD, steps), steps)
        if steps == 1:  # nothing is fetched ahead
            fits = target.block_registers // blocks >= threads * (sums + _OTHERS)
        else:
            fits = fetched_registers(target.block_registers, blocks, threads) >= sums + BESIDE
        if blocks > 1 and (buffers < min(steps, _LEAST_AHEAD) or not fits or tile.columns < _WIDE):
            return
        yield Rings(blocks, max(buffers, 1))
        left = _ring(min((room // blocks - _BARRIERS - results) // memory, _AHEAD, steps), steps)
        if most > blocks and steps > 1 and left >= min(steps, _LEAST_AHEAD) and tile.columns >= _WIDE:
            yield Rings(blocks, left, stay=True)


def _ring(most: int, steps: int) -> int:
    """Tiles of a ring that there is memory for: so many that the steps are whole rounds, if that leaves enough (`llir/rounds.py`)."""
    whole = max((n for n in range(1, most + 1) if steps % n == 0), default=0)
    return whole if whole >= min(most, _WELL_AHEAD) else most


def fetched_registers(registers: int, blocks: int, threads: int) -> int:
    """Registers of a thread, of several blocks that have a warp more each: those of whole sets of four warps."""
    return registers // (-(-blocks * (threads + FETCHER) // 128) * 128) // 8 * 8


def _steps(sizes: ProductSizes, parts: int) -> int:
    """Tiles of operands that are multiplied one after the other."""
    return max(-(-sizes.k * sizes.itemsize // _ROW) // parts, 1)


def _blocks(sizes: ProductSizes, tile: BlockTile, parts: int) -> int:
    return -(-sizes.m // tile.rows) * -(-sizes.n // tile.columns) * sizes.batch * parts


def _shared_cycles(
    target: Target, sizes: ProductSizes, tile: BlockTile, engine: Engine, parts: int, way: Rings
) -> float:
    """The time of tiles whose operands are fetched, by blocks that share a multiprocessor."""
    steps, terms = _steps(sizes, parts), -(-sizes.k // parts)
    rate = engine.bits / (8 * sizes.itemsize) * tile.speed
    late = _SHALLOW if way.buffers < min(steps, _WELL_AHEAD) else 1.0
    multiplied = tile.rows * tile.columns * terms / rate * late
    read = (tile.rows + tile.columns) * terms * sizes.itemsize / engine.reads
    full, rest = divmod(_blocks(sizes, tile, parts), target.workers * way.blocks)
    last = -(-rest // target.workers)
    mine = full * way.blocks + last
    time = 0.0
    for tiles, together in ((full * way.blocks, way.blocks), (last, last)):
        if tiles:
            time += tiles * max(multiplied, read, steps * engine.step * late / together)
    arrival = _arrival(target, sizes, tile)
    time = max(time, arrival) + _DELAYED * min(time, arrival)
    together = min(way.blocks, mine)
    ends = mine * engine.end * tile.rows * tile.columns
    if way.stay:
        ends = engine.begin + ends * (_STAYING_ENDS if together == 1 else _STAYING_ENDS_TOGETHER)
    else:
        ends = (mine * engine.begin + ends) / together
    return time + ends + mine * _delay(target, sizes, tile, parts)


def shared_sum_cycles(target: Target, sizes: ProductSizes, tile: BlockTile, parts: int) -> float:
    """The time of tiles of which the blocks of a cluster have a part of the sum each, if all clusters run at once."""
    blocks = _blocks(sizes, tile, parts)
    if (
        parts > len(target.clusters)
        or blocks > parts * target.clusters[parts - 1]
        or _steps(sizes, parts) < 2
    ):
        return inf
    way = rings(target, sizes, tile, parts, stay=False)
    return inf if way.blocks > 1 else ring_cycles(target, sizes, tile, parts, way)


def ring_cycles(target: Target, sizes: ProductSizes, tile: BlockTile, parts: int, way: Rings) -> float:
    """The time of tiles in one way to share a multiprocessor; of several parts of a sum, with what their blocks tell each other."""
    time = _shared_cycles(target, sizes, tile, WARPGROUPS, parts, way)
    if parts == 1:
        return time
    others = _SUM * tile.rows * tile.columns * (parts - 1) / parts
    return max(time + _AMONG_THEM + others / _FROM_OTHERS, least_cycles(target, sizes))


def least_cycles(target: Target, sizes: ProductSizes) -> float:
    """What memory takes to bring the operands, however they are multiplied."""
    read = (sizes.m + sizes.n) * sizes.k * sizes.batch * sizes.itemsize
    return read / (target.bytes_per_cycle[-1] * target.workers)


def cycles(
    target: Target, sizes: ProductSizes, tile: BlockTile, engine: Engine, parts: int = 1, *, stay: bool = True
) -> float:
    """The time that a tile takes for everything, its sums cut into so many parts; by blocks that stay, if they may."""
    m, n, k, batch, itemsize, *_ = sizes
    if engine.reads:
        time = _shared_cycles(
            target, sizes, tile, engine, parts, rings(target, sizes, tile, parts, stay=stay)
        )
    else:
        mine = -(-_blocks(sizes, tile, parts) // target.workers)
        rate = engine.bits / (8 * itemsize) * tile.speed
        if engine.half:
            rate *= 1 - 2 ** (-min(mine * tile.warps, engine.resident) * tile.busy / engine.half)
        time = mine * tile.rows * tile.columns / rate * -(-k // parts)
    return time if parts == 1 else time + target.launch / 2 + 2 * _SUM * parts * m * n * batch / _TOGETHER
