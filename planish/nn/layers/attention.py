"""Multi-head attention, with PyTorch's names and shapes."""

from __future__ import annotations

from planish.dtypes import DType, float32
from planish.errors import ShapeError
from planish.frontend.tensor import functions as fn
from planish.frontend.tensor.array import Tensor
from planish.nn import init
from planish.nn.arguments import floating
from planish.nn.attention import attention_weights, scaled_dot_product_attention
from planish.nn.elementary import dropout, linear
from planish.nn.init import Key, keys_of
from planish.nn.layers.linear import Linear
from planish.nn.module import Module


class MultiHeadAttention(Module):
    """Attention of `num_heads` heads between projections of query, key and value."""

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        *,
        key: Key,
        dtype: DType = float32,
    ) -> None:
        if embed_dim % num_heads:
            raise ShapeError.of("MultiHeadAttention", f"{embed_dim} does not split into {num_heads} heads")
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.batch_first = batch_first
        first, second, third, last = keys_of(key, 4)
        if self.kdim == embed_dim and self.vdim == embed_dim:
            self.in_proj_weight = init.xavier_uniform(first, (3 * embed_dim, embed_dim), dtype=dtype)
        else:
            self.q_proj_weight = init.xavier_uniform(first, (embed_dim, embed_dim), dtype=dtype)
            self.k_proj_weight = init.xavier_uniform(second, (embed_dim, self.kdim), dtype=dtype)
            self.v_proj_weight = init.xavier_uniform(third, (embed_dim, self.vdim), dtype=dtype)
        self.in_proj_bias = init.zeros((3 * embed_dim,), dtype) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias, key=last, dtype=dtype)
        if bias:
            self.out_proj.bias = init.zeros((embed_dim,), dtype)

    @property
    def takes_key(self) -> bool:  # type: ignore[override] # of this one
        """Whether there is dropout."""
        return self.dropout > 0

    def _projected(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        size = self.embed_dim
        bias = self.in_proj_bias
        biases = [None] * 3 if bias is None else [bias[n * size : (n + 1) * size] for n in range(3)]
        if self.kdim != size or self.vdim != size:
            weights = [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]
        elif query is key and key is value:
            whole = linear(query, self.in_proj_weight, bias)
            return list(fn.split(whole, 3, axis=-1))
        else:
            weights = [self.in_proj_weight[n * size : (n + 1) * size] for n in range(3)]
        return [linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True)]

    def __call__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
        *,
        rng: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """(L, B, E) to (L, B, E), and which share each query took of each key, (B, L, S).

        Masks are PyTorch's here: True where *not* to look, or numbers to be added. `key_padding_mask` is (B, S), `attn_mask` (L, S) or
        (B·heads, L, S). With `batch_first`, (B, L, E); the batch may be missing.
        """
        name = "MultiHeadAttention"
        floating(name, query)
        if query.shape[-1] != self.embed_dim or query.ndim not in (2, 3):
            raise ShapeError.of(
                name, f"the query {query.shape} is no sequence of vectors of {self.embed_dim}"
            )
        alone = query.ndim == 2
        q, k, v = self._projected(query, key, value)
        queries, keys, values = (self._heads(x, alone) for x in (q, k, v))
        mask = self._mask(attn_mask, key_padding_mask, queries, keys, alone)
        p = self.dropout if self.training else 0.0
        weights: Tensor | None = None
        if need_weights:
            shares = attention_weights(queries, keys, mask, is_causal)
            shares = dropout(shares, p, True, rng)
            mixed = fn.matmul(shares, values)
            weights = fn.mean(shares, axis=1) if average_attn_weights else shares
            weights = weights[0] if alone else weights
        else:
            mixed = scaled_dot_product_attention(queries, keys, values, mask, p, is_causal, rng=rng)
        batch, _, length, _ = mixed.shape
        joined = fn.permute_dims(mixed, (0, 2, 1, 3)).reshape((batch, length, self.embed_dim))
        projected = self.out_proj(joined)
        if alone:
            return projected[0], weights
        return (projected if self.batch_first else fn.permute_dims(projected, (1, 0, 2))), weights

    def _heads(self, x: Tensor, alone: bool) -> Tensor:
        """(B, heads, L, D)."""
        if alone:
            x = fn.expand_dims(x, axis=0)
        elif not self.batch_first:
            x = fn.permute_dims(x, (1, 0, 2))
        batch, length, _ = x.shape
        parts = x.reshape((batch, length, self.num_heads, self.embed_dim // self.num_heads))
        return fn.permute_dims(parts, (0, 2, 1, 3))

    def _mask(
        self, attn_mask: Tensor | None, padding: Tensor | None, query: Tensor, key: Tensor, alone: bool
    ) -> Tensor | None:
        """What may be looked at, or what is added: (B or 1, heads or 1, L or 1, S)."""
        batch, heads, length, _ = query.shape
        size = key.shape[2]
        parts: list[Tensor] = []
        if attn_mask is not None:
            if attn_mask.ndim == 3:
                parts.append(attn_mask.reshape((batch, heads, length, size)))
            else:
                parts.append(attn_mask.reshape((1, 1, length, size)))
        if padding is not None:
            parts.append((fn.expand_dims(padding, axis=0) if alone else padding).reshape((batch, 1, 1, size)))
        if not parts:
            return None
        if all(part.dtype.is_bool for part in parts):
            hidden = parts[0] if len(parts) == 1 else fn.logical_or(*parts)
            return fn.logical_not(hidden)
        added = [
            fn.where(part, float("-inf"), fn.zeros((), dtype=query.dtype)) if part.dtype.is_bool else part
            for part in parts
        ]
        return added[0] if len(added) == 1 else added[0] + added[1]


MultiheadAttention = MultiHeadAttention
"""As PyTorch spells it."""

__all__ = [
    "MultiHeadAttention", "MultiheadAttention",
]  # fmt: skip
