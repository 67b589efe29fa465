"""One row against a matrix that lies across what is summed, with few columns: what a query makes of the values that it looks at.

Or sums alone: of channels, over the pixels of an image.
A row of the matrix is a few accesses of 16 bytes. As many threads read one together, the others of a block read the rows that follow, several
of them each before the first is needed; sums are combined at the end.
"""

from __future__ import annotations

from typing import Final, cast

from planish.actions.group import Group
from planish.actions.local import Local
from planish.actions.unroll import Unroll
from planish.actions.upcast import Upcast
from planish.dtypes import PtrDType
from planish.optimize.draft import Draft
from planish.optimize.gpu.fit import fitted
from planish.uop.nest import size_of
from planish.uop.nest.kernel import Nest
from planish.uop.ops import Ops

_BLOCKS: Final = (512, 256, 128)
"""Threads of a block that are tried: the most that all have rows to read."""


def sum_across(draft: Draft, view: Nest) -> bool:
    """A sum of rows of a matrix, or of what is made of them, each times a number."""
    if len(view.reductions) != 1 or view.rows or view.scans:
        return False
    (reduction,) = view.reductions
    summed = [r for r in reduction.src[1:] if r.op is Ops.RANGE]
    if len(summed) != 1 or not size_of(summed[0]):
        return False
    (along,) = summed
    reads = [place for place in view.reads_of(reduction) if place.src[0].op is Ops.DEFINE_GLOBAL]
    if not reads:
        return False
    sizes = {place.src[0]: cast("PtrDType", place.src[0].dtype).size for place in reads}
    matrix = max(reads, key=lambda place: sizes[place.src[0]])
    target, shares = draft.target, draft.target.shares
    wide = target.thread_bytes // matrix.dtype.itemsize
    column = next((r for r in view.outputs if view.stride(matrix, r) == 1), None)
    if column is None or wide < 2 or 2 * sizes[matrix.src[0]] < sum(sizes.values()):
        return False
    # every element of the matrix is for one result alone, and rows are those of a single access of some threads
    batch = 1
    for r in view.outputs:
        if r is not column and r not in matrix.ranges:
            return False
        batch *= 1 if r is column else size_of(r)
    if batch * size_of(along) * size_of(column) > sizes[matrix.src[0]]:
        return False  # heads that share it
    threads = size_of(column) // wide
    if (
        size_of(column) % wide
        or not 0 < threads <= target.warp
        or target.warp % threads
        or batch < shares.few_blocks
    ):
        return False
    for block in _BLOCKS:
        others, trial = block // threads, draft.copy()
        if size_of(along) >= shares.accesses * shares.rows_ahead * others and (
            fitted(trial, along, shares.rows_ahead * others)
            and trial.take(Upcast, column, wide, "neighbours by one access")
            and trial.take(Local, column, threads, "threads that read a row together")
            and trial.take(Unroll, along, shares.rows_ahead, "rows that are asked for at once")
            and trial.take(Group, along, others, "rows that follow, for the others of a block")
        ):
            draft.adopt(trial)
            return True
    return False
