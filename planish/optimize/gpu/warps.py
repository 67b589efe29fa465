"""Products of matrices on tensor cores that hold their operands in the registers of a warp (`mma.sync`): tiles for warps.

A block has a few warps, each with some tiles of the core side by side, both ways; what they read of both operands for some steps
of the sum is fetched to shared memory in the background, in rows whose chunks are exchanged, so that eight rows of a core's
operand are in different banks. Axes are padded to whole tiles: what is beyond the end is fetched as zeros.

Which tile: as for products without a tensor core (`products.py`), by the rounds that it takes to do all tiles and by how many warps
are there to hide what each waits for.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from planish.actions.layouts import SWIZZLES
from planish.actions.local import Local
from planish.actions.split import Split
from planish.actions.stage import Stage
from planish.actions.upcast import Upcast
from planish.config import current
from planish.optimize.core_schedule import CoreSchedule, Fit, sizes_of, slot_of, try_each, upto
from planish.optimize.draft import Draft, Kind
from planish.optimize.gpu.fit import Fetching, fetching
from planish.optimize.templates import Candidate
from planish.target.gpu_tiles import WarpTile
from planish.target.rounds import WARPS, BlockTile, cycles
from planish.uop.nest import size_of
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.products import Product, nearly
from planish.uop.tensor_cores import Core

_BUFFERS: Final = (3, 2)
"""Tiles of an operand that there is memory for: one is used while others are fetched."""
_STEPS: Final = (4, 2, 1)
"""Steps of the core for which operands are fetched at once: four are rows of 128 bytes. Fewer, if that makes a short sum much shorter."""
_LONGER: Final = 1.25
"""How many times longer that may make a sum: a share of its work, on any machine."""


def _block(tile: WarpTile, core: Core) -> BlockTile:
    """The part of the result that a block does."""
    rows, columns = core.m * tile.down * tile.high, core.n * tile.across * tile.wide
    return BlockTile(rows, columns, tile.down * tile.across, tile.speed)


def with_warps(draft: Draft, nest: Nest) -> Iterator[Candidate]:
    """A candidate for every core of a warp."""
    for core in draft.target.tensor_cores if nest.reductions else ():
        is_exact = core.mantissa is None or current().fastmath
        if core.threads > 1 and not core.reads_memory and is_exact:
            yield Candidate(f"{core.name} through tiles", partial(_use, core=core))


def _use(draft: Draft, core: Core) -> bool:
    """Whether a product of the kernel is done so."""
    for product in nearly(draft.sink, core):
        if not all(map(size_of, (product.m, product.n, product.k))):
            continue
        if slot_of(product.a) is None or slot_of(product.b) is None:
            continue
        for tile in sorted(draft.target.tiles.of_warps, key=lambda tile: _time(draft, core, product, tile)):
            if try_each(draft, core, [_fit(core, product, tile)], partial(_Warps, tile=tile)):
                return True
    return False


def _steps(core: Core, product: Product) -> int:
    size = size_of(product.k)
    return next((n for n in _STEPS if upto(size, n * core.k) <= _LONGER * size), _STEPS[-1])


def _fit(core: Core, product: Product, tile: WarpTile) -> Fit:
    sizes = (
        upto(size_of(product.m), _block(tile, core).rows),
        upto(size_of(product.n), _block(tile, core).columns),
        upto(size_of(product.k), core.k * _steps(core, product)),
    )
    return Fit(product, sizes)


def _time(draft: Draft, core: Core, product: Product, tile: WarpTile) -> float:
    """How long the multiprocessor with the most tiles computes."""
    return cycles(draft.target, sizes_of(product), _block(tile, core), WARPS)


class _Warps(CoreSchedule):
    """A block of warps."""

    def __init__(self, draft: Draft, core: Core, fit: Fit, tile: WarpTile) -> None:
        super().__init__(draft, core, fit)
        self.tile, self.steps = tile, _steps(core, fit.product)

    def take(self) -> bool:
        tile = self.tile
        return (
            self.pad()
            and self.multiply()
            and self.some(Upcast, self.m, tile.high, "tiles of a warp")
            and self.some(Local, self.m, tile.down, "warps of a block")
            and self.some(Upcast, self.n, tile.wide, "tiles of a warp")
            and self.some(Local, self.n, tile.across, "warps of a block")
            and self.feed()
        )

    def some(self, kind: Kind, axis: UOp, amount: int, reason: str) -> bool:
        """An amount of the outermost loop that is left of an axis; one is nothing to do."""
        return amount == 1 or self.draft.take(kind, axis, amount, reason)

    def feed(self) -> bool:
        """Both operands, ahead of their use, in the widest panels that there are; a matrix times itself is fetched at once."""
        is_one = self.left(self.k) <= self.steps
        if not is_one and not self.some(Split, self.k, self.steps, "what is fetched at once"):
            return False
        how = fetching(self.draft, self.k, int(self.steps > 1), _BUFFERS)
        slots = dict.fromkeys((slot_of(self.fit.product.a), slot_of(self.fit.product.b)))
        return all(slot is not None and self.fetched(slot, how) for slot in slots)

    def fetched(self, slot: int, how: Fetching) -> bool:
        return any(
            self.draft.do(
                Stage(slot, how.at, buffers, swizzle=swizzle), "a block fetches tiles while it computes"
            )
            for buffers in how.buffers
            for swizzle in (*SWIZZLES, 0)
        )
