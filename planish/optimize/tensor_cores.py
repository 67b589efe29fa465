"""Tensor cores, where one fits and is worth it.

On a GPU the tiles of a core are spread over threads and registers. On a CPU (AMX) the core has eight tile registers: two by two
tiles of the output stay in four of them over the whole sum, two of each operand pass through the others. Then:

1. **Padding.** An axis that is no multiple of the core's size is padded; what is read there is 0 in the staged panels.
2. **Blocks of k**, such that a panel of the right operand stays in the first cache.
3. **Pieces for cores**: batches, or both output axes; whoever takes a piece stages its operands once more, so pieces are large.
4. **Blocks of rows**, such that the panels of the left operand stay in the second cache, and columns outside of the rows of a block.
5. **Staging** of both operands, tile by tile as the core reads them (`actions/stage.py`).

A core that cannot be fed so is not used at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from planish.actions.block import Block
from planish.actions.local import Local
from planish.actions.split import Split
from planish.actions.tensor_core import TensorCore
from planish.actions.thread import Thread
from planish.actions.upcast import Upcast
from planish.config import current
from planish.optimize.core_schedule import CoreSchedule, Sizes, divisor, divisors, fits, try_each, upto
from planish.optimize.dot_products import with_dot_products
from planish.optimize.draft import Draft
from planish.optimize.templates import Candidate
from planish.uop.nest import size_of
from planish.uop.nest.kernel import Nest
from planish.uop.products import Product, products
from planish.uop.tensor_cores import Core

_TILES: Final = (4, 2)
"""Tiles of a GPU's core side by side."""
_SIDE: Final = 2
"""Tiles of a CPU's core side by side, both ways: so many fit in eight registers together with their operands."""
_WIDER: Final = 1.1
"""How many times more padding for a second tile side by side may make of the work."""
_STEP: Final = 64
"""Bytes along k that one tile covers."""


def with_tensor_cores(draft: Draft, nest: Nest) -> Iterator[Candidate]:
    """A candidate for every core that computes what a kernel does."""
    cores = draft.target.tensor_cores if nest.reductions else ()
    for core in cores:
        if core.reads_memory:
            continue
        if core.mantissa is not None and not current().fastmath:
            continue
        if core.threads > 1:
            if matches := products(draft.sink, core):
                yield Candidate(core.name, partial(_in_tiles_of_tiles, core=core, product=matches[0]))
        elif core.m == 1:
            yield from with_dot_products(draft, core)
        elif ways := fits(draft.sink, core, _padded(core), draft.target.core_work):
            yield Candidate(core.name, partial(try_each, core=core, ways=ways, kind=_TileRegisters))


def _in_tiles_of_tiles(draft: Draft, core: Core, product: Product) -> bool:
    if not draft.do(TensorCore.of(core, product)):
        return False
    for axis in (product.m, product.n):
        draft.take_first(Upcast, axis, _TILES)
    draft.take_first(Local, product.n, _TILES)
    return True


def _padded(core: Core) -> Callable[[Product], Sizes]:
    """Whole tiles; an even number of them where that is little more."""

    def sizes(product: Product) -> Sizes:
        padded = []
        for axis, size in zip((product.m, product.n, product.k), core.dims, strict=True):
            one, two = upto(size_of(axis), size), upto(size_of(axis), size * _SIDE)
            padded.append(two if axis is not product.k and two <= _WIDER * size_of(axis) else one)
        return padded[0], padded[1], padded[2]

    return sizes


class _TileRegisters(CoreSchedule):
    """A schedule around tile registers."""

    def take(self) -> bool:
        """Whether every step that is needed could be taken."""
        if not self.pad() or not self.multiply():
            return False
        for axis in (self.m, self.n):
            self.side[axis] = self.draft.take_first(
                Upcast, axis, (_SIDE,), "tiles side by side share their operands"
            )
        self.block()
        if self.draft.cores:
            self.share()
            self.draft.cores = False
        self.order()
        return self.feed()

    def panel(self) -> int:
        """The bytes of a panel of the right operand over what is left of k."""
        return self.left(self.k) * _STEP * self.core.n * self.side[self.n]

    def block(self) -> None:
        """Blocks of k; where sums cannot be kept in the output, k stays whole."""
        steps = self.left(self.k)
        most = max(1, 2 * self.draft.target.caches[0] // 3 // (_STEP * self.core.n * self.side[self.n]))
        if steps > most:
            amount = divisor(steps, most)
            if 2 * amount >= most:
                reason = "a panel of the right operand stays in the first cache"
                self.do(Block, self.k, amount, reason)

    def share(self) -> None:
        """Pieces for cores: batches first, then rows and columns such that the cores end early; each piece stages anew."""
        target, pieces = self.draft.target, 1
        for axis in self.batches:
            size = size_of(axis)
            amount = divisor(size, target.cores // pieces) if size else 1
            if amount > 1 and self.do(Thread, axis, amount, "batches for cores"):
                pieces *= amount
        rows, columns = self.left(self.m), self.left(self.n)
        m, n, k = self.fit.padded
        if pieces >= target.workers or m * n * k < 2 * target.core_piece:
            return

        def time(cut: tuple[int, int]) -> int:
            count = cut[0] * cut[1] * pieces
            copied = (m // cut[0] + n // cut[1]) * k
            return -(-count // target.workers) * (
                m * n * k // (cut[0] * cut[1]) + copied * target.staged_products
            )

        most = min(target.cores // pieces, m * n * k // target.core_piece)
        cuts = [(a, b) for a in divisors(rows, most) for b in divisors(columns, most // a)]
        across, along = min(cuts, key=time)
        for axis, amount in ((self.m, across), (self.n, along)):
            if amount > 1:
                self.do(Thread, axis, amount, "pieces for cores")

    def order(self) -> None:
        """Rows in blocks whose panels stay in the second cache; columns outside of the rows of a block."""
        rows, columns = self.left(self.m), self.left(self.n)
        if rows == 1 or columns == 1:
            return
        target = self.draft.target
        room = min(target.caches[1] // 2, target.local_bytes - self.panel())
        most = max(1, room // (self.left(self.k) * _STEP * self.core.m * self.side[self.m]))
        block = rows if rows <= most else divisor(rows, most)
        if 1 < block < rows:
            reason = "a block of rows stays in the second cache"
            self.do(Split, self.m, block, reason)
        outer, inner = self.innermost()
        if outer is self.draft.innermost(self.m):
            self.draft.swap(outer, inner, "a panel of the right operand serves all rows of a block")

    def feed(self) -> bool:
        """Both operands, where the outer of both loops runs: what does not depend on it is copied further out."""
        at, why = next(iter(self.innermost()), None), "in tiles, as the core reads them"
        return self.stage(at, at, (why, why))
