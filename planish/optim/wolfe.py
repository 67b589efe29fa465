"""A line search: a length that lowers a function enough and flattens its slope enough (the strong Wolfe conditions).

First the length grows until an interval surely holds such a point, then the interval shrinks around it. Both by the minimum of the cubic
through two values and slopes (Nocedal and Wright, Numerical Optimization, algorithms 3.5 and 3.6).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from planish.frontend.tensor.array import Tensor

_LOWER = 1e-4
"""Which share of the decrease that the first slope promises has to be there."""
_FLATTER = 0.9
"""Which share of the first slope may be left."""
_LONGEST = 10.0
"""By how much a length may grow at once."""
_EDGE = 0.1
"""Which share of an interval counts as near its ends."""


class Point(NamedTuple):
    """A place along a line: the function there, its slope along the line and its gradient."""

    length: float
    value: float
    slope: float
    gradient: Tensor


def _cubic_minimum(a: Point, b: Point, low: float, high: float) -> float:
    """Where the cubic through two points with their slopes is least, between bounds; their middle if it is nowhere."""
    if a.length > b.length:
        a, b = b, a
    width = b.length - a.length
    bend = a.slope + b.slope - 3 * (a.value - b.value) / (a.length - b.length) if width else math.nan
    under = bend * bend - a.slope * b.slope
    if not under >= 0:
        return (low + high) / 2
    root = math.sqrt(under)
    below = b.slope - a.slope + 2 * root
    if below == 0:
        return (low + high) / 2
    return min(max(b.length - width * (b.slope + root - bend) / below, low), high)


def search(
    probe: Callable[[float], Point], start: Point, length: float, widest: float, least: float, most: int
) -> tuple[Point, int]:
    """A point that fulfils the conditions, or the lowest that was found; and how often the function was evaluated.

    `widest` is the largest entry of the direction: an interval in which no entry moves by more than `least` is not searched.
    """

    def is_high(point: Point) -> bool:
        return not point.value <= start.value + _LOWER * point.length * start.slope

    def is_flat(point: Point) -> bool:
        return abs(point.slope) <= -_FLATTER * start.slope

    last, point, tries = start, probe(length), 0
    while tries < most:
        if is_high(point) or (tries > 1 and point.value >= last.value):
            break
        if is_flat(point):
            return point, tries + 1
        if point.slope >= 0:
            break
        nearest = point.length + 0.01 * (point.length - last.length)
        longer = _cubic_minimum(last, point, nearest, _LONGEST * point.length)
        last, point = point, probe(longer)
        tries += 1
    else:
        last = start
    low, high = (last, point) if last.value <= point.value else (point, last)
    was_near = False
    while tries < most and abs(high.length - low.length) * widest >= least:
        left, right = sorted((low.length, high.length))
        trial = _cubic_minimum(low, high, left, right)
        edge = _EDGE * (right - left)
        is_near = min(right - trial, trial - left) < edge
        if is_near and (was_near or trial >= right or trial <= left):
            # twice at an end, or on it: the interval would hardly shrink
            trial = right - edge if right - trial < trial - left else left + edge
            is_near = False
        was_near = is_near
        point = probe(trial)
        tries += 1
        if is_high(point) or point.value >= low.value:
            high = point
            if high.value < low.value:
                low, high = high, low
            continue
        if is_flat(point):
            return point, tries + 1
        if point.slope * (high.length - low.length) >= 0:
            high = low
        low = point
    return low, tries + 1
