"""Windows that no two results share anything but memory for: pooling, and convolutions of each channel by itself.

Neighbouring pixels read most of the same elements. A thread does several of them, a row of taps written out, so that what they share is
read, and widened, once and is in registers, weights too. Of channels that lie together it has four bytes: a warp still reads whole lines, and
registers are few enough for many warps, which is what hides the time that memory takes. A block has rows of pixels one below the other,
whose windows overlap: what they share comes from the first cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from planish.actions.local import Local
from planish.actions.pad_to import PadTo
from planish.actions.unroll import Unroll
from planish.actions.upcast import Upcast
from planish.optimize.draft import Draft
from planish.optimize.gpu.fit import is_little
from planish.optimize.gpu.stream import stream_elements
from planish.optimize.lanes import vector_axes
from planish.optimize.windows import Window, WindowSizes, window_of
from planish.uop.nest import size_of
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp

_TAPS: Final = 16
"""Taps of a row, at most."""
_PIXELS: Final = (8, 7, 6, 5, 4, 3, 2)
"""Pixels of a thread."""
_WORD: Final = 4
"""Bytes of channels that a thread has."""
_THREADS: Final = 256
"""Threads of a block, and those that a multiprocessor needs to be busy: with fewer, a thread has fewer pixels."""
_LANES: Final = 64
"""Neighbouring threads along channels, at most."""
_SECTOR: Final = 8
"""Threads whose words memory brings together."""
_ROWS: Final = 8
"""Rows of pixels of a block, at most."""


def slide(draft: Draft, view: Nest) -> bool:
    """Some neighbouring pixels for each thread, with all of their taps."""
    window = window_of(view)
    if window is None or window.channels or not window.reduced:
        return False
    *_, tap = (
        window.reduced
    )  # rows of them are a loop: what is added to sums of registers is multiplied by the same instruction
    if size_of(tap) > _TAPS or not draft.take(Unroll, tap, size_of(tap), "taps that share what they read"):
        return False
    moving = [r for r in window.pixels if r in WindowSizes(view, window, 1).pairs]
    together = [axis for axis in vector_axes(view, every=True) if axis not in moving]
    if moving and together and all(view.stride(window.place, r) != 1 for r in moving):
        _tile(draft, view, window, moving, together[0])
    else:
        stream_elements(draft, view)
    return True


def _tile(draft: Draft, view: Nest, window: Window, moving: Sequence[UOp], channels: UOp) -> None:
    """Pixels and a word of channels for each thread; rows of pixels, and channels, for a block."""
    wide = max(_WORD // window.place.src[0].dtype.base.itemsize, 1)
    results = prod(map(size_of, view.outputs))
    if wide > 1:
        wide = draft.take_first(Upcast, channels, (wide, 2), "channels by one access")
    enough = results // (wide * draft.target.workers * _THREADS)
    *above, last = moving
    _part(draft, Upcast, last, [n for n in _PIXELS if n <= enough], "pixels that share what they read")
    lanes = draft.left(channels)
    across = [n for n in range(min(lanes, _LANES), 1, -1) if lanes % n == 0]
    across.sort(key=lambda n: n % _SECTOR != 0)
    left = _THREADS // _part(draft, Local, channels, [*across[:1], _SECTOR * 4], "channels that lie together")
    for axis in (
        *reversed(above),
        last,
        *(r for r in reversed(view.outputs) if r not in (*moving, channels)),
    ):
        most = min(left, _ROWS) if axis in above else left
        left //= _part(draft, Local, axis, range(most, 1, -1), "pixels that read the same")


def _part(draft: Draft, kind: type[Local] | type[Upcast], axis: UOp, amounts: Sequence[int], why: str) -> int:
    """A part of an axis: the most that divides it, else the most that leaves little idle; how much it is."""
    size = draft.left(axis)
    fair = [n for n in amounts if size % n == 0]
    if not fair or fair[0] * 2 < min(size, amounts[0]):
        fair += [n for n in amounts if n < size and is_little(-size % n, size)]
    for n in fair:
        trial = draft.copy()
        if (size % n == 0 or trial.take(PadTo, axis, n)) and trial.take(kind, axis, n, why):
            draft.adopt(trial)
            return n
    return 1
