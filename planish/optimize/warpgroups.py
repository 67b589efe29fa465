"""Products of matrices on a GPU whose tensor cores read LOCAL memory (`wgmma`): tiles for warpgroups.

A block has one or two warpgroups of 128 threads. Each does 64 rows and up to 256 columns of the result, which stay in its registers;
they share the tile of the right operand. Which tile: a multiprocessor has one block at a time, so the time is that of the rounds it
takes to do all tiles, each as long as its products take or its operands take to come, whichever is longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from planish.actions.core_memory import narrowed, neighbours, starts_anywhere, written_along
from planish.actions.split import Split
from planish.actions.tensor_core import TensorCore
from planish.config import current
from planish.optimize.core_schedule import CoreSchedule, Fit, sizes_of, try_each, upto
from planish.optimize.draft import Draft
from planish.optimize.gpu.joined import joined
from planish.target import Target
from planish.target.rounds import (
    WARPGROUP_TILES,
    WARPGROUPS,
    BlockTile,
    ProductSizes,
    cycles,
    rings,
    shared_sum_cycles,
    strip_of,
)
from planish.uop.nest import size_of
from planish.uop.products import Product, nearly
from planish.uop.tensor_cores import IN_MEMORY, Core

_ROWS: Final = 64
"""Rows of the result that a warpgroup does: those of its core."""


_NEAR, _WORTH = 4, 1.4
"""Tiles that are tried with a copy engine before any without, and how much longer they may take by what is known of them: as far as the
model can tell tiles apart."""
_GAIN: Final = 0.9
"""How much faster a sum has to be that blocks share: by less the model cannot tell."""
_LEAST_BUFFERS: Final = 2
"""Tiles that an engine needs: one is read, one filled."""
_VECTOR: Final = 16
"""Bytes of a result that are written at once."""
_LEAST_COLUMNS: Final = 2
"""Of a long and thin one that is read as such: what counts then is that memory is read far ahead."""


def use_warpgroups(draft: Draft) -> bool:
    """Whether a product of the kernel is done so."""
    cores = [core for core in draft.target.tensor_cores if core.reads_memory]
    kinds = sorted(dict.fromkeys(core.inputs for core in cores), key=lambda inputs: inputs.itemsize)
    for inputs in kinds:  # narrow ones first: what is widened before it is multiplied is read as it is stored
        alike = [core for core in cores if core.inputs is inputs]
        if alike[0].is_rough and not current().fastmath:
            continue
        for trial in (*joined(draft, alike[0]), draft):
            for product in nearly(trial.sink, alike[0]):
                if _is_worth_it(product, draft.target) and _use(trial, alike, product):
                    draft.adopt(trial)
                    return True
    return False


def _is_worth_it(product: Product, target: Target) -> bool:
    m, n, k = (size_of(axis) for axis in (product.m, product.n, product.k))
    least = target.tiles.least
    return n >= _LEAST_COLUMNS and m >= _ROWS // 2 and k >= least and (n >= least or m > n)


def _use(draft: Draft, cores: list[Core], product: Product) -> bool:
    """One way to read the kernel as a product, in the best tile that can be made."""
    ranked, others = (_ranked(draft, cores, product, stay=stay) for stay in (True, False))
    # what a copy engine brings is worth a tile that is not quite the best; without it nobody stays
    near = [each for each in ranked[:_NEAR] if each.time <= _WORTH * ranked[0].time]
    shared = [each for each in _shared_sums(draft, product, ranked) if each.time < _GAIN * ranked[0].time]
    fetched = ((each, _Fetched) for each in (*shared, *near))
    copied = ((each, _Tiles) for each in (*shared, *others))
    for (_, tile, core, parts), kind in (*fetched, *copied):
        padded = (
            upto(size_of(product.m), tile.rows),
            upto(size_of(product.n), tile.columns),
            upto(size_of(product.k), core.k * parts),
        )
        if try_each(draft, core, [Fit(product, padded, tile.rows // _ROWS, parts)], kind):
            return True
    return False


class _TimedTile(NamedTuple):
    """How long a tile takes, with a core, its sum in so many parts."""

    time: float
    tile: BlockTile
    core: Core
    parts: int = 1


def _shared_sums(draft: Draft, product: Product, ranked: Sequence[_TimedTile]) -> list[_TimedTile]:
    """The same of sums that the blocks of a cluster share: the best tile for each number of them."""
    sizes, target = _sizes(draft, product), draft.target

    def shared(way: _TimedTile, parts: int) -> _TimedTile:
        time = shared_sum_cycles(target, sizes, way.tile, parts)
        return way._replace(time=time * target.tiles.turned ** _turned(way.core, product), parts=parts)

    numbers = range(2, len(target.clusters) + 1)
    best = [min((shared(way, parts) for way in ranked), key=lambda each: each.time) for parts in numbers]
    return sorted(best, key=lambda each: each.time)


def _ranked(draft: Draft, cores: list[Core], product: Product, *, stay: bool) -> list[_TimedTile]:
    """Tiles by the time that they take, the best first."""
    sizes = _sizes(draft, product)
    timed = []
    for tile in WARPGROUP_TILES:
        alike = [core for core in cores if core.n == tile.columns]
        core = min(alike, key=lambda core: _turned(core, product), default=None)
        if core is not None:
            time = cycles(draft.target, sizes, tile, WARPGROUPS, stay=stay)
            timed.append(_TimedTile(time * draft.target.tiles.turned ** _turned(core, product), tile, core))
    return sorted(timed, key=lambda each: each.time)


def _sizes(draft: Draft, product: Product) -> ProductSizes:
    """The sizes of a product whose sums are kept as wide as they are, unless they are rounded at once."""
    short = narrowed(draft.sink.toposort(), product.reduce, product.m, product.n)
    kept = product.reduce if short is None else short
    return sizes_of(product)._replace(kept=kept.dtype.itemsize)


def _turned(core: Core, product: Product) -> int:
    """How many operands do not lie in memory as the core wants them: they are turned on the way, one element at a time."""
    return sum(
        IN_MEMORY[layout] is (neighbours(value, axis, product.k) is axis)
        for (layout,), value, axis in ((core.a, product.a, product.m), (core.b, product.b, product.n))
    )


class _Tiles(CoreSchedule):
    """A block of warpgroups, whose threads copy operands."""

    engine = False
    sizes: ProductSizes

    def take(self) -> bool:
        nodes = self.draft.sink.toposort()
        _, run = written_along(nodes, self.m, self.n)
        whole = run * self.fit.product.a.dtype.itemsize >= _VECTOR
        whole = whole or starts_anywhere(nodes, self.m, self.n, self.core.n)
        self.sizes = _sizes(self.draft, self.fit.product)
        if not self.pad():
            return False
        # what is written one by one takes long, and nobody else multiplies meanwhile
        may_stay = self.engine and whole
        done = (may_stay and self.multiplied(stay=True)) or self.multiplied(stay=False)
        if done:
            self.order()
        return done

    def multiplied(self, *, stay: bool) -> bool:
        """The core at work, shared out in the best way; by blocks that stay, if they may and it is."""
        groups, core, target = self.fit.groups, self.core, self.draft.target
        tile = BlockTile(groups * core.m, core.n)
        parts = self.fit.parts
        way = rings(target, self.sizes, tile, parts, stay=stay and parts == 1)
        if self.engine and way.buffers < _LEAST_BUFFERS:
            return False
        how = f"tiles of {groups * core.m} x {core.n} in registers"
        how += ", a copy engine feeds them" if self.engine else ""
        how += ", blocks go on to the next" if way.stay else ""
        how += f", {parts} blocks share a sum" if parts > 1 else ""
        staying = way.blocks * target.workers if way.stay else 0
        return self.draft.do(
            TensorCore.of(
                core, self.fit.product, groups, way.buffers, engine=self.engine, stay=staying, parts=parts
            ),
            how,
        )

    def order(self) -> None:
        """Blocks that run at the same time do a part of the result that is about as high as wide: they read least so."""
        high, wide = self.draft.left(self.m), self.draft.left(self.n)
        tile = BlockTile(self.fit.groups * self.core.m, self.core.n)
        strip = strip_of(self.draft.target, tile, high, wide)
        why = "blocks that run at the same time share what they read"
        if strip and high > strip:
            self.draft.take(Split, self.m, strip, why)
        if strip:
            rows, columns = self.draft.innermost(self.m), self.draft.outermost(self.n)
            if rows is not None and columns is not None and rows.order < columns.order:
                self.draft.swap(rows, columns, why)


class _Fetched(_Tiles):
    """The same, fed by a copy engine."""

    engine = True
