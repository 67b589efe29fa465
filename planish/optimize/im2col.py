"""im2col: a convolution as a product of matrices, whose right operand is a copy of what every window sees, one column a pixel.

Of few pixels and many channels weights are most of what is read. Channels in lanes would turn all of them for each call, to use them
for a handful of pixels; here they stay where they lie, a row of the left operand for each channel, and what is copied is the windows::

    THREAD channels  BLOCK terms  [copy the windows: terms x pixels]  channels/6 · REDUCE terms · 6 channels x 4 vectors of pixels

Pixels of all rows are one axis, so that lanes are filled however short rows are.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from planish.actions.join import Join
from planish.optimize.contraction import multiply
from planish.optimize.draft import Draft
from planish.optimize.windows import Window
from planish.uop.nest import name_of, size_of
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import Ops


def windows_as_columns(draft: Draft, view: Nest, window: Window) -> bool:
    """The nest of a product with windows as columns; false, and nothing done, where copying weights is less than copying windows."""
    weights, pixels, channels = window.weights, window.pixels, window.channels
    if weights is None or window.reduction.arg is not Ops.ADD or not pixels or not channels:
        return False
    if prod(map(size_of, pixels)) >= prod(map(size_of, channels)):
        return False
    for axes, place in ((pixels, window.place), (channels, weights), (window.reduced, weights)):
        if not _joined(draft, view, axes, place):
            return False
    return multiply(draft, Nest.of(draft.sink), gathered=True)


def _joined(draft: Draft, view: Nest, axes: Iterable[UOp], place: UOp) -> bool:
    """Several axes as one, in the order in which they lie somewhere."""
    apart = {r: view.stride(place, r) for r in axes}
    if None in apart.values():
        return False
    first, *others = sorted(apart, key=lambda r: -abs(apart[r] or 0))
    return all(draft.do(Join(name_of(first), name_of(each)), "one axis of a matrix") for each in others)
