"""Convolutions: sums of products of which one operand is read through a window that moves along output axes.

Nothing here knows what a convolution is: the structure is found in the indices (`windows.py`), which also says what pixels, taps
and channels are.

**Channels in lanes**, if there is a vector of them: the weights are copied so that the channels of a block lie together, which
transposes them; the piece of the image that is needed is copied as a box, with its padding as zeros, so that the inner loop
has no gates, and strides and dilations do not matter, since pixels are read one by one::

    THREAD  [copy weights]  [copy rows of the image]  rows · channels/32 · pixels/8 · REDUCE inputs, taps · 8 pixels x 2 vectors

Where the weights are larger than a core's scratch, a block of channels is the outermost loop and has its weights alone.

**Pixels in lanes** otherwise (depthwise, few channels, pooling): vectors along the pixels that are stored together, and
several rows or channels, which share what is loaded. Nothing is copied: a masked load costs no more than a copy.
"""

from __future__ import annotations

from math import prod
from typing import Final, NamedTuple, cast

from planish.optimize.cores import Cut, best_cut
from planish.optimize.draft import Draft
from planish.optimize.kernel_view import View, size_of
from planish.optimize.lanes import lanes_along
from planish.optimize.loops import Loops
from planish.optimize.windows import Sizes, Window, window_of
from planish.uop.actions import ActionKind
from planish.uop.node import UOp
from planish.uop.ops import Axis, Ops

_TAPS: Final = 8
"""A loop over so many taps is unrolled, and what neighbouring pixels read is in registers for all of them."""
_MOST_ROWS: Final = 8
_MOST_PIXELS: Final = 14
_MOST_VECTORS: Final = 4
_TURNED: Final = 16
"""Products in the time in which one weight is copied and transposed."""
_COPIED: Final = 6
"""Products in the time in which one element of the image is copied."""
_UNIT: Final = 40
"""Products per element in `cores.Cut`."""


# -- channels in lanes -----------------------------------------------------------------------------------------------


class _Tile(NamedTuple):
    """A register tile: pixels times vectors of channels."""

    pixels: int
    vectors: int

    def fits(self, taps: int, registers: int) -> bool:
        """Sums, weights, and the pixels that are read: all of a row of taps if that is unrolled, else one at a time."""
        shared = self.pixels + taps - 1 if 1 < taps <= _TAPS else 1
        return self.pixels * self.vectors + shared + self.vectors <= registers

    def cost(self, channels: int, pixels: int, lanes: int) -> float:
        """Cycles for all channels and pixels and one tap, on a machine with two loads and two multiply-adds in each."""
        rounds = -(-channels // (self.vectors * lanes)) * -(-pixels // self.pixels)
        work = max(self.pixels * self.vectors, self.pixels + self.vectors) / 2
        # beyond an edge nothing is gained, and what is stored has gates
        edge = (1.05 if pixels % self.pixels else 1.0) * (1.1 if channels % (self.vectors * lanes) else 1.0)
        # the weights come from the second cache: two bytes of them in the time of one multiply-add are for free
        weights = self.vectors * 1.2 if self.pixels < 6 else 0.0
        return rounds * edge * (max(work, 4.0) + 1.0 + weights)


def _best_tile(channels: int, pixels: int, taps: int, lanes: int, registers: int) -> _Tile:
    tiles = [
        tile
        for tile in (
            _Tile(p, v) for p in range(1, min(pixels, _MOST_PIXELS) + 1) for v in range(1, _MOST_VECTORS + 1)
        )
        if tile.fits(taps, registers) and (tile.vectors - 1) * lanes < channels
    ]
    return min(tiles, key=lambda tile: tile.cost(channels, pixels, lanes))


def channels_in_lanes(draft: Draft, view: View, window: Window, channel: UOp) -> bool:
    """The nest with channels in lanes; false, and nothing done, if the weights of a block of channels are too many."""
    target, weights = draft.target, window.weights
    if weights is None:
        return False
    lanes = lanes_along(target, view, channel)
    pixel = _across(view, window)
    taps = _last_taps(view, window)
    tile = _best_tile(size_of(channel), size_of(pixel), taps, lanes, target.registers)
    width = tile.vectors * lanes
    sizes = Sizes(view, window, lanes)
    item = window.image.dtype.itemsize
    room = target.local_bytes // max(item, 1)
    block = sizes.weights(width)
    if block > room * 3 // 4:
        return False
    loops = Loops(draft)
    last = max(view.outputs, key=lambda r: cast("Axis", r.arg).path)
    if channel is not last:
        loops.swap(cast("Axis", channel.arg).path, cast("Axis", last.arg).path)
    if size_of(channel) % width and not loops.take(
        ActionKind.PADTO, channel, width, "whole vectors of channels"
    ):
        return False
    if not loops.take(
        ActionKind.UPCAST, channel, width, "channels in lanes: weights are vectors, pixels are broadcast"
    ):
        return False
    divides = size_of(pixel) % tile.pixels == 0
    if divides and tile.pixels > 1:
        loops.take(ActionKind.UPCAST, pixel, tile.pixels, "pixels that share a vector of weights")
    _share(draft, view, window, loops, sizes, channel, pixel)
    _copies(loops, window, sizes, channel, pixel, block, room, tile)
    if not divides and tile.pixels > 1:
        # only now: what is copied is a box, and beyond its end the last pixel is read again
        loops.take(ActionKind.OVERRUN, pixel, tile.pixels, "whole tiles of pixels")
        loops.take(ActionKind.UPCAST, pixel, tile.pixels, "pixels that share a vector of weights")
    return True


def _across(view: View, window: Window) -> UOp:
    """The pixels that are neighbours in the result, or in the image."""
    for place in (view.writes[0], window.image):
        found = [r for r in window.pixels if view.stride(place, r) == 1]
        if found:
            return found[-1]
    return window.pixels[-1]


def _last_taps(view: View, window: Window) -> int:
    """The size of the innermost loop."""
    last = max(window.reduced, key=lambda r: cast("Axis", r.arg).path)
    return size_of(last)


def _share(
    draft: Draft, view: View, window: Window, loops: Loops, sizes: Sizes, channel: UOp, pixel: UOp
) -> None:
    """Pieces for the cores: of the axis for which least is copied more than once."""
    weights = sizes.weights(size_of(channel)) * _TURNED
    image = sizes.image({}) * _COPIED
    batch = prod(size_of(r) for r in window.shared)
    cuts = []
    for axis in (*window.shared, *window.pixels, channel):
        steps = loops.size(axis)
        if axis in window.shared:
            again = 0
        elif axis is channel:
            again = image
        else:
            halo = sizes.image({axis: 1}) - sizes.image({}) // max(size_of(axis), 1)
            again = weights * batch + max(halo, 0) * _COPIED
        cuts.append(Cut(axis, steps, again // _UNIT))
    cut = best_cut(draft.target, view.work, cuts)
    if cut is not None:
        loops.take(ActionKind.THREAD, cut.axis, cut.pieces, "pieces for the cores")


class _Rows(NamedTuple):
    """How much of the pixels the copy of the image is for: the steps of each loop that one copy takes, and what all copies come to."""

    steps: dict[UOp, int]
    copied: int


def _rows(loops: Loops, window: Window, sizes: Sizes, tile: _Tile, pixel: UOp, room: int) -> _Rows | None:
    """As many rows at once as there is room for; None if there is none for one."""
    parts = dict.fromkeys(window.shared, 1)
    units: dict[UOp, int] = {}
    for r in window.pixels:
        units[r] = tile.pixels if r is pixel and loops.draft.upcast.get(r) else 1
        parts[r] = loops.size(r) * units[r]
    steps: dict[UOp, int] = {}
    times = 1
    for r in (r for r in window.pixels if loops.size(r) > 1):
        if sizes.image(parts) <= room:
            break
        count = loops.size(r)
        fitting = [
            n for n in range(2, count) if count % n == 0 and sizes.image({**parts, r: n * units[r]}) <= room
        ]
        steps[r] = max(fitting, default=1)
        parts[r] = steps[r] * units[r]
        times *= count // steps[r]
    needed = sizes.image(parts)
    return _Rows(steps, needed * times) if needed <= room else None


def _copies(
    loops: Loops, window: Window, sizes: Sizes, channel: UOp, pixel: UOp, block: int, room: int, tile: _Tile
) -> None:
    """Where the operands are copied, and the order of the loops that goes with it."""
    blocks = loops.size(channel)
    together = _rows(loops, window, sizes, tile, pixel, room - block * blocks)
    each = _rows(loops, window, sizes, tile, pixel, room - block) if blocks > 1 else None
    alone = each is not None and (together is None or each.copied * blocks < together.copied)
    rows = each if alone else together
    outer = [cast("tuple[int, ...]", loops.path(r)) for r in window.shared if loops.size(r) > 1]
    mine = [cast("tuple[int, ...]", loops.path(channel))] if blocks > 1 else []
    split: list[tuple[int, ...]] = []
    inner: list[tuple[int, ...]] = []
    for r in window.pixels:
        path = loops.path(r)
        if path is None or loops.size(r) == 1:
            continue
        steps = None if rows is None else rows.steps.get(r)
        if steps is None:
            inner.append(path)
        elif steps > 1 and loops.take(
            ActionKind.SPLIT, r, steps, "rows of the image that fit in a core's scratch"
        ):
            split.append((*path, 0))
            inner.append((*path, 1))
            loops.paths[r] = (*path, 1)
        else:
            split.append(path)
    if alone:
        order = [*outer, *mine, *split, *inner]
    else:
        order = [*outer, *split, *inner[:-1], *mine, *inner[-1:]]
    place = dict(zip(order, sorted(order), strict=True))
    loops.order(order)
    home = place[outer[-1]] if outer else None
    loops.stage(
        place[mine[0]] if alone else home, cast("UOp", window.weights), "channels of a block side by side"
    )
    if rows is not None:
        at = place[split[-1]] if split else home
        loops.stage(at, window.image, "the image with its padding, so that nothing is gated")


# -- pixels in lanes -------------------------------------------------------------------------------------------------


def pixels_in_lanes(draft: Draft, view: View, window: Window) -> bool:
    """The nest with pixels in lanes; false, and nothing done, if the result is not contiguous along pixels."""
    target = draft.target
    pixel = next(
        (r for r in reversed((*window.pixels, *window.shared)) if view.stride(view.writes[0], r) == 1), None
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
    _rows_in_registers(loops, window, pixel, target.registers)
    for row, tap in Sizes(view, window, lanes).pairs.items():
        # along the lanes neighbouring taps are other vectors; along the rows the same ones
        if row is not pixel and loops.draft.upcast.get(row) and 1 < size_of(tap) <= _TAPS:
            loops.take(ActionKind.UNROLL, tap, 0, "rows share what they load")
    return True


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


def _groups_apart(draft: Draft, window: Window) -> bool:
    """Cut an axis of which the image depends on a quotient only: the channels of a group read the same pixels."""
    for axis in window.shared:
        for node in window.image.toposort():
            if node.op is Ops.FLOORDIV and node.src[0] is axis and node.src[1].op is Ops.CONST:
                size = cast("int", node.src[1].arg)
                if size_of(axis) % size == 0 and draft.take(
                    ActionKind.SPLIT, axis, size, "the channels of a group"
                ):
                    return True
    return False


def convolve(draft: Draft, view: View) -> bool:
    """Actions for a reduction over windows; false if the kernel is none, or none that is known here."""
    window = window_of(view)
    if window is None:
        return False
    if _groups_apart(draft, window):
        view = View(draft.sink)
        window = window_of(view) or window
    channel = max(window.channels, key=size_of, default=None)
    if channel is not None and window.reduction.arg is Ops.ADD:
        lanes = lanes_along(draft.target, view, channel)
        if lanes > 1 and size_of(channel) >= lanes and channels_in_lanes(draft, view, window, channel):
            return True
    return pixels_in_lanes(draft, view, window)
