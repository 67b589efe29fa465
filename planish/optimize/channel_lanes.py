"""Channels in lanes: the nest of a convolution, or of another sum over several axes, whose weights have a vector of channels.

The weights are copied so that the channels of a block lie together, which transposes them; the piece of the image that is needed
is copied as a box, with its padding as zeros, so that the inner loop has no gates, and strides and dilations do not matter,
since pixels are read one by one::

    THREAD  [copy weights]  [copy rows of the image]  rows · channels/32 · pixels/8 · REDUCE inputs, taps · 8 pixels x 2 vectors

Weights that are packed already are read as they lie, a panel for all tiles of pixels. Where the weights are larger than a core's scratch, a block of channels is the outermost loop and has its weights alone. Where even
those are too many, as where an image is summed up (the gradient of a convolution by its weights), passes are made over the
outputs, each with a block of what is reduced::

    THREAD  BLOCK images  [copy weights]  [copy images]  channels/32 · inputs · REDUCE images, rows, pixels · 3x3 taps x 2 vectors
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final, NamedTuple, cast

from planish.actions.overrun import Overrun
from planish.actions.pad_to import PadTo
from planish.actions.shift_inwards import ShiftInwards
from planish.actions.split import Split
from planish.actions.thread import Thread
from planish.actions.upcast import Upcast
from planish.optimize.body import Body, copying
from planish.optimize.cores import CoreCut, best_cut
from planish.optimize.draft import Draft
from planish.optimize.windows import MOST_VECTORS, UNROLLED_TAPS, Window, WindowSizes, lanes_of
from planish.target import Target
from planish.uop.nest import name_of, size_of
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp

_MOST_PIXELS: Final = 14
"""Pixels of a tile that are tried: code for more is long, whatever registers there are."""
_MOST_PIECES: Final = 128
"""Pieces in which a tile is stored: with more, the code for it is larger than that of the sums, and takes long to compile."""
_FEW_PIXELS: Final = 6
"""Neighbouring pixels, below which a tile has pixels of other axes, too."""
_MOST_PHASES: Final = 4
"""Phases of pixels that one tile has, each with code of its own."""


class _ChannelTile(NamedTuple):
    """A register tile: pixels times vectors of channels."""

    amounts: dict[UOp, int]
    """How many pixels there are of each axis."""
    vectors: int
    across: UOp
    """The axis of neighbouring pixels: those of the others are apart in the image, too."""
    phases: tuple[UOp, ...] = ()
    """Axes between neighbouring pixels where results lie (the phases of a transposed convolution): all of each is in registers."""

    @property
    def pixels(self) -> int:
        return prod(self.amounts.values())

    def fits(self, taps: int, registers: int) -> bool:
        """Sums, weights, and the pixels that are read: all of a row of taps if that is unrolled, else one at a time."""
        row = self.amounts[self.across]
        shared = self.pixels // row * (row + taps - 1) if 1 < taps <= UNROLLED_TAPS else 1
        vectors = self.vectors * prod(map(size_of, self.phases))
        return self.pixels * vectors + shared + vectors <= registers

    def pieces(self, view: Nest, place: UOp, channel: UOp, lanes: int) -> int:
        """In how many pieces the tile is stored: vectors of channels, or for each channel what is contiguous of its pixels."""
        times = len(view.writes)
        if view.stride(place, channel) == 1:
            return self.pixels * self.vectors * times
        run = 1
        amounts = {**self.amounts, **{r: size_of(r) for r in self.phases}}
        for axis in sorted(amounts, key=lambda r: abs(view.stride(place, r) or 0)):
            if view.stride(place, axis) == run and (run == 1 or amounts[axis] > 1):
                run *= amounts[axis]
        return self.vectors * lanes * (prod(amounts.values()) // run) * run.bit_count() * times

    def cost(self, target: Target, channels: int, lanes: int) -> float:
        """Cycles for all channels and pixels and one tap; the weights come from the second cache."""
        rounds = -(-channels // (self.vectors * lanes))
        more = target.register_tiles.channel_edge
        # beyond an edge nothing is gained, and what is stored has gates
        edge = more if channels % (self.vectors * lanes) else 1.0
        for axis, amount in self.amounts.items():
            rounds *= -(-size_of(axis) // amount)
            edge *= more if size_of(axis) % amount else 1.0
        body = Body(
            multiplies=self.pixels * self.vectors,
            loads=self.pixels + self.vectors,
            chain=target.latency,
            nbytes=self.vectors * target.register_bytes,
        )
        return rounds * edge * (body.cycles(target) + target.branches)


def _best_tile(draft: Draft, view: Nest, window: Window, channel: UOp, lanes: int) -> _ChannelTile:
    """Of the pixels that are neighbours as many as there are registers for; if all of them are few, some of other axes, too."""
    across, taps, channels = _across(view, window), _last_taps(view, window), size_of(channel)
    whole = size_of(across)
    # (of a size that is not known the last tile is masked: better one vector than several pieces)
    known = draft.has_pieces(across)
    amounts = [{across: p} for p in range(1, min(whole, _MOST_PIXELS) + 1) if known or p.bit_count() == 1]
    for axis in reversed([r for r in window.pixels if r is not across] if whole < _FEW_PIXELS else []):
        amounts += [
            {**one, axis: n}
            for one in amounts
            if one[across] == whole
            for n in range(2, _MOST_PIXELS // prod(one.values()) + 1)
            if size_of(axis) % n == 0
        ]
    everywhere = dict.fromkeys(window.pixels, 1)
    phases = _phases(view, window, channel, across)
    tiles = [
        tile
        for tile in (
            _ChannelTile({**everywhere, **one}, v, across, phases)
            for one in amounts
            for v in range(1, MOST_VECTORS + 1)
        )
        if tile.fits(taps, draft.target.registers) and (tile.vectors - 1) * lanes < channels
    ]
    return min(
        tiles,
        key=lambda tile: (
            tile.pieces(view, window.place, channel, lanes) > _MOST_PIECES,
            tile.cost(draft.target, channels, lanes),
        ),
    )


def _phases(view: Nest, window: Window, channel: UOp, across: UOp) -> tuple[UOp, ...]:
    """The axis whose few results lie between those of neighbouring pixels."""
    return tuple(
        r
        for r in (*window.channels, *window.shared)
        if r is not channel
        and 1 < size_of(r) <= _MOST_PHASES
        and view.stride(window.place, r) == 1
        and view.stride(window.place, across) == size_of(r)
    )


def channels_in_lanes(draft: Draft, view: Nest, window: Window, channel: UOp) -> bool:
    """The nest with channels in lanes; false, and nothing done, if the weights of a block of channels are too many."""
    target, weights = draft.target, window.weights
    if weights is None:
        return False
    lanes = lanes_of(window, target)
    tile = _best_tile(draft, view, window, channel, lanes)
    width = tile.vectors * lanes
    sizes = WindowSizes(view, window, lanes)
    item = window.image.dtype.itemsize
    room = target.local_bytes // max(item, 1)
    passes = {} if sizes.packed else _passes(window, sizes, width, room)
    if passes is None or (passes and len(view.writes) > 1):
        return False
    last = max(view.outputs, key=lambda r: r.order)
    if channel is not last:
        draft.swap(channel, last)
    if size_of(channel) % width and not draft.take(PadTo, channel, width, "whole vectors of channels"):
        return False
    if not draft.take(Upcast, channel, width, "channels in lanes: weights are vectors, pixels are broadcast"):
        return False
    # of a size that is not known tiles overlap, if there are always as many pixels; their image has to be copied as a whole before
    named = [r for r, n in tile.amounts.items() if n > 1 and not draft.has_pieces(r) and draft.least(r) >= n]
    trial = draft.copy()
    if named and _tiled(trial, view, window, sizes, channel, tile, passes, room, named):
        draft.adopt(trial)
        return True
    return _tiled(draft, view, window, sizes, channel, tile, passes, room, [])


def _tiled(
    draft: Draft,
    view: Nest,
    window: Window,
    sizes: WindowSizes,
    channel: UOp,
    tile: _ChannelTile,
    passes: dict[UOp, int],
    room: int,
    named: Sequence[UOp],
) -> bool:
    """Tiles of pixels, pieces for the cores, and copies; false if those of named sizes cannot overlap."""
    beyond = [r for r, n in tile.amounts.items() if size_of(r) % n and draft.has_pieces(r)]
    for phase in tile.phases:
        draft.take(Upcast, phase, size_of(phase), "phases lie side by side")
    for r, n in tile.amounts.items():
        if n > 1 and r not in beyond and r not in named:
            if size_of(r) % n:  # nobody knows where it ends: what is copied is for one tile
                draft.take(PadTo, r, n, "whole tiles of pixels")
            draft.take(Upcast, r, n, "pixels that share a vector of weights")
    _share(draft, view, window, sizes, channel)
    rows = _copies(draft, window, sizes, channel, passes, room)
    # only now: what is copied is a box, and beyond its end the last pixel is read again, or some of the tile before
    for r in beyond:
        draft.take(Overrun, r, tile.amounts[r], "whole tiles of pixels", inner=True)
        draft.take(Upcast, r, tile.amounts[r], "pixels that share a vector of weights", inner=True)
    for r in named:
        if (rows is None and sizes.pairs) or (rows is not None and r in rows.steps):
            return False
        if not draft.take(ShiftInwards, r, tile.amounts[r], "tiles of pixels without an edge", inner=True):
            return False
        draft.take(Upcast, r, tile.amounts[r], "pixels that share a vector of weights", inner=True)
    return True


def _passes(window: Window, sizes: WindowSizes, width: int, room: int) -> dict[UOp, int] | None:
    """The blocks of reduced axes whose weights have room beside the image; None if there are none, or an output too many to hold sums."""
    if sizes.weights(width, {}) <= room * 3 // 4:
        return {}
    blocks: dict[UOp, int] = {}
    for axis in window.reduced[:-1]:
        fitting = [
            n
            for n in range(1, size_of(axis))
            if size_of(axis) % n == 0 and sizes.weights(width, {**blocks, axis: n}) <= room // 2
        ]
        blocks[axis] = max(fitting, default=1)
        if fitting:
            return blocks
    return None


def _across(view: Nest, window: Window) -> UOp:
    """The pixels that are neighbours in the result, or in the image."""
    for place in (window.place, window.image):
        neighbours = [r for r in window.pixels if view.stride(place, r) == 1]
        if neighbours:
            return neighbours[-1]
    return window.pixels[-1]


def _last_taps(view: Nest, window: Window) -> int:
    """The size of the innermost loop."""
    last = max(window.reduced, key=lambda r: r.order)
    return size_of(last)


def _share(draft: Draft, view: Nest, window: Window, sizes: WindowSizes, channel: UOp) -> None:
    """Pieces for the cores: of the axis for which least is copied more than once."""
    target, whole = draft.target, sizes.image({}) if sizes.pairs else 0
    panels = [r for r in window.channels if r is not channel] if sizes.packed else []
    every = prod(map(size_of, window.channels)) if sizes.packed else size_of(channel)
    weights = copying(target, sizes.weights(every, {}), turned=not sizes.packed)
    batch = prod(size_of(r) for r in window.shared)
    cuts = []
    for axis in (*window.shared, *window.pixels, *(panels or [channel])):
        steps = draft.steps(axis)
        if axis in window.shared:
            again = 0.0
        elif axis in window.channels:
            again = copying(target, whole)
        else:
            halo = sizes.image({axis: 1}) - whole // max(size_of(axis), 1)
            again = weights * batch + copying(target, max(halo, 0))
        cuts.append(CoreCut(axis, steps, again, uneven=not draft.has_pieces(axis)))
    cut = best_cut(target, view.work, cuts) if draft.cores else None
    if cut is not None:
        draft.take(Thread, cut.axis, cut.pieces, "pieces for the cores")


class _CopiedRows(NamedTuple):
    """How much of the pixels the copy of the image is for: the steps of each loop that one copy takes, and what all copies come to."""

    steps: dict[UOp, int]
    copied: int


def _rows(
    draft: Draft, window: Window, sizes: WindowSizes, passes: dict[UOp, int], room: int
) -> _CopiedRows | None:
    """As many rows at once as there is room for; None if there is none for one."""
    parts = {**dict.fromkeys(window.shared, 1), **passes}
    units: dict[UOp, int] = {}
    for r in window.pixels:
        units[r] = draft.upcast.get(r, 1)
        # (the steps of a piece are no number where pieces are uneven: all of them are as many as there may be)
        parts[r] = draft.steps(r) * units[r] if draft.has_pieces(r) else size_of(r)
    # of axes whose size is not known a copy is for all of it, or for one step
    steps: dict[UOp, int] = {}
    for r in (r for r in window.pixels if not draft.has_pieces(r)):
        if sizes.image(parts) > room:
            steps[r], parts[r] = 1, units[r]
    times = prod(draft.steps(r) for r in steps)
    for r in (r for r in window.pixels if draft.steps(r) > 1 and r not in steps):
        if sizes.image(parts) <= room:
            break
        count = draft.steps(r)
        fitting = [
            n for n in range(2, count) if count % n == 0 and sizes.image({**parts, r: n * units[r]}) <= room
        ]
        steps[r] = max(fitting, default=1)
        parts[r] = steps[r] * units[r]
        times *= count // steps[r]
    needed = sizes.image(parts)
    return _CopiedRows(steps, needed * times) if needed <= room else None


def _copies(
    draft: Draft, window: Window, sizes: WindowSizes, channel: UOp, passes: dict[UOp, int], room: int
) -> _CopiedRows | None:
    """Where the operands are copied, and the order of the loops that goes with it: how much of the image is copied at a time, if it is."""
    blocks = draft.steps(channel)
    block = 0 if sizes.packed else sizes.weights(draft.upcast[channel], passes)
    together = each = None
    if sizes.pairs:  # (windows overlap, or pixels are read as they lie)
        together = _rows(draft, window, sizes, passes, room - block * blocks)
        each = _rows(draft, window, sizes, passes, room - block) if blocks > 1 else None
    alone = each is not None and (together is None or each.copied * blocks < together.copied)
    alone |= block * blocks > room
    rows = each if alone else together
    outer = [name_of(loop) for r in window.shared for loop in draft.loops(r)[-1:] if size_of(loop) > 1]
    mine = [name_of(loop) for loop in draft.loops(channel)[-1:] if blocks > 1]
    if sizes.packed:
        panels = [loop for r in window.channels if r is not channel for loop in draft.loops(r)[-1:]]
        mine = [*(name_of(loop) for loop in panels if size_of(loop) > 1), *mine]
    split: list[str] = []
    inner: list[str] = []
    for r in window.pixels:
        loop = draft.innermost(r)
        if loop is None or size_of(loop) == 1:
            continue
        steps = None if rows is None else rows.steps.get(r)
        if steps is None:
            inner.append(name_of(loop))
        elif steps > 1 and draft.take(
            Split, r, steps, "rows of the image that fit in a core's scratch", inner=True
        ):
            split.append(f"{name_of(loop)}.outer")
            inner.append(f"{name_of(loop)}.inner")
        else:
            split.append(name_of(loop))
    if sizes.packed:  # a panel is read by all tiles, one after the other
        draft.order([*outer, *split, *mine, *inner])
    elif alone:
        draft.order([*outer, *mine, *split, *inner])
    else:
        draft.order([*outer, *split, *inner[:-1], *mine, *inner[-1:]])
    begin = None
    for axis, amount in reversed(passes.items()):
        pass_loop = draft.block(axis, amount, "the weights of a pass fit in a core's scratch")
        begin = begin or pass_loop
    home = outer[-1] if outer else begin
    if not sizes.packed:
        weights = cast("UOp", window.weights)
        draft.stage(weights, mine[0] if alone else home, "channels of a block side by side")
    if rows is not None:
        at = split[-1] if split else home
        if not draft.stage(window.image, at, "the image with its padding, so that nothing is gated"):
            return None
    return rows
