"""Actions for GPUs.

1. **A tensor core**, if one fits; then tiles of tiles.
2. **GROUP**, if there are few outputs and a long reduction: its elements go to the threads of a block.
3. **Register tiles** of four by four for contractions, four neighbours for the rest.
4. **LOCAL**, up to three axes, the last first: the threads of a block.
"""

from __future__ import annotations

from math import prod
from typing import Final

from planish.actions.group import Group
from planish.actions.local import Local
from planish.actions.pad_to import PadTo
from planish.actions.upcast import Upcast
from planish.optimize.contraction import broadcast_axis
from planish.optimize.draft import Draft
from planish.optimize.kernel_view import View
from planish.optimize.lanes import vector_axes
from planish.optimize.tensor_cores import use_tensor_core
from planish.uop.nest import size_of
from planish.uop.ops import Ops

_LONG: Final = 256
"""A reduction that many threads may share."""
_FEW: Final = 2048
"""Outputs that do not fill a GPU."""
_BLOCK: Final = 256
"""Threads of a block."""
_BLOCK_AXES: Final = 3
_SHARED: Final = (256, 128, 64, 32)
"""Threads that share a reduction: warps, since each takes as long as its slowest thread."""
_MORE: Final = (1, 8)
"""Terms that may be added to a reduction so that it divides; the smallest number of threads never adds more to a long one."""
_AMOUNTS: Final = (256, 128, 64, 32, 16, 8, 4, 3, 2)
_BLOCK_SIDE: Final = 16
"""Threads along one axis of a contraction: both operands are then shared."""


def for_gpu(draft: Draft, view: View) -> None:
    if use_tensor_core(draft):
        return
    outputs = prod(r.vmax + 1 for r in view.outputs)
    if outputs <= _FEW and _group(draft, view):
        return
    for axis in vector_axes(view, every=True):
        inner = [r for r in view.reductions if axis in r.ranges]
        draft.take_first(Upcast, axis, (4, 2))
        rows = broadcast_axis(view, axis, inner) if inner else None
        if rows is not None:
            draft.take_first(Upcast, rows, (4, 2))
    _threads(draft, view, _BLOCK)


def _group(draft: Draft, view: View) -> bool:
    """A long reduction shared by the threads of a block."""
    done = False
    for reduction in view.reductions:
        axis = next(
            (r for r in reversed(reduction.src[1:]) if r.op is Ops.RANGE and size_of(r) >= _LONG), None
        )
        if axis is not None and not view.rows:
            size = draft.left(axis)
            if size and all(size % n for n in _SHARED):
                padded = next(n for n in _SHARED if _MORE[1] * (-size % n) <= _MORE[0] * size)
                draft.take(PadTo, axis, padded, "as many terms for every thread")
            done = draft.take_first(Group, axis, _SHARED) > 1 or done
    return done


def _threads(draft: Draft, view: View, most: int) -> None:
    left = most
    used = 0
    side = _BLOCK_SIDE if view.reductions and len(view.outputs) > 1 else most
    for axis in reversed(view.outputs):
        if left < 2 or used == _BLOCK_AXES:
            return
        amounts = [n for n in _AMOUNTS if n <= min(left, side)]
        size = draft.left(axis)
        if (
            all(size == 0 or size % n for n in amounts if n >= _BLOCK_SIDE)
            and axis.vmax + 1 >= 2 * amounts[0]
        ):
            draft.take(PadTo, axis, amounts[0])
        taken = draft.take_first(Local, axis, amounts)
        used += taken > 1
        left //= taken
