"""Channels of their own in lanes: the nest of a depthwise convolution of small images.

Pixels in lanes leave most of a vector empty where a row of the image is shorter than one. Neighbouring channels are next to each
other nowhere, but as many of them as a vector has lanes can be copied so, with the padding of their images, and their weights:

    THREAD c/16 · [image and weights staged, turned] · rows · taps · all pixels of a row × 16 channels in registers

That may pay where rows leave lanes empty, and as long as the copy stays in the first cache; the cost model decides. Where they fill half of
a vector at most pixels are no rivals: 5 to 7 of them in 16 lanes take 1.3 to 1.8 times as long, which the model does not see, as
it counts the copy element by element.
"""

from __future__ import annotations

from planish.actions.upcast import Upcast
from planish.optimize.draft import Draft
from planish.optimize.windows import Window, WindowSizes, lanes_of
from planish.uop.nest import name_of, size_of
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import Ops


def own_channels_in_lanes(draft: Draft, view: Nest, window: Window) -> bool:
    """The nest with channels in lanes that share nothing; false if it does not fit."""
    axes = _channel_and_pixel(draft, view, window)
    return axes is not None and _schedule(draft, window, *axes, lanes_of(window, draft.target))


def leaves_most_empty(draft: Draft, view: Nest, window: Window) -> bool:
    """Whether a row fills half of a vector at most, where channels would fill it."""
    axes = _channel_and_pixel(draft, view, window)
    return axes is not None and 2 * size_of(axes[1]) <= lanes_of(window, draft.target)


def _channel_and_pixel(draft: Draft, view: Nest, window: Window) -> tuple[UOp, UOp] | None:
    """The axes of channels and of pixels, if every channel has weights of its own and rows that leave lanes empty."""
    if window.weights is None or window.channels or window.reduction.arg is not Ops.ADD:
        return None
    lanes = lanes_of(window, draft.target)
    pixel = next((r for r in reversed(window.pixels) if view.stride(window.place, r) == 1), None)
    channel = max(window.shared, key=size_of, default=None)
    if pixel is None or channel is None or lanes < 2 or size_of(channel) % lanes:
        return None
    return (channel, pixel) if _fits(draft, view, window, pixel, lanes) else None


def _fits(draft: Draft, view: Nest, window: Window, pixel: UOp, lanes: int) -> bool:
    """Whether a row leaves lanes empty, of an image whose copy stays near."""
    sizes = WindowSizes(view, window, 1)
    if size_of(pixel) >= lanes or pixel not in sizes.pairs:
        return False
    box = sizes.image(dict.fromkeys((*window.shared, *(r for r in window.pixels if r not in sizes.pairs)), 1))
    return box * lanes * window.image.dtype.itemsize <= draft.target.caches[0]


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
