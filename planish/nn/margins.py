"""Losses of margins over several classes, and between triples by any distance, with PyTorch's definitions."""

from __future__ import annotations

from collections.abc import Callable

from planish.errors import DTypeError, PlanishError, ShapeError
from planish.frontend.tensor import functions as fn
from planish.frontend.tensor.array import Tensor
from planish.nn.activations import log_sigmoid
from planish.nn.arguments import floating
from planish.nn.losses import _above, _pair, pairwise_distance, reduced


def _scores(op: str, x: Tensor, target: Tensor) -> tuple[Tensor, Tensor, bool]:
    """(N, C) scores and their targets as rows; whether there was no batch."""
    floating(op, x)
    if x.ndim not in (1, 2) or not target.dtype.is_int:
        kind: type[PlanishError] = DTypeError if x.ndim in (1, 2) else ShapeError
        raise kind.of(
            op,
            f"the input is {x.shape}, the target {target.dtype.name}{list(target.shape)}",
            "scores are (N, C) or (C,), targets integers",
        )
    if x.ndim == 2:
        return x, target, False
    return fn.expand_dims(x, axis=0), fn.expand_dims(target, axis=0), True


def multi_margin_loss(
    x: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Σ max(0, margin - x[target] + x[i])ᵖ / C over the classes i that are not the target."""
    op = "multi_margin_loss"
    if p not in (1, 2):
        raise ShapeError.of(op, f"the power is {p}", "1 or 2")
    x, target, alone = _scores(op, x, target)
    if target.shape != x.shape[:1]:
        raise ShapeError.of(op, f"the input is {x.shape}, the target {target.shape}", "one class per row")
    column = fn.expand_dims(target, axis=1)
    gaps = _above(margin - fn.take_along_axis(x, column, axis=1) + x)
    gaps = gaps if p == 1 else gaps * gaps
    if weight is not None:
        gaps = gaps * fn.expand_dims(fn.take(weight, target, axis=0), axis=1)
    others = fn.arange(x.shape[1], dtype=target.dtype) != column
    loss = fn.sum(fn.where(others, gaps, 0.0), axis=1) / float(x.shape[1])
    return reduced(op, fn.squeeze(loss, 0) if alone else loss, reduction)


def multilabel_margin_loss(x: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """Σ max(0, 1 - x[j] + x[i]) / C over the classes j of a row, which end at the first -1, and all others i."""
    op = "multilabel_margin_loss"
    x, target, alone = _scores(op, x, target)
    if target.shape != x.shape:
        raise ShapeError.of(op, f"the input is {x.shape}, the target {target.shape}", "as many entries as classes, -1 after the last"
        )  # fmt: skip
    count = x.shape[1]
    named = fn.cumulative_sum((target < 0).astype(target.dtype), axis=1) == 0
    inside = fn.where(named, target, 0)
    classes = fn.arange(count, dtype=target.dtype)
    hits = (fn.expand_dims(inside, axis=2) == classes) & fn.expand_dims(named, axis=2)
    others = ~fn.any(hits, axis=1)
    own = fn.take_along_axis(x, inside, axis=1)
    gaps = _above(1.0 - fn.expand_dims(own, axis=2) + fn.expand_dims(x, axis=1))
    counts = fn.expand_dims(named, axis=2) & fn.expand_dims(others, axis=1)
    loss = fn.sum(fn.where(counts, gaps, 0.0), axis=(1, 2)) / float(count)
    return reduced(op, fn.squeeze(loss, 0) if alone else loss, reduction)


def multilabel_soft_margin_loss(
    x: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """The mean over the last axis of -(t·log sigmoid(x) + (1-t)·log sigmoid(-x))."""
    _pair("multilabel_soft_margin_loss", x, target)
    loss = -(target * log_sigmoid(x) + (1.0 - target) * log_sigmoid(-x))
    weighted = loss if weight is None else loss * weight
    return reduced("multilabel_soft_margin_loss", fn.mean(weighted, axis=-1), reduction)


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """max(0, d(anchor, positive) - d(anchor, negative) + margin); with `swap`, the nearer of anchor and positive counts."""
    distance = pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = fn.minimum(far, distance(positive, negative))
    return reduced("triplet_margin_with_distance_loss", _above(near - far + margin), reduction)


__all__ = [
    "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss", "triplet_margin_with_distance_loss",
]  # fmt: skip
