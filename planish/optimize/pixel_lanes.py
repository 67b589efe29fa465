"""Pixels in lanes: the nest of a convolution without a vector of channels (depthwise, few channels), and of pooling.

Vectors along the pixels that are stored together, and several rows or channels, which share what is loaded. The image is not
copied: a masked load costs no more than a copy.
"""

from __future__ import annotations

from typing import Final

from planish.optimize.draft import Draft
from planish.optimize.kernel_view import View, size_of
from planish.optimize.lanes import lanes_along
from planish.optimize.loops import Loops
from planish.optimize.windows import UNROLLED_TAPS, Sizes, Window
from planish.uop.actions import ActionKind
from planish.uop.node import UOp

_MOST_ROWS: Final = 8
_MOST_PHASES: Final = 4


def pixels_in_lanes(draft: Draft, view: View, window: Window) -> bool:
    """The nest with pixels in lanes; false, and nothing done, if the result is not contiguous along pixels."""
    target = draft.target
    apart = _phases(view, window)
    pixel = next(
        (r for r in reversed((*window.pixels, *window.shared)) if view.stride(view.writes[0], r) == apart),
        None,
    )
    if pixel is None or view.stride(window.image, pixel) is None:
        return False
    lanes = lanes_along(target, view, pixel)
    size = size_of(pixel)
    if lanes < 2 or size < 4:
        return False
    loops = Loops(draft)
    width = lanes if size > lanes // 2 else max(4, 1 << (size - 1).bit_length())
    padded = size % width != 0
    if padded and not (
        target.masked and loops.take(ActionKind.PADTO, pixel, width, "whole vectors of pixels")
    ):
        return False
    if not loops.take(ActionKind.UPCAST, pixel, width, "pixels in lanes"):
        return False
    if apart > 1 and window.weights is not None:
        loops.stage(None, window.weights, "taps that a phase does not have are zeros")
    _rows_in_registers(loops, window, pixel, target.registers)
    for row, tap in Sizes(view, window, lanes).pairs.items():
        # along the lanes neighbouring taps are other vectors; along the rows the same ones
        if row is not pixel and loops.draft.upcast.get(row) and 1 < size_of(tap) <= UNROLLED_TAPS:
            loops.take(ActionKind.UNROLL, tap, 0, "rows share what they load")
    return True


def _phases(view: View, window: Window) -> int:
    """How far apart neighbouring pixels are stored: 1, or as many as there are phases (channels, for that matter) in between."""
    return next(
        (
            size_of(r)
            for r in window.channels
            if view.stride(view.writes[0], r) == 1 and size_of(r) <= _MOST_PHASES
        ),
        1,
    )


def _rows_in_registers(loops: Loops, window: Window, pixel: UOp, registers: int) -> None:
    """Rows of vectors that share weights or pixels, as many as leave half of the registers for what is loaded."""
    room = registers // 2
    rows = [r for r in (*window.shared, *window.pixels) if r is not pixel and _shares(window, r)]
    for axis in (*window.channels, *reversed(rows)):
        steps = loops.size(axis)
        amount = max(n for n in range(1, min(room, steps, _MOST_ROWS) + 1) if steps % n == 0)
        if amount > 1 and loops.take(ActionKind.UPCAST, axis, amount, "rows share what they load"):
            room //= amount


def _shares(window: Window, axis: UOp) -> bool:
    """Whether neighbours along an axis have weights or pixels in common: channels of their own have neither."""
    return axis in window.pixels or window.weights is None
