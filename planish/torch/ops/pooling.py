"""Pooling and its derivatives."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from planish import dtypes
from planish.ptir import ops
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library.common import cast, spread, take_along_axis
from planish.ptir.library.pooling import (
    adaptive_average_pool,
    adaptive_max_pool,
    average_pool,
    max_pool,
    max_pool_back,
    max_pool_places,
    shares,
)
from planish.torch.registry import lowering
from planish.torch.site import FxSite, each_axis, sizes, wide_kind

_FEW = 32
"""The derivative of windows up to so many elements is gathered by the elements, on GPUs."""


def _batched(x: V, space: int) -> tuple[V, bool]:
    return (x.expand_dims(0), True) if x.rank == space + 1 else (x, False)


def _pair(pooled: tuple[V, V], single: bool) -> tuple[V, V]:
    values, where = pooled
    return (values.squeeze([0]), where.squeeze([0])) if single else (values, where)


def _steps(stride: Any, window: list[int], space: int) -> list[int]:
    """Strides, those of the window if none are given."""
    return window if isinstance(stride, list | tuple) and not stride else each_axis(stride, space)


# --- maxima -----------------------------------------------------------------------------------------------


def _max_pool(
    space: int,
    at: FxSite,
    x: V,
    kernel_size: Any,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> tuple[V, V]:
    window = each_axis(kernel_size, space)
    steps, pads, gaps = _steps(stride, window, space), each_axis(padding, space), each_axis(dilation, space)
    images, single = _batched(x, space)
    out = list(at.fakes[0].shape)[-space:]
    axes = zip(sizes(at, images)[2:], out, window, steps, pads, gaps, strict=True)
    # as much room behind as just so many windows take
    ends = [
        (pad, (count - 1) * step + (wide - 1) * gap + 1 - size - pad)
        for size, count, wide, step, pad, gap in axes
    ]
    pool = (window, steps, ends, gaps)
    return _pair((max_pool(images, *pool), max_pool_places(images, *pool)), single)


lowering("aten.max_pool2d_with_indices")(partial(_max_pool, 2))
lowering("aten.max_pool3d_with_indices")(partial(_max_pool, 3))


def _scattered(at: FxSite, gradient: V, x: V, indices: V, space: int) -> V:
    """The gradient at the places that were chosen, added up."""
    area = math.prod(sizes(at, x)[-space:])
    lead = math.prod(sizes(at, x)[:-space])
    count = math.prod(sizes(at, gradient)[-space:])
    row = at.graph.iota((lead, count), 0, dtypes.int64)
    flat = at.full((lead, area), 0, gradient.dtype)
    sums = flat.scatter(gradient.reshape((lead, count)), [row, indices.reshape((lead, count))], [0, 1], "add")
    return sums.reshape(x.dims)


@lowering("aten.max_pool2d_with_indices_backward", "aten.max_pool3d_with_indices_backward")
def max_pool_backward(
    at: FxSite,
    gradient: V,
    x: V,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    indices: V,
) -> V:
    space = 3 if "3d" in str(at.node.target) else 2
    window = each_axis(kernel_size, space)
    if at.fakes[0].device.type == "cpu" or math.prod(window) > _FEW:
        return _scattered(at, gradient, x, indices, space)
    # on a GPU everybody who scatters reads the whole list of places
    steps = _steps(stride, window, space)
    (rows, single), (places, _) = _batched(gradient, space), _batched(indices, space)
    dims = sizes(at, x if x.rank == space + 2 else x.expand_dims(0))
    sums = max_pool_back(
        rows, places, dims, window, steps, each_axis(padding, space), each_axis(dilation, space)
    )
    return sums.squeeze([0]) if single else sums


@lowering("aten.adaptive_max_pool2d_backward", "aten.adaptive_max_pool3d_backward")
def adaptive_max_pool_backward(at: FxSite, gradient: V, x: V, indices: V) -> V:
    return _scattered(at, gradient, x, indices, 3 if "3d" in str(at.node.target) else 2)


def _adaptive_max(space: int, at: FxSite, x: V, output_size: Any) -> tuple[V, V]:
    images, single = _batched(x, space)
    return _pair(adaptive_max_pool(images, each_axis(output_size, space)), single)


lowering("aten.adaptive_max_pool2d")(partial(_adaptive_max, 2))
lowering("aten.adaptive_max_pool3d")(partial(_adaptive_max, 3))


def _fractional_max(
    space: int, at: FxSite, x: V, kernel_size: Any, output_size: Any, random_samples: V
) -> tuple[V, V]:
    """Windows whose starts are spaced by a random number per plane and axis."""
    images, single = _batched(x, space)
    known = sizes(at, images)[2:]
    lead, window, out = images.dims[:2], each_axis(kernel_size, space), each_axis(output_size, space)
    dims = (*lead, *out, *window)
    flat = at.full(dims, 0, dtypes.int64)
    for axis, (size, count, width) in enumerate(zip(known, out, window, strict=True)):
        # torch gives the random numbers of images in the order width, height, those of volumes in the order of the axes
        sample = random_samples[..., (1 - axis) if space == 2 else axis]
        starts = _fractional_starts(at, spread(sample, lead), size, count, width)
        shape = [*lead, *[1] * (2 * space)]
        shape[2 + axis] = count
        offset = at.graph.iota(dims, 2 + space + axis, dtypes.int64)
        flat = flat.mul(size).add(spread(starts.reshape(shape), dims)).add(offset)
    rows = flat.reshape((*lead, math.prod(out), math.prod(window)))
    lines = images.reshape((*lead, math.prod(known)))
    windows = take_along_axis(lines, rows.reshape((*lead, -1)), 2).reshape(rows.dims)
    which = windows.argmax(3, True, dtypes.int64)
    values, where = windows.reduce_max([3]), take_along_axis(rows, which, 3)
    whole = (*lead, *out)
    return _pair((values.reshape(whole), where.reshape(whole)), single)


def _fractional_starts(at: FxSite, sample: V, size: int, count: int, width: int) -> V:
    """Where the windows of an axis begin: the last one at its end."""
    dims = (*sample.dims, count)
    number = at.graph.iota(dims, sample.rank, dtypes.int64)
    last = at.full(dims, size - width, dtypes.int64)
    if count == 1:
        return last
    own = spread(sample.expand_dims(sample.rank), dims)
    step = (size - width) / (count - 1)
    place = cast(cast(number, sample.dtype).add(own).mul(step), dtypes.int64)
    return number.eq(count - 1).select(last, place.sub(cast(own.mul(step), dtypes.int64)))


for _space in (2, 3):
    lowering(f"aten.fractional_max_pool{_space}d")(partial(_fractional_max, _space))


@lowering("aten.fractional_max_pool2d_backward", "aten.fractional_max_pool3d_backward")
def fractional_max_backward(
    at: FxSite, gradient: V, x: V, kernel_size: Any, output_size: Any, indices: V
) -> V:
    return _scattered(at, gradient, x, indices, 3 if "3d" in str(at.node.target) else 2)


# --- means ------------------------------------------------------------------------------------------------


def _average(
    space: int,
    at: FxSite,
    x: V,
    kernel_size: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> V:
    window = each_axis(kernel_size, space)
    ends = [(pad, pad) for pad in each_axis(padding, space)]
    images, single = _batched(x, space)
    pooled = average_pool(
        images,
        window,
        _steps(stride, window, space),
        ends,
        None,
        ceil_mode,
        count_include_pad,
        divisor_override,
    )
    return pooled.squeeze([0]) if single else pooled


def _average_backward(
    space: int,
    at: FxSite,
    gradient: V,
    x: V,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> V:
    window = each_axis(kernel_size, space)
    steps = _steps(stride, window, space)
    pads = each_axis(padding, space)
    images, single = _batched(gradient, space)
    known, out = sizes(at, x)[-space:], sizes(at, gradient)[-space:]
    wide = cast(images, wide_kind(images.dtype))
    divided = np.ones(out)
    for axis, (n, o, w, s, p) in enumerate(zip(known, out, window, steps, pads, strict=True)):
        start = np.arange(o) * s - p
        end = np.minimum(start + w, n + p)
        held = end - start if count_include_pad else np.minimum(end, n) - np.maximum(start, 0)
        divided = divided * held.reshape([-1 if i == axis else 1 for i in range(space)])
    if divisor_override is not None:
        divided = np.full(out, float(divisor_override))
    wide = wide.div(spread(at.graph.constant(divided, wide.dtype), wide.dims))
    # each window's share at its place, then the sum over the windows that an element is in
    ends = []
    for n, o, w, s, p in zip(known, out, window, steps, pads, strict=True):
        before = w - 1 - p
        ends.append((before, n + w - 1 - before - ((o - 1) * s + 1)))
    low = [0, 0, *(end[0] for end in ends)]
    high = [0, 0, *(end[1] for end in ends)]
    apart = wide.pad(low, high, [0, 0, *(s - 1 for s in steps)])
    sums = cast(apart.reduce_window("sum", [1, 1, *window]), gradient.dtype)
    return sums.squeeze([0]) if single else sums


for _space in (1, 2, 3):
    lowering(f"aten.avg_pool{_space}d")(partial(_average, _space))
    lowering(f"aten.avg_pool{_space}d_backward")(partial(_average_backward, _space))


@lowering("aten._adaptive_avg_pool2d", "aten._adaptive_avg_pool3d")
def adaptive_average(at: FxSite, x: V, output_size: Any) -> V:
    space = 3 if "3d" in str(at.node.target) else 2
    images, single = _batched(x, space)
    pooled = adaptive_average_pool(images, each_axis(output_size, space))
    return pooled.squeeze([0]) if single else pooled


@lowering("aten._adaptive_avg_pool2d_backward", "aten._adaptive_avg_pool3d_backward")
def adaptive_average_backward(at: FxSite, gradient: V, x: V) -> V:
    """The transposed product: every share back to the span it came from."""
    space = 3 if "3d" in str(at.node.target) else 2
    wide = cast(gradient, wide_kind(gradient.dtype))
    for axis in range(x.rank - space, x.rank):
        size, count = sizes(at, x)[axis], sizes(at, gradient)[axis]
        matrix = np.zeros((count, size))
        for row, (start, end) in zip(matrix, shares(size, count), strict=True):
            row[start:end] = 1 / (end - start)
        moved = wide.transpose([*(a for a in range(x.rank) if a != axis), axis])
        product = moved.dot_general(
            at.graph.constant(matrix, wide.dtype), ops.DotDims((), (x.rank - 1,), (0,))
        )
        order = list(range(x.rank - 1))
        order.insert(axis, x.rank - 1)
        wide = product.transpose(order)
    return cast(wide, gradient.dtype)
