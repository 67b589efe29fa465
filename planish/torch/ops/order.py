"""Sorting and what follows from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from planish import dtypes
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library.common import cast, take_along_axis
from planish.ptir.library.order import searchsorted as search
from planish.torch.registry import lowering
from planish.torch.site import FxSite, Operand, axis_of, sizes


def _ranked(x: V) -> V:
    return x.cast(dtypes.uint8) if x.dtype.is_bool else x


@lowering("aten.sort")
def sort(
    at: FxSite, x: V, *given: Any, stable: Any = None, dim: int = -1, descending: bool = False
) -> tuple[V, V]:
    """NaN counts as the largest; equals stay in order."""
    if given and isinstance(given[0], bool | None):
        given = given[1:]
    if given:
        dim = given[0]
    if len(given) > 1:
        descending = given[1]
    if not x.rank:
        return x, at.full((), 0, dtypes.int64)
    axis = axis_of(dim, x.rank)
    order = cast(_ranked(x).argsort(axis, descending), dtypes.int64)
    return take_along_axis(x, order, axis), order


@lowering("aten.argsort")
def argsort(at: FxSite, x: V, *given: Any, stable: Any = None, dim: int = -1, descending: bool = False) -> V:
    return sort(at, x, *given, stable=stable, dim=dim, descending=descending)[1]


@lowering("aten.topk")
def topk(at: FxSite, x: V, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[V, V]:
    if not x.rank:
        return x.reshape(() if k else (0,)), at.full((), 0, dtypes.int64)
    axis = axis_of(dim, x.rank)
    values, places = _ranked(x).top_k(k, axis, largest)
    return cast(values, x.dtype), places


@lowering("aten.kthvalue")
def kthvalue(at: FxSite, x: V, k: int, dim: int = -1, keepdim: bool = False) -> tuple[V, V]:
    values, places = sort(at, x, dim=dim)
    if not x.rank:
        return values, places
    return _at(values, dim, k - 1, keepdim), _at(places, dim, k - 1, keepdim)


def _at(x: V, dim: int, place: int, keepdim: bool) -> V:
    axis = axis_of(dim, x.rank)
    starts, limits = [0] * x.rank, list(x.dims)
    starts[axis], limits[axis] = place, place + 1
    part = x.slice(starts, limits)
    return part if keepdim else part.squeeze([axis])


Find = Callable[[FxSite, V, int], tuple[V, V]]
"""What finds a value along an axis, and its place; the axis stays."""


def _found_along(find: Find) -> Callable[..., tuple[V, V]]:
    """The lowering of such a function: a number is found at place 0, and the axis goes unless it is to stay."""

    def lowered(at: FxSite, x: V, dim: int = -1, keepdim: bool = False) -> tuple[V, V]:
        if not x.rank:
            return x, at.full((), 0, dtypes.int64)
        axis = axis_of(dim, x.rank)
        value, place = find(at, x, axis)
        return (value, place) if keepdim else (value.squeeze([axis]), place.squeeze([axis]))

    return lowered


@lowering("aten.median.dim")
@_found_along
def median_dim(at: FxSite, x: V, axis: int) -> tuple[V, V]:
    """The lower of the two in the middle; the first NaN where there is one."""
    count = sizes(at, x)[axis]
    value, place = (_at(ordered, axis, (count - 1) // 2, True) for ordered in sort(at, x, dim=axis))
    if x.dtype.is_float:
        wrong = x.is_nan()
        bad = wrong.reduce_or([axis], True)
        first = wrong.cast(dtypes.int8).argmax(axis, True, dtypes.int64)
        place = bad.select(first, place)
        value = take_along_axis(x, place, axis)
    return value, place


@lowering("aten.nanmedian.dim")
@_found_along
def nanmedian_dim(at: FxSite, x: V, axis: int) -> tuple[V, V]:
    values, places = sort(at, x, dim=axis)
    seen = values.is_nan().not_() if x.dtype.is_float else at.full(x.dims, True, dtypes.bool_)
    middle = seen.cast(dtypes.int64).reduce_sum([axis], True).sub(1).max(0).floor_div(2)
    return take_along_axis(values, middle, axis), take_along_axis(places, middle, axis)


@lowering("aten.median.default")
def median(at: FxSite, x: V) -> V:
    return median_dim(at, x.reshape((x.type.size,)), 0)[0]


@lowering("aten.nanmedian.default")
def nanmedian(at: FxSite, x: V) -> V:
    return nanmedian_dim(at, x.reshape((x.type.size,)), 0)[0]


@lowering("aten.mode")
@_found_along
def mode(at: FxSite, x: V, axis: int) -> tuple[V, V]:
    """The most frequent, the smallest of those; the last place it stands at."""
    values, _ = sort(at, x, dim=axis)
    size = sizes(at, x)[axis]
    square = (*x.dims[: axis + 1], size, *x.dims[axis + 1 :])
    left = values.expand_dims(axis + 1).broadcast_to(square)
    right = values.expand_dims(axis).broadcast_to(square)
    often = left.eq(right).cast(dtypes.int32).reduce_sum([axis + 1])
    best = often.argmax(axis, True, dtypes.int64)
    value = take_along_axis(values, best, axis)
    here = x.eq(value.broadcast_to(x.dims))
    place = here.select(at.graph.iota(x.dims, axis, dtypes.int64), -1).reduce_max([axis], True)
    return value, place


@lowering("aten.searchsorted")
def searchsorted(
    at: FxSite,
    line: V,
    wanted: Operand,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: V | None = None,
) -> V:
    """Batches of lines are compared with each other in full where there are several."""
    after = right or side == "right"
    kind = line.dtype if not isinstance(wanted, V) else wanted.dtype
    values = at.of(wanted, kind)
    if line.dtype is not kind:
        line, values = (cast(x, dtypes.float64) for x in (line, values))
    if sorter is not None:
        line = take_along_axis(line, cast(sorter, dtypes.int64), line.rank - 1)
    if line.rank == 1:
        return search(line, values, after, at.dtype)
    square = (*values.dims, line.dims[-1])
    lines = line.expand_dims(line.rank - 1).broadcast_to(square)
    others = values.expand_dims(values.rank).broadcast_to(square)
    before = lines.le(others) if after else lines.lt(others)
    if line.dtype.is_float:
        before = (
            before.or_(others.is_nan()) if after else before.or_(others.is_nan().and_(lines.is_nan().not_()))
        )
    return cast(before.cast(dtypes.int64).reduce_sum([values.rank]), at.dtype)


@lowering("aten.bucketize")
def bucketize(at: FxSite, x: Operand, boundaries: V, *, out_int32: bool = False, right: bool = False) -> V:
    return searchsorted(at, boundaries, x, out_int32=out_int32, right=right)
