"""Transformers: encoder and decoder layers, stacks of them, and both together, with PyTorch's names and shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from planish import random
from planish.dtypes import DType, float32
from planish.errors import GraphError, ShapeError
from planish.frontend import tree
from planish.frontend.tensor import functions as fn
from planish.frontend.tensor.array import Tensor
from planish.nn import activations, init
from planish.nn.elementary import dropout
from planish.nn.init import Key, keys_of
from planish.nn.layers.attention import MultiHeadAttention
from planish.nn.layers.linear import Linear
from planish.nn.layers.normalization import LayerNorm
from planish.nn.module import Module

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": activations.relu, "gelu": activations.gelu}


class _Layer(Module):
    """What encoder and decoder layers share: attention and a wider layer, each added to what comes in, and normalised."""

    norms: ClassVar[int]

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = "relu", layer_norm_eps: float = 1e-5,
        batch_first: bool = False, norm_first: bool = False, bias: bool = True,
        *, key: Key, dtype: DType = float32,
    ) -> None:  # fmt: skip
        if isinstance(activation, str) and activation not in _ACTIVATIONS:
            raise ShapeError.of(type(self).__name__, f"there is no activation {activation!r}", "relu, gelu or a function"
            )  # fmt: skip
        self.dropout = dropout
        self.activation = activation
        self.batch_first = batch_first
        self.norm_first = norm_first
        keys = keys_of(key, 4)
        for name, own in zip(("self_attn", "multihead_attn")[: self.norms - 1], keys, strict=False):
            attention = MultiHeadAttention(
                d_model, nhead, dropout, bias, batch_first=batch_first, key=own, dtype=dtype
            )
            setattr(self, name, attention)
        self.linear1 = Linear(d_model, dim_feedforward, bias, key=keys[2], dtype=dtype)
        self.linear2 = Linear(dim_feedforward, d_model, bias, key=keys[3], dtype=dtype)
        for number in range(self.norms):
            setattr(self, f"norm{number + 1}", LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype))

    @property
    def takes_key(self) -> bool:  # type: ignore[override] # of this one
        """Whether there is dropout."""
        return self.dropout > 0

    def _dropped(self, x: Tensor, key: Tensor | None, number: int) -> Tensor:
        return dropout(x, self.dropout, self.training, _part(key, number))

    def _added(
        self, x: Tensor, norm: Module, function: Callable[[Tensor], Tensor], key: Tensor | None, number: int
    ) -> Tensor:
        """x and what a function makes of it; normalised before the function or after the sum."""
        if self.norm_first:
            return x + self._dropped(function(norm(x)), key, number)
        normalised: Tensor = norm(x + self._dropped(function(x), key, number))
        return normalised

    def _wide(self, x: Tensor, key: Tensor | None) -> Tensor:
        given = self.activation
        function = _ACTIVATIONS[given] if isinstance(given, str) else given
        return self.linear2(self._dropped(function(self.linear1(x)), key, 9))


def _part(key: Tensor | None, number: int) -> Tensor | None:
    return None if key is None else random.fold_in(key, number)


class TransformerEncoderLayer(_Layer):
    """Each place looks at all, and a wider layer at each (Vaswani et al., 2017)."""

    norms = 2
    self_attn: MultiHeadAttention
    norm1: LayerNorm
    norm2: LayerNorm

    def __call__(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
        *,
        key: Tensor | None = None,
    ) -> Tensor:
        """(L, B, E) to (L, B, E). Masks are PyTorch's: True where not to look. Causal: no place looks at later ones."""

        def attend(x: Tensor) -> Tensor:
            return self.self_attn(
                x, x, x, src_key_padding_mask, False, src_mask, is_causal=is_causal, rng=_part(key, 0)
            )[0]

        x = self._added(src, self.norm1, attend, key, 1)
        return self._added(x, self.norm2, lambda x: self._wide(x, key), key, 2)


class TransformerDecoderLayer(_Layer):
    """Each place looks at all of its own sequence, then at all of another one, then a wider layer at each."""

    norms = 3
    self_attn: MultiHeadAttention
    multihead_attn: MultiHeadAttention
    norm1: LayerNorm
    norm2: LayerNorm
    norm3: LayerNorm

    def __call__(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
        *,
        key: Tensor | None = None,
    ) -> Tensor:
        """(L, B, E) and what it looks at, (S, B, E), to (L, B, E)."""

        def attend(x: Tensor) -> Tensor:
            return self.self_attn(
                x, x, x, tgt_key_padding_mask, False, tgt_mask, is_causal=tgt_is_causal, rng=_part(key, 0)
            )[0]

        def look(x: Tensor) -> Tensor:
            return self.multihead_attn(
                x, memory, memory, memory_key_padding_mask, False, memory_mask, is_causal=memory_is_causal, rng=_part(key, 3)
            )[0]  # fmt: skip

        x = self._added(tgt, self.norm1, attend, key, 1)
        x = self._added(x, self.norm2, look, key, 4)
        return self._added(x, self.norm3, lambda x: self._wide(x, key), key, 2)


class _Stack(Module):
    """Layers one after the other, and a normalisation at the end."""

    def __init__(
        self,
        layer: Module | Callable[[Tensor], Module],
        num_layers: int,
        norm: Module | None = None,
        *,
        key: Key | None = None,
    ) -> None:
        """A layer, of which all begin as copies (as PyTorch's), or what makes one for a key, and a `key`."""
        if isinstance(layer, Module):
            self.layers: list[Module] = [tree.map_tree(lambda x: x, layer) for _ in range(num_layers)]
        elif key is None:
            raise GraphError.of(
                type(self).__name__, "layers that are made one by one need a random key", "pass key="
            )
        else:
            self.layers = [layer(own) for own in keys_of(key, num_layers)]
        self.norm = norm

    @property
    def takes_key(self) -> bool:  # type: ignore[override] # of this one
        """Whether there is dropout in a layer."""
        return any(layer.takes_key for layer in self.layers)

    def __call__(
        self, x: Tensor, *given: Tensor | None, key: Tensor | None = None, **options: object
    ) -> Tensor:
        """As its layers; what they are given besides is the same for all."""
        for number, layer in enumerate(self.layers):
            x = layer(x, *given, key=_part(key, number), **options)
        return x if self.norm is None else self.norm(x)


class TransformerEncoder(_Stack):
    """`TransformerEncoderLayer`s one after the other."""


class TransformerDecoder(_Stack):
    """`TransformerDecoderLayer`s one after the other."""


class Transformer(Module):
    """An encoder of one sequence and a decoder of another that looks at it."""

    def __init__(
        self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6, num_decoder_layers: int = 6,
        dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = "relu", layer_norm_eps: float = 1e-5,
        batch_first: bool = False, norm_first: bool = False, bias: bool = True,
        *, key: Key, dtype: DType = float32,
    ) -> None:  # fmt: skip
        first, second = keys_of(key, 2)
        given = (
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias,
        )  # fmt: skip
        self.encoder = TransformerEncoder(
            lambda own: TransformerEncoderLayer(*given, key=own, dtype=dtype),
            num_encoder_layers,
            LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype),
            key=first,
        )
        self.decoder = TransformerDecoder(
            lambda own: TransformerDecoderLayer(*given, key=own, dtype=dtype),
            num_decoder_layers,
            LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype),
            key=second,
        )
        for number, module in enumerate(self.modules().values()):
            # as PyTorch's whole transformer starts, which its layers alone do not
            if isinstance(module, Linear):
                own = random.fold_in(first, number)
                module.weight = init.xavier_uniform(own, module.weight.shape, dtype=dtype)

    @property
    def takes_key(self) -> bool:  # type: ignore[override] # of this one
        """Whether there is dropout."""
        return self.encoder.takes_key or self.decoder.takes_key

    def __call__(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        *,
        tgt_is_causal: bool = False,
        key: Tensor | None = None,
    ) -> Tensor:
        """(S, B, E) and (T, B, E) to (T, B, E)."""
        memory = self.encoder(src, src_mask, src_key_padding_mask, key=_part(key, 0))
        return self.decoder(
            tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask,
            key=_part(key, 1), tgt_is_causal=tgt_is_causal,
        )  # fmt: skip

    @staticmethod
    def generate_square_subsequent_mask(size: int, dtype: DType = float32) -> Tensor:
        """What to add so that no place looks at later ones: 0 below and on the diagonal, -inf above."""
        later = fn.reshape(fn.arange(size), (-1, 1)) < fn.arange(size)
        return fn.where(later, float("-inf"), fn.zeros((), dtype=dtype))


__all__ = [
    "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder", "TransformerEncoderLayer",
]  # fmt: skip
