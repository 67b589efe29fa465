"""Windows: what a convolution, or pooling, is in the indices of a kernel, and how much a piece of its results needs.

One operand (the *image*) is read at a sum of an output axis (*pixels*) and a reduced one (*taps*); the other (the *weights*), if
there is one, depends on output axes of its own (*channels*). Axes that both depend on are batches of problems (groups).
"""

from __future__ import annotations

from dataclasses import field
from math import prod
from typing import Final, NamedTuple

from planish.records import dataclass
from planish.target import Target
from planish.uop.nest import size_of
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import Ops

UNROLLED_TAPS: Final = 8
"""A loop over so many taps is unrolled, and what neighbouring pixels read is in registers for all of them."""
_FAR: Final = 4
"""Elements from one window to the next, up to which whole vectors are loaded and some of their lanes taken."""
MOST_VECTORS: Final = 4
"""Vectors of channels in a register tile."""
_SHORT: Final = 8
"""Results that lie together, below which something else is better in lanes."""
_GAPS: Final = (33, 32)
"""What is copied takes a little more memory: planes are kept apart."""


class Window(NamedTuple):
    """A reduction over windows."""

    place: UOp
    """Where the result is stored."""
    reduction: UOp
    image: UOp
    weights: UOp | None
    channels: tuple[UOp, ...]
    """Output axes of the weights alone."""
    pixels: tuple[UOp, ...]
    """Output axes of the image alone, outermost first."""
    shared: tuple[UOp, ...]
    """Output axes of both."""
    reduced: tuple[UOp, ...]


def lanes_of(window: Window, target: Target) -> int:
    """How many elements fill a register, of what is multiplied and added up (what is done with sums later may take more)."""
    reads = [window.image] if window.weights is None else [window.image, window.weights]
    return min(target.lanes(each.dtype.scalar) for each in (window.reduction, *reads))


def window_of(view: Nest) -> Window | None:
    """The kernel as one reduction over windows; None if it is something else."""
    place = result_of(view)
    if len(view.reductions) != 1 or place is None or view.rows:
        return None
    (reduction,) = view.reductions
    reads = view.reads_of(reduction)
    reduced = tuple(r for r in reduction.src[1:] if r.op is Ops.RANGE)
    outputs = [r for r in view.outputs if r in reduction.ranges]
    if (
        not 1 <= len(reads) <= 2
        or len(outputs) != len(view.outputs)
        or len(reduced) != len(reduction.src) - 1
    ):
        return None
    if any(not size_of(r) for r in (*outputs, *reduced)) or any(
        p.src[0].op is not Ops.DEFINE_GLOBAL for p in reads
    ):
        return None
    both = [
        _roles(view, place, reduction, image, next((p for p in reads if p is not image), None))
        for image in reads
    ]
    windows = [window for window in both if window.pixels]
    # (first by overlaps: weights of channels that lie between pixels of the result are far apart, too)
    return next(
        (window for window in windows if _overlaps(view, window)),
        next((window for window in windows if _lies_apart(view, window, len(reads) == 2)), None),
    )


def sums_of(view: Nest, target: Target) -> list[Window]:
    """The kernel as a product of matrices that is no plain one: no windows, but as many loops.

    Its sums run over several axes that are not one in memory, or few of its results lie together (the phases of a transposed
    convolution). The weights may be either operand, first that with the longest axis of its own, best that along which results lie together.
    """
    place = result_of(view)
    if len(view.reductions) != 1 or place is None or view.rows:
        return []
    (reduction,) = view.reductions
    reads, reduced = view.reads_of(reduction), reduction.src[1:]
    if len(reads) != 2 or any(p.src[0].op is not Ops.DEFINE_GLOBAL for p in reads):
        return []
    if any(r.op is not Ops.RANGE or not view.stride(p, r) for r in reduced for p in reads):
        return []
    if any(not size_of(r) for r in (*view.outputs, *reduced)):
        return []
    together = next((r for r in reversed(view.outputs) if view.stride(place, r) == 1), None)
    if together is None:
        return []
    windows = [_roles(view, place, reduction, image, weights) for image, weights in (reads, reads[::-1])]
    if packed := [
        window
        for window in windows
        if panel_of(view, window, lanes_of(window, target)) not in {None, together}
    ]:
        return packed
    if len(reduced) == 1 and size_of(together) >= _SHORT:
        return []
    return sorted(
        (window for window in windows if window.pixels and window.channels),
        key=lambda window: (
            together in window.channels and size_of(together) >= _SHORT,
            max(map(size_of, window.channels)),
        ),
        reverse=True,
    )


def panel_of(view: Nest, window: Window, lanes: int) -> UOp | None:
    """The channels of a register tile that lie side by side in packed weights: the next ones along what is reduced follow at once.

    There are several such panels, one after the other: one alone may be any matrix.
    """
    weights = window.weights
    if weights is None:
        return None
    channel = next((r for r in window.channels if view.stride(weights, r) == 1), None)
    if channel is None or not lanes <= size_of(channel) <= MOST_VECTORS * lanes or size_of(channel) % lanes:
        return None
    length = size_of(channel)
    for r in sorted(window.reduced, key=lambda r: abs(view.stride(weights, r) or 0)):
        if size_of(r) > 1 and view.stride(weights, r) != length:
            return None
        length *= size_of(r)
    others = [r for r in (*window.channels, *window.shared) if r is not channel]
    apart = all((view.stride(weights, r) or 0) >= length for r in others)
    return channel if apart and len(window.channels) > 1 else None


def _roles(view: Nest, place: UOp, reduction: UOp, image: UOp, weights: UOp | None) -> Window:
    """What the output axes are, if one operand is the image and the other one the weights."""
    outputs = [r for r in view.outputs if r in reduction.ranges]
    # (a quotient of an axis that was cut may not have been simplified yet: what counts is whether anything moves)
    seen = [r for r in outputs if view.stride(image, r) != 0]
    own = [r for r in outputs if weights is not None and view.stride(weights, r) != 0]
    return Window(
        place,
        reduction,
        image,
        weights,
        channels=tuple(r for r in outputs if r not in seen),
        pixels=tuple(r for r in seen if r not in own),
        shared=tuple(r for r in seen if r in own),
        reduced=tuple(r for r in reduction.src[1:] if r.op is Ops.RANGE),
    )


def result_of(view: Nest) -> UOp | None:
    """Where the result is stored, or one of several that have the same layout; None if they have not.

    (What is stored once, besides, has no layout.)
    """
    first, *others = [p for p in view.writes if any(r in p.ranges for r in view.outputs)] or view.writes
    alike = all(view.stride(place, r) == view.stride(first, r) for place in others for r in view.outputs)
    return first if alike else None


def _overlaps(view: Nest, window: Window) -> bool:
    """Whether windows overlap."""
    for pixel in window.pixels:
        for tap in window.reduced:
            a, b = view.stride(window.image, pixel), view.stride(window.image, tap)
            if a and b and _overlap((abs(a), size_of(pixel)), (abs(b), size_of(tap))):
                return True
    return False


def _lies_apart(view: Nest, window: Window, is_product: bool) -> bool:
    """Whether windows do not lie side by side where their results do."""
    across = [r for r in window.pixels if view.stride(window.place, r) == 1]
    steps = [view.stride(window.image, r) for r in across]
    # along one axis only, a product has the columns of a matrix; far apart, they are the rows of one
    near = 1 if is_product else _FAR
    return any(
        step is not None and abs(step) > 1 and (abs(step) <= near or len(window.pixels) > 1) for step in steps
    )


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    (fine, size), (coarse, _) = sorted((one, other))
    return coarse % fine == 0 and coarse // fine < size


@dataclass(slots=True)
class WindowSizes:
    """How much of the operands a piece of the outputs needs."""

    view: Nest
    window: Window
    lanes: int
    pairs: dict[UOp, UOp] = field(init=False, default_factory=dict)
    """Pixels, and the taps that they are read together with."""
    packed: bool = field(init=False, default=False)
    """Whether the weights are in panels, and need no copy."""

    def __post_init__(self) -> None:
        self.packed = panel_of(self.view, self.window, self.lanes) is not None
        window, free = self.window, list(self.window.reduced)
        for pixel in reversed(window.pixels):
            fitting = [(ratio, tap) for tap in free if (ratio := self._ratio(pixel, tap)) is not None]
            if fitting:
                _, tap = min(fitting, key=lambda pair: pair[0])
                self.pairs[pixel] = tap
                free.remove(tap)

    def _ratio(self, pixel: UOp, tap: UOp) -> int | None:
        """How much further one of them moves; None if their windows do not overlap."""
        a, b = (self.view.stride(self.window.image, r) for r in (pixel, tap))
        if not a or not b or not _overlap((abs(a), size_of(pixel)), (abs(b), size_of(tap))):
            return None
        return max(abs(a), abs(b)) // min(abs(a), abs(b))

    def image(self, parts: dict[UOp, int]) -> int:
        """The elements of the box that is read for parts of axes (left out: all of them)."""
        window, view = self.window, self.view
        steps = {r: view.stride(window.image, r) for r in (*window.reduced, *window.pixels, *window.shared)}
        sizes = {r: parts.get(r, size_of(r)) for r in steps}
        total, contiguous = 1, 1
        for r, tap in self.pairs.items():
            fine, coarse = sorted((r, tap), key=lambda axis: abs(steps[axis] or 0))
            times = abs(steps[coarse] or 0) // abs(steps[fine] or 1)
            sizes[fine] += (sizes.pop(coarse) - 1) * times
        for r, size in sizes.items():
            if steps[r] in {1, -1}:
                contiguous = -(-size // self.lanes) * self.lanes
            elif steps[r] != 0:
                total *= size
        return total * contiguous * _GAPS[0] // _GAPS[1]

    def weights(self, channels: int, parts: dict[UOp, int]) -> int:
        """The elements of the weights of so many channels, for parts of reduced axes (left out: all of them)."""
        return channels * prod(parts.get(r, size_of(r)) for r in self.window.reduced)
