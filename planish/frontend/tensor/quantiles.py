"""Shares of sorted values: quantiles and medians, of fixed and of named sizes, with NaN or without."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from planish import dtypes
from planish.errors import ShapeError
from planish.frontend.tensor.array import Axis, Tensor
from planish.frontend.tensor.elementwise import ceil, floor, isnan, logical_not, maximum, round, where
from planish.frontend.tensor.indexing import take, take_along_axis
from planish.frontend.tensor.manipulation import moveaxis
from planish.frontend.tensor.operands import (
    axes_of,
    cast_to,
    default_float,
    from_data,
    permuted,
    reshaped,
    size_of,
    tensor,
)
from planish.frontend.tensor.pointwise import real_floating
from planish.frontend.tensor.sorting import sort
from planish.frontend.tensor.statistics import sum
from planish.ptir.types import bounds, product

Share: TypeAlias = float | Sequence[float] | NDArray[Any] | Tensor
_METHODS: Final = ("linear", "lower", "higher", "midpoint", "nearest")


def quantiles(
    name: str,
    x: Tensor,
    shares: Share,
    axis: Axis,
    keepdims: bool,
    method: str = "linear",
    skip: bool = False,
    scale: float = 1.0,
) -> Tensor:
    """Values below which shares of the elements lie; one axis in front for several shares. `skip`: NaN do not count."""
    given = real_floating(name, default_float(tensor(name, x)))
    wanted = np.asarray(shares, dtype=np.float64) / scale
    if method not in _METHODS:
        raise ShapeError.of(name, f"there is no method {method!r}", f"one of {', '.join(_METHODS)}")
    if wanted.size and not (wanted.min() >= 0 and wanted.max() <= 1):
        raise ShapeError.of(name, f"{shares} is not between 0 and {scale:g}")
    axes = axes_of(name, axis, given)
    dims = given._type.dims
    kept = [at for at in range(given.ndim) if at not in axes]
    size = product([dims[at] for at in axes])
    if bounds(size)[0] == 0:
        raise ShapeError.of(name, f"shape {given.shape} may have no elements to choose from")
    line = reshaped(permuted(given, (*kept, *axes)), (*[dims[at] for at in kept], size))
    ascending = sort(line, axis=-1)  # NaN last
    last, nothing = _last(line, ascending, skip)
    flat = wanted.reshape(-1)
    place: Any = last * flat if isinstance(last, float) else last * from_data(flat.copy())
    down, up, near = (np.floor, np.ceil, np.round) if isinstance(last, float) else (floor, ceil, round)
    low, high = down(place), up(place)
    ends = {"lower": (low, low), "higher": (high, high), "nearest": (near(place),) * 2}.get(
        method, (low, high)
    )
    below, above = (_picked(ascending, end) for end in ends)
    part: Any = 0.5 if method == "midpoint" else place - low
    if not isinstance(part, float):
        part = cast_to(tensor(name, part), given.dtype)
    mixed = below
    if ends[0] is not ends[1]:  # between two equal infinities there is no difference
        mixed = where(below == above, below, below + (above - below) * part)
    values = moveaxis(where(nothing, math.nan, mixed), -1, 0)
    rest = [1 if at in axes else dims[at] for at in range(given.ndim) if keepdims or at not in axes]
    return reshaped(values, (*wanted.shape, *rest))


def _last(line: Tensor, ascending: Tensor, skip: bool) -> tuple[float | Tensor, Tensor]:
    """The place of the last element that counts, and where there is none, or one is NaN that does count."""
    along = line.ndim - 1
    if skip:
        count = sum(cast_to(logical_not(isnan(line)), dtypes.float64), axis=-1, keepdims=True)
        return maximum(count - 1, 0.0), count == 0
    size = size_of(line, along, dtypes.float64)
    last = float(size - 1) if isinstance(size, int) else reshaped(size - 1, (1,))
    return last, isnan(_picked(ascending, np.array([last]) if isinstance(last, float) else last))


def _picked(ascending: Tensor, places: Any) -> Tensor:
    """Elements at places along the last axis: the same of all lines, or those of each."""
    if isinstance(places, np.ndarray):
        return take(ascending, from_data(places.astype(np.int64)), axis=-1)
    index = cast_to(places, dtypes.int64)
    each = take if index.ndim == 1 else take_along_axis
    return each(ascending, index, axis=-1)


def quantile(
    x: Tensor, q: Share, /, axis: Axis = None, *, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """Values below which a share `q` of the elements lies; NaN if there is one."""
    return quantiles("quantile", x, q, axis, keepdims, method)


def median(x: Tensor, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """The middle element, or the mean of the two in the middle."""
    return quantiles("median", x, 0.5, axis, keepdims)


__all__ = ["median", "quantile"]
