"""Scaled dot-product attention, with masks, causality, grouped heads and a soft cap."""

from __future__ import annotations

import math

from planish import dtypes
from planish.errors import ShapeError
from planish.ptir import ops
from planish.ptir.dims import DimLike, product
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
    scores, may_be_blind = _scores(query, key, mask, causal, offset, scale, soft_cap)
    return _mixed(query, _shares(scores, may_be_blind), value)


def attention_rows(
    query: GraphValue,
    key: GraphValue,
    value: GraphValue,
    mask: GraphValue | None = None,
    causal: bool = False,
    offset: DimLike | GraphValue = 0,
    scale: float | None = None,
    soft_cap: float | None = None,
) -> tuple[GraphValue, GraphValue]:
    """The same, and log Σ exp(score) of each query, (B, H, L), which is all that its derivative needs of the softmax. 0 where nothing is seen."""
    scores, may_be_blind = _scores(query, key, mask, causal, offset, scale, soft_cap)
    last = [scores.rank - 1]
    top = _seen(scores.reduce_max(last, keepdims=True), -math.inf, 0.0, may_be_blind)
    total = scores.sub(top.broadcast_like(scores)).exp().reduce_sum(last, keepdims=True)
    whole = top.add(_seen(total, 0.0, 1.0, may_be_blind).log())
    mixed = _mixed(query, scores.sub(whole.broadcast_like(scores)).exp(), value)
    return mixed, whole.reshape(query.dims[:3])


def attention_back(
    gradient: GraphValue,
    query: GraphValue,
    key: GraphValue,
    value: GraphValue,
    out: GraphValue,
    whole: GraphValue,
    mask: GraphValue | None = None,
    causal: bool = False,
    offset: DimLike | GraphValue = 0,
    scale: float | None = None,
    soft_cap: float | None = None,
) -> tuple[GraphValue, ...]:
    """The derivatives by query, key and value, and by the mask where it is numbers, of a result and of what `attention_rows` gives beside it.

    Weights are computed again from scores, p = exp(s - whole), and Σ p · dp over the keys is the gradient times the result: whoever can make
    products on the way to others needs no matrix of queries by keys in memory.
    """
    wide = widened(query).dtype
    sums = ops.DotAttrs(wide, wide)
    batch, heads, length, depth = query.dims
    _, groups, size, _ = key.dims
    scores, _ = _scores(query, key, mask, causal, offset, scale, soft_cap)
    by_row = (*scores.dims[:4], 1)
    shares = scores.sub(whole.reshape(by_row).broadcast_like(scores)).exp()
    rows = gradient.reshape((*scores.dims[:4], value.dims[3]))
    by_share = rows.dot_general(value, ops.DotDims((0, 1), (4,), (3,)), sums)
    own = converted(rows, wide).mul(converted(out.reshape(rows.dims), wide)).reduce_sum([4], keepdims=True)
    by_score = shares.mul(by_share.sub(own.broadcast_like(by_share)))
    more: tuple[GraphValue, ...] = ()
    if mask is not None and mask.dtype.is_float:
        more = (converted(_summed_to(by_score.reshape((batch, heads, length, size)), mask), mask.dtype),)
    if soft_cap is not None:
        capped, _ = _scores(query, key, None, False, 0, scale, soft_cap)
        by_score = by_score.mul(capped.div(soft_cap).square().neg().add(1.0))
    by_score = converted(by_score.mul(_factor(query, scale)), query.dtype)
    by_query = by_score.dot_general(key, ops.DotDims((0, 1), (4,), (2,)), sums)
    # Query heads that share a key head are summed over with the queries.
    flat = ops.DotDims((0, 1), (2,), (2,))
    one = (batch, groups, product(scores.dims[2:4]))
    by_key = by_score.reshape((*one, size)).dot_general(query.reshape((*one, depth)), flat, sums)
    mixed = converted(shares, value.dtype).reshape((*one, size))
    by_value = mixed.dot_general(gradient.reshape((*one, value.dims[3])), flat, sums)
    return (
        converted(by_query.reshape(query.dims), query.dtype),
        converted(by_key, key.dtype),
        converted(by_value, value.dtype),
        *more,
    )


def _factor(query: GraphValue, scale: float | None) -> float:
    if scale is not None:
        return scale
    depth = query.dims[3]
    if not isinstance(depth, int):
        raise ShapeError(f"the depth {depth} is not known", op="attention", remedy="give the scale")
    return 1 / math.sqrt(depth)


def _scores(
    query: GraphValue,
    key: GraphValue,
    mask: GraphValue | None,
    causal: bool,
    offset: DimLike | GraphValue,
    scale: float | None,
    soft_cap: float | None,
) -> tuple[GraphValue, bool]:
    """What the softmax is of, (B, G, H / G, L, S), and whether there can be queries that see nothing."""
    batch, heads, length, depth = query.dims
    _, groups, size, _ = key.dims
    if not isinstance(heads, int) or not isinstance(groups, int) or heads % groups:
        raise ShapeError(f"{heads} query heads do not share {groups} key heads", op="attention")
    wide = widened(query).dtype
    # Query heads that share a key head become rows of one product: keys are not repeated.
    rows = query.reshape((batch, groups, heads // groups, length, depth))
    scores = rows.dot_general(key, ops.DotDims((0, 1), (4,), (3,)), ops.DotAttrs(wide, wide))
    scores = scores.mul(_factor(query, scale))
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
    return scores, seen is not None or mask is not None


def _mixed(query: GraphValue, weights: GraphValue, value: GraphValue) -> GraphValue:
    """Values, weighted."""
    sums = ops.DotAttrs(widened(query).dtype, value.dtype)
    mixed = converted(weights, value.dtype).dot_general(value, ops.DotDims((0, 1), (4,), (2,)), sums)
    return mixed.reshape((*query.dims[:3], value.dims[3]))


def _summed_to(x: GraphValue, like: GraphValue) -> GraphValue:
    """The derivative by what was broadcast to the dims of x."""
    added = x.rank - like.rank
    over = [*range(added), *(added + n for n, dim in enumerate(like.dims) if dim == 1 != x.dims[added + n])]
    return (x.reduce_sum(over) if over else x).reshape(like.dims)


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
    top = _seen(scores.reduce_max(last, keepdims=True), -math.inf, 0.0, may_be_blind)
    grown = scores.sub(top.broadcast_like(scores)).exp()
    total = _seen(grown.reduce_sum(last, keepdims=True), 0.0, 1.0, may_be_blind)
    return grown.div(total.broadcast_like(scores))


def _seen(per_row: GraphValue, nothing: float, instead: float, may_be_nothing: bool) -> GraphValue:
    """What was found of each row; something else where there was nothing."""
    if not may_be_nothing:
        return per_row
    return per_row.eq(nothing).select(per_row.graph.full(per_row.dims, instead, per_row.dtype), per_row)
