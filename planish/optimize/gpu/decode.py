"""Few rows against a long matrix that is stored narrow (bytes, half bytes), by the tensor cores of warps.

A multiplication for each row and weight would take longer than memory takes to bring the weights: a core does up to eight rows at once.
Its left operand is the matrix, whose rows of terms a thread holds sixteen bytes at a time and widens in its registers, where the core wants
them: which terms a thread holds is its choice, as long as the few rows are read the same way (`run` of `tensor_core`; of half bytes, those
that a register holds lie `apart`, where its halves are). Warps share the terms of a sum, and their sums go through shared memory.

How the matrix gets to the registers is what is left to choose, and what the few rows ask for decides it (`planish.target.few_rows`):

| way | what it is for |
|---|---|
| straight | as much as there are registers for is under way; nothing else costs anything |
| through a ring, fetched by all | whole lines are read, and what is under way needs no registers |
| through a ring, fetched by each thread for itself | many columns share what is read of many rows, and nobody waits for anybody |
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import ceil, prod
from typing import Final, cast

from planish.actions.group import Group
from planish.actions.layouts import SWIZZLES
from planish.actions.spare import Spare
from planish.actions.stage import Stage
from planish.actions.tensor_core import TensorCore
from planish.actions.unroll import Unroll
from planish.actions.upcast import Upcast
from planish.optimize.core_schedule import CoreSchedule, Fit, divisors, slot_of, try_each, upto
from planish.optimize.draft import Draft, Kind
from planish.optimize.gpu.fit import fetching
from planish.optimize.gpu.joined import joined
from planish.optimize.gpu.thin import Thin, thin_of
from planish.target.few_rows import StoredRows
from planish.uop.nest import size_of
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.products import nearly
from planish.uop.tensor_cores import Core

_LITTLE: Final = 1.1
"""How much longer blocks may leave multiprocessors without work, for columns that share the rows: a share of the time, on any machine."""
_HALF: Final = 2
"""Bytes of half a register."""


def rows_by_cores(draft: Draft, view: Nest) -> bool:
    """Whether the kernel is such a product, and is done so."""
    few = draft.target.few_rows
    thin = thin_of(view, draft.target)
    if thin is None or thin.matrix.dtype.itemsize != 1:
        return False
    for core in draft.target.tensor_cores:
        if core.reads_memory or core.is_rough or core.inputs.itemsize != 2:
            continue
        start = draft.copy()
        if not thin.rows and not start.do(Spare(core.n), "one row of those that a core does"):
            continue
        rows = prod(map(size_of, thin.rows))
        way = next(
            (each for each in (few.of_parts if thin.packed > 1 else few.of_bytes) if rows <= each.rows), None
        )
        if way is None:
            return False
        for trial in (*joined(start, core), start):
            if try_each(trial, core, _fits(trial, core, thin), partial(_Rows, thin=thin, way=way)):
                draft.adopt(trial)
                return True
    return False


def _fits(draft: Draft, core: Core, thin: Thin) -> Iterator[Fit]:
    access, warps = draft.target.thread_bytes, draft.target.few_rows.warps[0]
    for product in nearly(draft.sink, core):
        m, n, k = (size_of(axis) for axis in (product.m, product.n, product.k))
        if len(product.reduce.src) > 2 or thin.matrix.src[0] not in product.a.toposort():
            continue
        if m > n > 1 and k % core.k == 0:
            per_thread = access // thin.matrix.dtype.itemsize * thin.packed
            run = _divisor(k // core.k, per_thread // core.lanes("b"))
            # accesses of half the bytes, if otherwise there would be few warps: terms that no power of two divides
            shorter = next((n for n in (run, run // 2) if n and k // core.k // n % warps == 0), run)
            yield Fit(product, (upto(m, core.m), upto(n, core.n), k), shorter)


def _divisor(size: int, wanted: int) -> int:
    """A power of two that divides a size, no greater than another one."""
    while wanted > 1 and size % wanted:
        wanted //= 2
    return max(wanted, 1)


class _Rows(CoreSchedule):
    """Warps that share a sum; each has tiles of columns below each other, and all rows."""

    def __init__(self, draft: Draft, core: Core, fit: Fit, thin: Thin, way: StoredRows) -> None:
        super().__init__(draft, core, fit)
        self.thin, self.way = thin, way

    def take(self) -> bool:
        run, processors = self.fit.groups, self.draft.target.workers
        tiles, terms = self.fit.padded[0] // self.core.m, self.fit.padded[2] // self.core.k
        columns, warps = self.shape(tiles, processors)
        if columns == 1 and self.way.own:  # nothing shares what is read of the rows but the lines themselves
            self.way = self.way._replace(own=False, rows_too=True)
        steps = max(n for n in range(1, self.way.steps + 1) if n == 1 or terms % (run * n * warps) == 0)
        return (
            self.pad()
            and self.draft.do(
                TensorCore.of(self.core, self.fit.product, run=run, apart=self.apart(run)),
                "a thread has terms that lie together",
            )
            and self.some(Unroll, self.k, steps * run, "what is asked for at once")
            and (columns == 1 or self.draft.take(Upcast, self.m, columns, "columns that share the rows"))
            and self.some(Upcast, self.n, self.left(self.n), "all rows")
            and self.some(Group, self.k, warps, "warps share a sum")
            and self.fetch()
        )

    def shape(self, tiles: int, processors: int) -> tuple[int, int]:
        """Tiles of columns of a warp, and warps that share a sum, for so many tiles and multiprocessors."""
        few = self.draft.target.few_rows
        sizes = sorted(divisors(tiles, self.way.columns), reverse=True)
        if self.way.buffers:
            enough = (n for n in sizes if tiles >= n * few.blocks * processors)
            return next(enough, 1), few.warps[tiles <= few.few_tiles * processors]
        # blocks run all at once, or there are several rounds of them: a few that come last take as long as all others did
        ways = [*((n, few.warps[0]) for n in sizes), (1, few.warps[1])]
        rounds = [tiles / (n * processors * (few.resident // warps)) for n, warps in ways]
        idle = [ceil(each) / each for each in rounds]
        return next(way for way, each in zip(ways, idle, strict=True) if each <= _LITTLE * min(idle))

    def apart(self, run: int) -> int:
        """How far apart terms are whose bits are where the halves of a register are: as many as half a word stores."""
        held = run * self.core.lanes("b")
        wanted = _HALF // self.thin.matrix.dtype.itemsize * self.thin.packed
        return wanted if self.thin.packed > 1 and 2 * wanted <= held else 1

    def fetch(self) -> bool:
        """Tiles of the matrix, and of the rows if they are to be, in the background: what is no box is read straight."""
        how = fetching(self.draft, self.k, 0, (self.way.buffers,))
        if not self.way.buffers or how.buffers != (self.way.buffers,):
            return True
        matrix, rows = cast("int", self.thin.matrix.src[0].arg), slot_of(self.fit.product.b)
        # between the rows of a tile: two rows of sixteen bytes for each of four threads are then in different banks
        gap = 0 if self.way.own else self.draft.target.line_bytes // 2 // self.thin.matrix.dtype.itemsize
        ring = Stage(matrix, how.at, self.way.buffers, pad=gap, own=self.way.own)
        fetched = self.draft.do(ring, "memory brings the next tiles of the matrix while these are used")
        if fetched and self.way.rows_too and rows is not None:
            swizzled = Stage(rows, how.at, self.way.buffers, swizzle=SWIZZLES[0])
            self.draft.do(swizzled, "and the rows with them, each line once")
        return True

    def some(self, kind: Kind, axis: UOp, wanted: int, reason: str) -> bool:
        """As much of an axis as divides it, up to a number."""
        amount = _divisor(self.draft.left(axis), wanted) if self.draft.left(axis) else 1
        return amount == 1 or self.draft.take(kind, axis, amount, reason)
