"""Resizing images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from planish.onnx.ops.common import Array, axes_of, ints, sizes
from planish.onnx.registry import op
from planish.onnx.site import NodeSite
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library.common import along
from planish.ptir.library.normalize import converted, widened
from planish.ptir.library.resize import Resampling, resize_axis, source_positions

_MODES = {
    "nearest": "nearest",
    "linear": "linear",
    "bilinear": "linear",
    "trilinear": "linear",
    "cubic": "cubic",
}
_TABLES = 4
"""Operations for each position of a resized axis: where it lies, and what weights it has."""


def _positions(
    how: Resampling, size: int, resized: int, scale: float, crop: tuple[float, float]
) -> Array:  # fmt: skip
    """Where elements of the resized axis lie on the original one; its exact length, scale · size, may be broken."""
    line = np.arange(resized, dtype=np.float64)
    length = scale * size
    if how.coordinates == "align_corners":
        return line * 0 if length == 1 else line * (size - 1) / (length - 1)
    if how.coordinates == "tf_crop_and_resize":
        start, end = crop
        inner = (end - start) * (size - 1)
        return (line * 0 + inner / 2 if length == 1 else line * inner / (length - 1)) + start * (size - 1)
    return source_positions(how.coordinates, size, resized, scale, crop)


def resized(
    at: NodeSite,
    x: V,
    targets: Sequence[int],
    scales: Sequence[float],
    how: Resampling,
    crops: Sequence[tuple[float, float]] | None = None,
) -> V:
    """x with other sizes; integers are rounded and clamped."""
    before = sizes(at, x)
    result = x if how.mode == "nearest" else widened(x) if x.dtype.is_float else x.cast("float32")
    outside: V | None = None
    for axis, (target, scale) in enumerate(zip(targets, scales, strict=True)):
        crop = (0.0, 1.0) if crops is None else crops[axis]
        if abs(scale - 1) < 1e-9 and target == before[axis] and crop == (0.0, 1.0):
            continue
        at.work(target * _TABLES)
        where = _positions(how, before[axis], target, scale, crop)
        if how.coordinates == "tf_crop_and_resize":
            beyond = (where < 0) | (where > before[axis] - 1)
            if beyond.any():
                here = along(at.value(beyond), tuple(targets), axis)
                outside = here if outside is None else outside.or_(here)
        if target == 0:
            return at.graph.full(tuple(targets), 0, x.dtype)
        result = resize_axis(result, axis, where, scale, how, at.value)
    if outside is not None:
        result = outside.select(at.graph.full(result.dims, how.extrapolation, result.dtype), result)
    if result.dtype is not x.dtype and not x.dtype.is_float:
        result = result.round().clamp(float(x.dtype.min or 0), float(x.dtype.max or 0))
    return converted(result, x.dtype)


def _mode(at: NodeSite, default: str = "nearest") -> str:
    given = at.attr("mode", default)
    if given not in _MODES:
        raise at.refuse(f"there is no mode {given!r}")
    return _MODES[given]


_REPEATS: Final = frozenset({("asymmetric", "floor"), ("half_pixel", "round_prefer_floor")})
"""Coordinates and roundings by which the nearest element, of a whole number of times as many, is each of them so often."""


def _repeated(at: NodeSite, x: V, factors: Mapping[int, float], how: Resampling) -> V:
    """Every element some times, along axes whose sizes may have names."""
    if any(f != int(f) or f < 1 for f in factors.values()) or (
        how.mode != "nearest" or (how.coordinates, how.nearest) not in _REPEATS
    ):
        named = next(d for d in x.dims if not isinstance(d, int))
        raise at.refuse(f"needs the size of {named} in {x.type}")
    times = [int(factors.get(axis, 1)) for axis in range(x.rank)]
    wide = [part for d, n in zip(x.dims, times, strict=True) for part in (d, n)]
    apart = x.reshape([part for d in x.dims for part in (d, 1)]).broadcast_to(wide)
    return apart.reshape([d * n for d, n in zip(x.dims, times, strict=True)])


def _by_factors(at: NodeSite, x: V, factors: Sequence[float], how: Resampling) -> V:
    if not all(isinstance(d, int) for d in x.dims):
        return _repeated(at, x, dict(enumerate(factors)), how)
    targets = [int(np.floor(f * s)) for f, s in zip(factors, sizes(at, x), strict=True)]
    return resized(at, x, targets, factors, how)


@op("Upsample")
def upsample_early(at: NodeSite, x: V) -> V:
    height, width = at.attributes.require("height_scale"), at.attributes.require("width_scale")
    return _by_factors(at, x, [1, 1, height, width], Resampling(_mode(at), "asymmetric", "floor"))


@op("Upsample", since=7)
def upsample_attribute(at: NodeSite, x: V) -> V:
    return upsampled(at, x, "asymmetric")


def upsampled(at: NodeSite, x: V, coordinates: str) -> V:
    """By the factors that an attribute has."""
    factors = at.attributes.require("scales")
    return _by_factors(at, x, factors, Resampling(_mode(at), coordinates, "floor"))


@op("Upsample", since=9, known=(1,))
@op("Resize", since=10, known=(1,))
def upsample(at: NodeSite, x: V, factors: Array) -> V:
    how = Resampling(_mode(at), "asymmetric", "floor")
    return _by_factors(at, x, [float(f) for f in factors], how)


@op("Resize", since=11, known=(1, 2, 3))
def resize(
    at: NodeSite, x: V, region: Array | None = None, factors: Array | None = None, wanted: Array | None = None
) -> V:
    coordinates = at.attr("coordinate_transformation_mode", "half_pixel")
    if coordinates == "tf_half_pixel_for_nn":
        # What TensorFlow's nearest did: the middle of the element, rounded down.
        raise at.refuse("coordinates of tf_half_pixel_for_nn")
    how = Resampling(
        _mode(at),
        coordinates,
        at.attr("nearest_mode", "round_prefer_floor"),
        at.attr("cubic_coeff_a", -0.75),
        bool(at.attr("exclude_outside", 0)),
        bool(at.attr("antialias", 0)),
        at.attr("extrapolation_value", 0.0),
    )
    given = at.attr("axes")
    if factors is not None and factors.size and not all(isinstance(d, int) for d in x.dims):
        axes = range(x.rank) if given is None else axes_of(at, given, x.rank)
        return _repeated(at, x, dict(zip(axes, factors.tolist(), strict=True)), how)
    before = sizes(at, x)
    axes = list(range(x.rank)) if given is None else axes_of(at, given, x.rank)
    policy = at.attr("keep_aspect_ratio_policy", "stretch")
    scales, targets = [1.0] * x.rank, list(before)
    if wanted is not None and wanted.size:
        for axis, target in zip(axes, ints(wanted), strict=True):
            targets[axis], scales[axis] = target, target / before[axis]
        if policy != "stretch":
            choose = {"not_larger": min, "not_smaller": max}.get(policy)
            if choose is None:
                raise at.refuse(f"there is no policy {policy!r}")
            scale = choose(scales[axis] for axis in axes)
            for axis in axes:
                scales[axis], targets[axis] = scale, int(scale * before[axis] + 0.5)
    elif factors is not None and factors.size:
        for axis, factor in zip(axes, factors.astype(np.float64), strict=True):
            scales[axis] = float(np.float64(factor))
            targets[axis] = int(np.floor(np.float32(factor) * np.float32(before[axis])))
    else:
        raise at.refuse("has neither scales nor sizes")
    crops = None
    if coordinates == "tf_crop_and_resize":
        if region is None or region.size != 2 * len(axes):
            raise at.refuse("has no region to crop to")
        crops = [(0.0, 1.0)] * x.rank
        for n, axis in enumerate(axes):
            crops[axis] = (float(region[n]), float(region[n + len(axes)]))
    return resized(at, x, targets, scales, how, crops)
