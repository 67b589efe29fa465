"""Actions for GPUs: one template for each way in which a kernel walks memory.

1. **A tensor core**, if one fits; then tiles of tiles.
2. **Rows**: reductions along what lies next to each other, and what is computed of them (sums, softmax, normalisation). The threads of a
   block share a row: each takes four neighbours at a time, warps combine their values without memory, blocks through it once.
   Short rows share a block.
3. **Columns**: reductions across what lies next to each other. Neighbouring threads have neighbouring columns, so that they read
   together; the others of a block share the reduced axis.
4. **Everything else**: register tiles of four by four for contractions, four neighbours for the rest, and up to three axes
   for the threads of a block, the last first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from planish.optimize.contraction import broadcast_axis
from planish.optimize.draft import Draft
from planish.optimize.kernel_view import View, size_of
from planish.optimize.lanes import contiguous_reduced, vector_axes
from planish.optimize.tensor_cores import use_tensor_core
from planish.uop.actions import ActionKind
from planish.uop.node import UOp
from planish.uop.ops import Ops

_SHORT: Final = 64
"""Terms of a reduction that one thread does alone."""
_WIDE: Final = 4
"""Neighbours that one access moves: 16 bytes of 32-bit elements."""
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
_AMOUNTS: Final = (256, 128, 64, 32, 16, 8, 4, 3, 2)
_BLOCK_SIDE: Final = 16
"""Threads along one axis of a contraction: both operands are then shared."""
_COLUMNS: Final = 32
"""Neighbouring columns of a block: a warp reads 128 bytes together."""
_DEPTHS: Final = (32, 16, 8, 4, 2)
"""Threads that share a column."""


def for_gpu(draft: Draft, view: View) -> None:
    if use_tensor_core(draft) or _rows(draft, view) or _columns(draft, view):
        return
    for axis in vector_axes(view, every=True):
        inner = [r for r in view.reductions if axis in r.ranges]
        draft.take_first(ActionKind.UPCAST, axis, (4, 2))
        rows = broadcast_axis(view, axis, inner) if inner else None
        if rows is not None:
            draft.take_first(ActionKind.UPCAST, rows, (4, 2))
    _threads(draft, view, _BLOCK)


def _is_contraction(view: View) -> bool:
    """Whether sums read two operands, each of which varies along an output axis of its own: then tiles share what they read."""
    large = [r for r in view.outputs if size_of(r) >= _BLOCK_SIDE]
    for reduction in view.reductions:
        reads = view.inside(reduction)
        alone = [r for r in large if r in reduction.ranges and not all(r in place.ranges for place in reads)]
        if len(alone) > 1:
            return True
    return False


def _fitted(draft: Draft, axis: UOp, amount: int) -> bool:
    """Whether an axis divides by an amount, if need be because it is made longer by a little."""
    size = draft.left(axis)
    if not size or size % amount == 0:
        return bool(size)
    more = -size % amount
    return _MORE[1] * more <= _MORE[0] * size and draft.take(
        ActionKind.PADTO, axis, amount, "as much for every thread"
    )


def _rows(draft: Draft, view: View) -> bool:
    """Reductions along neighbours: a block for a row, or for a few short ones."""
    along = [contiguous_reduced(view, reduction) for reduction in view.reductions]
    if not along or None in along or view.scans or _is_contraction(view):
        return False
    reduced = list(dict.fromkeys(axis for axis in along if axis is not None))
    sizes = {size_of(axis) for axis in reduced}
    if len(sizes) != 1 or min(sizes) < _SHORT:
        return False
    (size,) = sizes
    wide = _WIDE if size % _WIDE == 0 else 1
    team = next((n for n in _TEAMS if size >= _EACH * wide * n), _TEAMS[-1])
    written = [
        r for r in view.outputs if size_of(r) == size and any(view.stride(p, r) == 1 for p in view.writes)
    ]
    if not all(_fitted(draft, axis, wide * team) for axis in (*reduced, *written)):
        return False
    for axis in reduced:
        if wide > 1:
            draft.take(ActionKind.UNROLL, axis, wide, "neighbours by one access")
        if not draft.take(ActionKind.GROUP, axis, team, "a row for a block"):
            return bool(draft.actions)
    for axis in written:
        if wide > 1:
            draft.take(ActionKind.UPCAST, axis, wide, "neighbours by one access")
        draft.take(ActionKind.LOCAL, axis, team)
    if team < _FILLED:
        for axis in reversed(view.outputs):
            if (
                axis not in written
                and draft.take_first(
                    ActionKind.LOCAL,
                    axis,
                    [n for n in (4, 2) if n * team <= _FILLED],
                    "rows that share a block",
                )
                > 1
            ):
                break
    return True


def _columns(draft: Draft, view: View) -> bool:
    """Reductions across neighbours: a warp of columns, and several threads to each."""
    if len(view.reductions) != 1 or view.rows or view.scans or _is_contraction(view):
        return False
    (reduction,) = view.reductions
    neighbours = [
        r
        for r in view.outputs
        if size_of(r) >= _COLUMNS and any(view.stride(p, r) == 1 for p in view.inside(reduction))
    ]
    axis = next((r for r in reversed(reduction.src[1:]) if r.op is Ops.RANGE and size_of(r) >= _SHORT), None)
    if not neighbours or axis is None or not _fitted(draft, neighbours[-1], _COLUMNS):
        return False
    if not draft.take(ActionKind.LOCAL, neighbours[-1], _COLUMNS, "neighbouring threads read together"):
        return False
    depth = next((n for n in _DEPTHS if draft.left(axis) >= _EACH * n and _fitted(draft, axis, n)), 1)
    if depth > 1:
        draft.take(ActionKind.GROUP, axis, depth, "threads that share a column")
    return True


def _threads(draft: Draft, view: View, most: int) -> None:
    """Up to three axes for the threads of a block, the last first."""
    left, used = most, 0
    side = _BLOCK_SIDE if view.reductions and len(view.outputs) > 1 else most
    for axis in reversed(view.outputs):
        if left < 2 or used == _BLOCK_AXES:
            return
        amounts = [n for n in _AMOUNTS if n <= min(left, side)]
        taken = _shared(draft, axis, amounts)
        used += taken > 1
        left //= taken


def _shared(draft: Draft, axis: UOp, amounts: Sequence[int]) -> int:
    """A part of an axis for the threads of a block: the most that wastes little, else a warp of a long one."""
    size = draft.left(axis)
    fair = [n for n in amounts if size and _MORE[1] * (-size % n) <= _MORE[0] * size]
    if size >= _COLUMNS and (not fair or fair[0] < _COLUMNS):
        fair = [n for n in (_COLUMNS, *fair) if n in amounts]
    for n in fair:
        if (size % n == 0 or draft.take(ActionKind.PADTO, axis, n)) and draft.take(ActionKind.LOCAL, axis, n):
            return n
    return 1
