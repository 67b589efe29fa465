"""Sets of distinct values as NumPy names them. How many values there are depends on the data; `size=` says how many a trace wants."""

from __future__ import annotations

from typing import cast

from planish.errors import ShapeError
from planish.frontend.tensor import functions as api
from planish.frontend.tensor.array import Tensor
from planish.frontend.tensor.operands import promoted, tensor
from planish.frontend.tensor.sets import unique_slices


def unique(
    x: Tensor,
    /,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
) -> Tensor | tuple[Tensor, ...]:
    """Distinct values in ascending order, and what is asked for about them; along an axis, distinct slices.

    All NaN are one value, unless `equal_nan` is False, or a `size` is given: then how many there are is not known.
    """
    if axis is None:
        answers = tuple(api.unique_all(x, size=size))
        if equal_nan and size is None and answers[0].dtype.is_float:
            answers = _one_nan(*answers)
    else:
        answers = tuple(unique_slices(tensor("unique", x), axis, size))
    asked = (True, return_index, return_inverse, return_counts)
    chosen = tuple([one for one, wanted in zip(answers, asked, strict=True) if wanted])
    return chosen[0] if len(chosen) == 1 else chosen


def _one_nan(values: Tensor, first: Tensor, inverse: Tensor, counts: Tensor) -> tuple[Tensor, ...]:
    """The NaN, which come last, as one."""
    number = int(api.sum(api.isnan(values)))
    if number < 2:
        return values, first, inverse, counts
    size = values.shape[0] - number + 1
    together = api.concat([counts[: size - 1], api.sum(counts[size - 1 :], keepdims=True)])
    return values[:size], first[:size], api.minimum(inverse, size - 1), together


def _both(name: str, x1: Tensor, x2: Tensor) -> tuple[Tensor, Tensor]:
    left, right = promoted(name, x1, x2)
    return api.ravel(left), api.ravel(right)


def union1d(x1: Tensor, x2: Tensor, /, *, size: int | None = None) -> Tensor:
    """Values that are in one or the other."""
    return cast("Tensor", unique(api.concat(_both("union1d", x1, x2)), size=size))


def intersect1d(
    x1: Tensor, x2: Tensor, /, assume_unique: bool = False, return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor, Tensor]:
    """Values that are in both; with `return_indices` also where each comes first."""
    left, right = _both("intersect1d", x1, x2)
    values, places, _, _ = api.unique_all(left)
    shared = api.isin(values, right)
    common = values[shared]
    if not return_indices:
        return common
    others, other_places, _, _ = api.unique_all(right)
    return common, places[shared], other_places[api.isin(others, left)]


def setdiff1d(x1: Tensor, x2: Tensor, /, assume_unique: bool = False) -> Tensor:
    """Values of the first that are not in the second."""
    left, right = _both("setdiff1d", x1, x2)
    values = left if assume_unique else cast("Tensor", unique(left))
    return values[api.isin(values, right, invert=True)]


def setxor1d(x1: Tensor, x2: Tensor, /, assume_unique: bool = False) -> Tensor:
    """Values that are in one and not in the other."""
    left, right = _both("setxor1d", x1, x2)
    each = [cast("Tensor", unique(one)) for one in (left, right)]
    values, counts = api.unique_counts(api.concat(each))
    return values[counts == 1]


def array_equiv(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Whether elements are the same after broadcasting."""
    left, right = promoted("array_equiv", x1, x2)
    try:
        return api.all(left == right)
    except ShapeError:
        return api.asarray(False)


__all__ = ["array_equiv", "intersect1d", "setdiff1d", "setxor1d", "union1d", "unique"]
