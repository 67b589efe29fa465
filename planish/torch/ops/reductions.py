"""Sums, extremes, statistics, running totals, softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from planish import dtypes
from planish.dtypes import DType
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library import cumulative, normalize
from planish.ptir.library.common import cast, spread
from planish.torch.registry import lowering
from planish.torch.site import FxSite, axes_of, axis_of, sizes, wide_kind

Axes = int | Sequence[int] | None


def count_of(at: FxSite, x: V, axes: Sequence[int]) -> Any:
    """How many elements are reduced to one."""
    known = sizes(at, x)
    return math.prod(known[axis] for axis in axes)


def _over(at: FxSite, total: V, count: Any, correction: float = 0.0) -> V:
    """A total by a count, less a correction."""
    if isinstance(count, int):
        divisor = max(count - correction, 0)
        return total.div(complex(divisor) if total.dtype.is_complex else float(divisor))
    size = at.of(count, total.dtype)
    return total.div(spread(size.sub(correction).max(0.0) if correction else size, total.dims))


@lowering("aten.sum", "prims.sum")
def sum(
    at: FxSite, x: V, dim: Axes = None, keepdim: bool = False, *, dtype: Any = None, output_dtype: Any = None
) -> V:
    axes = axes_of(dim, x.rank)
    value = cast(x, at.dtype)
    return value.reduce_sum(axes, keepdim) if axes else value


@lowering("aten.prod", "prims.prod")
def prod(at: FxSite, x: V, dim: Axes = None, keepdim: bool = False, *, dtype: Any = None) -> V:
    axes = axes_of(dim, x.rank)
    value = cast(x, at.dtype)
    return value.reduce_prod(axes, keepdim) if axes else value


@lowering("aten.mean")
def mean(at: FxSite, x: V, dim: Axes = None, keepdim: bool = False, *, dtype: Any = None) -> V:
    axes = axes_of(dim, x.rank)
    value = cast(x, at.dtype)
    if not axes:
        return value
    wide = cast(value, wide_kind(value.dtype))
    count = count_of(at, x, axes)
    return cast(_over(at, wide.reduce_sum(axes, keepdim), count), value.dtype)


def _is_coarse(at: FxSite) -> bool:
    """Whether elements on a GPU were bfloat16.

    Their own rounding, 2⁻⁹ of the value, weighs more in a variance than what Σ x² - (Σ x)² / n loses in float32 does. Rows are read once in two
    passes, too; what lies across them, as channels of a batch, would be read twice.
    """
    source: Any = at.node.args[0]
    is_cast = str(getattr(source, "target", "")) in (
        "aten._to_copy.default",
        "prims.convert_element_type.default",
    )
    fake = (source.args[0] if is_cast else source).meta["val"]
    return bool(fake.dtype is torch.bfloat16 and fake.device.type == "cuda")


def _variance(at: FxSite, x: V, axes: Sequence[int], correction: float, keepdims: bool) -> tuple[V, V]:
    """Variance and mean, in two passes, or in one where the elements are no more exact than that."""
    count = count_of(at, x, axes)
    wide = cast(x, wide_kind(x.dtype))
    middle = _over(at, wide.reduce_sum(axes, True), count)
    if _is_coarse(at) and list(axes) != list(range(x.rank - len(axes), x.rank)):
        whole = wide.reduce_sum(axes, True)
        around = wide.mul(wide).reduce_sum(axes, True).sub(middle.mul(whole)).max(0.0)
        total = _over(at, around, count, correction)
        return (total, middle) if keepdims else (total.squeeze(list(axes)), middle.squeeze(list(axes)))
    apart = wide.sub(spread(middle, x.dims))
    if wide.dtype.is_complex:
        squares = apart.real().mul(apart.real()).add(apart.imag().mul(apart.imag()))
    else:
        squares = apart.mul(apart)
    total = _over(at, squares.reduce_sum(axes, keepdims), count, correction)
    return total, middle if keepdims else middle.squeeze(list(axes))


def _deviation(
    root: bool,
    at: FxSite,
    x: V,
    dim: Axes = None,
    unbiased: float | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> V:
    """The variance, or its root."""
    total = _variance(at, x, axes_of(dim, x.rank), _freedom(dim, unbiased, correction), keepdim)[0]
    return cast(total.sqrt() if root else total, at.dtype)


lowering("aten.var", "prims.var")(partial(_deviation, False))
lowering("aten.std")(partial(_deviation, True))


def _freedom(dim: Axes, unbiased: float | None, correction: float | None) -> float:
    if isinstance(dim, bool):
        unbiased = dim
    given = correction if unbiased is None else unbiased
    return 1 if given is None else float(given)


@lowering("aten.var_mean")
def var_mean(
    at: FxSite, x: V, dim: Axes = None, *, correction: float | None = None, keepdim: bool = False
) -> tuple[V, V]:
    total, middle = _variance(at, x, axes_of(dim, x.rank), _freedom(dim, None, correction), keepdim)
    return cast(total, at.dtype), cast(middle, x.dtype)


def _extreme(method: str, at: FxSite, x: V, dim: Axes = None, keepdim: bool = False) -> V:
    axes = axes_of(dim, x.rank)
    if not axes:
        return x
    extreme: V = getattr(x, method)(axes, keepdim)
    return extreme


for _name, _method in (("max", "reduce_max"), ("min", "reduce_min")):
    lowering(f"aten.a{_name}", f"prims.a{_name}", f"aten.{_name}.default")(partial(_extreme, _method))


def _extreme_at(largest: bool, at: FxSite, x: V, dim: int, keepdim: bool = False) -> tuple[V, V]:
    if not x.rank:
        return x, at.full((), 0, dtypes.int64)
    axis = axis_of(dim, x.rank)
    values = (x.reduce_max if largest else x.reduce_min)([axis], keepdim)
    return values, _places(x, largest, axis, keepdim)


def _places(x: V, largest: bool, axis: int, keepdim: bool) -> V:
    ranked = x.cast(dtypes.int8) if x.dtype.is_bool else x
    return (ranked.argmax if largest else ranked.argmin)(axis, keepdim, dtypes.int64)


lowering("aten.max.dim")(partial(_extreme_at, True))
lowering("aten.min.dim")(partial(_extreme_at, False))


def _argument(largest: bool, at: FxSite, x: V, dim: int | None = None, keepdim: bool = False) -> V:
    if not x.rank:
        return at.full((), 0)
    if dim is None:
        flat = _places(x.reshape((x.type.size,)), largest, 0, False)
        return flat.reshape((1,) * x.rank) if keepdim else flat
    return _places(x, largest, axis_of(dim, x.rank), keepdim)


lowering("aten.argmax")(partial(_argument, True))
lowering("aten.argmin")(partial(_argument, False))


def _truth(method: str, at: FxSite, x: V, dim: Axes = None, keepdim: bool = False) -> V:
    axes = axes_of(dim, x.rank, empty_is_all=False) if dim is not None else list(range(x.rank))
    value = cast(x, dtypes.bool_)
    truth: V = getattr(value, method)(axes, keepdim) if axes else value
    return cast(truth, at.dtype)


lowering("aten.any")(partial(_truth, "reduce_or"))
lowering("aten.all")(partial(_truth, "reduce_and"))


@lowering("aten.logsumexp")
def logsumexp(at: FxSite, x: V, dim: Axes, keepdim: bool = False) -> V:
    value = cast(x, at.dtype)
    if value.dtype.is_complex:
        raise at.refuse("of complex numbers")
    return normalize.logsumexp(value, axes_of(dim, x.rank), keepdim) if x.rank else value


@lowering("aten._softmax", "prims._softmax")
def softmax(at: FxSite, x: V, dim: int, half_to_float: bool = False) -> V:
    value = cast(x, at.dtype)
    return normalize.softmax(value, axis_of(dim, x.rank)) if x.rank else at.full((), 1.0)


@lowering("aten._log_softmax")
def log_softmax(at: FxSite, x: V, dim: int, half_to_float: bool = False) -> V:
    value = cast(x, at.dtype)
    return normalize.log_softmax(value, axis_of(dim, x.rank)) if x.rank else at.full((), 0.0)


# --- running totals ---------------------------------------------------------------------------------------


def _running(method: str, at: FxSite, x: V, dim: int, *, dtype: Any = None) -> V:
    value = cast(x, at.dtype)
    return getattr(value, method)(axis_of(dim, x.rank)) if x.rank else value


lowering("aten.cumsum")(partial(_running, "cumsum"))
lowering("aten.cumprod")(partial(_running, "cumprod"))


@lowering("aten.logcumsumexp")
def logcumsumexp(at: FxSite, x: V, dim: int) -> V:
    if x.dtype.is_complex:
        raise at.refuse("of complex numbers")
    return cumulative.cumlogsumexp(x, axis_of(dim, x.rank)) if x.rank else x


def _running_extreme(largest: bool, at: FxSite, x: V, dim: int) -> tuple[V, V]:
    if not x.rank:
        return x, at.full((), 0, dtypes.int64)
    axis = axis_of(dim, x.rank)
    ranked = x.cast(dtypes.int8) if x.dtype.is_bool else x
    best = (ranked.cummax if largest else ranked.cummin)(axis)
    # the last place that is as good as all before it
    here = ranked.eq(best)
    if x.dtype.is_float:
        here = here.or_(ranked.is_nan())
    place = at.graph.iota(x.dims, axis, dtypes.int64)
    return cast(best, x.dtype), here.select(place, 0).cummax(axis)


lowering("aten.cummax")(partial(_running_extreme, True))
lowering("aten.cummin")(partial(_running_extreme, False))


# --- norms ------------------------------------------------------------------------------------------------


@lowering("aten.linalg_vector_norm")
def vector_norm(
    at: FxSite, x: V, ord: float = 2, dim: Axes = None, keepdim: bool = False, *, dtype: Any = None
) -> V:
    axes = axes_of(dim, x.rank)
    given = at.kind(dtype) if dtype is not None else x.dtype
    value = cast(x, given)
    wide = _wide_part(value.dtype)
    value = cast(value.abs() if not value.dtype.is_bool else value, wide)
    if not axes:
        return cast(value if ord != 0 else cast(value.ne(0), wide), at.dtype)
    if ord == math.inf:
        return cast(value.reduce_max(axes, keepdim), at.dtype)
    if ord == -math.inf:
        return cast(value.reduce_min(axes, keepdim), at.dtype)
    if ord == 0:
        return cast(cast(value.ne(0), wide).reduce_sum(axes, keepdim), at.dtype)
    if ord == 1:
        return cast(value.reduce_sum(axes, keepdim), at.dtype)
    if ord == 2:
        return cast(value.mul(value).reduce_sum(axes, keepdim).sqrt(), at.dtype)
    return cast(value.pow(float(ord)).reduce_sum(axes, keepdim).pow(1 / ord), at.dtype)


def _wide_part(dtype: DType) -> DType:
    if dtype.is_complex:
        return dtypes.float64 if dtype.bits == 128 else dtypes.float32
    return wide_kind(dtype)


@lowering("aten.count_nonzero")
def count_nonzero(at: FxSite, x: V, dim: Axes = None) -> V:
    axes = axes_of(dim, x.rank)
    ones = cast(x, dtypes.bool_).cast(dtypes.int64)
    return ones.reduce_sum(axes) if axes else ones
