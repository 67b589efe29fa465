"""Ops that order elements: sort, argsort and top_k.

Always stable. NaN is above every number, -0 equals +0 (semantics section 9).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from planish import dtypes
from planish.dtypes import DType
from planish.ptir.ops import checking, numerics
from planish.ptir.ops import definition as d
from planish.ptir.ops.checking import ORDERED, shape_error
from planish.ptir.ops.literal import Array
from planish.ptir.types import DimLike, TensorType
from planish.records import dataclass


@dataclass(frozen=True, slots=True)
class SortAttrs(d.Attrs):
    """The axis, the direction, and how many leading operands are compared."""

    axis: int
    descending: bool = False
    num_keys: int = 1


@dataclass(frozen=True, slots=True)
class ArgsortAttrs(d.Attrs):
    """The axis and the direction."""

    axis: int
    descending: bool = False


@dataclass(frozen=True, slots=True)
class TopKAttrs(d.Attrs):
    """How many along which axis, the largest or the smallest, and the dtype of the indices."""

    k: DimLike
    axis: int
    largest: bool = True
    dtype: DType = dtypes.int64


def sort_order(keys: Sequence[Array], axis: int, descending: bool) -> Array:
    """The stable permutation that sorts along an axis, first key first."""
    encoded = [numerics.order_key(key, zeros_equal=True) for key in keys]
    if descending:
        # Complementing an integer reverses its order and keeps equals equal.
        encoded = [np.invert(key) for key in encoded]
    return np.asarray(np.lexsort(encoded[::-1], axis=axis))


def _evaluate_sort(arrays: d.Arrays, attrs: SortAttrs, types: d.Types) -> d.Results:
    order = sort_order(arrays[: attrs.num_keys], attrs.axis, attrs.descending)
    return tuple(np.take_along_axis(x, order, attrs.axis) for x in arrays)


@d.op(d.OpKey.SORT, arity=(1, None), evaluate=_evaluate_sort, num_results=None, way=d.Way.COMPOSITE)
def sort(types: d.Types, attrs: SortAttrs, regions: d.Regions) -> d.ResultTypes:
    """Operands sorted together, stably, by the first `num_keys` of them."""
    checking.need_same_dims("sort", types)
    checking.need_axis("sort", attrs.axis, types[0].rank)
    if not 1 <= attrs.num_keys <= len(types):
        shape_error(
            "sort", f"num_keys is {attrs.num_keys} with {len(types)} operands", "compare at least one operand"
        )
    for key in types[: attrs.num_keys]:
        checking.need_dtype("sort", key, ORDERED, "a key")
    for payload in types[attrs.num_keys :]:
        if payload.quant is not None and payload.quant.axis == attrs.axis:
            checking.dtype_error("sort", f"{payload} has one scale per index of the sorted axis")
    return tuple(types)


def _evaluate_argsort(arrays: d.Arrays, attrs: ArgsortAttrs, types: d.Types) -> d.Results:
    return (sort_order(arrays, attrs.axis, attrs.descending).astype(np.int64),)


@d.op(d.OpKey.OTHER, evaluate=_evaluate_argsort, way=d.Way.HOST)
def argsort(types: d.Types, attrs: ArgsortAttrs, regions: d.Regions) -> d.ResultTypes:
    """The positions that a stable sort would take elements from."""
    checking.need_dtype("argsort", types[0], ORDERED)
    checking.need_axis("argsort", attrs.axis, types[0].rank)
    return (TensorType(dtypes.int64, types[0].dims),)


def _evaluate_top_k(arrays: d.Arrays, attrs: TopKAttrs, types: d.Types) -> d.Results:
    order = sort_order(arrays[:1], attrs.axis, attrs.largest)
    best = np.take(order, range(types[0].shape[attrs.axis]), attrs.axis)
    values = np.take_along_axis(arrays[0], best, attrs.axis)
    return values, numerics.convert(best.astype(np.int64), attrs.dtype)


@d.op(d.OpKey.TOP_K, evaluate=_evaluate_top_k, num_results=2, way=d.Way.COMPOSITE)
def top_k(types: d.Types, attrs: TopKAttrs, regions: d.Regions) -> d.ResultTypes:
    """The k largest (or smallest) along an axis, in order, and where they were."""
    operand = types[0]
    checking.need_dtype("top_k", operand, ORDERED)
    checking.need_axis("top_k", attrs.axis, operand.rank)
    if attrs.dtype not in checking.INTS:
        checking.dtype_error("top_k", f"an index cannot have dtype {attrs.dtype.short}", "use int32 or int64")
    if not (checking.at_most(0, attrs.k) and checking.at_most(attrs.k, operand.dims[attrs.axis])):
        shape_error(
            "top_k", f"k = {attrs.k} does not fit axis {attrs.axis} of {operand}", "take 0 <= k <= size"
        )
    dims = (*operand.dims[: attrs.axis], attrs.k, *operand.dims[attrs.axis + 1 :])
    return TensorType(operand.dtype, dims), TensorType(attrs.dtype, dims)
