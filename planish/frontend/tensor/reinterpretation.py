"""Bits read as another dtype, and elements combined where indices say: `bitcast` and `scatter_reduce`."""

from __future__ import annotations

import math
from typing import Final

from planish import dtypes
from planish.dtypes import DType
from planish.errors import DTypeError, ShapeError
from planish.frontend.tensor.array import Tensor
from planish.frontend.tensor.creation import full_like, ones_like, zeros_like
from planish.frontend.tensor.elementwise import maximum, where
from planish.frontend.tensor.indexing import scatter
from planish.frontend.tensor.operands import DTypeLike, as_dtype, cast_to, reshaped, tensor
from planish.ptir import ops


def bitcast(x: Tensor, dtype: DTypeLike, /) -> Tensor:
    """The same bits as elements of another dtype. If it is narrower or wider, the last axis is longer or shorter, as in NumPy's `view`."""
    given, wanted = tensor("bitcast", x), as_dtype(dtype)
    source = cast_to(given, dtypes.uint8) if given.dtype.is_bool else given
    if wanted.is_bool:
        raise DTypeError.of("bitcast", f"{given.dtype.name} bits need not be bools", "compare with 0")
    if source.dtype.bits == wanted.bits:
        return Tensor.apply(ops.bitcast, source, attrs=ops.BitcastAttrs(wanted))
    if source.ndim == 0:
        raise ShapeError.of("bitcast", f"a {given.dtype.name} without axes is no whole number of {wanted.name}", "reshape it to (1,)"
        )  # fmt: skip
    *lead, last = source.shape
    if source.dtype.bits > wanted.bits:
        parts = Tensor.apply(ops.bitcast, source, attrs=ops.BitcastAttrs(wanted))
        return reshaped(parts, (*lead, last * (source.dtype.bits // wanted.bits)))
    ratio = wanted.bits // source.dtype.bits
    if last % ratio:
        raise ShapeError.of("bitcast", f"{last} {given.dtype.name} of shape {given.shape} do not make whole {wanted.name}", f"the last axis has to be a multiple of {ratio}"
        )  # fmt: skip
    return Tensor.apply(
        ops.bitcast, reshaped(source, (*lead, last // ratio, ratio)), attrs=ops.BitcastAttrs(wanted)
    )


_KINDS: Final = {
    "sum": "add", "add": "add", "prod": "mul", "mul": "mul", "amax": "max", "max": "max", "amin": "min", "min": "min", "mean": "add",
}  # fmt: skip


def scatter_reduce(
    x: Tensor, indices: Tensor, updates: Tensor, /, axis: int = -1, *, reduce: str, include_self: bool = True
) -> Tensor:
    """x combined with updates along an axis, each line at its own indices: their sum, prod, mean, amax or amin.

    Without `include_self`, an element that is hit does not count itself; others stay. Means of integers are floored.
    """
    if reduce not in _KINDS:
        raise ShapeError.of(
            "scatter_reduce", f"there is no reduction {reduce!r}", "sum, prod, mean, amax or amin"
        )
    given, kind = tensor("scatter_reduce", x), _KINDS[reduce]
    start = given
    hits: Tensor | None = None
    if not include_self or reduce == "mean":
        counted = zeros_like(given, dtype=dtypes.int64)
        hits = scatter(counted, indices, ones_like(indices, dtype=dtypes.int64), axis, reduce="add")
    if not include_self and hits is not None:
        start = where(hits > 0, full_like(given, _neutral(kind, given.dtype)), given)
    total = scatter(start, indices, updates, axis, reduce=kind)
    if reduce != "mean" or hits is None:
        return total
    number = maximum(hits + 1 if include_self else hits, 1)
    return (
        total // cast_to(number, total.dtype) if total.dtype.is_int else total / cast_to(number, total.dtype)
    )


def _neutral(kind: str, dtype: DType) -> float | int:
    """What changes nothing in such a reduction."""
    if kind in ("add", "mul"):
        return int(kind == "mul")
    if dtype.is_float:
        return -math.inf if kind == "max" else math.inf
    return int((dtype.min if kind == "max" else dtype.max) or 0)


__all__ = ["bitcast", "scatter_reduce"]
