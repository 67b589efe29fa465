"""Histograms: how many elements, or points of several coordinates, lie in each interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np

from planish.errors import ShapeError
from planish.frontend.tensor import functions as api
from planish.frontend.tensor.array import Tensor
from planish.frontend.tensor.operands import default_float, tensor


def histogram_bin_edges(
    x: Tensor, /, bins: int | str | Tensor = 10, range: tuple[float, float] | None = None
) -> Tensor:
    """The limits of so many intervals of one width, from the smallest to the greatest element."""
    if isinstance(bins, str):  # how many there are depends on the data
        known = tensor("histogram", x)._elements("histogram")
        return tensor("histogram", np.histogram_bin_edges(known, bins, range))
    if not isinstance(bins, int):
        return tensor("histogram", bins)
    if bins < 1:
        raise ShapeError.of("histogram", f"there are no {bins} intervals", "give 1 or more, or their limits")
    given = default_float(tensor("histogram", x))
    if range is not None:
        low, high = (float(end) for end in range)
        if low == high:
            low, high = low - 0.5, high + 0.5
        return api.linspace(low, high, bins + 1, dtype=given.dtype)
    if given.size == 0:
        return api.linspace(0.0, 1.0, bins + 1, dtype=given.dtype)
    least, most = api.min(given), api.max(given)
    wider = api.where(least == most, 0.5, 0.0)
    least, most = least - wider, most + wider
    edges = least + (most - least) * api.linspace(0.0, 1.0, bins + 1, dtype=given.dtype)
    return api.concat([edges[:-1], most[None]])


def _interval(x: Tensor, edges: Tensor) -> Tensor:
    """The number of the interval of each element from 1 on; 0 and one more than there are: outside."""
    numbers = api.searchsorted(edges, x, side="right")
    return api.where(x == edges[-1], edges.shape[0] - 1, numbers)


def histogram(
    x: Tensor,
    /,
    bins: int | str | Tensor = 10,
    range: tuple[float, float] | None = None,
    density: bool = False,
    weights: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """How many elements lie in each interval, and the limits of the intervals."""
    columns = api.reshape(default_float(tensor("histogram", x)), (-1, 1))
    counts, edges = _counted(columns, [bins], None if range is None else [range], density, weights)
    return counts, edges[0]


def histogram2d(
    x: Tensor,
    y: Tensor,
    /,
    bins: int | Sequence[int | Tensor] = 10,
    range: Sequence[tuple[float, float]] | None = None,
    *,
    density: bool = False,
    weights: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """How many points lie in each rectangle, and the limits along both axes."""
    points = api.stack([default_float(tensor("histogram2d", one)) for one in (x, y)], axis=1)
    counts, (first, second) = histogramdd(points, bins, range, density=density, weights=weights)
    return counts, first, second


def histogramdd(
    sample: Tensor,
    /,
    bins: int | Sequence[int | Tensor] = 10,
    range: Sequence[tuple[float, float]] | None = None,
    *,
    density: bool = False,
    weights: Tensor | None = None,
) -> tuple[Tensor, list[Tensor]]:
    """How many rows of `sample` lie in each box, and the limits along each axis."""
    points = default_float(tensor("histogramdd", sample))
    counts, limits = _counted(points, bins, range, density, weights)
    return api.astype(counts, points.dtype) if counts.dtype.is_int else counts, limits


def _counted(
    points: Tensor,
    bins: int | Sequence[int | str | Tensor],
    range: Sequence[tuple[float, float]] | None,
    density: bool,
    weights: Tensor | None,
) -> tuple[Tensor, list[Tensor]]:
    if points.ndim != 2:
        raise ShapeError.of("histogramdd", f"shape {points.shape} is not a table of points")
    ndim = points.shape[1]
    wanted = [bins] * ndim if isinstance(bins, int) else list(bins)
    if len(wanted) != ndim:
        raise ShapeError.of("histogramdd", f"{len(wanted)} axes of intervals for points of {ndim}")
    limits: list[Tensor] = []
    place: Tensor | None = None
    for axis, number in enumerate(wanted):
        column = points[:, axis]
        edges = histogram_bin_edges(column, number, None if range is None else range[axis])
        limits.append(edges)
        here = _interval(column, edges)
        place = here if place is None else place * (edges.shape[0] + 1) + here
    sizes = [edges.shape[0] + 1 for edges in limits]
    flat_weights = None if weights is None else api.reshape(tensor("histogramdd", weights), (-1,))
    counted = api.bincount(cast("Tensor", place), weights=flat_weights, length=math.prod(sizes))
    counts = api.reshape(counted, tuple(sizes))[(slice(1, -1),) * ndim]
    if density:
        counts = api.astype(counts, points.dtype) / api.astype(api.sum(counts), points.dtype)
        for edges in limits:
            width = api.diff(edges)
            counts = counts / api.reshape(width, [-1 if edges is other else 1 for other in limits])
    return counts, limits


__all__ = ["histogram", "histogram2d", "histogram_bin_edges", "histogramdd"]
