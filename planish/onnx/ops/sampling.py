"""Looking at places between elements: GridSample, AffineGrid, RoiAlign and MaxRoiPool."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from planish import dtypes
from planish.onnx.engine import At
from planish.onnx.ops.common import Array, cast, ints, sizes
from planish.onnx.registry import op
from planish.ptir import ops
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library.common import along, gather
from planish.ptir.library.normalize import widened

_CUBIC = -0.75


def picked(x: V, places: Sequence[V]) -> V:
    """Of (N, C, …), per place (N, …) given by one index per spatial axis, all channels: (N, …, C). Indices are clamped."""
    batch = x.graph.iota(places[0].dims, 0, dtypes.int64)
    return gather(x, [batch, *places], [0, *range(2, x.rank)])


def _reflected(x: V, low: float, high: float) -> V:
    """Mirrored at the borders until it lies between them."""
    span = high - low
    if span <= 0:
        return x.graph.full(x.dims, low, x.dtype)
    far = x.lt(low).select(x.neg().add(low), x.sub(high))
    turns = far.div(span).trunc()
    rest = far.sub(turns.mul(span))
    even = turns.floor_mod(2.0).eq(0.0)
    up, down = rest.add(low), rest.neg().add(high)
    below, above = even.select(up, down), even.select(down, up)
    return x.lt(low).select(below, x.gt(high).select(above, x))


def _weights(mode: str, x: V) -> list[tuple[int, V | None]]:
    """Which neighbours of floor(x) count, and how much; x is the way from there."""
    if mode == "nearest":
        return [(0, None)]
    if mode == "linear":
        return [(0, x.neg().add(1.0)), (1, x)]

    def near(d: V) -> V:
        return d.mul(_CUBIC + 2).sub(_CUBIC + 3).mul(d).mul(d).add(1.0)

    def far(d: V) -> V:
        return d.mul(_CUBIC).sub(5 * _CUBIC).mul(d).add(8 * _CUBIC).mul(d).sub(4 * _CUBIC)

    back = x.neg().add(1.0)
    return [(-1, far(x.add(1.0))), (0, near(x)), (1, near(back)), (2, far(back.add(1.0)))]


@op("GridSample")
def grid_sample(at: At, x: V, grid: V) -> V:
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(
        at.attr("mode", "linear"), at.attr("mode", "linear")
    )  # fmt: skip
    padding, aligned = at.attr("padding_mode", "zeros"), bool(at.attr("align_corners", 0))
    if mode not in ("nearest", "linear", "cubic") or padding not in ("zeros", "border", "reflection"):
        raise at.refuse(f"there is no mode {mode!r} with padding {padding!r}")
    space = sizes(at, x)[2:]
    count, dims = len(space), sizes(at, grid)[:-1]
    wide = widened(x) if x.dtype.is_float else x
    points = widened(grid)
    bounds = [(0.0, s - 1.0) if aligned else (-0.5, s - 0.5) for s in space]
    where: list[V] = []
    for n, size in enumerate(space):
        # the last entry of a point belongs to the last axis but is the first in the grid
        k = count - 1 - n
        raw = points.slice([*[0] * len(dims), k], [*dims, k + 1]).reshape(dims).add(1.0)
        place = raw.div(2.0).mul(float(size - 1)) if aligned else raw.mul(float(size)).sub(1.0).div(2.0)
        if mode == "nearest":
            place = place.round()
        if padding == "border":
            outside = place.lt(bounds[n][0]).or_(place.gt(bounds[n][1]))
            place = outside.select(place.clamp(0.0, float(size - 1)), place)
        elif padding == "reflection":
            place = _reflected(place, *bounds[n])
        where.append(place)
    floors = [p if mode == "nearest" else p.floor() for p in where]
    shares = [_weights(mode, p.sub(f)) for p, f in zip(where, floors, strict=True)]
    total: V | None = None
    for taps in itertools.product(*shares):
        weight: V | None = None
        inside: V | None = None
        index: list[V] = []
        for n, (step, share) in enumerate(taps):
            near = floors[n].add(float(step)) if step else floors[n]
            if share is not None:
                weight = share if weight is None else weight.mul(share)
            if padding == "zeros":
                here = near.ge(0.0).and_(near.le(float(space[n] - 1)))
                inside = here if inside is None else inside.and_(here)
            elif padding == "reflection":
                near = _reflected(near, *bounds[n])
            index.append(near.trunc().cast(dtypes.int64))
        part = picked(wide, index)
        if weight is not None:
            factor = weight if inside is None else inside.select(weight, 0)
            part = part.mul(factor.expand_dims(len(dims)).broadcast_to(part.dims))
        if inside is not None:
            part = inside.expand_dims(len(dims)).broadcast_to(part.dims).select(part, 0)
        total = part if total is None else total.add(part)
    if total is None:
        raise at.refuse("has no spatial axes")
    return cast(total.transpose((0, len(dims), *range(1, len(dims)))), x.dtype)


@op("AffineGrid", known=(1,))
def affine_grid(at: At, theta: V, size: Array) -> V:
    """theta · (x, y, …, 1) for every point of a regular grid from -1 to 1."""
    batch, _, *space = ints(size)
    aligned = at.attr("align_corners", 0)
    axes = []
    for length in space:
        line = np.arange(length, dtype=np.float64)
        axes.append(
            line * (2 / (length - 1)) - 1 if aligned and length > 1 else (2 * line + 1) / length - 1
        )  # fmt: skip
    mesh = np.meshgrid(*axes, indexing="ij")
    points = np.stack([*mesh[::-1], np.ones(space)], -1).reshape(-1, len(space) + 1)
    wide = widened(theta)
    grid = at.value(points.astype(wide.dtype.numpy))
    result = wide.dot_general(grid, ops.DotDims((), (2,), (1,)))
    return cast(result.transpose((0, 2, 1)).reshape((batch, *space, len(space))), theta.dtype)


# -- regions of interest ---------------------------------------------------------------------------------------------


def _bins(start: Array, length: Array, bins: int, grids: Array, size: int) -> tuple[Array, ...]:
    """Where samples lie on one axis: neighbours, their weights and whether the sample exists; all (regions, bins, grid)."""
    most = max(int(grids.max(initial=1)), 1)
    step = length[:, None, None] / bins
    number = np.arange(most)[None, None, :]
    count = np.maximum(grids, 1)[:, None, None]
    y = start[:, None, None] + np.arange(bins)[None, :, None] * step + (number + 0.5) * step / count
    exists = np.broadcast_to(number < grids[:, None, None], y.shape)
    inside = (y >= -1.0) & (y <= size)
    y = np.maximum(y, 0)
    low = np.minimum(np.floor(y).astype(np.int64), size - 1)
    last = low >= size - 1
    high = np.where(last, size - 1, low + 1)
    part = np.where(last, 0.0, y - low)
    return low, high, np.where(inside, 1 - part, 0.0), np.where(inside, part, 0.0), exists


@op("RoiAlign", known=(1, 2))
def roi_align(at: At, x: V, regions: Array, batches: Array) -> V:
    mode = at.attr("mode", "avg").lower()
    shifted = at.attr(
        "coordinate_transformation_mode", "half_pixel" if at.version >= 16 else "output_half_pixel"
    )
    height, width = at.attr("output_height", 1), at.attr("output_width", 1)
    ratio, scale = at.attr("sampling_ratio", 0), at.attr("spatial_scale", 1.0)
    if mode not in ("avg", "max"):
        raise at.refuse(f"there is no mode {mode!r}")
    half = shifted.lower() == "half_pixel"
    corners = regions.astype(np.float64) * scale - (0.5 if half else 0.0)
    extent = corners[:, 2:] - corners[:, :2]
    if not half:
        extent = np.maximum(extent, 1.0)
    _, _, rows, columns = sizes(at, x)
    wide = widened(x)
    counts, axes = [], []
    for axis, (bins, size) in enumerate(((height, rows), (width, columns))):
        start, length = corners[:, 1 - axis], extent[:, 1 - axis]
        grids = np.full(len(start), ratio) if ratio > 0 else np.ceil(length / bins).astype(np.int64)
        counts.append(np.maximum(grids, 0))
        axes.append(_bins(start, length, bins, counts[-1], size))
    dims = (len(regions), height, width, axes[0][0].shape[2], axes[1][0].shape[2])

    def laid(array: Array, axis: int) -> V:
        value = at.value(np.ascontiguousarray(array))
        shape = [dims[0], 1, 1, 1, 1]
        shape[1 + axis], shape[3 + axis] = dims[1 + axis], dims[3 + axis]
        return value.reshape(shape).broadcast_to(dims)

    def weight(axis: int, side: int) -> V:
        return laid(axes[axis][2 + side].astype(wide.dtype.numpy), axis)

    batch = along(at.value(batches.astype(np.int64)), dims, 0)
    total: V | None = None
    for up, left in itertools.product((0, 1), repeat=2):
        index = [batch, laid(axes[0][up], 0), laid(axes[1][left], 1)]
        share = weight(0, up).mul(weight(1, left))
        part = gather(wide, index, [0, 2, 3])
        part = part.mul(share.expand_dims(5).broadcast_to(part.dims))
        total = part if total is None else total.add(part) if mode == "avg" else total.max(part)
    if total is None:
        raise at.refuse("has no regions")
    exists = laid(axes[0][4], 0).and_(laid(axes[1][4], 1)).expand_dims(5).broadcast_to(total.dims)
    if mode == "max":
        result = exists.select(total, -np.inf).reduce_max([3, 4])
        empty = at.value((counts[0] * counts[1] == 0)[:, None, None, None])
        result = empty.broadcast_to(result.dims).select(at.graph.full(result.dims, 0.0, wide.dtype), result)
    else:
        number = np.maximum(counts[0] * counts[1], 1).astype(wide.dtype.numpy)
        result = exists.select(total, 0.0).reduce_sum([3, 4])
        result = result.div(along(at.value(number), result.dims, 0))
    return cast(result.transpose((0, 3, 1, 2)), x.dtype)


@op("MaxRoiPool", host=True)
def max_roi_pool(at: At, x: Array, regions: Array) -> Array:
    height, width = at.attributes.require("pooled_shape")
    scale = at.attr("spatial_scale", 1.0)
    result = np.zeros((len(regions), x.shape[1], height, width), x.dtype)
    for n, (batch, *corners) in enumerate(regions):
        left, top, right, bottom = (int(np.floor(c * scale + 0.5)) for c in corners)
        tall, broad = max(bottom - top + 1, 1), max(right - left + 1, 1)
        for i, j in itertools.product(range(height), range(width)):
            rows = slice(
                *(
                    min(max(v + top, 0), x.shape[2])
                    for v in (i * tall // height, -(-(i + 1) * tall // height))
                )
            )
            columns = slice(
                *(
                    min(max(v + left, 0), x.shape[3])
                    for v in (j * broad // width, -(-(j + 1) * broad // width))
                )
            )
            part = x[int(batch), :, rows, columns]
            if part.size:
                result[n, :, i, j] = part.max((1, 2))
    return result
