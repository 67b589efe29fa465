"""Scaled dot-product attention, with masks, causality, grouped heads and a soft cap."""

from __future__ import annotations

import math

from planish import dtypes
from planish.errors import ShapeError
from planish.ptir import ops
from planish.ptir.dims import DimLike
from planish.ptir.graph_value import GraphValue
from planish.ptir.library.common import size_of
from planish.ptir.library.normalize import converted, widened


def attention(
    query: GraphValue,
    key: GraphValue,
    value: GraphValue,
    mask: GraphValue | None = None,
    causal: bool = False,
    offset: DimLike | GraphValue = 0,
    scale: float | None = None,
    soft_cap: float | None = None,
) -> GraphValue:
    """softmax(query · keyᵀ · scale + mask) · value.

    Shapes: query (B, H, L, D), key (B, G, S, D), value (B, G, S, E), result (B, H, L, E). H is a multiple of G: consecutive query heads share a
    key head (grouped-query attention; G = 1 is multi-query). `mask` broadcasts to (B, H, L, S): True where a key may be looked at, or numbers to
    be added. With `causal`, query i sees keys up to i + offset. `scale` is 1/sqrt(D) unless given. `soft_cap` c makes c·tanh(s/c) of the scores.
    A query that may look at nothing gives 0. Scores are computed in float32 or wider.
    """
    batch, heads, length, depth = query.dims
    _, groups, size, _ = key.dims
    if not isinstance(heads, int) or not isinstance(groups, int) or heads % groups:
        raise ShapeError(f"{heads} query heads do not share {groups} key heads", op="attention")
    if scale is None:
        if not isinstance(depth, int):
            raise ShapeError(f"the depth {depth} is not known", op="attention", remedy="give the scale")
        scale = 1 / math.sqrt(depth)
    wide = widened(query).dtype
    # Query heads that share a key head become rows of one product: keys are not repeated.
    rows = query.reshape((batch, groups, heads // groups, length, depth))
    scores = rows.dot_general(key, ops.DotDims((0, 1), (4,), (3,)), ops.DotAttrs(wide, wide)).mul(scale)
    if soft_cap is not None:
        scores = scores.div(soft_cap).tanh().mul(soft_cap)
    seen: GraphValue | None = None
    if mask is not None:
        full = mask.broadcast_to((batch, heads, length, size)).reshape(scores.dims)
        if mask.dtype is dtypes.bool_:
            seen = full
        else:
            scores = scores.add(converted(full, wide))
    if causal:
        below = causal_mask(query, key, offset).broadcast_to(scores.dims)
        seen = below if seen is None else seen.and_(below)
    if seen is not None:
        scores = seen.select(scores, -math.inf)
    weights = _shares(scores, may_be_blind=seen is not None or mask is not None)
    mixed = converted(weights, value.dtype).dot_general(
        value, ops.DotDims((0, 1), (4,), (2,)), ops.DotAttrs(wide, value.dtype)
    )
    return mixed.reshape((batch, heads, length, value.dims[3]))


def causal_mask(query: GraphValue, key: GraphValue, offset: DimLike | GraphValue = 0) -> GraphValue:
    """(L, S): True where key j is at most i + offset."""
    graph = query.graph
    dims = (query.dims[2], key.dims[2])
    at = graph.iota(dims, 0, dtypes.int64)
    if isinstance(offset, GraphValue):
        at = at.add(converted(offset, dtypes.int64).broadcast_to(dims))
    elif isinstance(offset, int):
        at = at.add(offset) if offset else at
    else:
        # A named size as a number: the size of an axis that has it.
        at = at.add(size_of(graph.iota((offset,), 0, dtypes.int64), 0).broadcast_to(dims))
    return graph.iota(dims, 1, dtypes.int64).le(at)


def _shares(scores: GraphValue, may_be_blind: bool) -> GraphValue:
    """Softmax over the last axis; rows of -inf alone are 0 where there can be any."""
    last = [scores.rank - 1]
    top = scores.reduce_max(last, keepdims=True)
    if may_be_blind:
        top = top.eq(-math.inf).select(scores.graph.full(top.dims, 0.0, top.dtype), top)
    grown = scores.sub(top.broadcast_like(scores)).exp()
    total = grown.reduce_sum(last, keepdims=True)
    if may_be_blind:
        total = total.eq(0.0).select(scores.graph.full(total.dims, 1.0, total.dtype), total)
    return grown.div(total.broadcast_like(scores))


__all__ = ["attention", "causal_mask"]
