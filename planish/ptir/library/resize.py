"""Resizing by interpolation: nearest, linear and cubic, with every coordinate mode that ONNX knows, and PyTorch's `interpolate`.

Axes are resized one after the other. Where an output element looks, and with which weights, is known when the graph is built (sizes of
resized axes are fixed): a few taps are gathers with constant indices, many (antialiasing) one product with a matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planish.errors import DTypeError, GraphError, ShapeError
from planish.ptir import ops
from planish.ptir.graph_value import GraphValue
from planish.ptir.library.common import along, move_axis
from planish.ptir.library.normalize import converted, widened
from planish.ptir.library.pooling import adaptive_average_pool
from planish.ptir.library.shaping import repeat

Numbers = NDArray[np.float64]
Places = NDArray[np.int64]

COORDINATES = (
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
    "tf_crop_and_resize",
)  # fmt: skip
NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
MODES = ("nearest", "linear", "cubic")
# More taps than this are a matrix product.
_FEW_TAPS = 4


@dataclass(frozen=True, slots=True)
class Resampling:
    """How to resize: names and defaults are ONNX's."""

    mode: str = "nearest"
    coordinates: str = "half_pixel"
    nearest: str = "round_prefer_floor"
    cubic_a: float = -0.75
    exclude_outside: bool = False
    """Taps outside do not count, instead of repeating the edge."""
    antialias: bool = False
    """Wider filters when an axis shrinks."""
    extrapolation: float = 0.0
    """What stands outside the crop of `tf_crop_and_resize`."""

    def __post_init__(self) -> None:
        for what, given, known in (
            ("mode", self.mode, MODES),
            ("coordinate mode", self.coordinates, COORDINATES),
            ("nearest mode", self.nearest, NEAREST),
        ):
            if given not in known:
                raise GraphError(
                    f"there is no {what} {given!r}", op="resize", remedy=f"one of {', '.join(known)}"
                )


def source_positions(
    coordinates: str, size: int, resized: int, scale: float, crop: tuple[float, float] = (0.0, 1.0)
) -> Numbers:
    """Where the elements of a resized axis lie on the original one."""
    at = np.arange(resized, dtype=np.float64)
    if coordinates == "align_corners":
        return at * (size - 1) / (resized - 1) if resized > 1 else at * 0
    if coordinates == "asymmetric":
        return at / scale
    if coordinates == "tf_crop_and_resize":
        start, end = crop
        if resized == 1:
            return np.array([0.5 * (start + end) * (size - 1)])
        return start * (size - 1) + at * (end - start) * (size - 1) / (resized - 1)
    if coordinates == "pytorch_half_pixel" and resized == 1:
        return at * 0
    middle = (at + 0.5) / scale - 0.5
    if coordinates == "half_pixel_symmetric":
        # The exact length may be broken; what is cut off is cut off at both ends.
        middle = middle + size / 2 * (1 - resized / (scale * size))
    return middle


def _nearest(at: Numbers, how: str) -> Places:
    rounded = {
        "round_prefer_floor": np.ceil(at - 0.5),
        "round_prefer_ceil": np.floor(at + 0.5),
        "floor": np.floor(at),
        "ceil": np.ceil(at),
    }[how]
    return rounded.astype(np.int64)


def _linear(distance: Numbers) -> Numbers:
    return np.asarray(np.maximum(1 - np.abs(distance), 0.0), np.float64)


def _cubic(distance: Numbers, a: float) -> Numbers:
    """Keys' kernel."""
    d = np.abs(distance)
    inner = ((a + 2) * d - (a + 3)) * d * d + 1
    outer = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, inner, np.where(d < 2, outer, 0.0))


def taps(at: Numbers, size: int, scale: float, how: Resampling) -> tuple[Places, Numbers]:
    """Per output element the places it looks at (clamped to the axis) and their weights, both (taps, outputs)."""
    base = np.floor(at).astype(np.int64)
    reach = 1 if how.mode == "linear" else 2
    shrink = min(scale, 1.0) if how.antialias else 1.0
    first = math.floor(-reach / shrink) + 1
    offsets = np.arange(first, 2 - first, dtype=np.int64)[:, None]
    distance = (offsets - (at - base)) * shrink
    weight = _linear(distance) if how.mode == "linear" else _cubic(distance, how.cubic_a)
    places = base + offsets
    if how.exclude_outside:
        weight = np.where((places >= 0) & (places < size), weight, 0.0)
    if how.exclude_outside or how.antialias:
        weight = weight / weight.sum(0)
    return np.clip(places, 0, size - 1), weight


def resize(
    x: GraphValue,
    sizes: Sequence[int | None],
    scales: Sequence[float] | None = None,
    how: Resampling | None = None,
    crops: Sequence[tuple[float, float]] | None = None,
) -> GraphValue:
    """x with other sizes; None leaves an axis alone.

    `scales` are the exact ratios that the coordinates use; without them, new size over old. `crops` (start and end, as parts of the axis) belong to
    `tf_crop_and_resize`. Integers can be resized to the nearest only.
    """
    how = Resampling() if how is None else how
    if len(sizes) != x.rank:
        raise ShapeError(f"{len(sizes)} sizes for the {x.rank} axes of {x.type}", op="resize")
    if how.mode != "nearest" and not x.dtype.is_float:
        raise DTypeError(f"{x.type} has no values between its values", op="resize", remedy="cast to a float")
    result = x if how.mode == "nearest" else widened(x)
    inside: GraphValue | None = None
    for axis, resized in enumerate(sizes):
        size = x.dims[axis]
        crop = (0.0, 1.0) if crops is None else crops[axis]
        if resized is None or (
            resized == size and crop == (0.0, 1.0) and (scales is None or scales[axis] == 1)
        ):
            continue
        if not isinstance(size, int) or size < 1:
            raise ShapeError(
                f"axis {axis} of {x.type} cannot be resized: its size is not known or 0", op="resize"
            )
        scale = resized / size if scales is None else scales[axis]
        at = source_positions(how.coordinates, size, resized, scale, crop)
        result = resize_axis(result, axis, at, scale, how)
        if how.coordinates == "tf_crop_and_resize":
            line = x.graph.constant((at >= 0) & (at <= size - 1))
            shape: list[int | None] = list(sizes)
            dims = [x.dims[i] if n is None else n for i, n in enumerate(shape)]
            here = along(line, dims, axis)
            inside = here if inside is None else inside.and_(here)
    if inside is not None:
        result = inside.select(result, how.extrapolation)
    return converted(result, x.dtype)


def resize_axis(
    x: GraphValue,
    axis: int,
    at: Numbers,
    scale: float,
    how: Resampling,
    constant: Callable[[NDArray[Any]], GraphValue] | None = None,
) -> GraphValue:
    """One axis, whose elements lie at these places of the old one; `constant` makes a value of an array."""
    constant = constant or x.graph.constant
    size, dtype = x.type.max_shape[axis], x.dtype.numpy
    if how.mode == "nearest":
        places = np.clip(_nearest(at, how.nearest), 0, size - 1)
        times, rest = divmod(len(places), size)
        if not rest and np.array_equal(places, np.repeat(np.arange(size), times)):
            return repeat(x, times, axis)
        return x.take(constant(places), axis)
    places, weights = taps(at, size, scale, how)
    if len(places) <= _FEW_TAPS:
        total: GraphValue | None = None
        for place, weight in zip(places, weights, strict=True):
            part = x.take(constant(place), axis)
            part = part.mul(along(constant(weight.astype(dtype)), part.dims, axis))
            total = part if total is None else total.add(part)
        return x if total is None else total
    matrix = np.zeros((size, len(at)))
    np.add.at(matrix, (places, np.arange(len(at))[None, :]), weights)
    product = x.dot_general(constant(matrix.astype(dtype)), ops.DotDims((), (axis,), (0,)))
    return move_axis(product, x.rank - 1, axis)


def interpolate(
    x: GraphValue,
    size: Sequence[int] | None = None,
    scale_factor: Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool = False,
    antialias: bool = False,
    recompute_scale: bool = False,
) -> GraphValue:
    """PyTorch's `interpolate` of (N, C, …): one size or factor per spatial axis.

    Modes: nearest, nearest-exact, linear (bilinear, trilinear), bicubic, area. Given factors are the ratios that coordinates use, unless
    `recompute_scale`.
    """
    space = x.dims[2:]
    if (size is None) == (scale_factor is None):
        raise GraphError("either sizes or factors are needed", op="interpolate")
    known: list[int] = []
    for dim in space:
        if not isinstance(dim, int):
            raise ShapeError(f"the spatial sizes of {x.type} are not known", op="interpolate")
        known.append(dim)
    if size is not None:
        target = list(size)
    else:
        target = [math.floor(n * f) for n, f in zip(known, scale_factor or (), strict=True)]
    scales: list[float] | None = None
    if scale_factor is not None and not recompute_scale:
        scales = [1.0, 1.0, *scale_factor]
    if mode == "area":
        return adaptive_average_pool(x, target)
    centred = "align_corners" if align_corners else "half_pixel"
    ways = {
        "nearest": Resampling("nearest", "asymmetric", "floor"),
        "nearest-exact": Resampling("nearest", "half_pixel", "round_prefer_ceil"),
        "bicubic": Resampling("cubic", centred, antialias=antialias, exclude_outside=antialias, cubic_a=-0.5 if antialias else -0.75),
        **dict.fromkeys(
            ("linear", "bilinear", "trilinear"),
            Resampling("linear", centred, antialias=antialias, exclude_outside=antialias),
        ),
    }  # fmt: skip
    if mode not in ways:
        raise GraphError(
            f"there is no mode {mode!r}", op="interpolate", remedy=f"one of {', '.join((*ways, 'area'))}"
        )
    return resize(x, [None, None, *target], scales, ways[mode])
