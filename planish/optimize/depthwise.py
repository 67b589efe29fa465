"""Channels of their own in lanes: the nest of a depthwise convolution of small images.

Pixels in lanes leave most of a vector empty where a row of the image is shorter than one. Neighbouring channels are next to each
other nowhere, but as many of them as a vector has lanes can be copied so, with the padding of their images, and their weights:

    THREAD c/16 · [image and weights staged, turned] · rows · taps · all pixels of a row × 16 channels in registers

That pays where what the empty lanes would have done is more than the copy, and as long as the copy stays in the first cache.
"""

from __future__ import annotations

from math import prod
from typing import Final

from planish.actions.upcast import Upcast
from planish.optimize.draft import Draft
from planish.optimize.kernel_view import View
from planish.optimize.lanes import rounded_up
from planish.optimize.windows import Sizes, Window, lanes_of
from planish.uop.nest import name_of, size_of
from planish.uop.node import UOp
from planish.uop.ops import Ops

_COPY: Final = 2.0
"""Products in the time in which one element is copied and turned, there and back."""


def own_channels_in_lanes(draft: Draft, view: View, window: Window) -> bool:
    """The nest with channels in lanes that share nothing; false, and nothing done, if pixels do as well."""
    if window.weights is None or window.channels or window.reduction.arg is not Ops.ADD:
        return False
    lanes = lanes_of(window, draft.target)
    pixel = next((r for r in reversed(window.pixels) if view.stride(window.place, r) == 1), None)
    channel = max(window.shared, key=size_of, default=None)
    if pixel is None or channel is None or lanes < 2 or size_of(channel) % lanes:
        return False
    if not _pays(draft, view, window, pixel, lanes):
        return False
    trial = draft.copy()
    if not _schedule(trial, window, channel, pixel, lanes):
        return False
    draft.adopt(trial)
    return True


def _pays(draft: Draft, view: View, window: Window, pixel: UOp, lanes: int) -> bool:
    """Whether a row is so short that its empty lanes cost more than a copy, of an image that stays near."""
    size, sizes = size_of(pixel), Sizes(view, window, 1)
    if size > lanes or pixel not in sizes.pairs:
        return False
    empty = rounded_up(size, lanes) / size - 1
    box = sizes.image(dict.fromkeys((*window.shared, *(r for r in window.pixels if r not in sizes.pairs)), 1))
    near = box * lanes * window.image.dtype.itemsize <= draft.target.caches[0]
    return near and empty * prod(map(size_of, window.reduced)) >= _COPY


def _schedule(draft: Draft, window: Window, channel: UOp, pixel: UOp, lanes: int) -> bool:
    if not draft.swap(pixel, channel):
        return False
    # (lanes of what comes last lie next to each other)
    if not draft.take(Upcast, channel, lanes, "channels of their own in lanes: rows are shorter"):
        return False
    if not draft.take(Upcast, pixel, size_of(pixel), "pixels of a row share their weights"):
        return False
    axes = (channel, *window.shared, *window.pixels)
    draft.order(dict.fromkeys(name_of(loop) for r in axes if (loop := draft.innermost(r)) is not None))
    at = draft.innermost(channel)
    copied = draft.stage(window.image, at, "images with their padding, channels side by side")
    return copied and window.weights is not None and draft.stage(window.weights, at, "weights likewise")
