"""Adaptive softmax: many classes, of which few are frequent (Grave et al., 2016), with PyTorch's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from planish.dtypes import DType, float32
from planish.errors import DTypeError, ShapeError
from planish.frontend.tensor import functions as fn
from planish.frontend.tensor.array import Tensor
from planish.nn.activations import log_softmax
from planish.nn.arguments import floating
from planish.nn.init import Key, keys_of
from planish.nn.layers.containers import ModuleList, Sequential
from planish.nn.layers.linear import Linear
from planish.nn.module import Module


class AdaptiveLoss(NamedTuple):
    """The log probability of each target, and the mean of what they lack to 0."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log probabilities of classes sorted by frequency: the first `cutoffs[0]` by a head, which also says which cluster the others are in.

    A cluster is from one cutoff up to the next, and sees 1/div_value of the features that the one before it sees.
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        *,
        key: Key,
        dtype: DType = float32,
    ) -> None:
        ends = [int(end) for end in cutoffs]
        if not ends or ends != sorted(set(ends)) or ends[0] < 1 or ends[-1] >= n_classes:
            raise ShapeError.of(type(self).__name__, f"cutoffs are {list(cutoffs)} for {n_classes} classes", "they rise from above 0 to below the number of classes"
            )  # fmt: skip
        self.cutoffs = (*ends, n_classes)
        self.n_classes = n_classes
        first, *rest = keys_of(key, len(ends) + 1)
        self.head = Linear(in_features, ends[0] + len(ends), head_bias, key=first, dtype=dtype)
        clusters = []
        for number, own in enumerate(rest, start=1):
            narrow, wide = keys_of(own, 2)
            features = int(in_features // div_value**number)
            classes = self.cutoffs[number] - self.cutoffs[number - 1]
            clusters.append(
                Sequential(
                    Linear(in_features, features, False, key=narrow, dtype=dtype),
                    Linear(features, classes, False, key=wide, dtype=dtype),
                )
            )
        self.tail = ModuleList(clusters)

    def __call__(self, x: Tensor, target: Tensor) -> AdaptiveLoss:
        """(N, in_features) and (N,) classes, or (in_features,) and ()."""
        op = type(self).__name__
        floating(op, x)
        if not target.dtype.is_int:
            raise DTypeError.of(op, f"targets are {target.dtype.name}", "numbers of classes are integers")
        if x.ndim not in (1, 2) or target.shape != x.shape[:-1]:
            raise ShapeError.of(op, f"targets {target.shape} do not go with inputs {x.shape}", "(N, in_features) and (N,)"
            )  # fmt: skip
        head = log_softmax(self.head(x), -1)
        output = _picked(head, target, self.cutoffs[0])
        for number, (start, cluster) in enumerate(zip(self.cutoffs, self.tail, strict=False)):
            inside = log_softmax(cluster(x), -1)
            likely = _picked(inside, target - start, inside.shape[-1]) + head[..., self.cutoffs[0] + number]
            output = fn.where(target >= start, likely, output)
        return AdaptiveLoss(output, -fn.mean(output))

    def log_prob(self, x: Tensor) -> Tensor:
        """The log probabilities of all classes: (…, n_classes)."""
        few = self.cutoffs[0]
        head = log_softmax(self.head(floating(type(self).__name__, x)), -1)
        parts = [head[..., :few]]
        for number, cluster in enumerate(self.tail):
            parts.append(log_softmax(cluster(x), -1) + head[..., few + number : few + number + 1])
        return fn.concat(parts, axis=-1)

    def predict(self, x: Tensor) -> Tensor:
        """The most likely class."""
        return fn.argmax(self.log_prob(x), axis=-1)


def _picked(x: Tensor, places: Tensor, size: int) -> Tensor:
    """One element of each line; places outside give that at the nearest end, which nobody asked for."""
    inside = fn.expand_dims(fn.clip(places, 0, size - 1), axis=-1)
    return fn.squeeze(fn.take_along_axis(x, inside, axis=-1), axis=-1)


__all__ = ["AdaptiveLogSoftmaxWithLoss"]
