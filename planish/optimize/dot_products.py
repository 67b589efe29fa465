"""Integer dot products in vector registers: the core multiplies pairs of 16-bit integers and adds them up.

The nest is that of any product of matrices (`contraction.py`): a register tile of rows and vectors, columns outside of rows, the panel
of the right operand staged for all rows; the rows of the left one are staged for a tile, or all of them for all panels where the second
cache holds them. Staging converts narrower integers and puts the pairs of the right operand side by side.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from planish.actions.block import Block
from planish.actions.overrun import Overrun
from planish.actions.thread import Thread
from planish.actions.upcast import Upcast
from planish.optimize.body import copying
from planish.optimize.core_schedule import CoreSchedule, Sizes, divisor, fits, try_each, upto
from planish.optimize.cores import CoreCut, best_cut
from planish.optimize.draft import Draft
from planish.optimize.templates import Candidate
from planish.optimize.tiles import Shape, best_tile
from planish.target import Target
from planish.uop.nest import size_of
from planish.uop.products import Product
from planish.uop.tensor_cores import Core


def with_dot_products(draft: Draft, core: Core) -> Iterator[Candidate]:
    """A candidate, if a kernel is such a product."""

    def sizes(product: Product) -> Sizes:
        shape = _shape(draft.target, core, product)
        width = 1 if shape is None else shape.vectors * core.n
        return size_of(product.m), upto(size_of(product.n), width), upto(size_of(product.k), core.k)

    panels = draft.target.panels
    ways = [
        fit
        for fit in fits(draft.sink, core, sizes, panels.dot_products)
        if size_of(fit.product.m) >= panels.dot_rows and _shape(draft.target, core, fit.product) is not None
    ]
    if ways:
        yield Candidate(core.name, partial(try_each, core=core, ways=ways, kind=_Vectors))


def _shape(target: Target, core: Core, product: Product) -> Shape | None:
    return best_tile(target, size_of(product.m), size_of(product.n), core.n)


class _Vectors(CoreSchedule):
    """A schedule around vectors of dot products."""

    def take(self) -> bool:
        shape = _shape(self.draft.target, self.core, self.fit.product)
        if shape is None or not self.pad() or not self.multiply():
            return False
        tile = f"a register tile of {shape.rows} rows of {shape.vectors} vectors"
        if shape.vectors > 1 and not self.do(Upcast, self.n, shape.vectors, tile):
            return False
        pieces = self.pieces(shape)
        rows = self.left(self.m)
        if rows % (shape.rows * pieces):
            self.do(Overrun, self.m, shape.rows * pieces, "rows in whole tiles")
        if shape.rows > 1 and not self.do(Upcast, self.m, shape.rows, tile):
            return False
        self.share(pieces)
        blocked = self.block(shape)
        inside = self.innermost()
        if len(inside) == 2 and inside[0] is self.draft.innermost(self.m):
            self.draft.swap(inside[0], inside[1], "all rows read a panel")
            inside = self.innermost()
        panel = "a panel of pairs that all rows read"
        if len(inside) == 2 and not blocked and not self.batches and self.rows_stay():
            return self.stage(inside[0], None, (panel, "rows, converted once for all panels"))
        why = panel, "rows, converted once for all columns of a panel"
        return self.stage(inside[0] if inside else None, inside[-1] if inside else None, why)

    def rows_stay(self) -> bool:
        """Whether all rows, as the core reads them, stay in the second cache beside the panels."""
        m, _, k = self.fit.padded
        some, of_all = self.draft.target.panels.dot_part
        return m * k * self.core.inputs.itemsize * of_all <= self.draft.target.caches[1] * some

    def pieces(self, shape: Shape) -> int:
        """Into how many pieces rows are cut for cores; columns and batches are chosen by `share`."""
        m, n, k = self.fit.padded
        self.cut: CoreCut | None = None
        if self.draft.cores:
            cuts = [
                *(CoreCut(batch, size_of(batch)) for batch in self.batches if size_of(batch)),
                CoreCut(self.n, self.left(self.n)),
                CoreCut(
                    self.m, upto(m, shape.rows) // shape.rows, copying(self.draft.target, k * n), is_free=True
                ),
            ]
            whole = m * n * k
            for batch in self.batches:
                whole *= max(size_of(batch), 1)
            self.cut = best_cut(self.draft.target, whole, cuts)
            self.draft.cores = False
        return self.cut.pieces if self.cut is not None and self.cut.axis is self.m else 1

    def share(self, pieces: int) -> None:
        if self.cut is not None:
            reason = "equal work for the cores, little of it twice"
            self.do(Thread, self.cut.axis, self.cut.pieces, reason)

    def block(self, shape: Shape) -> bool:
        """Blocks of k, if a panel of all of it would not stay in the second cache; whether there are."""
        step = shape.vectors * self.core.n * self.core.k * self.core.inputs.itemsize
        some, of_all = self.draft.target.panels.part
        most = self.draft.target.caches[1] * some // of_all // step
        steps = self.left(self.k)
        if steps > most and 4 * (amount := divisor(steps, most)) >= most:
            return self.do(Block, self.k, amount, "a panel stays in the second cache")
        return False
