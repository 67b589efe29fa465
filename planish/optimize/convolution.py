"""Convolutions: sums of products of which one operand is read through a window that moves along output axes.

Nothing here knows what a convolution is: the structure is found in the indices (`windows.py`), which also says what pixels, taps
and channels are. Five nests are known; the cost model takes the best of those that fit:

* windows as the columns of a matrix (`im2col.py`), where there are more channels than pixels: what is copied is less than all weights;
* channels in lanes (`channel_lanes.py`), if there is a vector of them;
* sums in lanes (`tap_sums.py`), if the outputs are a few taps, each of which sums up an image (weights of depthwise convolutions);
* channels that share nothing in lanes (`depthwise.py`), where rows of pixels are shorter than a vector;
* pixels in lanes (`pixel_lanes.py`).

Of a sum that has no windows, but is no plain product of matrices either, channels in lanes and the nest of a product are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final, cast

from planish.actions.split import Split
from planish.optimize.channel_lanes import channels_in_lanes
from planish.optimize.contraction import add_up, find_product, is_thin, multiply
from planish.optimize.depthwise import leaves_most_empty, own_channels_in_lanes
from planish.optimize.draft import Draft
from planish.optimize.im2col import windows_as_columns
from planish.optimize.pixel_lanes import pixels_in_lanes
from planish.optimize.tap_sums import sums_in_lanes
from planish.optimize.templates import Candidate
from planish.optimize.windows import Window, lanes_of, panel_of, sums_of, window_of
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
    lanes = lanes_of(window, draft.target)
    channel = panel_of(view, window, lanes)
    if channel is None:
        channel = max(window.channels, key=size_of, default=None)
    if channel is None or window.reduction.arg is not Ops.ADD:
        return False
    return lanes > 1 and size_of(channel) >= lanes and channels_in_lanes(draft, view, window, channel)


def _by_pixels(draft: Draft, view: Nest, window: Window) -> bool:
    """Pixels in lanes, unless rows are too short for that."""
    return not leaves_most_empty(draft, view, window) and pixels_in_lanes(draft, view, window)


Schedule = Callable[[Draft, Nest, Window], bool]
_NESTS: Final[Mapping[str, Schedule]] = {
    "windows as columns": windows_as_columns,
    "channels in lanes": _by_channels,
    "sums of taps in lanes": sums_in_lanes,
    "channels of their own in lanes": own_channels_in_lanes,
    "pixels in lanes": _by_pixels,
}


def contractions(draft: Draft, nest: Nest) -> Iterator[Candidate]:
    """Candidates for a sum of products, over windows or not, or another reduction over windows."""
    if len(nest.reductions) != 1:
        return
    window = window_of(nest)
    sums = [] if window is not None else sums_of(nest, draft.target)
    # weights that were packed were packed for this
    packed = [each for each in sums if panel_of(nest, each, lanes_of(each, draft.target)) is not None]
    for each in packed:
        yield Candidate("channels in lanes", partial(_by_channels, view=nest, window=each))
    if find_product(nest, draft.target) is not None:
        rivals = [
            Candidate("a product of matrices", partial(multiply, view=nest)),
            Candidate("sums in lanes", partial(add_up, view=nest)),
        ]
        # where a copy of the other operand is of little use, the one without a copy is what others have to be better than
        yield from reversed(rivals) if is_thin(nest, draft.target) else rivals
    if window is not None:
        for name, schedule in _NESTS.items():
            yield Candidate(name, partial(_of_windows, nest=nest, window=window, schedule=schedule))
    elif not packed:
        for each, name in zip(
            sums, ("channels in lanes", "channels of the other operand in lanes"), strict=False
        ):
            yield Candidate(name, partial(_by_channels, view=nest, window=each))


def _of_windows(draft: Draft, nest: Nest, window: Window, schedule: Schedule) -> bool:
    if _groups_apart(draft, window):
        nest = Nest.of(draft.sink)
        window = window_of(nest) or window
    return schedule(draft, nest, window)
