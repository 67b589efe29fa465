"""Axes and amounts that fit each other: what all templates for GPUs ask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from planish.actions.local import Local
from planish.actions.pad_to import PadTo
from planish.dtypes import PtrDType
from planish.optimize.draft import Draft
from planish.uop.nest import OUTPUT, axes_of, name_of
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.ranges import kind_of

_MORE: Final = (1, 8)
"""How much longer an axis may become so that it divides: a share of its work, on any machine."""


def shared(draft: Draft, axis: UOp, amounts: Sequence[int]) -> int:
    """A part of an axis for the threads of a block: the most that wastes little, else what divides it, else a warp of a long one."""
    size = draft.left(axis)
    if not size and draft.outermost(axis) is not None:
        return _masked(draft, axis, amounts)
    fair = [n for n in amounts if size and is_little(-size % n, size)]
    warp = draft.target.warp
    if not fair or fair[0] < min(size, warp):
        least, most = min(size, warp) // 2, min(size, max(amounts, default=1))
        whole = [n for n in range(most, max(least, 1), -1) if size % n == 0]
        fair = [*whole, *((warp,) if size >= warp and warp in amounts else ()), *fair]
    for n in fair:
        trial = draft.copy()
        if (size % n == 0 or trial.take(PadTo, axis, n)) and trial.take(Local, axis, n):
            draft.adopt(trial)
            return n
    return 1


def _masked(draft: Draft, axis: UOp, amounts: Sequence[int]) -> int:
    """Threads for an axis whose size is told when the code runs: the last block leaves some idle."""
    for n in amounts[:1]:
        trial = draft.copy()
        if trial.take(PadTo, axis, n, "as much for every block") and trial.take(Local, axis, n):
            draft.adopt(trial)
            return n
    return 1


def is_little(more: int, size: int, most: tuple[int, int] = _MORE) -> bool:
    return most[1] * more <= most[0] * size


def fitted(draft: Draft, axis: UOp, amount: int, most: tuple[int, int] = _MORE) -> bool:
    """Whether an axis divides by an amount, if need be because it is made longer by a little."""
    size = draft.left(axis)
    if not size:  # none is left, or it is told when the code runs
        return draft.outermost(axis) is not None and draft.take(
            PadTo, axis, amount, "as much for every thread"
        )
    if size % amount == 0:
        return True
    return is_little(-size % amount, size, most) and draft.take(
        PadTo, axis, amount, "as much for every thread"
    )


class Fetching(NamedTuple):
    """The loop in which a block fetches tiles, and how many it may have under way or in use."""

    at: str | None
    buffers: tuple[int, ...]


def fetching(draft: Draft, summed: UOp, inner: int, buffers: tuple[int, ...]) -> Fetching:
    """Where a block fetches what it needs for some steps of a sum, of which `inner` loops are such steps.

    Steps that have no loop around them are all that it needs: it fetches once, inside of the loops that are blocks of the grid.
    """
    loops = draft.loops(summed)
    if len(loops) > inner:
        return Fetching(name_of(loops[0]), buffers)
    outputs = [r for r in axes_of(draft.sink) if kind_of(r) in OUTPUT]
    return Fetching(name_of(outputs[-1]) if outputs else None, (1,))


def at_once(draft: Draft, view: Nest) -> int:
    """Neighbours of the narrowest elements of parameters that one access moves."""
    places = [*view.writes, *(p for p in view.reads if p.src[0].op is Ops.DEFINE_GLOBAL)]
    widths = [
        max(draft.target.widths(place.src[0].dtype.base.scalar), default=1)
        for place in places
        if isinstance(place.src[0].dtype, PtrDType)
    ]
    return max(widths, default=1)
