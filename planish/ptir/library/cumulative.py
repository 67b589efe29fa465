"""Running combinations that no single op has: log-sum-exp."""

from __future__ import annotations

import numpy as np

from planish.ptir.dims import bounds
from planish.ptir.graph_value import GraphValue
from planish.ptir.library.common import along, gather, index_dtype, move_axis, normal_axis
from planish.ptir.library.normalize import converted, widened


def logaddexp(a: GraphValue, b: GraphValue) -> GraphValue:
    """log(exp(a) + exp(b)) without overflow; equal infinities stay what they are."""
    gap = a.eq(b).select(a.graph.full(a.dims, 0.0, a.dtype), a.sub(b))
    return a.max(b).add(gap.abs().neg().exp().log1p())


def cumlogsumexp(x: GraphValue, axis: int, reverse: bool = False) -> GraphValue:
    """The running log Σ exp along an axis.

    Doubling: after step k every element holds the sum of 2ᵏ neighbours. O(n log n) work, as many passes as the size has bits.
    """
    axis = normal_axis(x, axis)
    if bounds(x.dims[axis])[1] <= 1:
        return x
    lines = move_axis(widened(x), axis, 0)
    if reverse:
        lines = lines.reverse([0])
    graph = x.graph
    kind = index_dtype(lines.dims[0])
    count = lines.dims[0]
    shifts = np.array([1 << k for k in range((bounds(count)[1] - 1).bit_length())], kind.numpy)

    def step(held: GraphValue, shift: GraphValue) -> GraphValue:
        at = graph.iota((count,), 0, kind).sub(shift.broadcast_to((count,)))
        inside = along(at.ge(0), held.dims, 0)
        return logaddexp(held, inside.select(gather(held, [at], [0]), -np.inf))

    (lines,) = graph.scan(step, [lines], [graph.constant(shifts)])
    if reverse:
        lines = lines.reverse([0])
    return converted(move_axis(lines, 0, axis), x.dtype)
