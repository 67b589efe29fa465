"""Reductions over axes, arg-reductions, cumulative scans and windows.

Narrow floats accumulate in float32 and are rounded once; integers wrap; max and min follow the total order
in which NaN wins and -0 < +0 (semantics section 6).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from planish import dtypes
from planish.dtypes import DType
from planish.ptir.ops import checking, numerics
from planish.ptir.ops import definition as d
from planish.ptir.ops.checking import BITS, NUMBERS, ORDERED, shape_error
from planish.ptir.ops.literal import Array
from planish.ptir.ops.movement import pad_array, spread_size
from planish.ptir.types import DimLike, TensorType, bounds
from planish.records import dataclass


@dataclass(frozen=True, slots=True)
class ReduceAttrs(d.Attrs):
    """The axes that go, and whether they stay with size 1."""

    axes: tuple[int, ...]
    keepdims: bool = False


@dataclass(frozen=True, slots=True)
class ArgReduceAttrs(d.Attrs):
    """The axis searched, whether it stays with size 1, and the dtype of the index."""

    axis: int
    keepdims: bool = False
    dtype: DType = dtypes.int64


@dataclass(frozen=True, slots=True)
class CumulativeAttrs(d.Attrs):
    """The axis scanned, from which end, and whether an element counts itself."""

    axis: int
    reverse: bool = False
    exclusive: bool = False


@dataclass(frozen=True, slots=True)
class ReduceWindowAttrs(d.Attrs):
    """Windows over every axis; dilation 1 and padding 0 mean none."""

    kind: str
    """One of `WINDOW_KINDS`."""
    window: tuple[int, ...]
    strides: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    base_dilation: tuple[int, ...]
    window_dilation: tuple[int, ...]


# --- how values combine -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Monoid:
    """An associative combination: its dtypes, identity, and the NumPy ufunc on encoded values.

    `encode` brings values into a type in which the ufunc has the right meaning; `decode` brings them back.
    """

    allowed: checking.DTypeSet
    identity: Callable[[DType], bool | int | float]
    ufunc: np.ufunc
    encode: Callable[[Array], Array]
    decode: Callable[[Array, DType], Array]


def _encode_max(array: Array) -> Array:
    return numerics.order_key(array, nan_high=True)


def _encode_min(array: Array) -> Array:
    return numerics.order_key(array, nan_high=False)


def _zero(dtype: DType) -> int:
    return 0


def _one(dtype: DType) -> int:
    return 1


def _ones(dtype: DType) -> bool | int:
    return True if dtype.is_bool else dtype.wrap(-1)


MONOIDS: Final[dict[str, Monoid]] = {
    "sum": Monoid(NUMBERS, _zero, np.add, numerics.widen, numerics.convert),
    "prod": Monoid(NUMBERS, _one, np.multiply, numerics.widen, numerics.convert),
    "max": Monoid(ORDERED, numerics.lowest, np.maximum, _encode_max, numerics.from_order_key),
    "min": Monoid(ORDERED, numerics.highest, np.minimum, _encode_min, numerics.from_order_key),
    "and": Monoid(BITS, _ones, np.bitwise_and, numerics.widen, numerics.convert),
    "or": Monoid(BITS, _zero, np.bitwise_or, numerics.widen, numerics.convert),
}


def _identity(monoid: Monoid, dtype: DType) -> Array:
    """The identity as an encoded scalar."""
    return monoid.encode(numerics.full((), monoid.identity(dtype), dtype))


def reduced_dims(dims: Sequence[DimLike], axes: Sequence[int], keepdims: bool) -> tuple[DimLike, ...]:
    """A shape without some axes, or with them at size 1."""
    if keepdims:
        return tuple(1 if axis in axes else dim for axis, dim in enumerate(dims))
    return tuple(dim for axis, dim in enumerate(dims) if axis not in axes)


def _reduce(name: str, kind: str, doc: str) -> d.OpDef:
    monoid = MONOIDS[kind]

    def infer(types: d.Types, attrs: ReduceAttrs, regions: d.Regions) -> d.ResultTypes:
        operand = types[0]
        checking.need_dtype(name, operand, monoid.allowed)
        checking.need_axes(name, attrs.axes, operand.rank)
        if list(attrs.axes) != sorted(attrs.axes):
            shape_error(name, f"axes {attrs.axes} are not in ascending order")
        return (TensorType(operand.dtype, reduced_dims(operand.dims, attrs.axes, attrs.keepdims)),)

    @numerics.quiet
    def evaluate(arrays: d.Arrays, attrs: ReduceAttrs, types: d.Types) -> d.Results:
        dtype = types[0].dtype
        values = monoid.encode(arrays[0])
        # `add.reduce` sums pairwise only without an initial value, so the identity is left to empty axes.
        if values.size == 0:
            shape = types[0].shape
            return (numerics.full(shape, monoid.identity(dtype), dtype),)
        result = monoid.ufunc.reduce(values, axis=attrs.axes, keepdims=attrs.keepdims, dtype=values.dtype)
        return (monoid.decode(np.asarray(result), dtype),)

    return d.define(name, d.OpKey.REDUCE, ReduceAttrs, arity=1, infer=infer, evaluate=evaluate, doc=doc)


reduce_sum: Final = _reduce("reduce_sum", "sum", "The sum over some axes.")
reduce_prod: Final = _reduce("reduce_prod", "prod", "The product over some axes.")
reduce_max: Final = _reduce("reduce_max", "max", "The largest over some axes; NaN wins.")
reduce_min: Final = _reduce("reduce_min", "min", "The smallest over some axes; NaN wins.")
reduce_and: Final = _reduce("reduce_and", "and", "Conjunction over some axes; bitwise on integers.")
reduce_or: Final = _reduce("reduce_or", "or", "Disjunction over some axes; bitwise on integers.")


def _arg_reduce(name: str, largest: bool, doc: str) -> d.OpDef:
    def infer(types: d.Types, attrs: ArgReduceAttrs, regions: d.Regions) -> d.ResultTypes:
        operand = types[0]
        checking.need_dtype(name, operand, ORDERED)
        checking.need_axis(name, attrs.axis, operand.rank)
        if attrs.dtype not in checking.INTS:
            checking.dtype_error(
                name, f"an index cannot have dtype {attrs.dtype.short}", "use int32 or int64"
            )
        size = operand.dims[attrs.axis]
        if bounds(size)[0] == 0:
            shape_error(
                name, f"axis {attrs.axis} of {operand} may be empty", "an empty axis has no extreme element"
            )
        return (TensorType(attrs.dtype, reduced_dims(operand.dims, (attrs.axis,), attrs.keepdims)),)

    def evaluate(arrays: d.Arrays, attrs: ArgReduceAttrs, types: d.Types) -> d.Results:
        # NaN is the extreme in either direction; NumPy takes the first of equal keys.
        keys = numerics.order_key(arrays[0], nan_high=largest, zeros_equal=True)
        index = np.argmax(keys, attrs.axis) if largest else np.argmin(keys, attrs.axis)
        index = np.expand_dims(index, attrs.axis) if attrs.keepdims else np.asarray(index)
        return (numerics.convert(index.astype(np.int64), attrs.dtype),)

    return d.define(
        name, d.OpKey.ARG_REDUCE, ArgReduceAttrs, arity=1, infer=infer, evaluate=evaluate, doc=doc
    )


argmax: Final = _arg_reduce(
    "argmax", True, "Where the largest element is; the first of equals, the first NaN."
)
argmin: Final = _arg_reduce(
    "argmin", False, "Where the smallest element is; the first of equals, the first NaN."
)


def _cumulative(name: str, kind: str, doc: str) -> d.OpDef:
    monoid = MONOIDS[kind]

    def infer(types: d.Types, attrs: CumulativeAttrs, regions: d.Regions) -> d.ResultTypes:
        operand = types[0]
        checking.need_dtype(name, operand, monoid.allowed)
        checking.need_axis(name, attrs.axis, operand.rank)
        return (operand,)

    @numerics.quiet
    def evaluate(arrays: d.Arrays, attrs: CumulativeAttrs, types: d.Types) -> d.Results:
        axis, dtype = attrs.axis, types[0].dtype
        values = monoid.encode(arrays[0])
        if attrs.reverse:
            values = np.flip(values, axis)
        running = monoid.ufunc.accumulate(values, axis=axis, dtype=values.dtype)
        if attrs.exclusive and running.shape[axis] > 0:
            first_shape = [1 if a == axis else n for a, n in enumerate(running.shape)]
            first = np.broadcast_to(_identity(monoid, dtype), first_shape)
            but_last = np.take(running, range(running.shape[axis] - 1), axis)
            running = np.concatenate([first, but_last], axis)
        if attrs.reverse:
            running = np.flip(running, axis)
        return (monoid.decode(running, dtype),)

    return d.define(
        name, d.OpKey.CUMULATIVE, CumulativeAttrs, arity=1, infer=infer, evaluate=evaluate, doc=doc
    )


cumsum: Final = _cumulative("cumsum", "sum", "Running sum along an axis.")
cumprod: Final = _cumulative("cumprod", "prod", "Running product along an axis.")
cummax: Final = _cumulative("cummax", "max", "Running maximum along an axis.")
cummin: Final = _cumulative("cummin", "min", "Running minimum along an axis.")


# --- windows ----------------------------------------------------------------------------------------------

WINDOW_KINDS: Final = ("sum", "prod", "max", "min")


def window_count(size: DimLike, window: int, stride: int, dilation: int) -> DimLike:
    """How many windows fit an axis; sizes round down, never below 0."""
    span = (window - 1) * dilation + 1
    low, high = bounds(size - span)
    if high < 0:
        return 0
    if low < 0:
        shape_error(
            "reduce_window",
            f"a window of {span} is not certain to fit a size of {size}",
            "raise the dim's lower bound",
        )
    return (size - span) // stride + 1


def check_positive(op: str, what: str, values: Sequence[int]) -> None:
    for value in values:
        if value < 1:
            shape_error(op, f"{what} {tuple(values)} has an entry below 1")


@numerics.quiet
def _evaluate_reduce_window(arrays: d.Arrays, attrs: ReduceWindowAttrs, types: d.Types) -> d.Results:
    monoid, dtype, shape = MONOIDS[attrs.kind], types[0].dtype, types[0].shape
    values = monoid.encode(arrays[0])
    identity = _identity(monoid, dtype)
    result = np.full(shape, identity, values.dtype)
    if 0 in shape:
        return (monoid.decode(result, dtype),)
    padded = pad_array(values, identity, attrs.low, attrs.high, [d - 1 for d in attrs.base_dilation])
    for offsets in np.ndindex(*attrs.window):
        taps = tuple(
            slice(offset * dilation, offset * dilation + (count - 1) * stride + 1, stride)
            for offset, dilation, count, stride in zip(
                offsets, attrs.window_dilation, shape, attrs.strides, strict=True
            )
        )
        result = np.asarray(monoid.ufunc(result, padded[taps]))
    return (monoid.decode(result, dtype),)


@d.op(d.OpKey.REDUCE_WINDOW, evaluate=_evaluate_reduce_window)
def reduce_window(types: d.Types, attrs: ReduceWindowAttrs, regions: d.Regions) -> d.ResultTypes:
    """Combine the elements of each window; padding is the identity."""
    op = "reduce_window"
    operand = types[0]
    if attrs.kind not in WINDOW_KINDS:
        shape_error(op, f"there is no window kind {attrs.kind!r}", f"kinds: {', '.join(WINDOW_KINDS)}")
    checking.need_dtype(op, operand, MONOIDS[attrs.kind].allowed)
    for what in ("window", "strides", "low", "high", "base_dilation", "window_dilation"):
        checking.need_length(op, what, getattr(attrs, what), operand.rank)
        if what not in ("low", "high"):
            check_positive(op, what, getattr(attrs, what))
    dims: list[DimLike] = []
    for axis, dim in enumerate(operand.dims):
        padded = spread_size(dim, attrs.base_dilation[axis] - 1, op) + attrs.low[axis] + attrs.high[axis]
        dims.append(
            window_count(padded, attrs.window[axis], attrs.strides[axis], attrs.window_dilation[axis])
        )
    return (TensorType(operand.dtype, tuple(dims)),)
