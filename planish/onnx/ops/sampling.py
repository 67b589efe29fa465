"""Looking at places between elements: GridSample, AffineGrid, RoiAlign and MaxRoiPool."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from planish.onnx.ops.common import Array, sizes
from planish.onnx.registry import op
from planish.onnx.site import NodeSite
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library.normalize import converted, widened
from planish.ptir.library.sampling import bordered, reflected, sampled, unnormalised


@op("GridSample")
def grid_sample(at: NodeSite, x: V, grid: V) -> V:
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(
        at.attr("mode", "linear"), at.attr("mode", "linear")
    )  # fmt: skip
    padding, aligned = at.attr("padding_mode", "zeros"), bool(at.attr("align_corners", 0))
    if mode not in ("nearest", "linear", "cubic") or padding not in ("zeros", "border", "reflection"):
        raise at.refuse(f"there is no mode {mode!r} with padding {padding!r}")
    points, places = widened(grid), []
    for axis, size in enumerate(sizes(at, x, 2)):
        place = unnormalised(points[..., x.rank - 3 - axis], size, aligned)
        if mode == "nearest":
            place = place.round()
        if padding == "border":
            low, high = (0.0, size - 1.0) if aligned else (-0.5, size - 0.5)
            place = place.lt(low).or_(place.gt(high)).select(place.clamp(0.0, float(size - 1)), place)
        elif padding == "reflection":
            place = reflected(place, size, aligned)
        places.append(place)

    def bring(place: V, size: int) -> V:
        return bordered(reflected(place, size, aligned) if padding == "reflection" else place, size)

    samples = sampled(
        widened(x) if x.dtype.is_float else x, places, mode, None if padding == "zeros" else bring
    )
    return converted(samples.transpose((0, samples.rank - 1, *range(1, samples.rank - 1))), x.dtype)


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
