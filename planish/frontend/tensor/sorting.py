"""Sorting functions. Sorting is stable always; NaN counts as greater than every number."""

from __future__ import annotations

from planish.errors import ShapeError
from planish.frontend.tensor.application import apply
from planish.frontend.tensor.array import Tensor
from planish.frontend.tensor.creation import iota
from planish.frontend.tensor.manipulation import unstack
from planish.frontend.tensor.operands import axis_of, reshaped, tensor
from planish.frontend.tensor.pointwise import ordered
from planish.frontend.tensor.recipes import remembered
from planish.ptir import ops


def _line(name: str, x: Tensor, axis: int | None) -> tuple[Tensor, int]:
    """What is sorted, and along which axis; without one all elements in row-major order."""
    given = ordered(name, tensor(name, x))
    if axis is None:
        return reshaped(given, (given.size,)), 0
    return given, axis_of(name, axis, given.ndim, given.shape)


@remembered
def sort(x: Tensor, /, axis: int | None = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
    """Elements in order along an axis; all of them without one."""
    given, place = _line("sort", x, axis)
    return Tensor.apply(ops.sort, given, attrs=ops.SortAttrs(place, descending))


@remembered
def argsort(x: Tensor, /, axis: int | None = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
    """The positions that put the elements in order along an axis."""
    given, place = _line("argsort", x, axis)
    return apply(ops.sort, given, iota(given.shape, place), attrs=ops.SortAttrs(place, descending))[1]


@remembered
def topk(x: Tensor, k: int, /, axis: int = -1, *, largest: bool = True) -> tuple[Tensor, Tensor]:
    """The k greatest (or smallest) elements along an axis, in order, and where they are."""
    given = ordered("topk", tensor("topk", x))
    place = axis_of("topk", axis, given.ndim, given.shape)
    size = given._type.dims[place]
    if isinstance(size, int) and not 0 <= k <= size:
        raise ShapeError.of("topk", f"axis {place} of shape {given.shape} has no {k} elements")
    values, indices = apply(ops.top_k, given, attrs=ops.TopKAttrs(k, place, largest))
    return values, indices


def lexsort(keys: tuple[Tensor, ...] | list[Tensor] | Tensor, /, axis: int = -1) -> Tensor:
    """The positions that sort by several keys, the last one first; of one tensor its rows are keys."""
    if not isinstance(keys, tuple | list):
        keys = unstack(tensor("lexsort", keys))
    if not keys:
        raise ShapeError.of("lexsort", "there is nothing to sort by")
    given = [ordered("lexsort", tensor("lexsort", x)) for x in reversed(keys)]
    for other in given[1:]:
        if other.shape != given[0].shape:
            raise ShapeError.of("lexsort", f"shapes {given[0].shape} and {other.shape} differ")
    place = axis_of("lexsort", axis, given[0].ndim, given[0].shape)
    attrs = ops.SortAttrs(place, False, len(given))
    return apply(ops.sort, *given, iota(given[0].shape, place), attrs=attrs)[-1]


__all__ = [
    "argsort", "lexsort", "sort", "topk",
]  # fmt: skip
