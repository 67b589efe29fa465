"""Everything else: some neighbours for each thread, and up to three axes for the threads of a block, the last first."""

from __future__ import annotations

from typing import Final

from planish.actions.upcast import Upcast
from planish.optimize.draft import Draft
from planish.optimize.gpu.fit import at_once, shared
from planish.optimize.lanes import vector_axes
from planish.uop.nest.kernel import Nest

_BLOCK: Final = 256
"""Threads of a block."""
_BLOCK_AXES: Final = 3
_AMOUNTS: Final = (256, 128, 64, 32, 16, 8, 4, 3, 2)


def stream_elements(draft: Draft, view: Nest) -> None:
    """Neighbours for each thread, and threads for the last axes."""
    most = at_once(draft, view)
    for axis in vector_axes(view, every=True):
        draft.take_first(Upcast, axis, [n for n in (most, 4, 2) if n <= most], "neighbours by one access")
    left, used = _BLOCK, 0
    for axis in reversed(view.outputs):
        if left < 2 or used == _BLOCK_AXES:
            return
        taken = shared(draft, axis, [n for n in _AMOUNTS if n <= left])
        used += taken > 1
        left //= taken
