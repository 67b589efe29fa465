"""Reductions across what lies next to each other.

Neighbouring threads have neighbouring columns, so that they read together; the others of a block share the reduced axis.
"""

from __future__ import annotations

from math import prod
from typing import Final

from planish.actions.group import Group
from planish.actions.local import Local
from planish.actions.upcast import Upcast
from planish.optimize.draft import Draft
from planish.optimize.gpu.fit import EACH, SHORT, WARP, at_once, fitted
from planish.optimize.gpu.products import is_product
from planish.uop.nest import size_of
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import Ops

_DEEP, _WIDE_DEEP = 32, 16
"""Threads that share a column, at most; where each has several columns, and so more to read, unless that leaves the GPU idle."""
_BUSY: Final = 512
"""Threads of each multiprocessor that keep memory busy."""
_SOME: Final = 8
"""Terms of a sum that threads share where they would else be too few for that."""
_LANES: Final = 64
"""Neighbouring columns of a block where there are not whole warps of them: whole sectors (eight words) are."""
_SECTOR: Final = 8
_FILLED: Final = 2048
"""Columns for each multiprocessor from which on each has a thread of its own: more threads to a column read no faster, and then meet
(the sum of 128 x 4096 x 4095 over its middle on an H200: 2534 us by one thread each, 3532 us by 32)."""
_WORD: Final = 4
"""Bytes that a thread reads of a row: a warp then reads whole lines."""


def share_columns(draft: Draft, view: Nest) -> bool:
    """Reductions across neighbours, of one loop: a warp of columns, and several threads to each."""
    reduction, *others = view.reductions or (None,)
    if reduction is None or view.rows or view.scans or is_product(view):
        return False
    if any(other.src[1:] != reduction.src[1:] for other in others):
        return False
    neighbours = [
        r
        for r in view.outputs
        if size_of(r) >= WARP
        and all(any(view.stride(p, r) == 1 for p in view.inside(each)) for each in view.reductions)
    ]
    if not neighbours:
        return False
    wide = max(at_once(draft, view) // _WORD, 1)  # a thread reads four bytes, a warp whole lines
    count = prod(size_of(r) or 1 for r in view.outputs) // wide
    is_idle = count < _BUSY * draft.target.workers
    terms = [r for r in reversed(reduction.src[1:]) if r.op is Ops.RANGE]
    axis = next((r for r in terms if r.vmax >= SHORT), None)
    if axis is None and is_idle:
        axis = max((r for r in terms if r.vmax >= _SOME), key=lambda r: r.vmax, default=None)
    if axis is None:
        return False
    lanes = _lanes(draft, neighbours[-1], wide)
    if not lanes:
        return False
    if wide > 1 and not draft.take(Upcast, neighbours[-1], wide, "neighbours by one access"):
        return False
    if not draft.take(Local, neighbours[-1], lanes, "neighbouring threads read together"):
        return False
    if count >= _FILLED * draft.target.workers:
        return True
    most = _DEEP if wide == 1 or count * _WIDE_DEEP < _BUSY * draft.target.workers else _WIDE_DEEP
    depths = range(min(most, draft.target.block_threads // lanes), 1, -1)
    depth = next((n for n in depths if _lasts(draft, axis, EACH * n) and fitted(draft, axis, n)), 1)
    return depth == 1 or draft.take(Group, axis, depth, "threads that share a column")


def _lanes(draft: Draft, axis: UOp, wide: int) -> int:
    """Neighbouring threads along columns: a warp, or else whole sectors of which columns have a multiple; 0 if neither fits."""
    size = draft.left(axis)
    if size % (wide * WARP) == 0 or size % (wide * _SECTOR):
        return WARP if fitted(draft, axis, wide * WARP) else 0
    return max(n for n in range(_SECTOR, _LANES + 1, _SECTOR) if size % (wide * n) == 0)


def _lasts(draft: Draft, axis: UOp, amount: int) -> bool:
    """Whether an axis is as long as that, or may be."""
    return (draft.left(axis) or axis.vmax) >= amount
