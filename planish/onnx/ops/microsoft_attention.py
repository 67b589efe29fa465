"""Attention and its surroundings as onnxruntime's exports write them (com.microsoft)."""

from __future__ import annotations

import math

from planish import dtypes
from planish.onnx.ops.attention import heads_first, heads_last, product, turned
from planish.onnx.ops.common import Array, count_of, dims_of, less, outputs, plus, rows_up_to, scalar, size_of
from planish.onnx.ops.linear import matmul
from planish.onnx.ops.quantization import dequantized
from planish.onnx.registry import op
from planish.onnx.site import NodeSite
from planish.ptir import ops
from planish.ptir.dims import DimLike
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library.common import along
from planish.ptir.library.normalize import (
    affine,
    by_root_mean_square,
    converted,
    mean,
    softmax,
    standardised,
    widened,
)
from planish.ptir.library.shaping import split

_DOMAIN = "com.microsoft"


def _key_mask(at: NodeSite, mask: V, batch: DimLike, size: DimLike, filler: float) -> V:
    """What a mask adds to the scores, (B, 1, 1 or L, S): from lengths, from marks per key, or from marks per query and key."""
    dims = (batch, 1, 1, size)
    if mask.rank == 1:
        count = mask.dims[0]
        if count not in (batch, 2 * batch):
            raise at.refuse(f"a mask of {mask.type}")
        numbers = converted(mask, dtypes.int64)
        here = at.graph.iota(dims, 3, dtypes.int64)
        seen = here.lt(along(numbers.slice([0], [batch]), dims, 0))
        if count == 2 * batch:
            # ends, and then where each begins
            seen = seen.and_(here.ge(along(numbers.slice([batch], [count]), dims, 0)))
    elif mask.rank == 2:
        seen = mask.ne(0).reshape((mask.dims[0], 1, 1, mask.dims[1])).broadcast_to(dims)
    elif mask.rank == 3:
        seen = mask.ne(0).reshape((batch, 1, *mask.dims[1:]))
    else:
        raise at.refuse(f"a mask of {mask.type}")
    zero = at.graph.full(seen.dims, 0.0, dtypes.float32)
    return seen.select(zero, filler)


def _attend(
    at: NodeSite, q: V, k: V, v: V, mask: V | None, bias: V | None, past: V | int
) -> tuple[V, V]:  # fmt: skip
    """softmax(q·kᵀ·scale + bias + mask)·v of (B, H, L, D); and the scores."""
    scale = at.attr("scale", 0.0) or 1 / math.sqrt(size_of(at, q, 3))
    filler = at.attr("mask_filter_value", -10000.0)
    batch, _, length, _ = q.dims
    size = k.dims[2]
    wide = widened(q).dtype
    scores = product(q, k, 3, ops.DotAttrs(wide, wide)).mul(scale)
    if bias is not None:
        scores = scores.add(converted(bias, wide).broadcast_to(scores.dims))
    if mask is not None:
        marks = _key_mask(at, mask, batch, size, filler)
        scores = scores.add(converted(marks, wide).broadcast_to(scores.dims))
    if at.attr("unidirectional", 0):
        dims = (length, size)
        i, j = (at.graph.iota(dims, n, dtypes.int64) for n in range(2))
        seen = j.le(plus(i, past)).broadcast_to(scores.dims)
        scores = seen.select(scores, -3.4028234663852886e38)
    weights = converted(softmax(scores, 3), v.dtype)
    return product(weights, v, 2), converted(scores, q.dtype)


def _self_attention(
    at: NodeSite, projected: V, mask: V | None, past: V | None, bias: V | None
) -> tuple[V, ...]:
    """From the projection (B, L, Q + K + V) on."""
    heads = at.attributes.require("num_heads")
    if at.attr("do_rotary", 0) or at.attr("past_present_share_buffer", 0):
        raise at.refuse("rotary positions or a shared buffer")
    at.attr("rotary_embedding_dim")
    width = size_of(at, projected, 2)
    parts = at.attr("qkv_hidden_sizes") or [width // 3] * 3
    q, k, v = (heads_first(at, x, heads) for x in split(projected, parts, 2))
    before: V | int = 0
    if past is not None:
        before = count_of(past, 3)
        old = [past.slice([n, 0, 0, 0, 0], [n + 1, *past.dims[1:]]).reshape(past.dims[1:]) for n in range(2)]
        k, v = at.graph.concat([old[0], k], 2), at.graph.concat([old[1], v], 2)
    result, _ = _attend(at, q, k, v, mask, bias, before)
    merged = heads_last(at, result)
    if outputs(at) < 2:
        return (merged,)
    return merged, at.graph.concat([k.expand_dims(0), v.expand_dims(0)], 0)


@op("Attention", domain=_DOMAIN)
def attention(
    at: NodeSite,
    x: V,
    weights: V,
    bias: V | None = None,
    mask: V | None = None,
    past: V | None = None,
    added: V | None = None,
    past_length: V | None = None,
) -> tuple[V, ...]:
    if past_length is not None:
        raise at.refuse("a past of a length that is data")
    projected = matmul(x, weights)
    if bias is not None:
        projected = projected.add(bias.broadcast_to(projected.dims))
    return _self_attention(at, projected, mask, past, added)


@op("QAttention", domain=_DOMAIN)
def quantized_attention(
    at: NodeSite,
    x: V,
    weights: V,
    bias: V,
    x_scale: V,
    weight_scale: V,
    mask: V | None = None,
    x_zero: V | None = None,
    weight_zero: V | None = None,
    past: V | None = None,
) -> tuple[V, ...]:
    left = dequantized(at, x, scalar(x_scale), x_zero)
    right = dequantized(at, weights, weight_scale, weight_zero, 1)
    projected = matmul(left, right)
    return _self_attention(at, projected.add(bias.broadcast_to(projected.dims)), mask, past, None)


@op("MultiHeadAttention", domain=_DOMAIN)
def multi_head_attention(
    at: NodeSite,
    q: V,
    k: V | None = None,
    v: V | None = None,
    bias: V | None = None,
    mask: V | None = None,
    added: V | None = None,
    past_key: V | None = None,
    past_value: V | None = None,
    past_length: V | None = None,
    indirection: V | None = None,
) -> tuple[V, ...]:
    heads = at.attributes.require("num_heads")
    if past_length is not None or indirection is not None:
        raise at.refuse("a past of a length that is data")
    if q.rank == 5:
        # queries, keys and values packed: (B, L, H, 3, D)
        batch, length, *_ = q.dims
        depth = size_of(at, q, 4)
        q, k, v = (
            part.reshape((batch, length, heads * depth)) for part in split(q, [1, 1, 1], 3)
        )  # fmt: skip
    elif k is not None and k.rank == 5:
        batch, length, *_ = k.dims
        depth = size_of(at, k, 4)
        k, v = (part.reshape((batch, length, heads * depth)) for part in split(k, [1, 1], 3))
    if k is None or v is None:
        raise at.refuse("has no keys or no values")
    if bias is not None:
        widths = [
            size_of(at, q, 2),
            *(size_of(at, x, 1) * size_of(at, x, 3) if x.rank == 4 else size_of(at, x, 2) for x in (k, v)),
        ]
        own = split(bias, widths, 0)
        q = q.add(own[0].broadcast_to(q.dims))
        k = k.add(own[1].broadcast_to(k.dims)) if k.rank == 3 else k
        v = v.add(own[2].broadcast_to(v.dims)) if v.rank == 3 else v
    q, k, v = (heads_first(at, x, heads) for x in (q, k, v))
    past: V | int = 0
    if past_key is not None and past_value is not None:
        past = count_of(past_key, 2)
        k, v = at.graph.concat([past_key, k], 2), at.graph.concat([past_value, v], 2)
    result, scores = _attend(at, q, k, v, mask, added, past)
    return heads_last(at, result), k, v, scores


@op("GroupQueryAttention", domain=_DOMAIN, known=(6,))
def group_query_attention(
    at: NodeSite,
    q: V,
    k: V | None,
    v: V | None,
    past_key: V | None,
    past_value: V | None,
    last: V,
    total: Array,
    cosine: V | None = None,
    sine: V | None = None,
    positions: V | None = None,
    bias: V | None = None,
    sink: V | None = None,
) -> tuple[V, V, V]:
    """Queries that share keys, behind a past of which sample b has `last[b] + 1` elements less the new ones.

    The present has room for the past as it is given, or for all elements of the longest sample.
    """
    heads, groups = at.attributes.require("num_heads"), at.attributes.require("kv_num_heads")
    window, cap = at.attr("local_window_size", -1), at.attr("softcap", 0.0)
    if sink is not None or at.attr("smooth_softmax", 0) or at.attr("qk_output", 0):
        raise at.refuse("a sink, or scores as an output")
    if k is None or v is None:
        each = size_of(at, q, 2) // (heads + 2 * groups)
        q, k, v = split(q, [heads * each, groups * each, groups * each], 2)
    batch, length, _ = q.dims
    depth = size_of(at, q, 2) // heads
    everything = dims_of(total)[0]
    ends = converted(last, dtypes.int64).reshape((batch, 1)).add(1)
    starts = (
        at.graph.full((batch, 1), 0, dtypes.int64) if everything == length else less(ends, count_of(q, 1))
    )
    if at.attr("do_rotary", 0):
        if cosine is None or sine is None:
            raise at.refuse("rotary positions without their tables")
        here = positions
        if here is None:
            line = at.graph.iota((batch, length), 1, dtypes.int64)
            here = line.add(starts.broadcast_to(line.dims))
        interleaved = bool(at.attr("rotary_interleaved", 0))
        q, k = (
            turned(at, x, (cosine, sine), here, n, 2 * size_of(at, cosine, 1), interleaved)
            for x, n in ((q, heads), (k, groups))
        )
    at.attr("rotary_interleaved")
    old = 0 if past_key is None else past_key.dims[2]
    size = everything if everything == old or everything > old else old
    k, v = (
        _continued(at, past, heads_first(at, new, groups), starts, size)
        for past, new in ((past_key, k), (past_value, v))
    )
    wide = widened(q).dtype
    scale = at.attr("scale", 0.0) or 1 / math.sqrt(depth)
    scores = product(heads_first(at, q, heads), k, 3, ops.DotAttrs(wide, wide)).mul(scale)
    if cap:
        scores = scores.div(cap).tanh().mul(cap)
    if bias is not None:
        scores = scores.add(converted(bias, wide).broadcast_to(scores.dims))
    dims = (batch, length, size)
    place = at.graph.iota(dims, 1, dtypes.int64).add(starts.expand_dims(2).broadcast_to(dims))
    key = at.graph.iota(dims, 2, dtypes.int64)
    seen = key.le(place)
    if window >= 0:
        seen = seen.and_(key.gt(place.sub(window)))
    seen = seen.expand_dims(1).broadcast_to(scores.dims)
    weights = converted(softmax(seen.select(scores, -3.4028234663852886e38), 3), v.dtype)
    return heads_last(at, product(weights, v, 2)), k, v


def _continued(at: NodeSite, past: V | None, new: V, starts: V, size: DimLike) -> V:
    """(B, H, size, D): the past of each sample up to its start, and then what is new."""
    batch, heads, _, depth = new.dims
    old = 0 if past is None else count_of(past, 2)
    both = new if past is None or past.dims[2] == 0 else at.graph.concat([past, new], 2)
    every = count_of(both, 2)
    rows = both.transpose((0, 2, 1, 3)).reshape((batch * both.dims[2], heads * depth))
    dims = (batch, size)
    place = at.graph.iota(dims, 1, dtypes.int64)
    start = starts.broadcast_to(dims)
    index = place.lt(start).select(place, plus(place.sub(start), old)).max(0)
    last = every - 1 if isinstance(every, int) else every.sub(1).broadcast_to(dims)
    width = every if isinstance(every, int) else every.broadcast_to(dims)
    index = index.min(last).add(at.graph.iota(dims, 0, dtypes.int64).mul(width))
    cached = rows.take(index, 0).reshape((batch, size, heads, depth))
    return cached.transpose((0, 2, 1, 3))


@op("RotaryEmbedding", domain=_DOMAIN)
def rotary_embedding(at: NodeSite, x: V, positions: V, cosine: V, sine: V) -> V:
    interleaved, width = bool(at.attr("interleaved", 0)), at.attr("rotary_embedding_dim", 0)
    heads = at.attr("num_heads", 0)
    if at.attr("scale", 1.0) != 1.0 or at.attr("is_packed_batching", 0):
        raise at.refuse("a scale or packed batches")
    batch, length = (x.dims[n] for n in ((0, 1) if x.rank == 3 else (0, 2)))
    if x.rank == 3 and not heads:
        heads = size_of(at, x, 2) // (2 * size_of(at, cosine, 1))
    if positions.type.size == 1:
        line = at.graph.iota((batch, length), 1, dtypes.int64)
        positions = line.add(scalar(converted(positions, dtypes.int64)).broadcast_to(line.dims))
    return turned(at, x, (cosine, sine), positions, heads, width, interleaved)


# -- normalisation around it -----------------------------------------------------------------------------------------


def _skipped(x: V, skip: V, bias: V | None) -> V:
    """x with what passed it by."""
    total = x.add(skip.broadcast_to(x.dims))
    return total if bias is None else total.add(bias.broadcast_to(x.dims))


def _normal(at: NodeSite, x: V, scale: V, bias: V | None) -> tuple[V, V, V]:
    """Along the last axis; with the mean and the factor."""
    wide, epsilon = widened(x), at.attr("epsilon", 1e-12)
    normal, middle, factor = standardised(wide, [x.rank - 1], epsilon)
    return converted(affine(normal, scale, bias), x.dtype), middle, factor


def _by_length(x: V, scale: V, epsilon: float) -> tuple[V, V]:
    """Along the last axis without its mean; with the factor."""
    normal, factor = by_root_mean_square(widened(x), [x.rank - 1], epsilon)
    return converted(affine(normal, scale, None), x.dtype), factor


@op("SkipLayerNormalization", domain=_DOMAIN)
def skip_layer_normalization(
    at: NodeSite, x: V, skip: V, scale: V, shift: V | None = None, bias: V | None = None
) -> tuple[V, ...]:
    total = _skipped(x, skip, bias)
    return *_normal(at, total, scale, shift), total


@op("SkipSimplifiedLayerNormalization", domain=_DOMAIN)
def skip_simplified(at: NodeSite, x: V, skip: V, scale: V, bias: V | None = None) -> tuple[V, ...]:
    total = _skipped(x, skip, bias)
    result, factor = _by_length(total, scale, at.attr("epsilon", 1e-12))
    return result, mean(widened(total), x.rank - 1, True), factor, total


@op("SimplifiedLayerNormalization")
@op("SimplifiedLayerNormalization", domain=_DOMAIN)
def simplified_layer_normalization(at: NodeSite, x: V, scale: V) -> tuple[V, V]:
    if at.attr("axis", -1) not in (-1, x.rank - 1):
        raise at.refuse("more than the last axis")
    at.attr("stash_type")
    return _by_length(x, scale, at.attr("epsilon", 1e-5))


@op("EmbedLayerNormalization", domain=_DOMAIN)
def embed_layer_normalization(
    at: NodeSite,
    ids: V,
    segments: V | None,
    words: V,
    places: V,
    kinds: V | None,
    scale: V,
    shift: V,
    mask: V | None = None,
    positions: V | None = None,
) -> tuple[V, V, V]:
    at.attr("mask_index_type")
    batch, length = ids.dims
    total = words.take(ids, 0)
    if positions is None:
        lines = rows_up_to(places, length)
        total = total.add(lines.broadcast_to(total.dims))
    else:
        total = total.add(places.take(positions, 0).broadcast_to(total.dims))
    if kinds is not None:
        index = at.graph.full(ids.dims, 0, dtypes.int32) if segments is None else segments
        total = total.add(kinds.take(index, 0))
    result, _, _ = _normal(at, total, scale, shift)
    count = (
        at.graph.full((batch,), 0, dtypes.int32)
        if mask is None
        else mask.ne(0).cast(dtypes.int32).reduce_sum([1])
    )
    return result, count, total
