"""Pixels in lanes: the nest of a convolution without a vector of channels (depthwise, few channels), and of pooling.

Vectors along the pixels that are stored together, and several rows or channels, which share what is loaded. The image is copied
only if its elements are read many times: a masked load costs no more than a copy.
"""

from __future__ import annotations

from math import prod
from typing import Final

from planish.actions.pad_to import PadTo
from planish.actions.shift_inwards import ShiftInwards
from planish.actions.thread import Thread
from planish.actions.unroll import Unroll
from planish.actions.upcast import Upcast
from planish.optimize.body import Body, copying
from planish.optimize.cores import CoreCut, best_cut
from planish.optimize.draft import Draft
from planish.optimize.lanes import lanes_along
from planish.optimize.windows import UNROLLED_TAPS, Window, WindowSizes
from planish.target import Target
from planish.uop.nest import size_of
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp

_MOST_ROWS: Final = 8
"""Rows of a tile, for the length of code."""
_MOST_PHASES: Final = 4
"""Phases of pixels whose code is written out."""


def pixels_in_lanes(draft: Draft, view: Nest, window: Window) -> bool:
    """The nest with pixels in lanes; false, and nothing done, if the result is not contiguous along pixels."""
    target = draft.target
    apart = _phases(view, window)
    pixel = next(
        (r for r in reversed((*window.pixels, *window.shared)) if view.stride(window.place, r) == apart),
        None,
    )
    if pixel is None or view.stride(window.image, pixel) is None:
        return False
    lanes = lanes_along(target, view, pixel)
    size = size_of(pixel)
    if lanes < 2 or size < 4:
        return False
    sizes = WindowSizes(view, window, lanes)
    width = lanes if size > lanes // 2 else max(4, 1 << (size - 1).bit_length())
    if window.weights is not None and not _rows(window, pixel):
        # a row alone: several sums at once hide the time that one takes
        width *= next((v for v in (4, 3, 2) if size >= 2 * v * width), 1)
    copied = _copy_image(draft, view, window, sizes, pixel)
    if copied and width < lanes and target.masked:
        width = lanes
    vectors = -(-size // lanes)
    gated = window.weights is not None and not copied and not window.channels and draft.has_pieces(pixel)
    if gated and 1 < vectors <= draft.target.register_tiles.whole_row and (target.masked or not size % lanes):
        width = max(width, vectors * lanes)
    if not _vectors(draft, pixel, width):
        return False
    if apart > 1 and window.weights is not None:
        draft.stage(window.weights, None, "taps that a phase does not have are zeros")
    _rows_in_registers(draft, window, sizes, pixel)
    for row, tap in sizes.pairs.items():
        # along the lanes neighbouring taps are other vectors; along the rows the same ones
        if row is not pixel and draft.upcast.get(row) and 1 < size_of(tap) <= UNROLLED_TAPS:
            draft.take(Unroll, tap, 0, "rows share what they load")
    if copied:
        _share(draft, view, window, sizes, copied)
    return True


def _vectors(draft: Draft, pixel: UOp, width: int) -> bool:
    """Whole vectors of pixels: of a size that is not known the last ones start earlier, if there are always as many, or are masked."""
    named = not draft.has_pieces(pixel)
    if (
        named
        and draft.least(pixel) >= width
        and draft.take(ShiftInwards, pixel, width, "whole vectors of pixels")
    ):
        return draft.take(Upcast, pixel, width, "pixels in lanes", inner=True)
    if size_of(pixel) % width and not (
        draft.target.masked and draft.take(PadTo, pixel, width, "whole vectors of pixels")
    ):
        return False
    return draft.take(Upcast, pixel, width, "pixels in lanes")


def _share(draft: Draft, view: Nest, window: Window, sizes: WindowSizes, copied: int) -> None:
    """Pieces for the cores, each of which has a copy of its own of the image that it needs."""
    again = copying(draft.target, copied)
    cuts = [
        CoreCut(
            r,
            draft.steps(r),
            again if r in sizes.pairs or r in window.channels else 0.0,
            uneven=not draft.has_pieces(r),
        )
        for r in (*window.shared, *window.pixels, *window.channels)
        if draft.innermost(r) is not None
    ]
    cut = best_cut(draft.target, view.work, cuts) if draft.cores else None
    if cut is not None:
        draft.take(Thread, cut.axis, cut.pieces, "pieces for the cores")
    draft.cores = False


def _phases(view: Nest, window: Window) -> int:
    """How far apart neighbouring pixels are stored: 1, or as many as there are phases (channels, for that matter) in between."""
    return next(
        (
            size_of(r)
            for r in window.channels
            if view.stride(window.place, r) == 1 and size_of(r) <= _MOST_PHASES
        ),
        1,
    )


def _copy_image(draft: Draft, view: Nest, window: Window, sizes: WindowSizes, pixel: UOp) -> int:
    """Copy the image with its padding, if every element is read so often that gates, or lanes apart, cost more: how much that is."""
    step = max(abs(view.stride(window.image, pixel) or 1), 1)
    times = prod(map(size_of, (*window.reduced, *window.channels))) // step
    outside = [r for r in (*window.shared, *window.pixels) if r not in sizes.pairs]
    loops = [loop for r in outside if (loop := draft.innermost(r)) is not None]
    around = max(loops, key=lambda r: r.order, default=None)
    inside = [loop.order for r in sizes.pairs if (loop := draft.innermost(r)) is not None]
    if (
        window.weights is None
        or times < draft.target.register_tiles.copied_image
        or (around is not None and around.order > min(inside, default=around.order))
    ):
        return 0
    room = draft.target.local_bytes // max(window.image.dtype.itemsize, 1)
    needed = sizes.image(dict.fromkeys(outside, 1))
    reason = "the image with its padding, so that nothing is gated"
    return needed if needed <= room and draft.stage(window.image, around, reason) else 0


def _rows(window: Window, pixel: UOp) -> list[UOp]:
    """The axes of rows that share weights or pixels."""
    rows = [r for r in (*window.shared, *window.pixels) if r is not pixel and _shares(window, r)]
    return [r for r in (*window.channels, *reversed(rows)) if size_of(r) > 1]


def _rows_in_registers(draft: Draft, window: Window, sizes: WindowSizes, pixel: UOp) -> None:
    """Rows of vectors that share weights or pixels, as many as leave half of the registers for what is loaded."""
    vectors = -(-draft.upcast[pixel] // sizes.lanes)
    room = draft.target.registers // 2 // vectors
    for axis in _rows(window, pixel):
        steps, most = draft.steps(axis), min(room, draft.steps(axis), _MOST_ROWS)
        fewest = min(most, draft.least(axis))
        if (
            not draft.has_pieces(axis)
            and axis in sizes.pairs
            and 2 * fewest >= most
            and draft.take(ShiftInwards, axis, fewest, "tiles of rows without an edge")
            and draft.take(Upcast, axis, fewest, "rows share what they load", inner=True)
        ):
            room //= fewest
            continue
        amount = max(n for n in range(1, most + 1) if steps % n == 0)
        if 2 * amount <= most and axis in sizes.pairs:
            # a size that has no divisors: some rows too many, as few as possible, and few tiles
            taps, target = size_of(sizes.pairs[axis]), draft.target
            best = min(
                range(most // 2 + 1, most + 1), key=lambda n: -(-steps // n) * _cycles(target, n, taps)
            )
            if draft.take(PadTo, axis, best, "whole tiles of rows"):
                amount = best
        if amount > 1 and draft.take(Upcast, axis, amount, "rows share what they load"):
            room //= amount


def _cycles(target: Target, rows: int, taps: int) -> float:
    """A tile of so many rows, each a sum over taps: a row that is loaded is used by all sums that reach it."""
    return Body(
        multiplies=rows * taps, loads=rows + taps - 1, stores=rows, chain=taps * target.latency
    ).cycles(target)


def _shares(window: Window, axis: UOp) -> bool:
    """Whether neighbours along an axis have weights or pixels in common: channels of their own have neither."""
    return axis in window.pixels or window.weights is None
