"""Everything else: some neighbours for each thread, and up to three axes for the threads of a block, the last first."""

from __future__ import annotations

from collections.abc import Collection
from math import prod
from typing import Final

from planish.actions.local import Local
from planish.actions.upcast import Upcast
from planish.optimize.draft import Draft
from planish.optimize.gpu.fit import at_once, shared
from planish.optimize.lanes import vector_axes
from planish.uop.nest import closed_by, size_of
from planish.uop.nest.kernel import Nest
from planish.uop.nest.memory import local_bytes
from planish.uop.node import UOp
from planish.uop.ops import Ops

_AMOUNTS: Final = (256, 128, 64, 32, 16, 8, 4, 3, 2)
"""Threads along an axis that are tried."""

_FEW: Final = 8
"""Terms of a sum that every thread may make."""
_FAR: Final = 1 << 62
"""Where no step leads."""
_LOOKED_UP: Final = (128, 64, 32)
"""Threads of a row that an index chooses."""
_PIECES: Final = (8, 4, 2)
"""Accesses of each of them: none can begin before the index is there."""


def stream_elements(draft: Draft, view: Nest, apart: Collection[UOp] = (), most: int | None = None) -> None:
    """Neighbours for each thread, and threads for the last axes: as many as there is LOCAL memory for, if they keep rows.

    Axes that are told `apart` stay loops; a block has so many threads at `most`.
    """
    usual = draft.target.shares.block
    most = usual if most is None else most
    # whether threads have several neighbours, and how many threads a block has: the first that there is memory for
    for wide, block in (*((True, usual >> n) for n in range(4)), *((False, usual >> n) for n in range(9))):
        trial = draft.copy()
        _stream(trial, view, min(block, most), at_once(draft, view) if wide else 1, apart)
        if not view.rows or local_bytes(trial.sink, final=True) <= draft.target.local_bytes:
            draft.adopt(trial)
            return


def _stream(draft: Draft, view: Nest, block: int, most: int, apart: Collection[UOp]) -> None:
    for axis in vector_axes(view, every=True):
        if axis in apart:
            continue
        amounts = [n for n in (most, 4, 2) if 1 < n <= most]
        if draft.left(axis):
            draft.take_first(Upcast, axis, amounts, "neighbours by one access")
        else:  # a size that is told when the code runs may be a multiple of something
            any(draft.take(Upcast, axis, n, "neighbours by one access") for n in amounts)
    left, used = block // _looked_up(draft, view), 0
    for axis in _alone(draft, view, [axis for axis in _nearest(view) if axis not in apart]):
        if left < 2 or used == len(draft.target.block):
            return
        taken = shared(draft, axis, [n for n in _AMOUNTS if n <= left])
        used += taken > 1
        left //= taken


def _alone(draft: Draft, view: Nest, axes: list[UOp]) -> list[UOp]:
    """Of axes, those for which threads make no sum again that others make, if these are enough for all multiprocessors."""
    long = [each for each in view.reductions if prod(size_of(r) or _FEW + 1 for r in closed_by(each)) > _FEW]
    own = [axis for axis in axes if all(axis in each.ranges for each in long)]
    is_enough = prod(size_of(axis) or 1 for axis in own) >= draft.target.shares.block * draft.target.workers
    return own if is_enough else axes


def _nearest(view: Nest) -> list[UOp]:
    """The axes of the outputs, those first along which results lie closest: whatever the order of loops, neighbouring threads store together."""

    def step(axis: UOp) -> int:
        strides = [abs(stride) for place in view.writes if (stride := view.stride(place, axis))]
        return min(strides, default=_FAR)

    innermost_first = view.outputs[::-1]
    return sorted(innermost_first, key=step)


def _looked_up(draft: Draft, view: Nest) -> int:
    """Threads for rows that are looked up, each with several accesses; how many there are."""
    chosen = [
        place
        for place in view.reads
        if len(place.src) > 1 and any(n.op is Ops.INDEX for n in place.src[1].toposort())
    ]
    axis = next((r for r in reversed(view.outputs) if any(view.stride(p, r) == 1 for p in chosen)), None)
    if axis is None:
        return 1
    size = draft.left(axis)
    team = next((n for n in _LOOKED_UP if size % n == 0 and size >= 2 * n), 0)
    if not team or not draft.take(Local, axis, team, "a row that is looked up"):
        return 1
    draft.take_first(Upcast, axis, _PIECES, "accesses that wait for one index")
    return team
