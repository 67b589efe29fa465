"""Linear maps, embeddings and dropout."""

from __future__ import annotations

from planish import random
from planish.errors import DTypeError, GraphError, ShapeError
from planish.frontend.tensor import functions as fn
from planish.frontend.tensor.array import Tensor
from planish.nn.arguments import floating, mistake, same_dtype


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x · weightᵀ + bias over the last axis; the weight is (outputs, inputs)."""
    same_dtype("linear", floating("linear", x), weight, bias)
    if x.ndim < 1 or weight.ndim != 2 or x.shape[-1] != weight.shape[1]:
        raise mistake(
            ShapeError,
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
        raise mistake(
            DTypeError, "embedding", f"the indices are {indices.dtype.name}", "they have to be integers"
        )
    rows = fn.take(weight, indices.reshape((-1,)), axis=0).reshape((*indices.shape, *weight.shape[1:]))
    if padding_idx is None:
        return rows
    from planish.frontend.custom import stop_gradient

    is_padding = fn.expand_dims(indices == padding_idx % weight.shape[0], axis=-1)
    return fn.where(is_padding, stop_gradient(rows), rows)


def one_hot(indices: Tensor, num_classes: int) -> Tensor:
    """int64: 1 at the index along a new last axis, 0 elsewhere."""
    if not indices.dtype.is_int:
        raise mistake(
            DTypeError, "one_hot", f"the indices are {indices.dtype.name}", "they have to be integers"
        )
    count = fn.arange(num_classes, dtype=indices.dtype)
    return (fn.expand_dims(indices, axis=-1) == count).astype(fn.asarray(0).dtype)


def dropout(
    x: Tensor, p: float = 0.5, training: bool = True, key: Tensor | None = None, shared: tuple[int, ...] = ()
) -> Tensor:
    """In training, elements are 0 with probability p and the others grow by 1/(1-p). Axes in `shared` are dropped as a whole."""
    floating("dropout", x)
    if not 0 <= p <= 1:
        raise mistake(ShapeError, "dropout", f"{p} is not a probability")
    if not training or p == 0:
        return x.snapshot()
    if p == 1:
        return x * 0.0
    if key is None:
        raise mistake(
            GraphError, "dropout", "training needs a random key", "pass key=, or call eval() on the module"
        )
    shape = tuple(1 if axis in shared else size for axis, size in enumerate(x.shape))
    kept = random.bernoulli(key, 1.0 - p, shape)
    return fn.where(kept, x * (1.0 / (1.0 - p)), 0.0)


__all__ = [
    "bilinear", "dropout", "embedding", "linear", "one_hot",
]  # fmt: skip
