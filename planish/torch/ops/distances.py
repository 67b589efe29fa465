"""Distances between rows, and products of three."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library.common import cast, spread
from planish.ptir.library.shaping import broadcast_dims
from planish.torch.registry import lowering
from planish.torch.site import FxSite, sizes


def _norm(apart: V, p: float, axis: int) -> V:
    size = apart.abs()
    if p == 0:
        return cast(size.ne(0), apart.dtype).reduce_sum([axis])
    if p == 1:
        return size.reduce_sum([axis])
    if p == 2:
        return size.mul(size).reduce_sum([axis]).sqrt()
    if p == math.inf:
        return size.reduce_max([axis])
    return size.pow(p).reduce_sum([axis]).pow(1 / p)


def _differences(x: V, y: V) -> V:
    """(…, rows of x, rows of y, columns)."""
    lead = broadcast_dims(x.dims[:-2], y.dims[:-2])
    dims = (*lead, x.dims[-2], y.dims[-2], x.dims[-1])
    return spread(x.expand_dims(x.rank - 1), dims).sub(spread(y.expand_dims(y.rank - 2), dims))


@lowering("aten._cdist_forward")
def cdist_forward(at: FxSite, x: V, y: V, p: float, compute_mode: int | None = None) -> V:
    apart = _differences(x, y)
    if 0 in apart.dims:
        return at.full(apart.dims[:-1], 0.0)
    return _norm(apart, p, apart.rank - 1)


def _by_difference(apart: V, gradient: V, distance: V, p: float) -> V:
    """The gradient by a difference: that of its norm, 0 where the distance is."""
    spread_out = spread(gradient.expand_dims(gradient.rank), apart.dims)
    norm = spread(distance.expand_dims(distance.rank), apart.dims)
    zero = apart.graph.full(apart.dims, 0.0, apart.dtype)
    if p == 0:
        return zero
    if p == 1:
        return spread_out.mul(apart.sign())
    if p == 2:
        return norm.eq(0).select(zero, spread_out.mul(apart).div(norm))
    if p == math.inf:
        return spread_out.mul(apart.sign()).mul(cast(apart.abs().eq(norm), apart.dtype))
    derivative = spread_out.mul(apart.sign()).mul(apart.abs().div(norm).pow(p - 1))
    return norm.eq(0).or_(apart.eq(0)).select(zero, derivative)


@lowering("aten._cdist_backward")
def cdist_backward(at: FxSite, gradient: V, x: V, y: V, p: float, cdist: V) -> V:
    apart = _differences(x, y)
    if 0 in apart.dims:
        return at.full(x.dims, 0.0)
    return _by_difference(apart, gradient, cdist, p).reduce_sum([apart.rank - 2])


def _pairs(at: FxSite, x: V) -> tuple[V, V]:
    first, second = np.triu_indices(sizes(at, x)[0], 1)
    return at.graph.constant(first.astype(np.int64)), at.graph.constant(second.astype(np.int64))


@lowering("aten._pdist_forward")
def pdist_forward(at: FxSite, x: V, p: float = 2.0) -> V:
    first, second = _pairs(at, x)
    if first.dims == (0,):
        return at.full((0,), 0.0)
    return _norm(x.take(first, 0).sub(x.take(second, 0)), p, 1)


@lowering("aten._pdist_backward")
def pdist_backward(at: FxSite, gradient: V, x: V, p: float, pdist: V) -> V:
    first, second = _pairs(at, x)
    if first.dims == (0,):
        return at.full(x.dims, 0.0)
    each = _by_difference(x.take(first, 0).sub(x.take(second, 0)), gradient, pdist, p)
    total = at.full(x.dims, 0.0).scatter(each, [first], [0], "add")
    return total.scatter(each.neg(), [second], [0], "add")


@lowering("aten._trilinear")
def trilinear(
    at: FxSite,
    first: V,
    second: V,
    third: V,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> V:
    """Three tensors spread over each other, multiplied, and summed over some axes."""
    values = []
    for value, axes in ((first, expand1), (second, expand2), (third, expand3)):
        for axis in axes:
            value = value.expand_dims(axis)  # noqa: PLW2901
        values.append(value)
    a, b, c = at.together(*values)
    return a.mul(b).mul(c).reduce_sum(list(sumdim))
