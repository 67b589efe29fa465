"""Looking at places between elements: GridSample, AffineGrid, RoiAlign and MaxRoiPool."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from planish import dtypes
from planish.onnx.ops.common import Array, sizes
from planish.onnx.registry import op
from planish.onnx.site import NodeSite
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library.common import gather
from planish.ptir.library.normalize import converted, widened

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
def grid_sample(at: NodeSite, x: V, grid: V) -> V:
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(
        at.attr("mode", "linear"), at.attr("mode", "linear")
    )  # fmt: skip
    padding, aligned = at.attr("padding_mode", "zeros"), bool(at.attr("align_corners", 0))
    if mode not in ("nearest", "linear", "cubic") or padding not in ("zeros", "border", "reflection"):
        raise at.refuse(f"there is no mode {mode!r} with padding {padding!r}")
    space = sizes(at, x, 2)
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
    return converted(total.transpose((0, len(dims), *range(1, len(dims)))), x.dtype)


# -- regions of interest ---------------------------------------------------------------------------------------------


@op("RoiAlign", host=True)
def roi_align(at: NodeSite, x: Array, regions: Array, batches: Array) -> Array:
    """On the host: how many samples a region has may depend on it."""
    mode = at.attr("mode", "avg").lower()
    default = "half_pixel" if at.version >= 16 else "output_half_pixel"
    half = at.attr("coordinate_transformation_mode", default).lower() == "half_pixel"
    height, width = at.attr("output_height", 1), at.attr("output_width", 1)
    ratio, scale = at.attr("sampling_ratio", 0), at.attr("spatial_scale", 1.0)
    if mode not in ("avg", "max"):
        raise at.refuse(f"there is no mode {mode!r}")
    corners = regions.astype(np.float64) * scale - (0.5 if half else 0.0)
    extent = corners[:, 2:] - corners[:, :2]
    if not half:
        extent = np.maximum(extent, 1.0)
    result = np.zeros((len(regions), x.shape[1], height, width), x.dtype)
    for n, batch in enumerate(batches):
        axes = []
        for axis, (bins, size) in enumerate(((height, x.shape[2]), (width, x.shape[3]))):
            length = float(extent[n, 1 - axis])
            count = ratio if ratio > 0 else int(np.ceil(length / bins))
            at.work(bins * count)
            axes.append(_bins(float(corners[n, 1 - axis]), length, bins, count, size))
        result[n] = _region(x[int(batch)].astype(np.float64), axes, mode)
    return result


def _bins(start: float, length: float, bins: int, count: int, size: int) -> tuple[Array, Array]:
    """The samples of an axis, (bins, count, 2): both neighbours and their weights."""
    step = length / bins
    inner = (np.arange(count) + 0.5) / max(count, 1)
    y = start + (np.arange(bins)[:, None] + inner[None, :]) * step
    inside = (y >= -1.0) & (y <= size)
    y = np.maximum(y, 0)
    low = np.minimum(np.floor(y).astype(np.int64), size - 1)
    last = low >= size - 1
    part = np.where(last, 0.0, y - low)
    places = np.stack([low, np.where(last, size - 1, low + 1)], -1)
    return places, np.stack([1 - part, part], -1) * inside[:, :, None]


def _region(plane: Array, axes: Sequence[tuple[Array, Array]], mode: str) -> Array:
    """One region of (C, H, W)."""
    (rows, tall), (columns, broad) = axes
    if mode == "max":
        if not rows.size or not columns.size:
            return np.zeros((len(plane), len(rows), len(columns)))
        taken = plane[:, rows[:, :, :, None, None, None], columns[None, None, None]]
        weighted = taken * tall[:, :, :, None, None, None] * broad[None, None, None]
        return np.asarray(weighted.max((2, 3, 5, 6)))
    # A mean of samples that are separable in both axes is a product with two matrices.
    matrices = []
    for places, weights, size in ((rows, tall, plane.shape[1]), (columns, broad, plane.shape[2])):
        matrix = np.zeros((len(places), size))
        line = np.broadcast_to(np.arange(len(places))[:, None, None], places.shape)
        np.add.at(matrix, (line, places), weights / max(places.shape[1], 1))
        matrices.append(matrix)
    return np.asarray(matrices[0] @ plane @ matrices[1].T)


_PER_BIN = 64
"""Operations in the time in which one bin is looked for."""


@op("MaxRoiPool", host=True)
def max_roi_pool(at: NodeSite, x: Array, regions: Array) -> Array:
    height, width = at.attributes.require("pooled_shape")
    scale = at.attr("spatial_scale", 1.0)
    at.work(len(regions) * height * width * _PER_BIN)
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
