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

from planish.actions.group import Group
from planish.actions.local import Local
from planish.actions.pad_to import PadTo
from planish.actions.unroll import Unroll
from planish.actions.upcast import Upcast
from planish.optimize.draft import Draft
from planish.optimize.gpu.fit import is_little
from planish.optimize.gpu.joined import groups_apart
from planish.optimize.gpu.stream import stream_elements
from planish.optimize.lanes import vector_axes
from planish.optimize.windows import WindowSizes, window_of
from planish.uop.nest import axes_of, size_of
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import AxisType
from planish.uop.ranges import kind_of

_TAPS: Final = 16
"""Taps of a row, at most."""
_PIXELS: Final = (8, 7, 6, 5, 4, 3, 2)
"""Pixels of a thread."""
_WORD: Final = 4
"""Bytes of a register: those of channels that a thread has."""


def slide(draft: Draft, view: Nest) -> bool:
    """Some neighbouring pixels for each thread, with all of their taps."""
    window = window_of(view)
    if window is None or window.channels or not window.reduced:
        return False
    shares = draft.target.shares
    # rows of taps are a loop: what is added to sums in registers is multiplied by the same instruction
    *above, tap = window.reduced
    many = prod(map(size_of, window.reduced)) >= shares.shared_taps
    moving = [r for r in window.pixels if r in WindowSizes(view, window, 1).pairs]
    if many and not moving:
        return False  # long sums of places that nobody shares are rows, columns or sums
    written_out = size_of(tap)
    if written_out > _TAPS:
        written_out = next((n for n in _PIXELS if size_of(tap) % n == 0), 0) if many else 0
    if not written_out or not draft.take(Unroll, tap, written_out, "taps that share what they read"):
        return False
    together = [axis for axis in vector_axes(view, every=True) if axis not in moving]
    if moving and together and all(view.stride(window.place, r) != 1 for r in moving):
        wide = max(_WORD // window.image.dtype.itemsize, 1)
        if wide > 1:
            draft.take_first(Upcast, together[0], (wide, 2), "channels by one access")
        _tile(
            draft, view, moving, together[0], _PIXELS, 2 * shares.block if many else shares.block, many=many
        )
        if many and above:
            _share(draft, view, above[-1])
    else:
        stream_elements(draft, view)
    return True


def slide_groups(draft: Draft, view: Nest) -> bool:
    """The same for groups of few channels, of which a tensor core would have little to multiply: a thread has all outputs of a group."""
    trial = draft.copy()
    groups_apart(trial)
    if len(trial.actions) == len(draft.actions):
        return False
    parted = Nest.of(trial.sink)
    window = window_of(parted)
    if window is None or len(window.channels) != 1 or not window.shared or window.weights is None:
        return False
    (outputs,), group = window.channels, window.shared[-1]
    moving = [r for r in window.pixels if r in WindowSizes(parted, window, 1).pairs]
    inputs = [r for r in window.reduced if parted.stride(window.image, r) == 1 and r not in moving]
    taps = [r for r in window.reduced if r not in inputs]
    if (
        not moving
        or len(inputs) != 1
        or not taps
        or max(map(size_of, (outputs, *inputs))) > draft.target.shares.group_channels
    ):
        return False
    together = (outputs, moving[-1])  # of which a thread has several: it stores vectors of either
    if not any(parted.stride(window.place, r) == 1 for r in together) or size_of(taps[-1]) > _TAPS:
        return False
    written_out = ((Unroll, inputs[0]), (Unroll, taps[-1]), (Upcast, outputs))
    if not all(trial.take(kind, r, size_of(r), "channels of a group") for kind, r in written_out):
        return False
    shares = draft.target.shares
    most = max(shares.pixel_sums // size_of(outputs), 1)
    _tile(
        trial, parted, moving, group, [n for n in _PIXELS if n <= most], shares.block // 2
    )  # of many registers
    draft.adopt(trial)
    return True


def _tile(
    draft: Draft,
    view: Nest,
    moving: Sequence[UOp],
    channels: UOp,
    pixels: Sequence[int],
    threads: int,
    *,
    many: bool = False,
) -> None:
    """Pixels for each thread, as many as leave enough of them; rows of pixels, and what is left of channels, for a block."""
    target, shares, done = draft.target, draft.target.shares, prod(draft.upcast.values())
    sector = target.sector_bytes // _WORD  # threads whose words memory brings together
    enough = prod(map(size_of, view.outputs)) // (done * target.workers * shares.busy_threads)
    *above, last = moving
    _part(draft, Upcast, last, [n for n in pixels if many or n <= enough], "pixels that share what they read")
    lanes = draft.left(channels)
    across = [n for n in range(min(lanes, shares.neighbours), 1, -1) if lanes % n == 0]
    across.sort(key=lambda n: n % sector != 0)
    others = [last, *(r for r in reversed(view.outputs) if r not in (*moving, channels))]
    if many:  # threads that share sums fill a block: channels leave one to every multiprocessor
        blocks = prod(max(draft.left(r), 1) for r in (*others, channels))
        across = [n for n in across if n % sector == 0 and blocks >= n * target.workers] or across[-1:]
        others = []
    left = threads // _part(draft, Local, channels, [*across[:1], sector * 4], "channels that lie together")
    for axis in (*reversed(above), *others):
        most = min(left, shares.pixel_rows) if axis in above else left
        left //= _part(draft, Local, axis, range(most, 1, -1), "pixels that read the same")


def _share(draft: Draft, view: Nest, rows: UOp) -> None:
    """Threads that share long sums (of the gradient of weights), where there are few of them."""
    results = prod(map(size_of, view.outputs)) // prod(draft.upcast.values())
    block = prod(size_of(r) for r in axes_of(draft.sink) if kind_of(r) is AxisType.LOCAL)
    target, shares = draft.target, draft.target.shares
    wanted = min(4 * shares.busy_threads * target.workers // results, 2 * shares.block // block)
    _part(draft, Group, rows, range(wanted, 1, -1), "threads that share a sum")


def _part(
    draft: Draft, kind: type[Local | Upcast | Group], axis: UOp, amounts: Sequence[int], why: str
) -> int:
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
