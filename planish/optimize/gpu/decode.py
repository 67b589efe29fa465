"""Few rows against a long matrix that is stored narrow (bytes, half bytes), by the tensor cores of warps, straight from memory.

A multiplication for each row and weight would take longer than memory takes to bring the weights: a core does up to eight rows at once.
Its left operand is the matrix, whose rows of terms a thread reads sixteen bytes at a time and widens in its registers, where the core wants
them: which terms a thread holds is its choice, as long as the few rows are read the same way (`run` of `tensor_core`). Nothing goes through
shared memory but the sums of the warps, which share the terms.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import prod
from typing import Final, NamedTuple

from planish.actions.group import Group
from planish.actions.spare import Spare
from planish.actions.tensor_core import TensorCore
from planish.actions.unroll import Unroll
from planish.actions.upcast import Upcast
from planish.optimize.core_schedule import CoreSchedule, Fit, try_each, upto
from planish.optimize.draft import Draft, Kind
from planish.optimize.gpu.joined import joined
from planish.optimize.gpu.thin import Thin, thin_of
from planish.uop.nest import size_of
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.products import nearly
from planish.uop.tensor_cores import Core


class _Way(NamedTuple):
    """How many rows something is for, at most, and how a warp goes about it."""

    rows: int
    access: int
    """Bytes of the matrix that a thread reads at once."""
    tiles: int
    """Tiles of terms that are asked for at once."""
    columns: int
    """Tiles of columns of a warp, which share what is read of the rows."""
    warps: int
    """Warps that share a sum."""


_BYTES: Final = (_Way(2, 16, 8, 1, 8), _Way(4, 16, 16, 1, 4), _Way(8, 16, 8, 1, 8), _Way(16, 16, 8, 1, 4))
_PARTS_OF_BYTES: Final = (_Way(4, 16, 16, 1, 4), _Way(8, 16, 8, 2, 4), _Way(16, 8, 4, 2, 4))
"""The fastest as timed on an H200, bf16, 8 and 4 bits: the more rows there are, the more is read of them for each byte of the matrix."""


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
        rows = prod(map(size_of, found.rows))
        way = next(
            (each for each in (_PARTS_OF_BYTES if found.packed > 1 else _BYTES) if rows <= each.rows), None
        )
        if way is None:
            return False
        for trial in (*joined(start, core), start):
            if try_each(trial, core, _fits(trial, core, found, way), partial(_Rows, way=way)):
                draft.adopt(trial)
                return True
    return False


def _fits(draft: Draft, core: Core, found: Thin, way: _Way) -> Iterator[Fit]:
    for product in nearly(draft.sink, core):
        m, n, k = (size_of(axis) for axis in (product.m, product.n, product.k))
        if len(product.reduce.src) > 2 or found.matrix.src[0] not in product.a.toposort():
            continue
        if m > n > 1 and k % core.k == 0:
            per_thread = way.access // found.matrix.dtype.itemsize * found.packed
            run = _divisor(k // core.k, per_thread // core.lanes("b"))
            yield Fit(product, (upto(m, core.m), upto(n, core.n), k), run)


def _divisor(size: int, wanted: int) -> int:
    """A power of two that divides a size, no greater than another one."""
    while wanted > 1 and size % wanted:
        wanted //= 2
    return max(wanted, 1)


class _Rows(CoreSchedule):
    """Warps that share a sum; each has tiles of columns below each other, and all rows."""

    def __init__(self, draft: Draft, core: Core, fit: Fit, way: _Way) -> None:
        super().__init__(draft, core, fit)
        self.way = way

    def take(self) -> bool:
        run = self.fit.groups
        return (
            self.pad()
            and self.draft.do(
                TensorCore.of(self.core, self.fit.product, run=run), "a thread has terms that lie together"
            )
            and self.some(Unroll, self.k, max(self.way.tiles, run), "what is asked for at once")
            and self.some(Upcast, self.m, self.way.columns, "columns that share the rows")
            and self.some(Upcast, self.n, self.left(self.n), "all rows")
            and self.some(Group, self.k, self.way.warps, "warps share a sum")
        )

    def some(self, kind: Kind, axis: UOp, wanted: int, reason: str) -> bool:
        """As much of an axis as divides it, up to a number."""
        amount = _divisor(self.draft.left(axis), wanted) if self.draft.left(axis) else 1
        return amount == 1 or self.draft.take(kind, axis, amount, reason)
