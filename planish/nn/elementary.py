"""Linear maps, embeddings and dropout."""

from __future__ import annotations

import math

from planish import random
from planish.dtypes import int64
from planish.errors import DTypeError, GraphError, ShapeError
from planish.frontend.custom import stop_gradient
from planish.frontend.tensor import functions as fn
from planish.frontend.tensor.array import Tensor
from planish.nn.arguments import floating, same_dtype


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x · weightᵀ + bias over the last axis; the weight is (outputs, inputs)."""
    same_dtype("linear", floating("linear", x), weight, bias)
    if x.ndim < 1 or weight.ndim != 2 or x.shape[-1] != weight.shape[1]:
        raise ShapeError.of(
            "linear",
            f"the input {x.shape} does not fit the weight {weight.shape}",
            "the last axis of the input is the second of the weight",
        )
    result = fn.matmul(x, fn.matrix_transpose(weight))
    return result if bias is None else result + bias


def bilinear(x1: Tensor, x2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x1 · weight · x2 for each output; the weight is (outputs, inputs 1, inputs 2)."""
    same_dtype("bilinear", floating("bilinear", x1), x2, weight, bias)
    result = fn.einsum("...i,oij,...j->...o", x1, weight, x2)
    return result if bias is None else result + bias


def embedding(indices: Tensor, weight: Tensor, padding_idx: int | None = None) -> Tensor:
    """The rows of the weight that the indices name; that of `padding_idx` is not trained."""
    if not indices.dtype.is_int:
        raise DTypeError.of("embedding", f"the indices are {indices.dtype.name}", "they have to be integers")
    rows = fn.take(weight, indices.reshape((-1,)), axis=0).reshape((*indices.shape, *weight.shape[1:]))
    if padding_idx is None:
        return rows
    is_padding = fn.expand_dims(indices == padding_idx % weight.shape[0], axis=-1)
    return fn.where(is_padding, stop_gradient(rows), rows)


def embedding_bag(
    indices: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    mode: str = "mean",
    per_sample_weights: Tensor | None = None,
    padding_idx: int | None = None,
    include_last_offset: bool = False,
) -> Tensor:
    """Rows of the weight combined per bag: "sum", "mean" or "max". A bag is a row of (B, N) indices, or begins at an offset.

    Those of `padding_idx` do not count; an empty bag is 0.
    """
    op = "embedding_bag"
    if not indices.dtype.is_int or mode not in ("sum", "mean", "max"):
        raise DTypeError.of(op, f"the indices are {indices.dtype.name}, the mode is {mode!r}", "integers; sum, mean or max"
        )  # fmt: skip
    if (indices.ndim == 1) != (offsets is not None) or indices.ndim > 2:
        raise ShapeError.of(op, f"indices {indices.shape} {'with' if offsets is not None else 'without'} offsets", "(B, N), or one line with offsets"
        )  # fmt: skip
    if per_sample_weights is not None and (mode != "sum" or per_sample_weights.shape != indices.shape):
        raise ShapeError.of(op, f"weights {per_sample_weights.shape} of indices {indices.shape} with mode {mode!r}", 'one per index, and mode "sum"'
        )  # fmt: skip
    flat = indices.reshape((-1,))
    if offsets is None:
        bags = indices.shape[0]
        number = fn.repeat(fn.arange(bags), indices.shape[1])
    else:
        bags = offsets.shape[0] - (1 if include_last_offset else 0)
        number = (
            fn.searchsorted(offsets[:bags], fn.arange(flat.shape[0], dtype=offsets.dtype), side="right") - 1
        )
    rows = fn.take(weight, flat, axis=0)
    counts = fn.ones(flat.shape, dtype=weight.dtype)
    if padding_idx is not None:
        counts = fn.where(flat == padding_idx % weight.shape[0], 0.0, counts)
    if per_sample_weights is not None:
        rows = rows * fn.expand_dims(per_sample_weights.reshape((-1,)), axis=1)
    total = fn.segment_sum(counts, number, bags)
    if mode == "max":
        held = fn.where(fn.expand_dims(counts > 0, axis=1), rows, -math.inf)
        least = fn.full((bags, weight.shape[1]), -math.inf, dtype=weight.dtype)
        places = fn.broadcast_to(fn.expand_dims(number, axis=1), rows.shape)
        largest = fn.scatter(least, places, held, axis=0, reduce="max")
        return fn.where(fn.expand_dims(total > 0, axis=1), largest, 0.0)
    summed = fn.segment_sum(rows * fn.expand_dims(counts, axis=1), number, bags)
    return summed if mode == "sum" else summed / fn.expand_dims(fn.maximum(total, 1.0), axis=1)


def one_hot(indices: Tensor, num_classes: int) -> Tensor:
    """int64: 1 at the index along a new last axis, 0 elsewhere."""
    return fn.one_hot(indices, num_classes, int64)


def _kept(
    op: str, x: Tensor, p: float, training: bool, key: Tensor | None, shared: tuple[int, ...]
) -> Tensor | bool:
    """Which elements a dropout keeps; True for all, False for none."""
    floating(op, x)
    if not 0 <= p <= 1:
        raise ShapeError.of(op, f"{p} is not a probability")
    if not training or p in (0, 1):
        return not training or p == 0
    if key is None:
        raise GraphError.of(op, "training needs a random key", "pass key=, or call eval() on the module")
    shape = tuple(1 if axis in shared else size for axis, size in enumerate(x.shape))
    return random.bernoulli(key, 1.0 - p, shape)


def dropout(
    x: Tensor, p: float = 0.5, training: bool = True, key: Tensor | None = None, shared: tuple[int, ...] = ()
) -> Tensor:
    """In training, elements are 0 with probability p and the others grow by 1/(1-p). Axes in `shared` are dropped as a whole."""
    kept = _kept("dropout", x, p, training, key, shared)
    if isinstance(kept, bool):
        return x.snapshot() if kept else x * 0.0
    return fn.where(kept, x * (1.0 / (1.0 - p)), 0.0)


_SELU_FLOOR = -1.7580993408473766
"""What selu tends to on the left."""


def alpha_dropout(
    x: Tensor, p: float = 0.5, training: bool = True, key: Tensor | None = None, shared: tuple[int, ...] = ()
) -> Tensor:
    """`dropout` that keeps mean 0 and variance 1 of what comes out of `selu`: dropped elements are its floor, and all are scaled."""
    kept = _kept("alpha_dropout", x, p, training, key, shared)
    if isinstance(kept, bool):
        return x.snapshot() if kept else x * 0.0
    scale = 1.0 / math.sqrt((_SELU_FLOOR**2 * p + 1.0) * (1.0 - p))
    return fn.where(kept, x, _SELU_FLOOR) * scale - scale * _SELU_FLOOR * p


__all__ = [
    "alpha_dropout", "bilinear", "dropout", "embedding", "embedding_bag", "linear", "one_hot",
]  # fmt: skip
