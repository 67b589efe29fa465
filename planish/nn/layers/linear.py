"""Linear maps, embeddings, and layers that only reshape or drop."""

from __future__ import annotations

import math

from planish.dtypes import DType, float32
from planish.errors import ShapeError
from planish.frontend.tensor import functions as fn
from planish.frontend.tensor.array import Tensor
from planish.nn import elementary, init
from planish.nn.init import Key, keys_of
from planish.nn.module import Module


def small(key: Tensor, shape: tuple[int, ...], inputs: int, dtype: DType) -> Tensor:
    """Evenly between ±1/sqrt(inputs): how linear and convolutional layers start."""
    bound = 1 / math.sqrt(inputs) if inputs else 0.0
    return init.uniform(key, shape, -bound, bound, dtype) if bound else init.zeros(shape, dtype)


class Identity(Module):
    """What it is given."""

    def __call__(self, x: Tensor) -> Tensor:
        """The same."""
        return x.snapshot()


class Linear(Module):
    """x · weightᵀ + bias."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, *, key: Key, dtype: DType = float32
    ) -> None:
        self.in_features = in_features
        self.out_features = out_features
        first, second = keys_of(key, 2)
        self.weight = small(first, (out_features, in_features), in_features, dtype)
        self.bias = small(second, (out_features,), in_features, dtype) if bias else None

    def __call__(self, x: Tensor) -> Tensor:
        """Over the last axis."""
        return elementary.linear(x, self.weight, self.bias)


class Bilinear(Module):
    """x1 · weight · x2 + bias."""

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        *,
        key: Key,
        dtype: DType = float32,
    ) -> None:
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        first, second = keys_of(key, 2)
        self.weight = small(first, (out_features, in1_features, in2_features), in1_features, dtype)
        self.bias = small(second, (out_features,), in1_features, dtype) if bias else None

    def __call__(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Over the last axes."""
        return elementary.bilinear(x1, x2, self.weight, self.bias)


class Embedding(Module):
    """A row of numbers for each index."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        key: Key,
        dtype: DType = float32,
    ) -> None:
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = padding_idx
        weight = init.normal(key, (num_embeddings, embedding_dim), dtype=dtype)
        if padding_idx is not None:
            at = fn.reshape(fn.arange(num_embeddings), (-1, 1)) == padding_idx % num_embeddings
            weight = fn.where(at, 0.0, weight)
        self.weight = weight

    def __call__(self, indices: Tensor) -> Tensor:
        """The rows that the indices name, along a new last axis."""
        return elementary.embedding(indices, self.weight, self.padding_idx)


class EmbeddingBag(Module):
    """A row of numbers for each index, combined per bag."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        mode: str = "mean",
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        *,
        key: Key,
        dtype: DType = float32,
    ) -> None:
        self.mode = mode
        self.include_last_offset = include_last_offset
        self.padding_idx = padding_idx
        self.weight = Embedding(num_embeddings, embedding_dim, padding_idx, key=key, dtype=dtype).weight

    def __call__(
        self, indices: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        """One row per bag."""
        return elementary.embedding_bag(
            indices, self.weight, offsets, self.mode, per_sample_weights, self.padding_idx, self.include_last_offset
        )  # fmt: skip


class Flatten(Module):
    """Axes from `start_dim` to `end_dim` as one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        self.start_dim = start_dim
        self.end_dim = end_dim

    def __call__(self, x: Tensor) -> Tensor:
        """Fewer axes."""
        return fn.flatten(x, self.start_dim, self.end_dim)


class Unflatten(Module):
    """One axis as several."""

    def __init__(self, dim: int, unflattened_size: tuple[int, ...]) -> None:
        self.dim = dim
        self.unflattened_size = tuple(unflattened_size)

    def __call__(self, x: Tensor) -> Tensor:
        """More axes."""
        at = self.dim % x.ndim
        return x.reshape((*x.shape[:at], *self.unflattened_size, *x.shape[at + 1 :]))


class Dropout(Module):
    """In training, elements become 0 with probability p, and the others grow accordingly."""

    takes_key = True

    def __init__(self, p: float = 0.5) -> None:
        if not 0 <= p <= 1:
            raise ShapeError.of(type(self).__name__, f"{p} is not a probability")
        self.p = p

    def _shared(self, x: Tensor) -> tuple[int, ...]:
        return ()

    def __call__(self, x: Tensor, *, key: Tensor | None = None) -> Tensor:
        """Needs a random key in training."""
        return elementary.dropout(x, self.p, self.training, key, self._shared(x))


class AlphaDropout(Dropout):
    """`Dropout` that keeps mean 0 and variance 1 of what comes out of `SELU`."""

    def __call__(self, x: Tensor, *, key: Tensor | None = None) -> Tensor:
        """Needs a random key in training."""
        return elementary.alpha_dropout(x, self.p, self.training, key, self._shared(x))


class FeatureAlphaDropout(AlphaDropout):
    """`AlphaDropout` of whole channels of (N, C, …)."""

    def _shared(self, x: Tensor) -> tuple[int, ...]:
        return tuple(range(2, x.ndim))


class _ChannelDropout(Dropout):
    """Drops whole channels of (N, C, …) or (C, …)."""

    space = 1

    def _shared(self, x: Tensor) -> tuple[int, ...]:
        return tuple(range(x.ndim - self.space, x.ndim))


class Dropout1d(_ChannelDropout):
    """Drops whole channels of (N, C, L)."""


class Dropout2d(_ChannelDropout, space=2):
    """Drops whole channels of (N, C, H, W)."""


class Dropout3d(_ChannelDropout, space=3):
    """Drops whole channels of (N, C, D, H, W)."""


__all__ = [
    "AlphaDropout", "Bilinear", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "Embedding", "EmbeddingBag", "FeatureAlphaDropout", "Flatten", "Identity",
    "Linear", "Unflatten",
]  # fmt: skip
