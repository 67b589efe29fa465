"""Actions for GPUs: one template for each way in which a kernel walks memory.

1. **A tensor core**, if one fits; then tiles of tiles.
2. **Rows**: reductions along what lies next to each other, and what is computed of them (sums, softmax, normalisation). The threads of a
   block share a row: each takes some neighbours at a time, warps combine their values without memory, blocks through it once.
   Short rows share a block.
3. **Columns**: reductions across what lies next to each other. Neighbouring threads have neighbouring columns, so that they read
   together; the others of a block share the reduced axis.
4. **Products**: a tile of the result for a block, a tile of it in the registers of each thread; what a block reads of both operands
   for some steps of the sum is fetched to shared memory together.
5. **Turned copies**: what is read along one axis and written along another goes through a tile of shared memory.
6. **Everything else**: some neighbours for each thread, and up to three axes for the threads of a block, the last first.

Every template is tried as a whole: where some action does not fit, the next one has its turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from planish.actions.group import Group
from planish.actions.local import Local
from planish.actions.pad_to import PadTo
from planish.actions.split import Split
from planish.actions.unroll import Unroll
from planish.actions.upcast import Upcast
from planish.dtypes import PtrDType
from planish.optimize.draft import Draft
from planish.optimize.lanes import contiguous_reduced, vector_axes
from planish.optimize.tensor_cores import use_tensor_core
from planish.uop.nest import size_of
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import Ops

_SHORT: Final = 64
"""Terms of a reduction that one thread does alone."""
_EACH: Final = 2
"""Accesses of a thread to its row, at least: the more threads a row has, the more of it is under way at once."""
_TEAMS: Final = (1024, 512, 256, 128, 64, 32)
"""Threads that share a reduction: whole warps, since each takes as long as its slowest thread."""
_BLOCK: Final = 256
"""Threads of a block."""
_FILLED: Final = 128
"""Threads of a block that short rows share."""
_BLOCK_AXES: Final = 3
_MORE: Final = (1, 8)
"""How much longer an axis may become so that it divides."""
_SHORT_MORE: Final = (1, 1)
"""The same for rows that a warp shares: idle lanes still cost less than a thread that does a row alone."""
_AMOUNTS: Final = (256, 128, 64, 32, 16, 8, 4, 3, 2)
_COLUMNS: Final = 32
"""Neighbouring columns of a block: a warp reads 128 bytes together."""
_DEPTHS: Final = (32, 16, 8, 4, 2)
"""Threads that share a column."""
_SIDE: Final = 16
"""Threads along each axis of a tile."""
_NEIGHBOURS: Final = 4
"""Columns of a tile that one thread has next to each other."""
_STEPS: Final = 16
"""Terms of a sum for which operands are fetched at once."""
_PRODUCTS: Final = ((8, 2), (4, 1))
"""The tile of a thread: rows, and groups of neighbouring columns; the larger if it leaves work for all multiprocessors."""
_TURNED: Final = 4
"""Elements along each axis of a turned copy that a thread has."""


def for_gpu(draft: Draft, view: Nest) -> None:
    if use_tensor_core(draft):
        return
    for template in (_rows, _columns, _product, _turned):
        trial = draft.copy()
        if template(trial, view):
            draft.adopt(trial)
            return
    _elementwise(draft, view)


# -- rows and columns ------------------------------------------------------------------------------------------------


def _rows(draft: Draft, view: Nest) -> bool:
    """Reductions along neighbours: a block for a row, or for a few short ones."""
    along = [contiguous_reduced(view, reduction) for reduction in view.reductions]
    if not along or None in along or view.scans or _is_product(view):
        return False
    reduced = list(dict.fromkeys(axis for axis in along if axis is not None))
    sizes = {size_of(axis) for axis in reduced}
    if len(sizes) != 1 or min(sizes) < _SHORT:
        return False
    (size,) = sizes
    wide = next(n for n in (_at_once(draft, view), 4, 2, 1) if size % n == 0)
    team = next(
        (n for n in _TEAMS if size >= _EACH * wide * n and _is_little(-size % (wide * n), size)), _TEAMS[-1]
    )
    written = [
        r
        for r in view.outputs
        if size_of(r) == size
        and all(any(view.stride(p, r) == 1 for p in each) for each in (view.writes, view.reads))
    ]
    if not all(_fitted(draft, axis, wide * team, _SHORT_MORE) for axis in (*reduced, *written)):
        return False
    for axis in reduced:
        if wide > 1 and not draft.take(Unroll, axis, wide, "neighbours by one access"):
            return False
        if not draft.take(Group, axis, team, "a row for a block"):
            return False
    for axis in written:
        if wide > 1 and not draft.take(Upcast, axis, wide, "neighbours by one access"):
            return False
        if not draft.take(Local, axis, team):
            return False
    several = [n for n in (4, 2) if n * team <= _FILLED]
    for axis in reversed(view.outputs):
        if axis not in written and draft.take_first(Local, axis, several, "rows that share a block") > 1:
            break
    return True


def _columns(draft: Draft, view: Nest) -> bool:
    """Reductions across neighbours: a warp of columns, and several threads to each."""
    if len(view.reductions) != 1 or view.rows or view.scans or _is_product(view):
        return False
    (reduction,) = view.reductions
    neighbours = [
        r
        for r in view.outputs
        if size_of(r) >= _COLUMNS and any(view.stride(p, r) == 1 for p in view.inside(reduction))
    ]
    axis = next((r for r in reversed(reduction.src[1:]) if r.op is Ops.RANGE and size_of(r) >= _SHORT), None)
    if not neighbours or axis is None:
        return False
    wide = max(_at_once(draft, view) // _NEIGHBOURS, 1)  # a thread reads four bytes, a warp whole lines
    if not _fitted(draft, neighbours[-1], wide * _COLUMNS):
        return False
    if wide > 1 and not draft.take(Upcast, neighbours[-1], wide, "neighbours by one access"):
        return False
    if not draft.take(Local, neighbours[-1], _COLUMNS, "neighbouring threads read together"):
        return False
    depth = next((n for n in _DEPTHS if draft.left(axis) >= _EACH * n and _fitted(draft, axis, n)), 1)
    return depth == 1 or draft.take(Group, axis, depth, "threads that share a column")


# -- tiles -----------------------------------------------------------------------------------------------------------


def _is_product(view: Nest) -> bool:
    """Whether sums read two operands, each of which varies along an output axis of its own: then tiles share what they read."""
    large = [r for r in view.outputs if size_of(r) >= _SIDE]
    for reduction in view.reductions:
        reads = view.inside(reduction)
        alone = [r for r in large if r in reduction.ranges and not all(r in place.ranges for place in reads)]
        if len(alone) > 1:
            return True
    return False


def _product(draft: Draft, view: Nest) -> bool:
    """Tiles of a product of matrices, one or several."""
    if len(view.reductions) != 1 or view.rows or view.scans or not _is_product(view):
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
    fitted = (
        _fitted(draft, column, _SIDE * _NEIGHBOURS * groups)
        and _fitted(draft, row, _SIDE * high)
        and _fitted(draft, summed, _STEPS)
    )
    done = (
        fitted
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


def _turned(draft: Draft, view: Nest) -> bool:
    """Copies that read along one axis and write along another."""
    if view.reductions or view.scans or view.rows or len(view.outputs) < 2:
        return False
    written = next(
        (r for r in reversed(view.outputs) if all(view.stride(p, r) == 1 for p in view.writes)), None
    )
    if written is None:
        return False
    for place in view.reads:
        read = next((r for r in view.outputs if r is not written and view.stride(place, r) == 1), None)
        if read is None or view.stride(place, written) in {0, 1} or place.src[0].op is not Ops.DEFINE_GLOBAL:
            continue
        for axis in (written, read):
            if not (
                _fitted(draft, axis, _SIDE * _TURNED)
                and draft.take(Upcast, axis, _TURNED, "neighbours by one access")
                and draft.take(Local, axis, _SIDE)
            ):
                return False
        # the innermost loop that is left: outside of it are blocks of the grid
        loop = next((each for r in reversed(view.outputs) if (each := draft.outermost(r)) is not None), None)
        return draft.stage(place, loop, "read and written together, each along its own axis")
    return False


# -- the rest --------------------------------------------------------------------------------------------------------


def _elementwise(draft: Draft, view: Nest) -> None:
    """Neighbours for each thread, and threads for the last axes."""
    at_once = _at_once(draft, view)
    for axis in vector_axes(view, every=True):
        draft.take_first(
            Upcast, axis, [n for n in (at_once, 4, 2) if n <= at_once], "neighbours by one access"
        )
    left, used = _BLOCK, 0
    for axis in reversed(view.outputs):
        if left < 2 or used == _BLOCK_AXES:
            return
        taken = _shared(draft, axis, [n for n in _AMOUNTS if n <= left])
        used += taken > 1
        left //= taken


def _shared(draft: Draft, axis: UOp, amounts: Sequence[int]) -> int:
    """A part of an axis for the threads of a block: the most that wastes little, else a warp of a long one."""
    size = draft.left(axis)
    fair = [n for n in amounts if size and _is_little(-size % n, size)]
    if size >= _COLUMNS and (not fair or fair[0] < _COLUMNS):
        fair = [n for n in (_COLUMNS, *fair) if n in amounts]
    for n in fair:
        trial = draft.copy()
        if (size % n == 0 or trial.take(PadTo, axis, n)) and trial.take(Local, axis, n):
            draft.adopt(trial)
            return n
    return 1


def _is_little(more: int, size: int, most: tuple[int, int] = _MORE) -> bool:
    return most[1] * more <= most[0] * size


def _fitted(draft: Draft, axis: UOp, amount: int, most: tuple[int, int] = _MORE) -> bool:
    """Whether an axis divides by an amount, if need be because it is made longer by a little."""
    size = draft.left(axis)
    if not size or size % amount == 0:
        return bool(size)
    return _is_little(-size % amount, size, most) and draft.take(
        PadTo, axis, amount, "as much for every thread"
    )


def _at_once(draft: Draft, view: Nest) -> int:
    """Neighbours of the narrowest elements of parameters that one access moves."""
    places = [*view.writes, *(p for p in view.reads if p.src[0].op is Ops.DEFINE_GLOBAL)]
    widths = [
        max(draft.target.widths(place.src[0].dtype.base.scalar), default=1)
        for place in places
        if isinstance(place.src[0].dtype, PtrDType)
    ]
    return max(widths, default=1)
