"""Scaled dot-product attention as torch's CPU kernels define it, and its derivative."""

from __future__ import annotations

import math

from planish.ptir import ops
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library.attention import attention, causal_mask
from planish.torch.registry import lowering
from planish.torch.site import NodeSite, cast, spread, wide_kind

_ROWS = ops.DotDims((0, 1), (3,), (3,))


def _scores(query: V, key: V, mask: V | None, causal: bool, scale: float) -> V:
    wide = wide_kind(query.dtype)
    found = query.dot_general(key, _ROWS, ops.DotAttrs(wide, wide)).mul(scale)
    if mask is not None:
        if mask.dtype.is_bool:
            found = spread(mask, found.dims).select(found, -math.inf)
        else:
            found = found.add(spread(cast(mask, wide), found.dims))
    if causal:
        seen = causal_mask(query, key).broadcast_to(found.dims)
        found = seen.select(found, -math.inf)
    return found


def _scale(at: NodeSite, query: V, scale: float | None) -> float:
    depth = query.dims[-1]
    if not isinstance(depth, int):
        raise at.refuse(f"the depth {depth} is not known")
    return 1 / math.sqrt(depth) if scale is None else scale


@lowering("aten._scaled_dot_product_flash_attention_for_cpu")
def flash_attention(
    at: NodeSite,
    query: V,
    key: V,
    value: V,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: V | None = None,
    scale: float | None = None,
) -> tuple[V, V]:
    """The result, and log Σ e^score of each row, which the derivative needs."""
    if dropout_p:
        raise at.refuse("with dropout")
    factor = _scale(at, query, scale)
    found = attention(query, key, value, attn_mask, is_causal, 0, factor)
    scores = _scores(query, key, attn_mask, is_causal, factor)
    top = scores.reduce_max([3], True)
    top = top.is_inf().select(at.full(top.dims, 0.0, top.dtype), top)
    total = scores.sub(spread(top, scores.dims)).exp().reduce_sum([3], True).log().add(top)
    return found, cast(total.squeeze([3]), at.kind(at.fakes[1].dtype))


@lowering("aten._scaled_dot_product_flash_attention_for_cpu_backward")
def flash_attention_backward(
    at: NodeSite,
    gradient: V,
    query: V,
    key: V,
    value: V,
    out: V,
    logsumexp: V,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: V | None = None,
    scale: float | None = None,
) -> tuple[V, V, V]:
    if dropout_p:
        raise at.refuse("with dropout")
    factor = _scale(at, query, scale)
    scores = _scores(query, key, attn_mask, is_causal, factor)
    shares = scores.sub(spread(cast(logsumexp, scores.dtype).expand_dims(3), scores.dims)).exp()
    wide = scores.dtype
    sums = ops.DotAttrs(wide, wide)
    by_value = cast(shares, value.dtype).dot_general(gradient, ops.DotDims((0, 1), (2,), (2,)), sums)
    by_share = gradient.dot_general(value, _ROWS, sums)
    own = cast(gradient, wide).mul(cast(out, wide)).reduce_sum([3], True)
    by_score = cast(shares.mul(by_share.sub(spread(own, by_share.dims))).mul(factor), query.dtype)
    by_query = by_score.dot_general(key, ops.DotDims((0, 1), (3,), (2,)), sums)
    by_key = by_score.dot_general(query, ops.DotDims((0, 1), (2,), (2,)), sums)
    return cast(by_query, query.dtype), cast(by_key, key.dtype), cast(by_value, value.dtype)
