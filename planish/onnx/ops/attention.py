"""Attention in its forms: Attention, FlexAttention, LinearAttention, and rotary embeddings."""

from __future__ import annotations

import math

from onnx import GraphProto

from planish import dtypes
from planish.onnx.ops.common import count_of, kind, less, plus, size_of
from planish.onnx.registry import op
from planish.onnx.scope import NameScope
from planish.onnx.site import NodeSite
from planish.ptir import ops
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library.common import along, spread
from planish.ptir.library.normalize import converted, widened
from planish.ptir.library.shaping import broadcast_dims

_NEVER = -math.inf


def heads_first(at: NodeSite, x: V, heads: int | None) -> V:
    """(B, L, H·D) as (B, H, L, D); four axes stay."""
    if x.rank == 4:
        return x
    if heads is None:
        raise at.refuse("has inputs with three axes and does not say how many heads they hold")
    return x.reshape((*x.dims[:2], heads, size_of(at, x, 2) // heads)).transpose((0, 2, 1, 3))


def heads_last(at: NodeSite, x: V) -> V:
    """(B, H, L, D) as (B, L, H·D)."""
    batch, _, length, _ = x.dims
    return x.transpose((0, 2, 1, 3)).reshape((batch, length, size_of(at, x, 1) * size_of(at, x, 3)))


def product(left: V, right: V, over: int, out: ops.DotAttrs | None = None) -> V:
    """left (B, H, L, D) times right (B, G, S, E) over the last axis of left and `over` of right; heads share groups."""
    batch, heads, length, depth = left.dims
    groups = right.dims[1]
    if not isinstance(heads, int) or not isinstance(groups, int):
        return left.dot_general(right, ops.DotDims((0, 1), (3,), (over,)), out)
    rows = left.reshape((batch, groups, heads // groups, length, depth))
    products = rows.dot_general(right, ops.DotDims((0, 1), (4,), (over,)), out)
    return products.reshape((batch, heads, length, products.dims[-1]))


def shares(scores: V) -> V:
    """Softmax over the last axis; rows of -inf alone are 0."""
    top = scores.reduce_max([scores.rank - 1], keepdims=True)
    top = top.eq(_NEVER).select(scores.graph.full(top.dims, 0.0, top.dtype), top)
    grown = scores.sub(top.broadcast_like(scores)).exp()
    total = grown.reduce_sum([scores.rank - 1], keepdims=True)
    total = total.eq(0.0).select(scores.graph.full(total.dims, 1.0, total.dtype), total)
    return grown.div(total.broadcast_like(scores))


def allowed_bias(allowed: V, dtype: V) -> V:
    """0 where something is allowed, else -inf; of the dtype of another value."""
    zero = allowed.graph.full(allowed.dims, 0.0, dtype.dtype)
    return allowed.select(zero, _NEVER)


def _bias(at: NodeSite, q: V, k: V, mask: V | None, past: V | int, lengths: V | None) -> V | None:
    """Everything that is added to the scores: mask, causality, window and padding; broadcasts to (B, H, L, S)."""
    graph = at.graph
    length, size = q.dims[2], k.dims[2]
    bias: V | None = None
    if mask is not None:
        missing = size - mask.dims[-1]
        if missing != 0 and missing > 0:
            ends = [*[0] * (mask.rank - 1), missing]
            mask = mask.pad([0] * mask.rank, ends, value=False if mask.dtype.is_bool else _NEVER)
        bias = allowed_bias(mask, q) if mask.dtype.is_bool else converted(mask, q.dtype)
    causal = bool(at.attr("is_causal", 0))
    left, right = at.attr("left_window_size", -1), at.attr("right_window_size", -1)
    if causal or left >= 0 or right >= 0:
        batch = q.dims[0] if lengths is not None else 1
        dims = (batch, 1, length, size)
        i, j = (graph.iota(dims, n, dtypes.int64) for n in (2, 3))
        if lengths is not None:
            i = i.add(along(less(converted(lengths, dtypes.int64), count_of(q, 2)), dims, 0))
        else:
            i = plus(i, past)
        allowed = graph.full(dims, True, dtypes.bool_)
        if causal:
            allowed = allowed.and_(j.le(i))
        if left >= 0:
            allowed = allowed.and_(i.sub(j).le(left))
        if right >= 0:
            allowed = allowed.and_(j.sub(i).le(right))
        bias = _added(bias, allowed_bias(allowed, q))
    if lengths is not None:
        dims = (q.dims[0], 1, 1, size)
        real = graph.iota(dims, 3, dtypes.int64).lt(along(converted(lengths, dtypes.int64), dims, 0))
        bias = _added(bias, allowed_bias(real, q))
    return bias


def _added(a: V | None, b: V) -> V:
    if a is None:
        return b
    dims = broadcast_dims(a.dims, b.dims)
    return spread(a, dims).add(spread(b, dims))


@op("Attention")
def attention(
    at: NodeSite,
    q: V,
    k: V,
    v: V,
    mask: V | None = None,
    past_key: V | None = None,
    past_value: V | None = None,
    lengths: V | None = None,
) -> tuple[V, V, V, V]:
    flat = q.rank == 3
    heads, groups = at.attr("q_num_heads"), at.attr("kv_num_heads")
    q, k, v = (
        heads_first(at, x, count) for x, count in ((q, heads), (k, groups), (v, groups))
    )  # fmt: skip
    past: V | int = 0
    if past_key is not None and past_value is not None:
        past = count_of(past_key, 2)
        k, v = at.graph.concat([past_key, k], 2), at.graph.concat([past_value, v], 2)
    elif past_key is not None or past_value is not None:
        raise at.refuse("past keys and past values come together")
    scale = at.attr("scale")
    # half of the scale on either side keeps narrow products in range
    half = math.sqrt(1 / math.sqrt(size_of(at, q, 3)) if scale is None else scale)
    scores = product(q.mul(half), k.mul(half), 3)
    cap, mode = at.attr("softcap", 0.0), at.attr("qk_matmul_output_mode", 0)
    shown = scores
    if cap > 0:
        scores = scores.div(cap).tanh().mul(cap)
        shown = scores
    bias = _bias(at, q, k, mask, past, lengths)
    if bias is not None:
        scores = scores.add(bias.broadcast_to(scores.dims))
    if mode == 2:
        shown = scores
    precision = at.attr("softmax_precision")
    scores = converted(scores, kind(at, precision)) if precision is not None else scores
    weights = converted(shares(scores), scores.dtype)
    if bias is not None:
        # A row that may look at nothing is 0, whatever its scores.
        top = bias.reduce_max([bias.rank - 1], keepdims=True)
        seen = top.ne(_NEVER).broadcast_to(weights.dims)
        weights = seen.select(weights, 0)
    if mode == 3:
        shown = weights
    result = product(converted(weights, q.dtype), v, 2)
    return (heads_last(at, result) if flat else result), k, v, converted(shown, q.dtype)


@op("FlexAttention", domain="ai.onnx.preview")
def flex_attention(at: NodeSite, q: V, k: V, v: V) -> V:
    scale, precision = at.attr("scale"), at.attr("softmax_precision")
    half = math.sqrt(1 / math.sqrt(size_of(at, q, 3)) if scale is None else scale)
    scores = product(q.mul(half), k.mul(half), 3)
    scores = converted(scores, kind(at, precision)) if precision is not None else widened(scores)
    computed = scores.dtype
    change, later = at.attr("score_mod"), at.attr("prob_mod")
    if change is not None:
        scores = converted(_through(at, change, scores), computed)
    top = scores.reduce_max([3], keepdims=True).broadcast_like(scores)
    grown = scores.sub(top).exp()
    weights = grown.div(grown.reduce_sum([3], keepdims=True).broadcast_like(grown))
    if later is not None:
        weights = converted(_through(at, later, weights), computed)
    return converted(product(weights, converted(v, computed), 2), v.dtype)


def _through(at: NodeSite, graph: object, x: V) -> V:
    """What a graph attribute makes of a value."""
    if not isinstance(graph, GraphProto) or len(graph.input) != 1 or len(graph.output) != 1:
        raise at.refuse("its graphs must take one tensor and give one")
    (result,) = at.engine.run_graph(graph, NameScope({graph.input[0].name: x}, at.scope))
    return at.value(result)


@op("RotaryEmbedding")
def rotary_embedding(at: NodeSite, x: V, cosine: V, sine: V, positions: V | None = None) -> V:
    interleaved, width = bool(at.attr("interleaved", 0)), at.attr("rotary_embedding_dim", 0)
    heads = at.attr("num_heads", 0)
    flat = x.rank == 3
    return turned(at, x, (cosine, sine), positions, heads if flat else None, width, interleaved)


def turned(
    at: NodeSite,
    x: V,
    caches: tuple[V, V],
    positions: V | None,
    heads: int | None,
    width: int,
    interleaved: bool,
) -> V:
    """Pairs of the last axis turned by the angle that belongs to their position."""
    flat = x.rank == 3
    wide = heads_first(at, x, heads)
    batch, count, length, _ = wide.dims
    depth = size_of(at, wide, 3)
    width = width or depth
    half = width // 2
    dims = (batch, count, length, half)
    factors = []
    for cache in caches:
        line = cache if positions is None else cache.take(converted(positions, dtypes.int64), 0)
        if line.rank == 2:
            line = line.reshape((1, *line.dims))
        line = line.slice([0, 0, 0], [*line.dims[:2], half]) if line.dims[2] != half else line
        factors.append(converted(line.expand_dims(1), wide.dtype).broadcast_to(dims))
    cosine, sine = factors
    if interleaved:
        pairs = wide.slice([0] * 4, [batch, count, length, width]).reshape((*dims, 2))
        first, second = (pairs.slice([0] * 4 + [n], [*dims, n + 1]).reshape(dims) for n in range(2))
    else:
        first = wide.slice([0] * 4, list(dims))
        second = wide.slice([0, 0, 0, half], [batch, count, length, width])
    real = cosine.mul(first).sub(sine.mul(second))
    imaginary = sine.mul(first).add(cosine.mul(second))
    if interleaved:
        joined = at.graph.concat([real.expand_dims(4), imaginary.expand_dims(4)], 4)
        joined = joined.reshape((batch, count, length, width))
    else:
        joined = at.graph.concat([real, imaginary], 3)
    if width < depth:
        rest = wide.slice([0, 0, 0, width], [batch, count, length, depth])
        joined = at.graph.concat([joined, rest], 3)
    return heads_last(at, joined) if flat else joined


__all__ = ["heads_first", "heads_last", "product", "shares", "turned"]
