"""Derivatives that are neither elementwise nor linear: products and extremes, windows, scatters, orders, factorisations.

`TANGENTS` push, `COTANGENTS` pull; an op that has only the latter gets the former by pulling twice, which the forward mode does
by itself. `FLAT` ops have no derivative at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from planish import dtypes
from planish.frontend.autodiff.linear import clamped, kept
from planish.frontend.autodiff.replay import At, zeros
from planish.ptir.dims import DimLike
from planish.ptir.graph_value import GraphValue as V

Push = Callable[[At, Sequence[V | None]], Sequence[V | None]]
Pull = Callable[[At, Sequence[V | None], Sequence[bool]], Sequence[V | None]]

FLAT: Final = frozenset(
    {"constant", "iota", "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor", "not", "shl", "shr_logical", "shr_arithmetic",
     "argmax", "argmin", "reduce_and", "reduce_or", "is_nan", "is_inf", "is_finite", "popcount", "clz", "bitcast", "quantize",
     "dequantize", "rng_bits", "dimension_size", "nonzero", "unique", "non_max_suppression"}
)  # fmt: skip
"""Ops whose results do not move, or are no real numbers. (A bitcast there and back is how a gradient is stopped.)"""


def _first(found: Sequence[V | None]) -> V:
    (only, *_) = found
    if only is None:  # a result that has no derivative is never asked for
        raise AssertionError
    return only


# -- reductions ------------------------------------------------------------------------------------------------


def _extreme_share(at: At) -> V:
    """1 / n where an element is one of the n extremes, else 0: equal elements share."""
    x = at.x[0]
    best = kept(at, at.y[0]).broadcast_to(x.dims)
    chosen = x.eq(best).or_(x.ne(x).and_(best.ne(best)))
    one = chosen.cast(x.dtype)
    count = kept(at, one.reduce_sum(at.attrs.axes)).broadcast_to(x.dims)
    return one.div(count)


def _pull_extreme(at: At, c: Sequence[V | None], needs: Sequence[bool]) -> list[V | None]:
    return [kept(at, _first(c)).broadcast_to(at.x[0].dims).mul(_extreme_share(at))]


def _push_extreme(at: At, t: Sequence[V | None]) -> list[V | None]:
    moved = _first(t).mul(_extreme_share(at)).reduce_sum(at.attrs.axes, at.attrs.keepdims)
    return [moved]


def _others(at: At) -> V:
    """Of each element, the product of all others along the reduced axes: no division, so zeros are no trouble."""
    x = at.x[0]
    axes = sorted(axis % x.rank for axis in at.attrs.axes)
    rest = [axis for axis in range(x.rank) if axis not in axes]
    order = [*rest, *axes]
    line = x.transpose(order)
    moved = line.dims
    size: DimLike = 1
    for axis in axes:
        size = size * x.dims[axis]
    line = line.reshape([*(x.dims[axis] for axis in rest), size])
    last = line.rank - 1
    before, after = line.cumprod(last, exclusive=True), line.cumprod(last, reverse=True, exclusive=True)
    others = before.mul(after).reshape(moved)
    return others.transpose([order.index(axis) for axis in range(x.rank)])


def _pull_prod(at: At, c: Sequence[V | None], needs: Sequence[bool]) -> list[V | None]:
    back = kept(at, _first(c)).broadcast_to(at.x[0].dims)
    others = _others(at)
    return [back.mul(others.conj() if others.dtype.is_complex else others)]


def _push_prod(at: At, t: Sequence[V | None]) -> list[V | None]:
    return [_first(t).mul(_others(at)).reduce_sum(at.attrs.axes, at.attrs.keepdims)]


# -- cumulative ------------------------------------------------------------------------------------------------


def _front(value: V, axis: int) -> V:
    return value.transpose([axis, *(k for k in range(value.rank) if k != axis)])


def _back(value: V, axis: int) -> V:
    order = [axis, *(k for k in range(value.rank) if k != axis)]
    return value.transpose([order.index(k) for k in range(value.rank)])


def _pull_cumprod(at: At, c: Sequence[V | None], needs: Sequence[bool]) -> list[V | None]:
    """dx_i = Π_{j<i} x_j · s_i with s_i = c_i + x_{i+1} · s_{i+1}: a loop from the end, without division."""
    attrs, x = at.attrs, at.x[0]
    axis = attrs.axis % x.rank
    cotangent = _first(c)
    if x.dtype.is_complex:
        x = x.conj()
    if attrs.exclusive:
        # y_i is the product before i: shift the cotangent by one, as if it belonged to the inclusive product
        cotangent = _shifted(at, cotangent, axis, -1 if not attrs.reverse else 1)
    before = x.cumprod(axis, attrs.reverse, True)
    line, given = _front(x, axis), _front(cotangent, axis)
    length = line.dims[0]
    zero = zeros(at.graph, line.type.with_dims(line.dims[1:]))

    def step(carry: V, value: V, own: V) -> tuple[V, V]:
        total = own.add(carry)
        return value.mul(total), total

    _, sums = at.graph.scan(step, [zero], [line, given], length, not attrs.reverse)
    return [_back(sums, axis).mul(before)]


def _shifted(at: At, value: V, axis: int, by: int) -> V:
    """Along an axis by one place, zeros coming in."""
    low: list[int] = [0] * value.rank
    high: list[int] = [0] * value.rank
    low[axis], high[axis] = by, -by
    return value.pad(0, list(zip(low, high, strict=True)))


def _pull_running_extreme(at: At, c: Sequence[V | None], needs: Sequence[bool]) -> list[V | None]:
    """To the latest element that is the extreme so far."""
    attrs, x = at.attrs, at.x[0]
    axis = attrs.axis % x.rank
    cotangent = _first(c)
    name = at.inst.op.name
    y = at.y[0]
    if attrs.exclusive:
        cotangent = _shifted(at, cotangent, axis, -1 if not attrs.reverse else 1)
        y = (x.cummax if name == "cummax" else x.cummin)(axis, attrs.reverse)
    size = x.dims[axis]
    place = at.graph.iota(x.dims, axis)
    hit = x.eq(y).or_(x.ne(x))
    if attrs.reverse:
        none = at.graph.full(x.dims, 0, place.dtype).add(at.graph.full((), 1, place.dtype).broadcast_to(x.dims).mul(_size(at, size)))
        chosen = hit.select(place, none).cummin(axis, True)
    else:
        chosen = hit.select(place, at.graph.full(x.dims, -1, place.dtype)).cummax(axis)
    return [_along(at, zeros(at.graph, x.type), cotangent, chosen, axis)]


def _size(at: At, size: DimLike) -> V | int:
    return size if isinstance(size, int) else at.x[0].dimension_size(at.attrs.axis).broadcast_to(at.x[0].dims)


def _along(at: At, target: V, updates: V, index: V, axis: int) -> V:
    """Updates added at positions along one axis; every other index stays."""
    indices = [
        index if k == axis else at.graph.iota(updates.dims, k, index.dtype) for k in range(updates.rank)
    ]
    return target.scatter(updates, indices, list(range(target.rank)), "add")


# -- windows ---------------------------------------------------------------------------------------------------


def _window_positions(at: At) -> tuple[list[V], V]:
    """For every window (one axis per axis of x) and every place in it (one flat axis at the end): where in x, and whether."""
    attrs, x, y = at.attrs, at.x[0], at.y[0]
    count = 1
    for size in attrs.window:
        count *= size
    dims = [*y.dims, count]
    flat = at.graph.iota(dims, y.rank)
    indices: list[V] = []
    inside: V | None = None
    rest = flat
    for k in reversed(range(x.rank)):
        offset = rest.floor_mod(attrs.window[k])
        rest = rest.floor_div(attrs.window[k])
        place = (
            at.graph.iota(dims, k).mul(attrs.strides[k]).add(offset.mul(attrs.window_dilation[k])).sub(attrs.low[k])
        )
        spread = attrs.base_dilation[k]
        size = x.dims[k]
        within = place.ge(0)
        if spread > 1:
            within = within.and_(place.floor_mod(spread).eq(0))
            place = place.floor_div(spread)
        limit = size if isinstance(size, int) else x.dimension_size(k).broadcast_to(dims)
        within = within.and_(place.lt(limit))
        inside = within if inside is None else inside.and_(within)
        indices.insert(0, place)
    if inside is None:
        raise AssertionError
    return indices, inside


def _pull_window(at: At, c: Sequence[V | None], needs: Sequence[bool]) -> list[V | None]:
    attrs, x, y = at.attrs, at.x[0], at.y[0]
    cotangent = _first(c)
    indices, inside = _window_positions(at)
    dims = inside.dims
    wide = cotangent.reshape([*y.dims, 1]).broadcast_to(dims)
    axes = list(range(x.rank))
    safe = clamped(at, indices, axes, x.dims)
    zero = at.graph.full(dims, 0, x.dtype)
    last = len(dims) - 1
    if attrs.kind == "sum":
        part = wide
    elif attrs.kind == "prod":
        one = at.graph.full(dims, 1, x.dtype)
        window = inside.select(x.gather(safe, axes), one)
        part = wide.mul(window.cumprod(last, exclusive=True)).mul(window.cumprod(last, reverse=True, exclusive=True))
    else:
        # to the first extreme of the window
        window = x.gather(safe, axes)
        best = y.reshape([*y.dims, 1]).broadcast_to(dims)
        hit = inside.and_(window.eq(best).or_(window.ne(window)))
        first = hit.and_(hit.cast(dtypes.int32).cumsum(last).eq(1))
        part = first.select(wide, zero)
    return [zeros(at.graph, x.type).scatter(inside.select(part, zero), safe, axes, "add")]


# -- scatter, sort, top_k --------------------------------------------------------------------------------------


def _pull_scatter(at: At, c: Sequence[V | None], needs: Sequence[bool]) -> list[V | None]:
    attrs, (x, updates, *indices) = at.attrs, at.x
    cotangent = _first(c)
    dims, axes = x.dims, attrs.axes
    inside: V | None = None
    for index, axis in zip(indices, axes, strict=True):
        limit = dims[axis]
        own = index.ge(0).and_(index.lt(limit)) if isinstance(limit, int) else index.ge(0)
        inside = own if inside is None else inside.and_(own)
    if inside is None:
        raise AssertionError
    mask = inside.reshape([*inside.dims, *[1] * (updates.rank - inside.rank)]).broadcast_to(updates.dims)
    zero = zeros(at.graph, updates.type)

    def read(value: V) -> V:
        return mask.select(value.gather(clamped(at, indices, axes, dims), axes), zero)

    none: list[V | None] = [None] * len(indices)
    if attrs.kind == "add":
        return [cotangent, read(cotangent), *none]
    if attrs.kind == "replace":
        return [cotangent.scatter(zero, indices, axes), read(cotangent), *none]
    if attrs.kind == "mul":
        return [cotangent.scatter(updates, indices, axes, "mul"), read(cotangent.mul(at.y[0])).div(updates), *none]
    y = at.y[0]
    kept_own = x.eq(y).select(cotangent, zeros(at.graph, x.type))
    chosen = updates.eq(read(y)).select(read(cotangent), zero)
    return [kept_own, chosen, *none]


def _pull_sort(at: At, c: Sequence[V | None], needs: Sequence[bool]) -> list[V | None]:
    attrs = at.attrs
    axis = attrs.axis % at.x[0].rank
    place = at.graph.iota(at.x[0].dims, axis)
    *_, order = at.graph.sort([*at.x, place], axis, attrs.descending, attrs.num_keys)
    found: list[V | None] = []
    for x, cotangent, need in zip(at.x, c, needs, strict=True):
        if cotangent is None or not need:
            found.append(None)
        else:
            found.append(_along(at, zeros(at.graph, x.type), cotangent, order, axis))
    return found


def _push_sort(at: At, t: Sequence[V | None]) -> list[V | None]:
    attrs = at.attrs
    axis = attrs.axis % at.x[0].rank
    place = at.graph.iota(at.x[0].dims, axis)
    *_, order = at.graph.sort([*at.x, place], axis, attrs.descending, attrs.num_keys)
    return [None if tangent is None else _taken(at, tangent, order, axis) for tangent in t]


def _taken(at: At, x: V, index: V, axis: int) -> V:
    indices = [index if k == axis else at.graph.iota(index.dims, k, index.dtype) for k in range(x.rank)]
    return x.gather(indices, list(range(x.rank)))


def _pull_top_k(at: At, c: Sequence[V | None], needs: Sequence[bool]) -> list[V | None]:
    axis = at.attrs.axis % at.x[0].rank
    return [_along(at, zeros(at.graph, at.x[0].type), _first(c), at.y[1], axis)]


def _push_top_k(at: At, t: Sequence[V | None]) -> list[V | None]:
    return [_taken(at, _first(t), at.y[1], at.attrs.axis % at.x[0].rank), None]


TANGENTS: Final[dict[str, Push]] = {
    "reduce_max": _push_extreme,
    "reduce_min": _push_extreme,
    "reduce_prod": _push_prod,
    "sort": _push_sort,
    "top_k": _push_top_k,
}
COTANGENTS: Final[dict[str, Pull]] = {
    "reduce_max": _pull_extreme,
    "reduce_min": _pull_extreme,
    "reduce_prod": _pull_prod,
    "cumprod": _pull_cumprod,
    "cummax": _pull_running_extreme,
    "cummin": _pull_running_extreme,
    "reduce_window": _pull_window,
    "scatter": _pull_scatter,
    "sort": _pull_sort,
    "top_k": _pull_top_k,
}
