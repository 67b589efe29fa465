"""Ops whose addresses are data: gather, scatter, dynamic_slice, dynamic_update_slice; and iota.

Indices are never negative-from-the-end. Reading outside clamps, writing outside is dropped, windows are
moved inside: nothing traps (semantics section 8).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from planish.dtypes import DType
from planish.ptir.ops import checking, numerics
from planish.ptir.ops import definition as d
from planish.ptir.ops.checking import INTS, NUMBERS, ORDERED, at_most, shape_error
from planish.ptir.ops.literal import Array
from planish.ptir.ops.movement import static
from planish.ptir.types import DimLike, TensorType, bounds
from planish.records import dataclass


@dataclass(frozen=True, slots=True)
class IotaAttrs(d.Attrs):
    """A shape, the axis along which numbers count, and their dtype."""

    dtype: DType
    dims: tuple[DimLike, ...]
    axis: int


@dataclass(frozen=True, slots=True)
class GatherAttrs(d.Attrs):
    """The axis that each index operand addresses."""

    axes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ScatterAttrs(d.Attrs):
    """The axis that each index operand addresses, and how an update meets what is there."""

    axes: tuple[int, ...]
    kind: str = "replace"
    """One of `SCATTER_KINDS`."""
    unique_indices: bool = False
    """A promise that no position is named twice."""


@dataclass(frozen=True, slots=True)
class DynamicSliceAttrs(d.Attrs):
    """The size of the window, per axis."""

    sizes: tuple[DimLike, ...]


# --- iota -------------------------------------------------------------------------------------------------


def _evaluate_iota(arrays: d.Arrays, attrs: IotaAttrs, types: d.Types) -> d.Results:
    shape = types[0].shape
    line = numerics.convert(np.arange(shape[attrs.axis], dtype=np.int64), attrs.dtype)
    column = [1] * len(shape)
    column[attrs.axis] = shape[attrs.axis]
    return (np.broadcast_to(line.reshape(column), shape),)


@d.op(d.OpKey.IOTA, arity=0, evaluate=_evaluate_iota, foldable=False)
def iota(types: d.Types, attrs: IotaAttrs, regions: d.Regions) -> d.ResultTypes:
    """0, 1, 2 … along an axis."""
    result = TensorType(attrs.dtype, attrs.dims)
    checking.need_dtype("iota", result, NUMBERS, "the result")
    checking.need_axis("iota", attrs.axis, len(attrs.dims))
    return (result,)


# --- gather and scatter -----------------------------------------------------------------------------------


def _check_indices(
    op: str, operand: TensorType, indices: Sequence[TensorType], axes: tuple[int, ...]
) -> tuple[DimLike, ...]:
    """The shape that gathering has: that of the indices, then the axes that are not addressed."""
    checking.need_axes(op, axes, operand.rank)
    if not indices or len(indices) != len(axes):
        shape_error(
            op,
            f"{len(indices)} index operands for axes {axes}",
            "give one index array per axis, at least one",
        )
    for index in indices:
        checking.need_dtype(op, index, INTS, "an index array")
    checking.need_same_dtype(op, indices)
    checking.need_same_dims(op, indices)
    rest = [dim for axis, dim in enumerate(operand.dims) if axis not in axes]
    return (*indices[0].dims, *rest)


def _evaluate_gather(arrays: d.Arrays, attrs: GatherAttrs, types: d.Types) -> d.Results:
    operand, *indices = arrays
    if 0 in types[0].shape:
        return (np.empty(types[0].shape, operand.dtype),)
    front = np.moveaxis(operand, attrs.axes, range(len(attrs.axes)))
    clamped = tuple(
        _clamp(index, 0, operand.shape[axis] - 1) for index, axis in zip(indices, attrs.axes, strict=True)
    )
    return (np.asarray(front[clamped]),)


def _clamp(index: Array, low: int, high: int) -> Array:
    """Indices of any integer dtype as int64 within bounds; comparing first keeps huge uint64 large."""
    wide = numerics.widen(index)
    return np.where(wide < low, low, np.where(wide > high, high, wide.astype(np.int64)))


@d.op(d.OpKey.GATHER, arity=(2, None), evaluate=_evaluate_gather)
def gather(types: d.Types, attrs: GatherAttrs, regions: d.Regions) -> d.ResultTypes:
    """gather(x, i0, i1, …): x at the indices along `axes`; index axes first, then the other axes of x."""
    operand, *indices = types
    dims = _check_indices("gather", operand, indices, attrs.axes)
    for axis in attrs.axes:
        if bounds(operand.dims[axis])[0] == 0 and 0 not in dims:
            shape_error(
                "gather", f"axis {axis} of {operand} may be empty", "there is nothing to gather from it"
            )
    lead = indices[0].rank
    rest = [axis for axis in range(operand.rank) if axis not in attrs.axes]
    return (checking.keep_quant("gather", operand, dims, {axis: lead + i for i, axis in enumerate(rest)}),)


SCATTER_KINDS: Final = ("replace", "add", "mul", "min", "max")
_SCATTER_DTYPES: Final = {
    "replace": checking.ALL,
    "add": NUMBERS,
    "mul": NUMBERS,
    "min": ORDERED,
    "max": ORDERED,
}


def _combine_at(kind: str, target: Array, index: tuple[Array, ...], updates: Array) -> Array:
    """`target` with all updates of one kind applied, rounded once."""
    dtype = numerics.dtype_of(target)
    if kind == "replace":
        result = target.copy()
        result[index] = updates
        return result
    if kind in ("min", "max"):
        nan_high = kind == "max"
        keys = numerics.order_key(target, nan_high=nan_high).copy()
        (np.maximum if nan_high else np.minimum).at(
            keys, index, numerics.order_key(updates, nan_high=nan_high)
        )
        return numerics.from_order_key(keys, dtype)
    wide = numerics.widen(target).copy()
    (np.add if kind == "add" else np.multiply).at(wide, index, numerics.widen(updates))
    return numerics.convert(wide, dtype)


@numerics.quiet
def _evaluate_scatter(arrays: d.Arrays, attrs: ScatterAttrs, types: d.Types) -> d.Results:
    operand, updates, *indices = arrays
    front = np.moveaxis(operand, attrs.axes, range(len(attrs.axes)))
    inside = np.ones(indices[0].shape, np.bool_)
    for index, axis in zip(indices, attrs.axes, strict=True):
        wide = numerics.widen(index)
        inside &= (wide >= 0) & (wide < operand.shape[axis])
    kept = tuple(numerics.widen(index)[inside].astype(np.int64) for index in indices)
    result = _combine_at(attrs.kind, front, kept, updates[inside])
    return (np.moveaxis(result, range(len(attrs.axes)), attrs.axes),)


@d.op(d.OpKey.SCATTER, arity=(3, None), evaluate=_evaluate_scatter)
def scatter(types: d.Types, attrs: ScatterAttrs, regions: d.Regions) -> d.ResultTypes:
    """scatter(x, updates, i0, …): x with updates written, added … at the indices along `axes`."""
    operand, updates, *indices = types
    if attrs.kind not in SCATTER_KINDS:
        shape_error(
            "scatter", f"there is no scatter kind {attrs.kind!r}", f"kinds: {', '.join(SCATTER_KINDS)}"
        )
    checking.need_same_dtype("scatter", (operand, updates))
    if attrs.kind != "replace" or operand.quant is None:
        checking.need_dtype("scatter", operand, _SCATTER_DTYPES[attrs.kind])
    dims = _check_indices("scatter", operand, indices, attrs.axes)
    if updates.dims != dims:
        shape_error(
            "scatter",
            f"updates are {updates}, not of shape {checking.shape_text(dims)}",
            "they need the shape of the indices followed by the other axes of the operand",
        )
    return (operand,)


# --- windows at run-time positions ------------------------------------------------------------------------


def _check_starts(op: str, operand: TensorType, starts: Sequence[TensorType]) -> None:
    if len(starts) != operand.rank:
        shape_error(
            op, f"{len(starts)} starts for the {operand.rank} axes of {operand}", "give one scalar per axis"
        )
    for start in starts:
        checking.need_scalar(op, start, INTS, "a start")
    if starts:
        checking.need_same_dtype(op, starts)


def _check_window(op: str, operand: TensorType, sizes: Sequence[DimLike]) -> None:
    checking.need_length(op, "the window", sizes, operand.rank)
    for axis, size in enumerate(sizes):
        if not at_most(size, operand.dims[axis]):
            shape_error(
                op, f"the window {checking.shape_text(sizes)} is not certain to fit axis {axis} of {operand}"
            )


def _window(shape: tuple[int, ...], sizes: Sequence[int], starts: Sequence[Array]) -> tuple[slice, ...]:
    begins = [int(_clamp(start, 0, n - size)) for n, size, start in zip(shape, sizes, starts, strict=True)]
    return tuple(slice(begin, begin + size) for begin, size in zip(begins, sizes, strict=True))


def _evaluate_dynamic_slice(arrays: d.Arrays, attrs: DynamicSliceAttrs, types: d.Types) -> d.Results:
    operand, *starts = arrays
    return (np.asarray(operand[_window(operand.shape, [static(s) for s in attrs.sizes], starts)]),)


@d.op(d.OpKey.DYNAMIC_SLICE, arity=(1, None), evaluate=_evaluate_dynamic_slice)
def dynamic_slice(types: d.Types, attrs: DynamicSliceAttrs, regions: d.Regions) -> d.ResultTypes:
    """dynamic_slice(x, start0, …): a window of fixed size, moved inside if it would stick out."""
    operand, *starts = types
    _check_starts("dynamic_slice", operand, starts)
    _check_window("dynamic_slice", operand, attrs.sizes)
    whole = {axis: axis for axis, size in enumerate(attrs.sizes) if size == operand.dims[axis]}
    return (checking.keep_quant("dynamic_slice", operand, attrs.sizes, whole),)


def _evaluate_dynamic_update_slice(arrays: d.Arrays, attrs: d.NoAttrs, types: d.Types) -> d.Results:
    operand, update, *starts = arrays
    result = operand.copy()
    result[_window(operand.shape, update.shape, starts)] = update
    return (result,)


@d.op(d.OpKey.DYNAMIC_UPDATE_SLICE, arity=(2, None), evaluate=_evaluate_dynamic_update_slice)
def dynamic_update_slice(types: d.Types, attrs: d.NoAttrs, regions: d.Regions) -> d.ResultTypes:
    """dynamic_update_slice(x, update, start0, …): x with a window replaced, moved inside if it would stick out."""
    operand, update, *starts = types
    checking.need_same_dtype("dynamic_update_slice", (operand, update))
    _check_starts("dynamic_update_slice", operand, starts)
    _check_window("dynamic_update_slice", operand, update.dims)
    return (operand,)
