"""Pools, and the inverse of a maximum pool."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from planish import dtypes
from planish.onnx.ops.common import Array, ints, outputs, size_of, sizes
from planish.onnx.ops.windows import NodeWindow, window_of
from planish.onnx.registry import op
from planish.onnx.site import NodeSite
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library import pooling
from planish.ptir.library.normalize import converted, widened

_PER_TAP = 4096
"""Operations in the time in which the instructions for one tap are written."""


Pool = tuple[Sequence[int], Sequence[int], pooling.Padding, Sequence[int], bool]


def _pool_of(at: NodeSite, x: V) -> Pool:
    """What a pool of the library is told after its input: window, strides, padding, dilation, and whether sizes are rounded up."""
    window, ceil = window_of(at, x), bool(at.attr("ceil_mode", 0))
    if ceil:
        sizes(at, x, 2)  # which must be numbers then
    return window.shape, window.strides, window.padding, window.dilations, ceil


@op("MaxPool")
def max_pool(at: NodeSite, x: V) -> V | tuple[V, V]:
    best = pooling.max_pool(x, *_pool_of(at, x))
    if outputs(at) < 2:
        return best
    return best, _places(at, x, window_of(at, x), best, bool(at.attr("storage_order", 0)))


def _places(at: NodeSite, x: V, window: NodeWindow, best: V, column_major: bool) -> V:
    """Where in the whole tensor the largest of each window stands, the first of equals."""
    space = sizes(at, x, 2)
    at.work(math.prod(window.shape) * _PER_TAP)
    dims = best.dims
    graph = at.graph
    lowest: float | int = -np.inf if x.dtype.is_float else int(x.dtype.min or 0)
    low = [p for p, _ in window.padding]
    room = [
        max((best.type.max_shape[2 + n] - 1) * window.strides[n] + window.spans[n] - space[n] - low[n], 0)
        for n in range(len(space))
    ]
    padded = x.pad([0, 0, *low], [0, 0, *room], value=lowest)
    places: V | None = None
    for tap in itertools.product(*(range(k) for k in window.shape)):
        first = [t * d for t, d in zip(tap, window.dilations, strict=True)]
        starts = [0, 0, *first]
        limits = [
            *dims[:2],
            *(first[n] + (dims[2 + n] - 1) * window.strides[n] + 1 for n in range(len(space))),
        ]
        seen = padded.slice(starts, limits, [1, 1, *window.strides])
        place: V | None = None
        inside: V | None = None
        factors = _factors(space, column_major)
        for n, size in enumerate(space):
            here = graph.iota(dims, 2 + n, dtypes.int64).mul(window.strides[n]).add(first[n] - low[n])
            ok = here.ge(0).and_(here.lt(size))
            inside = ok if inside is None else inside.and_(ok)
            term = here.mul(factors[n])
            place = term if place is None else place.add(term)
        if place is None or inside is None:
            raise at.refuse("has no spatial axes")
        hit = seen.eq(best).and_(inside)
        none = graph.full(dims, np.iinfo(np.int64).max, dtypes.int64)
        mine = hit.select(place, none)
        places = mine if places is None else places.eq(none).select(mine, places)
    if places is None:
        raise at.refuse("has an empty window")
    plane = int(np.prod(space))
    batch, channels = (graph.iota(dims, n, dtypes.int64) for n in range(2))
    return places.add(batch.mul(size_of(at, x, 1)).add(channels).mul(plane))


def _factors(space: list[int], column_major: bool) -> list[int]:
    """What one step along each spatial axis counts."""
    if column_major:
        return [int(np.prod(space[:n])) for n in range(len(space))]
    return [int(np.prod(space[n + 1 :])) for n in range(len(space))]


@op("AveragePool")
def average_pool(at: NodeSite, x: V) -> V:
    return pooling.average_pool(x, *_pool_of(at, x), bool(at.attr("count_include_pad", 0)))


@op("LpPool")
def lp_pool(at: NodeSite, x: V) -> V:
    return pooling.lp_pool(x, *_pool_of(at, x), float(at.attr("p", 2)))


@op("GlobalAveragePool")
def global_average_pool(at: NodeSite, x: V) -> V:
    return pooling.global_average_pool(x)


@op("GlobalMaxPool")
def global_max_pool(at: NodeSite, x: V) -> V:
    return pooling.global_max_pool(x)


@op("GlobalLpPool")
def global_lp_pool(at: NodeSite, x: V) -> V:
    p = at.attr("p", 2)
    total = widened(x).abs().pow(float(p)).reduce_sum(list(range(2, x.rank)), keepdims=True)
    return converted(total.pow(1 / p), x.dtype)


@op("MaxUnpool", known=(2,))
def max_unpool(at: NodeSite, x: V, index: V, wanted: Array | None = None) -> V:
    kernel = at.attributes.require("kernel_shape")
    count = len(kernel)
    strides = at.attr("strides") or [1] * count
    pads = at.attr("pads") or [0] * (2 * count)
    batch, channels, *space = sizes(at, x)
    natural = [
        batch,
        channels,
        *((space[n] - 1) * strides[n] + kernel[n] - pads[n] - pads[n + count] for n in range(count)),
    ]
    flat = at.graph.full((int(np.prod(natural)),), 0, x.dtype)
    number = int(np.prod(sizes(at, x)))
    laid = flat.scatter(x.reshape((number,)), [index.reshape((number,))], [0]).reshape(natural)
    if wanted is None:
        return laid
    target = ints(wanted)
    return laid.pad([0] * len(natural), [t - n for t, n in zip(target, natural, strict=True)])
