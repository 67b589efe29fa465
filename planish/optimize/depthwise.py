"""Channels of their own in lanes: the nest of a depthwise convolution of small images.

Pixels in lanes leave most of a vector empty where a row of the image is shorter than one. Neighbouring channels are next to each
other nowhere, but as many of them as a vector has lanes can be copied so, with the padding of their images, and their weights:

    THREAD c/16 · [image and weights staged, turned] · rows · taps · all pixels of a row × 16 channels in registers

That pays where what the empty lanes would have done is more than the copy, and as long as the copy stays in the first cache.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Final

from planish.optimize.draft import Draft
from planish.optimize.kernel_view import View, size_of
from planish.optimize.lanes import rounded_up
from planish.optimize.loops import Loops
from planish.optimize.windows import Sizes, Window, lanes_of
from planish.uop.actions import ActionKind
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
    trial = replace(draft, actions=[*draft.actions], reasons=[*draft.reasons], upcast={**draft.upcast})
    if not _schedule(Loops(trial), window, channel, pixel, lanes):
        return False
    draft.sink, draft.actions, draft.reasons = trial.sink, trial.actions, trial.reasons
    draft.upcast = trial.upcast
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


def _schedule(loops: Loops, window: Window, channel: UOp, pixel: UOp, lanes: int) -> bool:
    inner, outer = loops.path(pixel), loops.path(channel)
    if inner is None or outer is None or not loops.swap(inner, outer):
        return False
    # (lanes of what comes last lie next to each other)
    if not loops.take(ActionKind.UPCAST, channel, lanes, "channels of their own in lanes: rows are shorter"):
        return False
    if not loops.take(ActionKind.UPCAST, pixel, size_of(pixel), "pixels of a row share their weights"):
        return False
    left = [path for r in (channel, *window.shared, *window.pixels) if (path := loops.path(r)) is not None]
    loops.order(dict.fromkeys(left))
    at = loops.path(channel)
    copied = loops.stage(at, window.image, "images with their padding, channels side by side")
    return copied and window.weights is not None and loops.stage(at, window.weights, "weights likewise")
