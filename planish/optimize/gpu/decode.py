"""Few rows against a long matrix that is stored narrow (bytes, half bytes), by the tensor cores of warps, straight from memory.

A multiplication for each row and weight would take longer than memory takes to bring the weights: a core does up to eight rows at once.
Its left operand is the matrix, whose rows of terms a thread reads sixteen bytes at a time and widens in its registers, where the core wants
them: which terms a thread holds is its choice, as long as the few rows are read the same way (`run` of `tensor_core`). Nothing goes through
shared memory but the sums of the warps, which share the terms.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from planish.actions.group import Group
from planish.actions.spare import Spare
from planish.actions.tensor_core import TensorCore
from planish.actions.unroll import Unroll
from planish.actions.upcast import Upcast
from planish.optimize.core_schedule import CoreSchedule, Fit, try_each, upto
from planish.optimize.draft import Draft
from planish.optimize.gpu.joined import joined
from planish.optimize.gpu.thin import Thin, thin_of
from planish.uop.nest import size_of
from planish.uop.nest.kernel import Nest
from planish.uop.products import Product, nearly
from planish.uop.tensor_cores import Core

_ACCESS: Final = 16
"""Bytes of the matrix that a thread reads at once."""
_MOST: Final = 16
"""Rows, at most: two tiles of a core side by side."""
_WARPS: Final = (4, 8, 2)
"""Warps that share a sum, the first for which there are equal parts."""
_AT_ONCE: Final = 16
"""Tiles of terms that a warp has asked for at once."""


def rows_by_cores(draft: Draft, view: Nest) -> bool:
    """Whether the kernel is such a product, and is done so."""
    found = thin_of(view)
    if found is None or found.matrix.dtype.itemsize != 1:
        return False
    for core in draft.target.tensor_cores:
        if core.reads_memory or core.is_rough or core.inputs.itemsize != 2:
            continue
        start = draft.copy()
        if not found.rows and not start.do(Spare(core.n), "one row of those that a core does"):
            continue
        for trial in (*joined(start, core), start):
            if try_each(trial, core, _fits(trial, core, found), _Rows):
                draft.adopt(trial)
                return True
    return False


def _fits(draft: Draft, core: Core, found: Thin) -> Iterator[Fit]:
    for product in nearly(draft.sink, core):
        m, n, k = (size_of(axis) for axis in (product.m, product.n, product.k))
        if len(product.reduce.src) > 2 or found.matrix.src[0] not in product.a.toposort():
            continue
        if m > n and 1 < n <= _MOST and k % core.k == 0:
            per_thread = _ACCESS // found.matrix.dtype.itemsize * found.packed
            yield Fit(product, (upto(m, core.m), upto(n, core.n), k), _run(core, product, per_thread))


def _run(core: Core, product: Product, per_thread: int) -> int:
    """Tiles of terms of which a thread has neighbours: as many as one access brings, if that divides them."""
    run = per_thread // core.lanes("b")
    while run > 1 and size_of(product.k) // core.k % run:
        run //= 2
    return run


class _Rows(CoreSchedule):
    """Warps that share a sum; each has tiles of columns below each other, and all rows."""

    def take(self) -> bool:
        run, what = self.fit.groups, "terms that lie next to each other in a thread"
        return (
            self.pad()
            and self.draft.do(TensorCore.of(self.core, self.fit.product, run=run), what)
            and self.unrolled(run)
            and (self.left(self.n) == 1 or self.draft.take(Upcast, self.n, self.left(self.n), "all rows"))
            and self.share()
        )

    def unrolled(self, run: int) -> bool:
        steps = next((n for n in (_AT_ONCE, _AT_ONCE // 2) if self.left(self.k) % max(n, run) == 0), run)
        steps = max(steps, run)
        return steps == 1 or self.draft.take(Unroll, self.k, steps, "what is asked for at once")

    def share(self) -> bool:
        self.draft.take_first(Group, self.k, _WARPS, "warps share a sum")
        return True
