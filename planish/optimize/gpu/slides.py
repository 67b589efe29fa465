"""Windows that no two results share anything but memory for: pooling, and convolutions of each channel by itself.

Neighbouring pixels read most of the same elements. A thread does a few of them, its taps written out, so that what they share is read
once and is in registers, weights too; otherwise it is a kernel like any other that is streamed.
"""

from __future__ import annotations

from math import prod
from typing import Final

from planish.actions.unroll import Unroll
from planish.actions.upcast import Upcast
from planish.optimize.draft import Draft
from planish.optimize.gpu.stream import stream_elements
from planish.optimize.windows import WindowSizes, window_of
from planish.uop.nest import size_of
from planish.uop.nest.kernel import Nest

_TAPS: Final = 16
"""Taps that are written out, at most; of more only the last row."""
_PIXELS: Final = (4, 2)
"""Pixels of a thread."""


def slide(draft: Draft, view: Nest) -> bool:
    """Some neighbouring pixels for each thread, with all of their taps."""
    window = window_of(view)
    if window is None or window.channels or not window.reduced:
        return False
    taps = list(window.reduced)
    written_out = taps if prod(map(size_of, taps)) <= _TAPS else taps[-1:]
    for tap in written_out:
        if size_of(tap) > _TAPS or not draft.take(
            Unroll, tap, size_of(tap), "taps that share what they read"
        ):
            return False
    moving = [r for r in window.pixels if r in WindowSizes(view, window, 1).pairs]
    if moving and all(view.stride(window.place, r) != 1 for r in moving):
        draft.take_first(Upcast, moving[-1], _PIXELS, "pixels that share what they read")
    stream_elements(draft, view)
    return True
