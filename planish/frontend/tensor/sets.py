"""Set functions: distinct values. Every NaN is distinct from every other; how many values there are depends on the data."""

from __future__ import annotations

import builtins
from typing import NamedTuple

from planish import dtypes
from planish.errors import ShapeError
from planish.frontend.tensor.application import apply
from planish.frontend.tensor.array import Tensor
from planish.frontend.tensor.elementwise import clip, equal, imag, logical_not, logical_or, real, where
from planish.frontend.tensor.indexing import take, updated
from planish.frontend.tensor.manipulation import moveaxis
from planish.frontend.tensor.operands import (
    Operand,
    as_count,
    axis_of,
    cast_to,
    constant,
    from_data,
    promoted,
    reshaped,
    tensor,
)
from planish.frontend.tensor.pointwise import ordered
from planish.frontend.tensor.searching import known, searchsorted
from planish.frontend.tensor.sorting import sort
from planish.frontend.tensor.statistics import max, min
from planish.frontend.tensor.utility import any
from planish.ptir import ops


class UniqueAll(NamedTuple):
    """Distinct values in order, where each comes first, which one each element is, and how often each occurs."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """Distinct values in order, and how often each occurs."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """Distinct values in order, and which one each element is."""

    values: Tensor
    inverse_indices: Tensor


def _unique(name: str, x: Tensor, size: int | None) -> UniqueAll:
    given = tensor(name, x)
    if given.dtype.is_complex:
        return _unique_pairs(name, given, size)
    distinct = _distinct(name, reshaped(ordered(name, given), (given.size,)), None, size)
    return distinct._replace(inverse_indices=reshaped(distinct.inverse_indices, given.shape))


def _distinct(name: str, x: Tensor, axis: int | None, size: int | None) -> UniqueAll:
    """Distinct elements of a vector, or slices along the first axis; as many as there are, if no size is given."""
    limit = x.shape[0] if size is None else size
    outputs = apply(
        ops.unique, x, attrs=ops.UniqueAttrs(limit) if axis is None else ops.UniqueAttrs(limit, axis)
    )
    values, first, inverse, counts, _ = outputs
    if size is None:
        arrays = known(name, outputs, f"give the number of results: {name}(x, size=…)")
        number = int(arrays[-1])
        values, first, counts = (from_data(arrays[at][:number].copy(), x._device) for at in (0, 1, 3))
        inverse = from_data(arrays[2].copy(), x._device)
    return UniqueAll(values, first, inverse, counts)


def unique_slices(x: Tensor, axis: int, size: int | None = None) -> UniqueAll:
    """Distinct slices along an axis, in ascending order."""
    along = axis_of("unique", axis, x.ndim, x.shape)
    lines = moveaxis(x, along, 0)
    rows = reshaped(lines, (lines.shape[0], lines.size // builtins.max(lines.shape[0], 1)))
    distinct = _distinct("unique", rows, 0, size)
    values = reshaped(distinct.values, (distinct.values.shape[0], *lines.shape[1:]))
    return distinct._replace(values=moveaxis(values, 0, along))


def _unique_pairs(name: str, x: Tensor, size: int | None) -> UniqueAll:
    """Complex numbers are distinct as rows of two."""
    rows = Tensor.apply(
        ops.concat, *[reshaped(part, (x.size, 1)) for part in (real(x), imag(x))], attrs=ops.ConcatAttrs(1)
    )
    values, first, inverse, counts = _distinct(name, rows, 0, size)
    joined = Tensor.apply(ops.complex, values[:, 0], values[:, 1])
    return UniqueAll(cast_to(joined, x.dtype), first, reshaped(inverse, x.shape), counts)


def unique_all(x: Tensor, /, *, size: int | None = None) -> UniqueAll:
    """Distinct values with all there is to know about them; with `size` so many, padded with zeros."""
    return _unique("unique_all", x, size)


def unique_counts(x: Tensor, /, *, size: int | None = None) -> UniqueCounts:
    """Distinct values and how often each occurs."""
    distinct = _unique("unique_counts", x, size)
    return UniqueCounts(distinct.values, distinct.counts)


def unique_inverse(x: Tensor, /, *, size: int | None = None) -> UniqueInverse:
    """Distinct values and which one each element is."""
    distinct = _unique("unique_inverse", x, size)
    return UniqueInverse(distinct.values, distinct.inverse_indices)


def unique_values(x: Tensor, /, *, size: int | None = None) -> Tensor:
    """Distinct values."""
    return _unique("unique_values", x, size).values


def isin(x1: Operand, x2: Operand, /, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Which elements of x1 are among those of x2. That these are unique saves nothing."""
    left, right = promoted("isin", x1, x2)
    flat = reshaped(right, (right.size,))
    if flat.size == 0:
        mask = constant(False, dtypes.bool_, left.shape)
    elif left.dtype.is_complex or left.dtype.is_bool or flat.size <= 16:
        column = reshaped(left, (*left.shape, 1))
        mask = any(equal(column, flat), axis=-1)
    else:
        line = sort(flat)
        place = clip(searchsorted(line, left), 0, flat.size - 1)
        mask = equal(take(line, reshaped(place, (left.size,))), reshaped(left, (left.size,)))
        mask = reshaped(mask, left.shape)
    return logical_not(mask) if invert else mask


def bincount(
    x: Tensor, /, weights: Tensor | None = None, minlength: int = 0, *, length: int | None = None
) -> Tensor:
    """How often each of 0, 1, 2 … occurs (or the sum of the weights of its elements): of `minlength` at least, of `length` exactly.

    With a `length`, what lies outside does not count.
    """
    given = tensor("bincount", x)
    if given.ndim != 1 or not given.dtype.is_int:
        raise ShapeError.of("bincount", f"{given.dtype.name}{list(given.shape)} is not a vector of integers")
    minlength = as_count("bincount", "minlength", minlength)
    if length is not None:
        length = as_count("bincount", "length", length)
    else:
        length = minlength
        if given.shape[0]:
            ends = (min(given), max(given))
            least, most = known("bincount", ends, "give the number of results: length=…")
            if least < 0:
                raise ShapeError.of("bincount", f"{int(least)} is below 0", "numbers from 0 on are counted")
            length = builtins.max(minlength, int(most) + 1)
    share: Operand = 1 if weights is None else weights
    dtype = dtypes.DEFAULT_INT if weights is None else tensor("bincount", weights).dtype
    place = cast_to(given, dtypes.int64)  # the length may be no number of a narrow dtype
    place = where(logical_or(place < 0, place >= length), length, place)
    return updated(constant(0, dtype, (length + 1,)), place, share, "add")[:length]


__all__ = [
    "bincount", "isin", "unique_all", "unique_counts", "unique_inverse", "unique_values",
]  # fmt: skip
