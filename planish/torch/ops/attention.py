"""Scaled dot-product attention as torch's kernels define it on CPUs and GPUs, and its derivative.

On GPUs torch chooses among several kernels, each with an op of its own, and a derivative that starts from what this one keeps: log Σ e^score of each row, in its layout.
Planish keeps the same numbers, so that it does not matter who computes the derivative.
"""

from __future__ import annotations

import operator
from typing import Final, NamedTuple

import torch

from planish.ptir import ops
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library import activations
from planish.ptir.library.attention import attention, attention_back, attention_rows
from planish.ptir.library.common import cast, spread
from planish.ptir.library.normalize import layer_norm
from planish.torch.registry import lowering
from planish.torch.site import FxSite, wide_kind


@lowering("aten._scaled_dot_product_flash_attention_for_cpu")
def flash_attention(
    at: FxSite,
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
    result, whole = attention_rows(query, key, value, attn_mask, is_causal, 0, scale)
    return result, cast(whole, at.kind(at.fakes[1].dtype))


_WALKING: Final = 9
"""The major compute capability of GPUs on which a derivative is walks over keys and over queries, and needs no matrix of scores."""


_WIDEST: Final = 256
"""Columns of heads that walks have registers for."""


def _has_walks(at: FxSite, query: V, value: V) -> bool:
    """Whether planish's derivative is as fast as torch's; both graphs of a training step ask the same."""
    widths = (query.dims[3], value.dims[3])
    narrow = query.dtype.itemsize == 2 and all(isinstance(dim, int) and dim <= _WIDEST for dim in widths)
    return narrow and torch.cuda.get_device_capability(at.fakes[0].device)[0] == _WALKING


def _needed(at: FxSite) -> set[int]:
    """Which results of a node somebody wants."""
    wanted = [user.args[1] for user in at.node.users if user.target is operator.getitem]
    if len(wanted) != len(at.node.users):
        raise at.refuse("its results are not told apart")
    return {number for number in wanted if isinstance(number, int)}


def _on_gpu(
    at: FxSite, operands: tuple[V, V, V], bias: V | None, dropout: float, is_causal: bool, scale: float | None
) -> tuple[object, ...]:
    """The result, log Σ e^score of each row in torch's layout if the derivative wants it, and zeros for the state of generators that nobody has asked."""
    query, key, value = operands
    if dropout:
        raise at.refuse("with dropout")
    others = at.node.meta["val"][1:]
    rows: V | None = None
    if _needed(at) == {0}:
        result = attention(query, key, value, bias, is_causal, 0, scale)
    elif not _has_walks(at, query, value):
        raise at.refuse("its derivative is torch's")
    else:
        result, whole = attention_rows(query, key, value, bias, is_causal, 0, scale)
        rows = _as_rows(whole, tuple(others[0].shape))
    rest = [
        at.full(tuple(fake.shape), 0, at.kind(fake.dtype)) if isinstance(fake, torch.Tensor) else fake
        for fake in others
    ]
    return (result, *rest) if rows is None else (result, rows, *rest[1:])


def _as_rows(whole: V, dims: tuple[int, ...]) -> V:
    """A number for each row in the shape that torch keeps them in: an axis more, or rows more than there are."""
    if len(dims) > whole.rank:
        return whole.reshape(dims)
    more = [size - dim for size, dim in zip(dims, whole.dims, strict=True)]
    return whole.pad([0] * whole.rank, more) if any(more) else whole


@lowering("aten._scaled_dot_product_flash_attention")
def flash_attention_on_gpu(
    at: FxSite,
    query: V,
    key: V,
    value: V,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> tuple[object, ...]:
    """What torch has several kernels for."""
    return _on_gpu(at, (query, key, value), None, dropout_p, is_causal, scale)


@lowering("aten._scaled_dot_product_cudnn_attention", "aten._scaled_dot_product_efficient_attention")
def biased_attention_on_gpu(
    at: FxSite,
    query: V,
    key: V,
    value: V,
    attn_bias: V | None,
    compute_log_sumexp: bool,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> tuple[object, ...]:
    return _on_gpu(at, (query, key, value), attn_bias, dropout_p, is_causal, scale)


class _ArgumentPositions(NamedTuple):
    """Where an op that differentiates attention has its arguments, behind gradient, query, key and value."""

    out: int
    rows: int
    dropout: int
    causal: int
    bias: int | None = None
    wanted: int | None = None
    """Which derivatives are asked for."""


_BACK: Final = {
    "aten._scaled_dot_product_flash_attention_for_cpu_backward": _ArgumentPositions(4, 5, 6, 7),
    "aten._scaled_dot_product_flash_attention_backward": _ArgumentPositions(4, 5, 10, 11),
    "aten._scaled_dot_product_cudnn_attention_backward": _ArgumentPositions(4, 5, 13, 14, bias=8),
    "aten._scaled_dot_product_efficient_attention_backward": _ArgumentPositions(
        5, 6, 9, 11, bias=4, wanted=10
    ),
}


def _value(argument: object) -> V:
    if not isinstance(argument, V):
        raise TypeError(f"{argument!r} is no tensor")
    return argument


@lowering(*_BACK)
def attention_backward(
    at: FxSite, *given: object, attn_mask: V | None = None, scale: float | None = None
) -> tuple[V | None, ...]:
    places = _BACK[str(at.node.target).removesuffix(".default")]
    gradient, query, key, value, out, rows = (
        _value(given[place]) for place in (0, 1, 2, 3, places.out, places.rows)
    )
    if given[places.dropout]:
        raise at.refuse("with dropout")
    if at.fakes[0].device.type != "cpu" and not _has_walks(at, query, value):
        raise at.refuse("its forward is torch's")
    bias = given[places.bias] if places.bias is not None else None
    mask = _value(bias) if bias is not None else attn_mask
    is_causal = bool(given[places.causal]) if places.causal < len(given) else False
    # of each row one number: in an axis more, or in more rows than there are
    whole = rows.reshape(rows.dims[:3]).slice([0, 0, 0], list(query.dims[:3]))
    whole = cast(whole, wide_kind(query.dtype))
    slopes = attention_back(gradient, query, key, value, out, whole, mask, is_causal, 0, scale)
    if places.wanted is None:
        return slopes[:3]
    wanted = given[places.wanted]
    return tuple(
        each if asked else None
        for each, asked in zip([*slopes, None][:4], wanted if isinstance(wanted, list) else (), strict=True)
    )


# --- layers that torch.nn runs as one op ------------------------------------------------------------------


def _heads(at: FxSite, query: V, key: V, value: V, heads: int, weight: V, bias: V, width: int) -> V:
    """Projections, attention per head, heads side by side again: (batch, length, width)."""

    def projected(x: V, number: int) -> V:
        rows = weight.slice([number * width, 0], [(number + 1) * width, width])
        product = x.dot_general(rows, ops.DotDims((), (2,), (1,)))
        product = product.add(spread(bias.slice([number * width], [(number + 1) * width]), product.dims))
        batch, length, _ = product.dims
        return product.reshape((batch, length, heads, width // heads)).transpose([0, 2, 1, 3])

    attended = attention(projected(query, 0), projected(key, 1), projected(value, 2))
    batch, _, length, _ = attended.dims
    return attended.transpose([0, 2, 1, 3]).reshape((batch, length, width))


def _linear(x: V, weight: V, bias: V) -> V:
    product = x.dot_general(weight, ops.DotDims((), (x.rank - 1,), (1,)))
    return product.add(spread(bias, product.dims))


@lowering("aten._native_multi_head_attention")
def native_multi_head_attention(
    at: FxSite,
    query: V,
    key: V,
    value: V,
    embed_dim: int,
    num_head: int,
    qkv_weight: V,
    qkv_bias: V,
    proj_weight: V,
    proj_bias: V,
    mask: V | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[V, V]:
    if mask is not None or need_weights:
        raise at.refuse("with a mask, or with weights to be told")
    attended = _heads(at, query, key, value, num_head, qkv_weight, qkv_bias, embed_dim)
    return _linear(attended, proj_weight, proj_bias), at.full(
        tuple(at.fakes[1].shape), 0, at.kind(at.fakes[1].dtype)
    )


@lowering("aten._transformer_encoder_layer_fwd")
def transformer_encoder_layer(
    at: FxSite,
    src: V,
    embed_dim: int,
    num_heads: int,
    qkv_weight: V,
    qkv_bias: V,
    proj_weight: V,
    proj_bias: V,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: V,
    norm_bias_1: V,
    norm_weight_2: V,
    norm_bias_2: V,
    ffn_weight_1: V,
    ffn_bias_1: V,
    ffn_weight_2: V,
    ffn_bias_2: V,
    mask: V | None = None,
    mask_type: int | None = None,
) -> V:
    if mask is not None:
        raise at.refuse("with a mask")

    def attended(x: V) -> V:
        return _linear(
            _heads(at, x, x, x, num_heads, qkv_weight, qkv_bias, embed_dim), proj_weight, proj_bias
        )

    def fed(x: V) -> V:
        inner = _linear(x, ffn_weight_1, ffn_bias_1)
        return _linear(
            activations.gelu(inner) if use_gelu else activations.relu(inner), ffn_weight_2, ffn_bias_2
        )

    def first(x: V) -> V:
        return layer_norm(x, norm_weight_1, norm_bias_1, 2, eps)

    def second(x: V) -> V:
        return layer_norm(x, norm_weight_2, norm_bias_2, 2, eps)

    if norm_first:
        x = src.add(attended(first(src)))
        return x.add(fed(second(x)))
    x = first(src.add(attended(src)))
    return second(x.add(fed(x)))
