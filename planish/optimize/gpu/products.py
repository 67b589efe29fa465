"""Products: a tile of the result for a block, a tile of it in the registers of each thread.

What a block reads of both operands for some steps of the sum is fetched to shared memory together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from planish.actions.local import Local
from planish.actions.split import Split
from planish.actions.unroll import Unroll
from planish.actions.upcast import Upcast
from planish.optimize.draft import Draft
from planish.optimize.gpu.fit import fitted
from planish.uop.nest import size_of
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import Ops

_SIDE: Final = 16
"""Threads along each axis of a tile."""
_NEIGHBOURS: Final = 4
"""Columns of a tile that one thread has next to each other."""
_STEPS: Final = 16
"""Terms of a sum for which operands are fetched at once."""
_PRODUCTS: Final = ((8, 2), (4, 1))
"""The tile of a thread: rows, and groups of neighbouring columns; the larger if it leaves work for all multiprocessors."""


def is_product(view: Nest) -> bool:
    """Whether sums read two operands, each of which varies along an output axis of its own: then tiles share what they read."""
    large = [r for r in view.outputs if size_of(r) >= _SIDE]
    for reduction in view.reductions:
        reads = view.inside(reduction)
        alone = [r for r in large if r in reduction.ranges and not all(r in place.ranges for place in reads)]
        if len(alone) > 1:
            return True
    return False


def tile_product(draft: Draft, view: Nest) -> bool:
    """Tiles of a product of matrices, one or several."""
    if len(view.reductions) != 1 or view.rows or view.scans or not is_product(view):
        return False
    (reduction,) = view.reductions
    summed = [r for r in reduction.src[1:] if r.op is Ops.RANGE]
    columns = next(
        (r for r in reversed(view.outputs) if all(view.stride(p, r) == 1 for p in view.writes)), None
    )
    reads = [place for place in view.inside(reduction) if place.src[0].op is Ops.DEFINE_GLOBAL]
    right = [place for place in reads if columns is not None and columns in place.ranges]
    if columns is None or len(reads) != 2 or len(right) != 1 or not summed:
        return False
    left = next(place for place in reads if place is not right[0])
    rows = [r for r in view.outputs if r in left.ranges and r not in right[0].ranges]
    if not rows:
        return False
    row = max(rows, key=size_of)
    others = [size_of(r) for r in view.outputs if r is not row and r is not columns]
    for high, groups in _PRODUCTS:
        tile = _SIDE * high, _SIDE * _NEIGHBOURS * groups
        blocks = -(-size_of(row) // tile[0]) * -(-size_of(columns) // tile[1])
        for size in others:
            blocks *= size
        if (high, groups) == _PRODUCTS[-1] or blocks >= draft.target.workers:
            trial = draft.copy()
            if _tiled(trial, row, columns, summed[-1], (left, right[0]), high, groups):
                draft.adopt(trial)
                return True
    return False


def _tiled(
    draft: Draft, row: UOp, column: UOp, summed: UOp, operands: Sequence[UOp], high: int, groups: int
) -> bool:
    """A tile of threads, each with a tile of sums, and both operands in shared memory for some steps."""
    is_whole = (
        fitted(draft, column, _SIDE * _NEIGHBOURS * groups)
        and fitted(draft, row, _SIDE * high)
        and fitted(draft, summed, _STEPS)
    )
    done = (
        is_whole
        and draft.take(Upcast, column, _NEIGHBOURS, "neighbours by one access")
        and draft.take(Local, column, _SIDE)
        and (groups == 1 or draft.take(Upcast, column, groups, "columns of a thread"))
        and draft.take(Upcast, row, high, "rows of a thread")
        and draft.take(Local, row, _SIDE)
        and draft.take(Split, summed, _STEPS, "what is fetched at once")
        and draft.take(Unroll, summed, _NEIGHBOURS, inner=True)
    )
    loop = draft.outermost(summed)
    return bool(done) and all(
        draft.stage(place, loop, "a block fetches a tile together") for place in operands
    )
