"""Sums in lanes: the nest of a sum over images for each of a few taps, the gradient of a convolution of few channels by its weights.

All taps are in registers, a vector of sums each, and share what is loaded of the weights (the other operand, which has no taps); several
channels of those, as many as there are registers for, share what is loaded of the image. Lanes run along the row that is summed up::

    THREAD planes  [copy of the image, padded]  channels/2  REDUCE images, rows, row/16 · 2 channels, 3x3 taps, vectors of sums, added up at the end
"""

from __future__ import annotations

from math import prod
from typing import Final

from planish.actions.accumulators import Accumulators
from planish.actions.upcast import Upcast
from planish.optimize.draft import Draft
from planish.optimize.lanes import lanes_along, take_lanes
from planish.optimize.windows import Window
from planish.uop.nest import name_of, size_of
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import Ops

_FEW: Final = 24
"""Taps, whose sums are all in registers."""
_NEAR: Final = 4
"""Elements from one to the next, up to which whole vectors are loaded and some of their lanes taken."""


def sums_in_lanes(draft: Draft, view: Nest, window: Window) -> bool:
    """The nest with a vector of sums for every tap; false, and nothing done, if it is no sum of rows, or has too many taps."""
    along = _along(view, window)
    if window.weights is None or window.reduction.arg is not Ops.ADD or along is None:
        return False
    lanes = lanes_along(draft.target, view, along)
    most = min(_FEW, draft.target.registers * 3 // 4)
    taps, planes = _taps(view, window, most)
    whole = draft.target.masked or size_of(along) % max(lanes, 1) == 0
    if lanes < 2 or size_of(along) < lanes // 2 or not whole:
        return False
    if any(size_of(r) >= lanes for r in window.channels):
        return False  # channels in lanes share what is loaded of the image without adding lanes up
    if not taps or any(size_of(r) >= size_of(along) for r in taps):
        return False  # pixels: they have lanes of their own
    for tap in taps:
        draft.take(Upcast, tap, size_of(tap), "all taps share what is loaded of the other operand")
    share = most // prod(map(size_of, taps))
    for channel in sorted(window.channels, key=size_of, reverse=True)[:1]:
        draft.take_first(Upcast, channel, range(share, 1, -1), "channels share what is loaded of the image")
    draft.order(name for r in (*planes, *window.channels) if (name := _loop(draft, r)))
    # first the copy: a row that is longer than the image would not be a window of it any more
    around = max(
        (r for r in (*window.shared, *planes) if size_of(r) > 1), key=lambda r: r.order, default=None
    )
    draft.stage(window.image, around, "the image with its padding, so that nothing is gated")
    return take_lanes(draft, along, Accumulators, lanes, least=1) > 1


def _loop(draft: Draft, axis: UOp) -> str | None:
    """What is left of an axis as a loop."""
    loop = draft.outermost(axis)
    return None if loop is None else name_of(loop)


def _taps(view: Nest, window: Window, most: int) -> tuple[list[UOp], list[UOp]]:
    """Of the output axes of the image: those that are next to each other in it, as many as have sums in registers; and the others."""
    axes = sorted(
        (r for r in window.pixels if size_of(r) > 1), key=lambda r: abs(view.stride(window.image, r) or 0)
    )
    count = 1
    for number, axis in enumerate(axes):
        count *= size_of(axis)
        if count > most:
            return axes[:number], axes[number:]
    return axes, []


def _along(view: Nest, window: Window) -> UOp | None:
    """The reduced axis along which both operands are contiguous, or nearly so."""
    if window.weights is None:
        return None
    for axis in reversed(window.reduced):
        steps = view.stride(window.weights, axis), view.stride(window.image, axis)
        if steps[0] == 1 and steps[1] in range(1, _NEAR + 1):
            return axis
    return None
