"""Convolutions: sums of products of which one operand is read through a window that moves along output axes.

Nothing here knows what a convolution is: the structure is found in the indices (`windows.py`), which also says what pixels, taps
and channels are. Four nests are known; the cost model takes the best of those that fit:

* channels in lanes (`channel_lanes.py`), if there is a vector of them;
* sums in lanes (`tap_sums.py`), if the outputs are a few taps, each of which sums up an image (weights of depthwise convolutions);
* channels that share nothing in lanes (`depthwise.py`), where rows of pixels are shorter than a vector;
* pixels in lanes (`pixel_lanes.py`).

Of a sum that has no windows, but is no plain product of matrices either, channels in lanes and the nest of a product are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, cast

from planish.actions.split import Split
from planish.optimize.candidates import Template, best_of
from planish.optimize.channel_lanes import channels_in_lanes
from planish.optimize.contraction import multiply
from planish.optimize.depthwise import own_channels_in_lanes
from planish.optimize.draft import Draft
from planish.optimize.pixel_lanes import pixels_in_lanes
from planish.optimize.tap_sums import sums_in_lanes
from planish.optimize.windows import Window, lanes_of, sums_of, window_of
from planish.uop.nest import size_of
from planish.uop.nest.kernel import Nest
from planish.uop.ops import Ops


def _groups_apart(draft: Draft, window: Window) -> bool:
    """Cut an axis of which the image depends on a quotient only: the channels of a group read the same pixels."""
    for axis in window.shared:
        for node in window.image.toposort():
            if node.op is Ops.FLOORDIV and node.src[0] is axis and node.src[1].op is Ops.CONST:
                size = cast("int", node.src[1].arg)
                if size_of(axis) % size == 0 and draft.take(Split, axis, size, "the channels of a group"):
                    return True
    return False


def _by_channels(draft: Draft, view: Nest, window: Window) -> bool:
    """Channels in lanes, if there is a vector of them."""
    channel = max(window.channels, key=size_of, default=None)
    if channel is None or window.reduction.arg is not Ops.ADD:
        return False
    lanes = lanes_of(window, draft.target)
    return lanes > 1 and size_of(channel) >= lanes and channels_in_lanes(draft, view, window, channel)


_NESTS: Final[Sequence[Callable[[Draft, Nest, Window], bool]]] = (
    _by_channels,
    sums_in_lanes,
    own_channels_in_lanes,
    pixels_in_lanes,
)


def contract_any(draft: Draft, view: Nest) -> bool:
    """Actions for a sum of products, over windows or not, or another reduction over windows; false if the kernel is none."""
    window = window_of(view)
    if window is None:
        sums = sums_of(view)
        return best_of(draft, view, [multiply] if sums is None else [_bound(_by_channels, sums), multiply])
    trial = draft.copy()
    if _groups_apart(trial, window):
        view = Nest.of(trial.sink)
        window = window_of(view) or window
    if best_of(trial, view, [_bound(nest, window) for nest in _NESTS]):
        draft.adopt(trial)
        return True
    return multiply(draft, view)


def _bound(nest: Callable[[Draft, Nest, Window], bool], window: Window) -> Template:
    return lambda draft, view: nest(draft, view, window)
