"""Statistical functions: reductions and running reductions over axes.

Sums and products of small integers (and of bools) are computed in 64 bits; everything else keeps its dtype.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

from planish import dtypes
from planish.dtypes import DType
from planish.errors import ShapeError
from planish.frontend.tensor.array import Axis, Scalar, Tensor
from planish.frontend.tensor.composite import composite
from planish.frontend.tensor.elementwise import abs, add, maximum, minimum, multiply, square
from planish.frontend.tensor.operands import (
    DTypeLike,
    as_dtype,
    as_flag,
    as_number,
    axes_of,
    axis_of,
    broadcast,
    broadcast_all,
    cast_to,
    constant,
    promoted,
    reshaped,
    tensor,
)
from planish.frontend.tensor.pointwise import floating, numeric, ordered, real_floating, truth
from planish.frontend.tensor.recipes import remembered
from planish.frontend.tensor.scalar_functions import sqrt
from planish.frontend.tensor.spelling import arguments_of
from planish.ptir import ops
from planish.ptir.library import cumulative
from planish.ptir.ops.definition import OpDef


def reduce(op: OpDef, x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """One of PTIR's reductions; over no axes nothing happens."""
    kept = as_flag(op.name.removeprefix("reduce_"), "keepdims", keepdims)
    return Tensor.apply(op, x, attrs=ops.ReduceAttrs(axes, kept)) if axes else x.snapshot()


def summed_dtype(x: Tensor, dtype: DTypeLike | None) -> DType:
    """What sums and products of a dtype are computed in."""
    if dtype is not None:
        return as_dtype(dtype)
    if x.dtype.is_bool or (x.dtype.is_int and x.dtype.is_signed):
        return dtypes.DEFAULT_INT
    return dtypes.uint64 if x.dtype.is_int else x.dtype


def counting(name: str, x: Tensor, where: Tensor | None, neutral: Tensor | Scalar) -> Tensor:
    """The elements that count; `neutral` in place of the others."""
    if where is None:
        return x
    rest = cast_to(neutral, x.dtype) if isinstance(neutral, Tensor) else constant(neutral, x.dtype)
    return Tensor.apply(ops.select, *broadcast_all(name, [truth(name, tensor(name, where)), x, rest]))


def _total(
    op: OpDef,
    combine: Callable[..., Tensor],
    neutral: int,
    x: Tensor,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    *,
    keepdims: bool = False,
    initial: Tensor | Scalar | None = None,
    where: Tensor | None = None,
) -> Tensor:
    name = op.name.removeprefix("reduce_")
    given = tensor(name, x)
    wide = counting(name, cast_to(given, summed_dtype(given, dtype)), where, neutral)
    total = reduce(op, wide, axes_of(name, axis, wide), keepdims)
    return total if initial is None else combine(total, initial)


@remembered
def sum(
    x: Tensor,
    /,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    *,
    keepdims: bool = False,
    initial: Tensor | Scalar | None = None,
    where: Tensor | None = None,
) -> Tensor:
    """The sum over axes, of the elements `where` something holds, and of an initial number."""
    return _total(ops.reduce_sum, add, 0, x, axis, dtype, keepdims=keepdims, initial=initial, where=where)


@remembered
@arguments_of(sum)
def prod(x: Tensor, /, *args: Any, **options: Any) -> Tensor:
    """The product over axes, of the elements `where` something holds, and of an initial number."""
    return _total(ops.reduce_prod, multiply, 1, x, *args, **options)


def _extreme(
    op: OpDef,
    x: Tensor,
    axis: Axis = None,
    *,
    keepdims: bool = False,
    initial: Tensor | Scalar | None = None,
    where: Tensor | None = None,
) -> Tensor:
    name = op.name.removeprefix("reduce_")
    given = ordered(name, tensor(name, x))
    if initial is None:
        if where is not None:
            raise ShapeError.of(name, "where nothing holds nothing is extreme", "give initial=…")
        axes = axes_of(name, axis, given)
        rest = [size for number, size in enumerate(given.shape) if number not in axes]
        if 0 not in rest and any(given.shape[number] == 0 for number in axes):
            raise ShapeError.of(
                name, f"shape {given.shape} has no elements along axis {axis}", "give initial=…"
            )
        return reduce(op, given, axes, keepdims)
    given = counting(name, given, where, initial)
    extreme = reduce(op, given, axes_of(name, axis, given), keepdims)
    return (maximum if op is ops.reduce_max else minimum)(extreme, initial)


@remembered
def max(
    x: Tensor,
    /,
    axis: Axis = None,
    *,
    keepdims: bool = False,
    initial: Tensor | Scalar | None = None,
    where: Tensor | None = None,
) -> Tensor:
    """The greatest over axes, NaN if there is one; of the elements `where` something holds, and an initial number."""
    return _extreme(ops.reduce_max, x, axis, keepdims=keepdims, initial=initial, where=where)


@remembered
@arguments_of(max)
def min(x: Tensor, /, *args: Any, **options: Any) -> Tensor:
    """The smallest over axes, NaN if there is one; of the elements `where` something holds, and an initial number."""
    return _extreme(ops.reduce_min, x, *args, **options)


def _count(
    x: Tensor, axes: tuple[int, ...], dtype: DType, where: Tensor | None, keepdims: bool
) -> Tensor | float:
    """How many elements meet in one."""
    if where is not None:
        mask = broadcast(truth("where", tensor("where", where)), x._type.dims)
        return reduce(ops.reduce_sum, cast_to(mask, dtype), axes, keepdims)
    total: Tensor | float = 1.0
    for axis in axes:
        size = x._type.dims[axis]
        if isinstance(size, int):
            total = total * size
        else:
            known = Tensor.apply(ops.dimension_size, x, attrs=ops.DimensionSizeAttrs(axis))
            total = cast_to(known, dtype) * total
    return total


@remembered
def mean(
    x: Tensor,
    /,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    *,
    keepdims: bool = False,
    where: Tensor | None = None,
) -> Tensor:
    """The mean over axes, of the elements `where` something holds."""
    given = tensor("mean", x)
    given = cast_to(given, as_dtype(dtype)) if dtype is not None else given
    given = counting("mean", floating("mean", given), where, 0)
    axes = axes_of("mean", axis, given)
    wide = _wide(given)
    total = reduce(ops.reduce_sum, wide, axes, keepdims)
    part = dtypes.float64 if wide.dtype in (dtypes.float64, dtypes.complex128) else dtypes.float32
    return cast_to(total / _count(given, axes, part, where, keepdims), given.dtype)


_mean = mean


def _wide(x: Tensor) -> Tensor:
    """Narrow floats are averaged in float32."""
    return cast_to(x, dtypes.float32) if x.dtype.is_float and x.dtype.bits < 32 else x


@remembered
def var(
    x: Tensor,
    /,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    *,
    correction: float = 0.0,
    keepdims: bool = False,
    ddof: float | None = None,
    where: Tensor | None = None,
    mean: Tensor | Scalar | None = None,
) -> Tensor:
    """The variance over axes; the sum of squares is divided by the count minus `correction`, which NumPy calls `ddof`.

    The `mean` that distances are taken from may be given, with the axes kept.
    """
    if ddof is not None and correction:
        raise ShapeError.of("var", "correction and ddof are two names of one number", "give one of them")
    less = as_number("var", "correction" if ddof is None else "ddof", correction if ddof is None else ddof)
    given = tensor("var", x)
    given = floating("var", given if dtype is None else cast_to(given, as_dtype(dtype)))
    axes = axes_of("var", axis, given)
    wide = _wide(given)
    middle = _mean(wide, axis=axes, keepdims=True, where=where) if mean is None else mean
    centred = counting("var", wide - middle, where, 0)
    squares = square(abs(centred)) if wide.dtype.is_complex else square(centred)
    count = _count(given, axes, squares.dtype, where, keepdims)
    if isinstance(count, Tensor):
        divisor: Tensor | float = maximum(count - less, 0.0)
    else:
        divisor = builtins.max(count - less, 0.0)
    result = reduce(ops.reduce_sum, squares, axes, keepdims) / divisor
    return result if given.dtype.is_complex else cast_to(result, given.dtype)


@remembered
@arguments_of(var)
def std(x: Tensor, /, *args: Any, **options: Any) -> Tensor:
    """The standard deviation over axes."""
    return sqrt(var(x, *args, **options))


# --- running ----------------------------------------------------------------------------------------------


def _line(name: str, x: Tensor, axis: int | None) -> tuple[Tensor, int]:
    """The axis to run along; the only one if none is named."""
    given = tensor(name, x)
    if axis is None:
        if given.ndim != 1:
            raise ShapeError.of(name, f"shape {given.shape} has {given.ndim} axes", "say which: axis=0")
        return given, 0
    return given, axis_of(name, axis, given.ndim, given.shape)


def _running(
    name: str,
    op: OpDef,
    initial: int,
    x: Tensor,
    axis: int | None = None,
    *,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Tensor:
    given, along = _line(name, x, axis)
    wide = numeric(name, cast_to(given, summed_dtype(given, dtype)))
    result = Tensor.apply(op, wide, attrs=ops.CumulativeAttrs(along))
    if not include_initial:
        return result
    shape = tuple(1 if number == along else size for number, size in enumerate(given.shape))
    first = constant(initial, wide.dtype, shape)
    return Tensor.apply(ops.concat, first, result, attrs=ops.ConcatAttrs(along))


@remembered
def cumulative_sum(
    x: Tensor, /, axis: int | None = None, *, dtype: DTypeLike | None = None, include_initial: bool = False
) -> Tensor:
    """Running sums along an axis; with `include_initial` they start with 0."""
    return _running("cumulative_sum", ops.cumsum, 0, x, axis, dtype=dtype, include_initial=include_initial)


@remembered
@arguments_of(cumulative_sum)
def cumulative_prod(x: Tensor, /, *args: Any, **options: Any) -> Tensor:
    """Running products along an axis; with `include_initial` they start with 1."""
    return _running("cumulative_prod", ops.cumprod, 1, x, *args, **options)


@remembered
def cumulative_max(x: Tensor, /, axis: int | None = None) -> Tensor:
    """Running maxima along an axis."""
    given, along = _line("cumulative_max", x, axis)
    return Tensor.apply(ops.cummax, ordered("cumulative_max", given), attrs=ops.CumulativeAttrs(along))


@remembered
def cumulative_min(x: Tensor, /, axis: int | None = None) -> Tensor:
    """Running minima along an axis."""
    given, along = _line("cumulative_min", x, axis)
    return Tensor.apply(ops.cummin, ordered("cumulative_min", given), attrs=ops.CumulativeAttrs(along))


def cumulative_logsumexp(x: Tensor, /, axis: int | None = None) -> Tensor:
    """Running log(sum(exp(x))) along an axis, without overflow."""
    given, along = _line("cumulative_logsumexp", x, axis)
    return composite(cumulative.cumlogsumexp, real_floating("cumulative_logsumexp", given), axis=along)


# --- more -------------------------------------------------------------------------------------------------


def average(
    x: Tensor,
    /,
    axis: Axis = None,
    weights: Tensor | None = None,
    returned: bool = False,
    *,
    keepdims: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """The mean over axes, weighted: one weight for each element, or for each place along the axes. And the sum of weights."""
    given = floating("average", tensor("average", x))
    share = constant(1, given.dtype) if weights is None else tensor("average", weights)
    axes = axes_of("average", axis, given)
    if weights is not None and share.shape != given.shape:
        if share.shape != tuple([given.shape[at] for at in axes]):
            raise ShapeError.of("average", f"weights {share.shape} do not go with {given.shape} over {axis}")
        share = reshaped(share, [n if at in axes else 1 for at, n in enumerate(given.shape)])
    given, share = promoted("average", given, share)
    share = broadcast(share, given._type.dims)
    total = sum(share, axis=axes, keepdims=keepdims)
    means = sum(given * share, axis=axes, keepdims=keepdims) / total
    return (means, total) if returned else means


__all__ = [
    "average", "cumulative_logsumexp", "cumulative_max", "cumulative_min", "cumulative_prod",
    "cumulative_sum", "max", "mean", "min", "prod", "std", "sum", "var",
]  # fmt: skip
