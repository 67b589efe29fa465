"""Pools, and the inverse of a maximum pool."""

from __future__ import annotations

import itertools
import math

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


def _room(at: NodeSite, x: V, window: NodeWindow) -> NodeWindow:
    """The window with what rounding up adds to the padding behind."""
    if not at.attr("ceil_mode", 0):
        return window
    padding = []
    for n, (low, high) in enumerate(window.padding):
        size, span, stride = size_of(at, x, 2 + n), window.spans[n], window.strides[n]
        over = -(size + low + high - span) % stride
        start = size + low + high - span + over
        # A window that would begin in the padding behind is left out.
        padding.append((low, high if start >= size + low else high + over))
    return NodeWindow(window.shape, window.strides, window.dilations, tuple(padding))


def _windowed(x: V, kind: str, window: NodeWindow) -> V:
    return x.reduce_window(
        kind,
        [1, 1, *window.shape],
        [1, 1, *window.strides],
        [(0, 0), (0, 0), *window.padding],
        None,
        [1, 1, *window.dilations],
    )


@op("MaxPool")
def max_pool(at: NodeSite, x: V) -> V | tuple[V, V]:
    window = _room(at, x, window_of(at, x))
    column_major = bool(at.attr("storage_order", 0))
    best = _windowed(x, "max", window)
    if outputs(at) < 2:
        return best
    return best, _places(at, x, window, best, column_major)


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
    given = window_of(at, x)
    window = _room(at, x, given)
    counted = bool(at.attr("count_include_pad", 0))
    wide = widened(x)
    total = _windowed(wide, "sum", window)
    ones = at.graph.full(x.dims[2:], 1.0, wide.dtype)
    padding = window.padding
    if counted:
        ones = ones.pad([p for p, _ in given.padding], [p for _, p in given.padding], value=1.0)
        padding = tuple(
            (0, new[1] - old[1]) for new, old in zip(window.padding, given.padding, strict=True)
        )  # fmt: skip
    if not any(low or high for low, high in padding):
        return converted(total.div(float(np.prod(window.shape))), x.dtype)
    count = ones.reduce_window("sum", window.shape, window.strides, padding, None, window.dilations)
    return converted(total.div(count.broadcast_to(total.dims)), x.dtype)


@op("LpPool")
def lp_pool(at: NodeSite, x: V) -> V:
    window = _room(at, x, window_of(at, x))
    p = at.attr("p", 2)
    total = _windowed(widened(x).abs().pow(float(p)), "sum", window)
    return converted(total.pow(1 / p), x.dtype)


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
