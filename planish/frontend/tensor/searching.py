"""Searching functions: where elements are.

How many there are may depend on the data. Then the data is computed at once, and a function that is being traced has to say
how many results it wants (`size=`).
"""

from __future__ import annotations

from typing import Literal

from planish import dtypes
from planish.errors import DTypeError, GraphError, ShapeError
from planish.frontend.storage import Array
from planish.frontend.tensor.application import apply
from planish.frontend.tensor.array import Axis, Tensor
from planish.frontend.tensor.composite import composite
from planish.frontend.tensor.creation import iota
from planish.frontend.tensor.elementwise import clip, remainder, where
from planish.frontend.tensor.manipulation import concat, flip, stack, unstack
from planish.frontend.tensor.operands import (
    Operand,
    as_count,
    axes_of,
    axis_of,
    cast_to,
    from_data,
    promoted,
    reshaped,
    tensor,
)
from planish.frontend.tensor.pointwise import floating, ordered, real_numeric, truth
from planish.frontend.tensor.recipes import remembered
from planish.frontend.tensor.sorting import argsort
from planish.frontend.tensor.statistics import reduce
from planish.ptir import ops
from planish.ptir.library import order
from planish.ptir.ops.definition import OpDef
from planish.ptir.types import bounds


def known(name: str, tensors: tuple[Tensor, ...], remedy: str) -> list[Array]:
    """The elements, now: what follows depends on them."""
    try:
        return [x._elements(name) for x in tensors]
    except GraphError as error:
        raise GraphError.of(
            name, f"how many results there are depends on data: {error.message}", remedy
        ) from None


def _arg(name: str, op: OpDef, x: Tensor, axis: int | None, keepdims: bool) -> Tensor:
    given = ordered(name, tensor(name, x))
    if axis is None:
        line, place = reshaped(given, (given.size,)), 0
    else:
        line, place = given, axis_of(name, axis, given.ndim, given.shape)
    if line.shape[place] == 0:
        raise ShapeError.of(name, f"shape {given.shape} has no elements to choose from")
    result = Tensor.apply(op, line, attrs=ops.ArgReduceAttrs(place, keepdims and axis is not None))
    return reshaped(result, (1,) * given.ndim) if keepdims and axis is None else result


@remembered
def argmax(x: Tensor, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Where the greatest element is; the first of equals, the first NaN."""
    return _arg("argmax", ops.argmax, x, axis, keepdims)


@remembered
def argmin(x: Tensor, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Where the smallest element is; the first of equals, the first NaN."""
    return _arg("argmin", ops.argmin, x, axis, keepdims)


@remembered
def count_nonzero(x: Tensor, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """How many elements are not zero."""
    given = tensor("count_nonzero", x)
    counted = cast_to(truth("count_nonzero", given), dtypes.DEFAULT_INT)
    return reduce(ops.reduce_sum, counted, axes_of("count_nonzero", axis, given), keepdims)


def _positions(op: str, given: Tensor, remedy: str) -> tuple[Tensor, ...]:
    rows, count = apply(ops.nonzero, given, attrs=ops.NonzeroAttrs(given.size))
    array, number = known(op, (rows, count), remedy)
    return tuple([from_data(row[: int(number)].copy(), given._device) for row in array])


def mask_positions(mask: Tensor) -> tuple[Tensor, ...]:
    """Positions where the mask of an index is true."""
    return _positions(
        "x[mask]", mask, "choose element by element with planish.where(mask, x, 0), or give the number of results: "
        "x[planish.nonzero(mask, size=…)]",
    )  # fmt: skip


def nonzero(x: Tensor, /, *, size: int | None = None, fill_value: int = 0) -> tuple[Tensor, ...]:
    """Positions of the elements that are not zero, in row-major order, one tensor per axis.

    With `size` there are so many, the last ones cut off or `fill_value`, and the data need not be known.
    """
    given = tensor("nonzero", x)
    if given.ndim == 0:
        raise ShapeError.of("nonzero", "a tensor without axes has no positions", "use x != 0")
    if size is None:
        return _positions("nonzero", given, "give the number of results: nonzero(x, size=…)")
    rows, count = apply(ops.nonzero, given, attrs=ops.NonzeroAttrs(as_count("nonzero", "size", size)))
    if fill_value:
        shape = rows._type.dims
        rows = where(iota(shape, len(shape) - 1) < cast_to(count, dtypes.int64), rows, fill_value)
    return unstack(rows)


def argwhere(x: Tensor, /, *, size: int | None = None, fill_value: int = 0) -> Tensor:
    """Positions of the elements that are not zero, one row each."""
    return stack(nonzero(x, size=size, fill_value=fill_value), axis=-1)


@remembered
def searchsorted(
    x1: Tensor, x2: Operand, /, side: Literal["left", "right"] = "left", sorter: Tensor | None = None
) -> Tensor:
    """Where elements of x2 would have to be put into the ascending vector x1 to keep it ascending."""
    line, wanted = promoted("searchsorted", x1, x2)
    if side not in ("left", "right"):
        raise ShapeError.of("searchsorted", f"there is no side {side!r}", "left or right")
    if line.ndim != 1:
        raise ShapeError.of("searchsorted", f"shape {line.shape} is not a vector")
    line, wanted = real_numeric("searchsorted", line), real_numeric("searchsorted", wanted)
    if sorter is not None:
        from planish.frontend.tensor.indexing import take

        line = take(line, sorter, axis=0)
    return composite(order.searchsorted, line, wanted, right=side == "right")


def digitize(x: Tensor, bins: Tensor, /, right: bool = False) -> Tensor:
    """The number of the interval that each element lies in, between bins that ascend or descend."""
    edges = tensor("digitize", bins)
    side: Literal["left", "right"] = "left" if right else "right"
    if edges.ndim != 1 or bounds(edges._type.dims[0])[0] == 0:
        return searchsorted(edges, x, side=side)
    descends = edges[0] > edges[-1]
    interval = searchsorted(where(descends, flip(edges), edges), x, side=side)
    return where(descends, edges.shape[0] - interval, interval)


def interp(
    x: Operand,
    xp: Tensor,
    fp: Tensor,
    /,
    left: float | None = None,
    right: float | None = None,
    period: float | None = None,
) -> Tensor:
    """A function known at ascending points xp, linear between them; outside constant, `left` and `right`, or periodic."""
    if period is not None:
        return _periodic(x, xp, fp, period)
    from planish.frontend.tensor.indexing import take

    values = floating("interp", tensor("interp", fp))
    wanted, points = [floating("interp", one) for one in promoted("interp", x, xp)]
    if not values.dtype.is_complex:
        wanted, points, values = promoted("interp", wanted, points, values)
    if points.ndim != 1 or points.shape != values.shape or points.shape[0] < 2:
        raise ShapeError.of(
            "interp", f"points {points.shape} and values {values.shape}", "two vectors of one length"
        )
    if wanted.dtype.is_complex:
        raise DTypeError.of("interp", "complex points have no order")
    last = points.shape[0] - 1
    after = clip(searchsorted(points, wanted, side="right"), 1, last)
    start, end = take(points, after - 1), take(points, after)
    low, high = take(values, after - 1), take(values, after)
    share = clip((wanted - start) / (end - start), 0.0, 1.0)
    interpolated = low + share * (high - low)
    interpolated = interpolated if left is None else where(wanted < points[0], left, interpolated)
    return interpolated if right is None else where(wanted > points[last], right, interpolated)


def _periodic(x: Operand, xp: Tensor, fp: Tensor, period: float) -> Tensor:
    """Interpolated where the points repeat: one more at each end, from the other end."""
    from planish.frontend.tensor.indexing import take

    if period == 0:
        raise ShapeError.of("interp", "a period of 0 repeats nothing")
    size = abs(period)
    points = remainder(tensor("interp", xp), size)
    order = argsort(points)
    points, values = take(points, order, axis=0), take(tensor("interp", fp), order, axis=0)
    around = concat([points[-1:] - size, points, points[:1] + size])
    return interp(remainder(x, size), around, concat([values[-1:], values, values[:1]]))


__all__ = [
    "argmax", "argmin", "argwhere", "count_nonzero", "digitize", "interp", "nonzero", "searchsorted",
]  # fmt: skip
