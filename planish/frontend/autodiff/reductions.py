"""Derivatives of what combines many elements: extremes and products, running ones, and windows.

Ties are torch's: equal extremes of a reduction share, a running extreme is the latest, a window's is the first. Products
never divide, so that zeros are no trouble.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Final

from planish import dtypes
from planish.frontend.autodiff.instruction import (
    Pull,
    Push,
    RuleSite,
    added,
    conjugate,
    gathered,
    put,
    taken,
    the_only,
    where,
    zeros,
)
from planish.frontend.autodiff.linear import kept
from planish.frontend.replay import clamped, size_along
from planish.ptir import ops
from planish.ptir.dims import DimLike, bounds
from planish.ptir.dims import product as product_of
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.ops.numerics import highest, lowest

# -- reductions ------------------------------------------------------------------------------------------------


def _extreme_share(at: RuleSite) -> V:
    """1 / n where an element is one of the n extremes, else 0: equal elements share."""
    x = at.x[0]
    best = kept(at, at.y[0]).broadcast_to(x.dims)
    chosen = x.eq(best).or_(x.is_nan().and_(best.is_nan()))
    one = chosen.cast(x.dtype)
    return one.div(one.reduce_sum(at.attrs.axes, keepdims=True).broadcast_to(x.dims))


def _pull_extreme(at: RuleSite, c: Sequence[V | None], needs: Sequence[bool]) -> list[V | None]:
    return [kept(at, the_only(c)).broadcast_to(at.x[0].dims).mul(_extreme_share(at))]


def _push_extreme(at: RuleSite, t: Sequence[V | None]) -> list[V | None]:
    return [the_only(t).mul(_extreme_share(at)).reduce_sum(at.attrs.axes, at.attrs.keepdims)]


def _others(at: RuleSite) -> V:
    """Of each element, the product of all others along the reduced axes."""
    x, axes = at.x[0], at.attrs.axes
    rest = [axis for axis in range(x.rank) if axis not in axes]
    order = [*rest, *axes]
    line = x.transpose(order)
    moved = line.dims
    line = line.reshape([*moved[: len(rest)], product_of(moved[len(rest) :])])
    last = len(rest)
    before, after = line.cumprod(last, exclusive=True), line.cumprod(last, reverse=True, exclusive=True)
    others = before.mul(after).reshape(moved)
    return others.transpose([order.index(axis) for axis in range(x.rank)])


def _pull_prod(at: RuleSite, c: Sequence[V | None], needs: Sequence[bool]) -> list[V | None]:
    return [kept(at, the_only(c)).broadcast_to(at.x[0].dims).mul(conjugate(_others(at)))]


def _push_prod(at: RuleSite, t: Sequence[V | None]) -> list[V | None]:
    return [the_only(t).mul(_others(at)).reduce_sum(at.attrs.axes, at.attrs.keepdims)]


# -- running products and extremes -----------------------------------------------------------------------------


def _front(value: V, axis: int) -> V:
    return value.transpose([axis, *(k for k in range(value.rank) if k != axis)])


def _back(value: V, axis: int) -> V:
    order = [axis, *(k for k in range(value.rank) if k != axis)]
    return value.transpose([order.index(k) for k in range(value.rank)])


def _shifted(value: V, axis: int, by: int, fill: int = 0) -> V:
    """Along an axis by one place, with a number coming in."""
    low = [by if k == axis else 0 for k in range(value.rank)]
    return value.pad(low, [-amount for amount in low], value=fill)


def _pull_cumprod(at: RuleSite, c: Sequence[V | None], needs: Sequence[bool]) -> list[V | None]:
    """dx_i = Π_{j<i} x_j · s_i with s_i = c_i + x_{i+1} · s_{i+1}: a loop from the end, without division."""
    axis, reverse, x = at.attrs.axis, at.attrs.reverse, conjugate(at.x[0])
    cotangent = the_only(c)
    if x.dims[axis] == 0:
        return [cotangent]
    if at.attrs.exclusive:
        # y_i is the product before i: one place on, as if it belonged to the inclusive product
        cotangent = _shifted(cotangent, axis, 1 if reverse else -1)
    before = x.cumprod(axis, reverse, True)
    line, given = _front(x, axis), _front(cotangent, axis)
    zero = zeros(at.graph, line.type.with_dims(line.dims[1:]))

    def step(carry: V, value: V, own: V) -> tuple[V, V]:
        total = own.add(carry)
        return value.mul(total), total

    _, sums = at.graph.scan(step, [zero], [line, given], line.dims[0], not reverse)
    return [_back(sums, axis).mul(before)]


def _push_cumprod(at: RuleSite, t: Sequence[V | None]) -> list[V | None]:
    """p and dp together: p ← p·x, dp ← dp·x + p·t."""
    axis, reverse, exclusive, x = at.attrs.axis, at.attrs.reverse, at.attrs.exclusive, at.x[0]
    line, tangent = _front(x, axis), _front(the_only(t), axis)
    slot = line.type.with_dims(line.dims[1:])
    one, zero = at.graph.full(slot.dims, 1, slot.dtype), zeros(at.graph, slot)

    def step(p: V, dp: V, value: V, own: V) -> tuple[V, V, V]:
        after = dp.mul(value).add(p.mul(own))
        return p.mul(value), after, dp if exclusive else after

    *_, moved = at.graph.scan(step, [one, zero], [line, tangent], line.dims[0], reverse)
    return [_back(moved, axis)]


def _latest(at: RuleSite) -> V:
    """Where the running extreme up to each place (itself included) comes from: the latest of equals."""
    axis, reverse, x = at.attrs.axis, at.attrs.reverse, at.x[0]
    extreme = at.y[0]
    if at.attrs.exclusive:
        extreme = (x.cummax if at.inst.op is ops.cummax else x.cummin)(axis, reverse)
    place = at.graph.iota(x.dims, axis)
    hit = x.eq(extreme).or_(x.is_nan())
    if reverse:
        return hit.select(place, size_along(x, axis, x.dims)).cummin(axis, True)
    return hit.select(place, -1).cummax(axis)


def _pull_running(at: RuleSite, c: Sequence[V | None], needs: Sequence[bool]) -> list[V | None]:
    axis, cotangent = at.attrs.axis, the_only(c)
    if at.attrs.exclusive:
        cotangent = _shifted(cotangent, axis, 1 if at.attrs.reverse else -1)
    return [put(zeros(at.graph, at.x[0].type), cotangent, _latest(at), axis)]


def _push_running(at: RuleSite, t: Sequence[V | None]) -> list[V | None]:
    axis, tangent = at.attrs.axis, the_only(t)
    moved = taken(tangent, _latest(at), axis)
    return [_shifted(moved, axis, -1 if at.attrs.reverse else 1) if at.attrs.exclusive else moved]


# -- windows ---------------------------------------------------------------------------------------------------

# Above so many elements in a window, one instruction each is more than gathering all of them.
_FEW: Final = 64


def _taps(attrs: ops.ReduceWindowAttrs) -> Iterator[tuple[int, ...]]:
    """The places in a window, in row-major order."""
    return product(*map(range, attrs.window))


class _Windows:
    """The elements of each window: a list of values of the result's shape, one per place in the window."""

    def __init__(self, at: RuleSite) -> None:
        self.at = at
        self.attrs: ops.ReduceWindowAttrs = at.attrs
        self.x, self.dims = at.x[0], at.y[0].dims
        self.gaps = [dilation - 1 for dilation in self.attrs.base_dilation]

    @property
    def is_padded(self) -> bool:
        return any(self.attrs.low) or any(self.attrs.high) or any(self.gaps)

    def read(self, value: V, filler: float | bool) -> list[V]:
        """A value of the operand's shape, through the windows."""
        attrs = self.attrs
        if self.is_padded:
            value = value.pad(attrs.low, attrs.high, self.gaps, filler)
        slices = []
        for offsets in _taps(attrs):
            starts, limits = [], []
            for axis, (offset, gap) in enumerate(zip(offsets, attrs.window_dilation, strict=True)):
                starts.append(offset * gap)
                # as far as this place of the last window can be
                limits.append(value.dims[axis] - (attrs.window[axis] - 1 - offset) * gap)
            slices.append(value.slice(starts, limits, attrs.strides))
        return slices

    def element_masks(self) -> list[V] | None:
        """Where a place holds an element and not padding; None: everywhere."""
        if not self.is_padded:
            return None
        return self.read(self.at.graph.full(self.x.dims, True, dtypes.bool_), False)

    def write(self, parts: Sequence[V]) -> V:
        """The transpose of `read`: parts of the result's shape added up where they came from."""
        attrs, total = self.attrs, None
        spread = [dim + (dim - 1) * gap for dim, gap in zip(self.x.dims, self.gaps, strict=True)]
        whole = [low + dim + high for low, dim, high in zip(attrs.low, spread, attrs.high, strict=True)]
        for offsets, part in zip(_taps(attrs), parts, strict=True):
            low, high = [], []
            for axis, offset in enumerate(offsets):
                start = offset * attrs.window_dilation[axis]
                reach = (self.dims[axis] - 1) * attrs.strides[axis] + 1
                low.append(start - attrs.low[axis])
                high.append(whole[axis] - start - reach - attrs.high[axis])
            total = added(total, part.pad(low, high, [stride - 1 for stride in attrs.strides]))
        back = zeros(self.at.graph, self.x.type) if total is None else total
        if any(self.gaps):
            back = back.slice([0] * back.rank, back.dims, attrs.base_dilation)
        return back

    def shares(self) -> list[V]:
        """Per place, what its element's tangent counts for in the result; masks for extremes, factors for products."""
        attrs, y = self.attrs, self.at.y[0]
        if attrs.kind == "sum":
            return [self.at.graph.full(self.dims, True, dtypes.bool_)] * math.prod(attrs.window)
        if attrs.kind == "prod":
            elements = self.read(self.x, 1)
            one = self.at.graph.full(self.dims, 1, self.x.dtype)
            before, after = [one], [one]
            for element, last in zip(elements[:-1], reversed(elements[1:]), strict=True):
                before.append(before[-1].mul(element))
                after.append(after[-1].mul(last))
            return [b.mul(a) for b, a in zip(before, reversed(after), strict=True)]
        identity = lowest(self.x.dtype) if attrs.kind == "max" else highest(self.x.dtype)
        earlier: V | None = None
        masks = []
        inside = self.element_masks()
        for number, element in enumerate(self.read(self.x, float(identity))):
            hit = element.eq(y).or_(element.is_nan())
            if inside is not None:
                hit = hit.and_(inside[number])
            masks.append(hit if earlier is None else hit.and_(earlier.not_()))
            earlier = hit if earlier is None else earlier.or_(hit)
        return masks


def _scaled(share: V, value: V) -> V:
    return where(share, value) if share.dtype.is_bool else value.mul(share)


def _pull_window(at: RuleSite, c: Sequence[V | None], needs: Sequence[bool]) -> list[V | None]:
    attrs, x, cotangent = at.attrs, at.x[0], the_only(c)
    if 0 in at.y[0].dims or 0 in x.dims:
        return [zeros(at.graph, x.type)]
    if attrs.kind == "sum" and all(bounds(dim)[0] > 0 for dim in x.dims):
        return [_pull_window_sum(at, cotangent)]
    if attrs.kind != "sum" and math.prod(attrs.window) > _FEW:
        place, inside, share = _gathered_windows(at)
        given = cotangent.expand_dims(-1).broadcast_to(share.dims)
        part = where(inside, _scaled(conjugate(share), given))
        return [zeros(at.graph, x.type).scatter(part, place, range(x.rank), "add")]
    windows = _Windows(at)
    return [windows.write([_scaled(conjugate(share), cotangent) for share in windows.shares()])]


def _push_window(at: RuleSite, t: Sequence[V | None]) -> list[V | None]:
    attrs, tangent = at.attrs, the_only(t)
    if attrs.kind == "sum":
        return [at.graph.emit(at.inst.op, (tangent,), attrs)]
    if 0 in at.y[0].dims or 0 in tangent.dims:
        return [zeros(at.graph, at.y[0].type)]
    if math.prod(attrs.window) > _FEW:
        place, inside, share = _gathered_windows(at)
        part = where(inside, _scaled(share, gathered(tangent, place, range(tangent.rank))))
        return [part.reduce_sum([part.rank - 1])]
    windows = _Windows(at)
    total: V | None = None
    for share, part in zip(windows.shares(), windows.read(tangent, 0), strict=True):
        total = added(total, _scaled(share, part))
    return [total]


def _pull_window_sum(at: RuleSite, c: V) -> V:
    """Windows over the cotangent, spread by the strides: which windows an element is in."""
    attrs: ops.ReduceWindowAttrs = at.attrs
    x = at.x[0]
    low: list[DimLike] = []
    high: list[DimLike] = []
    for axis in range(x.rank):
        reach = (attrs.window[axis] - 1) * attrs.window_dilation[axis]
        spread = (x.dims[axis] - 1) * attrs.base_dilation[axis] + 1
        given = (c.dims[axis] - 1) * attrs.strides[axis] + 1
        low.append(reach - attrs.low[axis])
        high.append(spread + reach - given - low[-1])
    ones = (1,) * x.rank
    # padded apart, as windows take their padding in numbers alone
    wide = c.pad(low, high, [stride - 1 for stride in attrs.strides])
    wanted = ops.ReduceWindowAttrs(
        "sum", attrs.window, attrs.base_dilation, (0,) * x.rank, (0,) * x.rank, ones, attrs.window_dilation
    )
    return at.graph.emit(ops.reduce_window, (wide,), wanted)


def _gathered_windows(at: RuleSite) -> tuple[list[V], V, V]:
    """For every window and every place in it (one flat axis at the end): where in x, whether there, and its share."""
    attrs: ops.ReduceWindowAttrs = at.attrs
    x, y = at.x[0], at.y[0]
    dims = [*y.dims, math.prod(attrs.window)]
    rest = at.graph.iota(dims, y.rank)
    indices: list[V] = []
    inside = at.graph.full(dims, True, dtypes.bool_)
    for axis in reversed(range(x.rank)):
        offset, rest = rest.floor_mod(attrs.window[axis]), rest.floor_div(attrs.window[axis])
        place = at.graph.iota(dims, axis).mul(attrs.strides[axis])
        place = place.add(offset.mul(attrs.window_dilation[axis])).sub(attrs.low[axis])
        spread = attrs.base_dilation[axis]
        inside = inside.and_(place.ge(0))
        if spread > 1:
            inside = inside.and_(place.floor_mod(spread).eq(0))
            place = place.floor_div(spread)
        inside = inside.and_(place.lt(size_along(x, axis, dims)))
        indices.insert(0, place)
    safe = clamped(x, indices, range(x.rank))
    elements = gathered(x, safe, range(x.rank))
    last = y.rank
    if attrs.kind == "prod":
        line = inside.select(elements, at.graph.full(dims, 1, x.dtype))
        return safe, inside, line.cumprod(last, exclusive=True).mul(line.cumprod(last, True, True))
    best = y.expand_dims(-1).broadcast_to(dims)
    hit = inside.and_(elements.eq(best).or_(elements.is_nan()))
    return safe, inside, hit.and_(hit.cast(dtypes.int32).cumsum(last).eq(1))


REDUCTIONS: Final[Mapping[str, tuple[Push, Pull]]] = {
    "reduce_max": (_push_extreme, _pull_extreme),
    "reduce_min": (_push_extreme, _pull_extreme),
    "reduce_prod": (_push_prod, _pull_prod),
    "cumprod": (_push_cumprod, _pull_cumprod),
    "cummax": (_push_running, _pull_running),
    "cummin": (_push_running, _pull_running),
    "reduce_window": (_push_window, _pull_window),
}
