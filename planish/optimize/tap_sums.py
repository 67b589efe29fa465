"""Sums in lanes: the nest of a sum over images for each of a few taps, the gradient of a depthwise convolution by its weights.

All taps are in registers, a vector of sums each, and share what is loaded of the weights (the other operand, which has no taps).
Lanes run along the row that is summed up::

    THREAD channels  [copy of the image, padded]  REDUCE images, rows, row/16 · 3x3 taps, vectors of sums, added up at the end
"""

from __future__ import annotations

from math import prod
from typing import Final

from planish.actions.accumulators import Accumulators
from planish.actions.upcast import Upcast
from planish.optimize.draft import Draft
from planish.optimize.lanes import lanes_along, take_lanes
from planish.optimize.windows import Window
from planish.uop.nest import size_of
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
    if window.weights is None or window.channels or window.reduction.arg is not Ops.ADD or along is None:
        return False
    lanes = lanes_along(draft.target, view, along)
    taps = [r for r in window.pixels if size_of(r) > 1]
    count = prod(map(size_of, taps))
    whole = draft.target.masked or size_of(along) % max(lanes, 1) == 0
    if lanes < 2 or size_of(along) < lanes // 2 or not whole:
        return False
    if count > min(_FEW, draft.target.registers * 3 // 4) or any(size_of(r) >= size_of(along) for r in taps):
        return False  # pixels: they have lanes of their own
    for tap in reversed(taps):
        draft.take(Upcast, tap, size_of(tap), "all taps share what is loaded of the other operand")
    # first the copy: a row that is longer than the image would not be a window of it any more
    around = max((r for r in window.shared if size_of(r) > 1), key=lambda r: r.order, default=None)
    draft.stage(window.image, around, "the image with its padding, so that nothing is gated")
    return take_lanes(draft, along, Accumulators, lanes, least=1) > 1


def _along(view: Nest, window: Window) -> UOp | None:
    """The reduced axis along which both operands are contiguous, or nearly so."""
    if window.weights is None:
        return None
    for axis in reversed(window.reduced):
        steps = view.stride(window.weights, axis), view.stride(window.image, axis)
        if steps[0] == 1 and steps[1] in range(1, _NEAR + 1):
            return axis
    return None
