"""Pools, and the inverse of a maximum pool."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from planish import dtypes
from planish.onnx.ops.common import Array, ints, outputs, size_of, sizes
from planish.onnx.ops.windows import window_of
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
    pool, column_major = _pool_of(at, x), bool(at.attr("storage_order", 0))
    best = pooling.max_pool(x, *pool)
    if outputs(at) < 2:
        return best
    at.work(math.prod(pool[0]) * _PER_TAP)
    plane = math.prod(sizes(at, x, 2))
    places = pooling.max_pool_places(x, *pool, column_major)
    # ONNX counts them in the whole tensor
    batch, channel = (at.graph.iota(best.dims, axis, dtypes.int64) for axis in range(2))
    return best, places.add(batch.mul(size_of(at, x, 1)).add(channel).mul(plane))


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
