"""Products of matrices on a GPU whose tensor cores read LOCAL memory (`wgmma`): tiles for warpgroups.

A block has one or two warpgroups of 128 threads. Each does 64 rows and up to 256 columns of the result, which stay in its registers;
they share the tile of the right operand. Which tile: as many blocks as there are run at once, so the time is that of the rounds it
takes to do all tiles, each as long as its share of work, and longer where a small tile has to be fetched too often (`_TILES`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from planish.actions.core_memory import neighbours
from planish.actions.tensor_core import TensorCore
from planish.config import current
from planish.optimize.core_schedule import CoreSchedule, Fit, try_each, upto
from planish.optimize.draft import Draft
from planish.uop.nest import size_of
from planish.uop.products import Product, nearly
from planish.uop.tensor_cores import IN_MEMORY, Core

_ROWS: Final = 64
"""Rows of the result that a warpgroup does."""


class _Tile(NamedTuple):
    """The part of the result that a block does, and how fast its core is fed, as a part of the fastest."""

    groups: int
    columns: int
    speed: float

    @property
    def rows(self) -> int:
        return self.groups * _ROWS


_TILES: Final = (
    _Tile(2, 256, 1.0), _Tile(2, 128, 0.97), _Tile(1, 256, 0.9), _Tile(2, 64, 0.75), _Tile(1, 128, 0.75), _Tile(1, 64, 0.55),
    _Tile(2, 32, 0.45), _Tile(1, 32, 0.35),
)  # fmt: skip
_MOST_BUFFERS: Final = 6
"""Tiles of an operand at once: what is fetched so far ahead is there in time."""
_LEAST: Final = 32
"""Rows, columns and terms from which on a product is worth a core of this kind."""


def use_warpgroups(draft: Draft) -> bool:
    """Whether a product of the kernel is done so."""
    cores = [core for core in draft.target.tensor_cores if core.reads_memory]
    for inputs in dict.fromkeys(core.inputs for core in cores):
        alike = [core for core in cores if core.inputs is inputs]
        if alike[0].is_rough and not current().fastmath:
            continue
        for product in nearly(draft.sink, alike[0]):
            if _is_worth_it(product) and _use(draft, alike, product):
                return True
    return False


def _is_worth_it(product: Product) -> bool:
    return min(size_of(axis) for axis in (product.m, product.n, product.k)) >= _LEAST


def _use(draft: Draft, cores: list[Core], product: Product) -> bool:
    """One way to read the kernel as a product, in the best tile that can be made."""
    for tile in sorted(_TILES, key=lambda tile: _rounds(draft, product, tile)):
        core = _core(cores, product, tile)
        if core is not None:
            sizes = (
                upto(size_of(product.m), tile.rows),
                upto(size_of(product.n), tile.columns),
                upto(size_of(product.k), core.k),
            )
            if try_each(draft, core, [Fit(product, sizes, tile.groups)], _Tiles):
                return True
    return False


def _rounds(draft: Draft, product: Product, tile: _Tile) -> float:
    """The time that a tile takes for everything, in any unit."""
    blocks = -(-size_of(product.m) // tile.rows) * -(-size_of(product.n) // tile.columns)
    for axis in product.reduce.ranges - {product.m, product.n}:
        blocks *= max(size_of(axis), 1)
    return -(-blocks // draft.target.workers) * tile.rows * tile.columns / tile.speed


def _core(cores: list[Core], product: Product, tile: _Tile) -> Core | None:
    """The core of a tile that finds its operands as they lie in memory, or if there is none as it wants them."""

    def turned(core: Core) -> int:
        return sum(
            IN_MEMORY[layout] is (neighbours(value, axis, product.k) is axis)
            for (layout,), value, axis in ((core.a, product.a, product.m), (core.b, product.b, product.n))
        )

    found = [core for core in cores if core.n == tile.columns]
    return min(found, key=turned, default=None)


class _Tiles(CoreSchedule):
    """A block of warpgroups."""

    def take(self) -> bool:
        groups, core = self.fit.groups, self.core
        tile = (groups * core.m + core.n) * core.k * core.inputs.itemsize
        buffers = min(self.draft.target.local_bytes // tile, _MOST_BUFFERS, self.fit.padded[2] // core.k)
        action = TensorCore.of(core, self.fit.product, groups, max(buffers, 1))
        return self.pad() and self.draft.do(action, f"tiles of {groups * core.m} x {core.n} in registers")
