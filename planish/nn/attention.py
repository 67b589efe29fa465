"""Scaled dot-product attention."""

from __future__ import annotations

from typing import Any

from planish import dtypes
from planish.errors import DTypeError, ShapeError
from planish.frontend import library
from planish.frontend.custom import custom_vjp
from planish.frontend.tensor import functions as fn
from planish.frontend.tensor.array import Tensor
from planish.nn.activations import softmax
from planish.nn.arguments import floating, same_dtype
from planish.nn.elementary import dropout


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    *,
    offset: Tensor | int = 0,
    soft_cap: float | None = None,
    rng: Tensor | None = None,
    enable_gqa: bool = True,
) -> Tensor:
    """softmax(query · keyᵀ · scale + mask) · value over the last two axes: (…, H, L, D), (…, G, S, D) and (…, G, S, E).

    G may divide H, unless `enable_gqa` is False: consecutive query heads then share a key head. The mask broadcasts to (…, H, L, S) and is True where a key
    may be looked at, or numbers to be added. Causal: query i sees keys up to i + offset, where the offset is how many keys there are
    before the first query (a cache). A query that may look at nothing gives 0. `dropout_p` needs the random key `rng`.
    """
    op = "scaled_dot_product_attention"
    same_dtype(op, floating(op, query), key, value)
    shapes = f"query {query.shape}, key {key.shape}, value {value.shape}"
    if min(query.ndim, key.ndim, value.ndim) < 2 or not query.ndim == key.ndim == value.ndim:
        raise ShapeError.of(op, f"{shapes} do not have equally many axes, and at least two")
    lead = query.shape[:-3] if query.ndim > 3 else ()
    if key.shape[:-3] != lead or value.shape[:-3] != lead:
        raise ShapeError.of(op, f"{shapes} differ in their leading axes", "broadcast them first")
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise ShapeError.of(op, f"{shapes} do not fit", "query and key share their last axis, key and value the one before"
        )  # fmt: skip
    length, size = query.shape[-2], key.shape[-2]
    heads = query.shape[-3] if query.ndim > 2 else 1
    groups = key.shape[-3] if key.ndim > 2 else 1
    if (
        heads % groups
        or (heads != groups and not enable_gqa)
        or (value.ndim > 2 and value.shape[-3] != groups)
    ):
        raise ShapeError.of(op, f"{shapes}: {heads} query heads do not share {groups} key heads evenly")
    batch = 1
    for part in lead:
        batch = batch * part
    whole = (*query.shape[:-1], size)
    mask = None if attn_mask is None else _mask(op, attn_mask, whole, (batch, heads, length, size))
    q, k, v = (
        x.reshape((batch, count, *x.shape[-2:]))
        for x, count in ((query, heads), (key, groups), (value, groups))
    )
    if dropout_p > 0:
        out = _with_dropout(q, k, v, mask, dropout_p, is_causal, offset, scale, soft_cap, rng)
    else:
        out = _attention(q, k, v, mask, is_causal, offset, scale, soft_cap)
    return out.reshape((*query.shape[:-1], value.shape[-1]))


@custom_vjp
def _attention(*given: Any) -> Any:
    """Its derivative computes the weights again, and keeps one number for each query (`planish.ptir.library.attention`)."""
    return library.attention(*given)


def _there(*given: Any) -> Any:
    out, whole = library.attention_rows(*given)
    return out, (given, out, whole)


def _back(kept: Any, gradient: Any) -> Any:
    given, out, whole = kept
    q, k, v, mask, *options = given
    by_tensor = library.attention_back(gradient, q, k, v, out, whole, mask, *options)
    return *by_tensor, *[None] * (len(given) - len(by_tensor))


_attention.defvjp(_there, _back)


def _mask(op: str, mask: Tensor, whole: tuple[int, ...], shape: tuple[int, ...]) -> Tensor:
    if not (mask.dtype.is_bool or mask.dtype.is_float):
        raise DTypeError.of(op, f"the mask is {mask.dtype.name}", "bools say where to look, floats are added")
    full = fn.broadcast_to(mask, whole) if mask.ndim > 2 and len(whole) != 4 else mask
    return full.reshape(shape) if full.ndim > 4 or (full.ndim == 3 and len(whole) == 3) else full


def _with_dropout(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    p: float,
    causal: bool,
    offset: Tensor | int,
    scale: float | None,
    soft_cap: float | None,
    rng: Tensor | None,
) -> Tensor:
    """The same in steps, to get at the weights."""
    weights = attention_weights(query, key, mask, causal, offset, scale, soft_cap)
    mixed = dropout(weights, p, True, rng)
    repeated = fn.repeat(value, query.shape[1] // value.shape[1], axis=1)
    return fn.matmul(mixed, repeated)


def attention_weights(
    query: Tensor,
    key: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    offset: Tensor | int = 0,
    scale: float | None = None,
    soft_cap: float | None = None,
) -> Tensor:
    """Which share each query (B, H, L, D) takes of each key (B, G, S, D): (B, H, L, S)."""
    repeated = fn.repeat(key, query.shape[1] // key.shape[1], axis=1)
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    scores = fn.matmul(query, fn.matrix_transpose(repeated)) * factor
    if soft_cap is not None:
        scores = fn.tanh(scores / soft_cap) * soft_cap
    seen: Tensor | None = None
    if mask is not None:
        if mask.dtype is dtypes.bool_:
            seen = mask
        else:
            scores = scores + mask.astype(scores.dtype)
    if causal:
        rows = fn.reshape(fn.arange(query.shape[2]), (-1, 1)) + offset
        below = fn.arange(key.shape[2]) <= rows
        seen = below if seen is None else fn.logical_and(seen, below)
    if seen is None:
        return softmax(scores, -1)
    return fn.where(seen, softmax(fn.where(seen, scores, -1e30), -1), 0.0)


__all__ = [
    "scaled_dot_product_attention",
]  # fmt: skip
