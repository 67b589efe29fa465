"""Losses: what a model's output costs, with PyTorch's definitions. `reduction` is "mean", "sum" or "none"."""

from __future__ import annotations

import math

from planish.dtypes import int32, int64
from planish.errors import DTypeError, ShapeError
from planish.frontend import library
from planish.frontend.custom import stop_gradient
from planish.frontend.tensor import functions as fn
from planish.frontend.tensor.array import Tensor
from planish.frontend.tensor.operands import IndexOutOfRange, size_of
from planish.nn.activations import log_sigmoid, log_softmax, softplus
from planish.nn.arguments import floating


def reduced(op: str, loss: Tensor, reduction: str) -> Tensor:
    """All elements, their sum or their mean."""
    if reduction == "none":
        return loss
    if reduction == "sum":
        return fn.sum(loss)
    if reduction == "mean":
        return fn.mean(loss)
    raise ShapeError.of(op, f"there is no reduction {reduction!r}", 'one of "mean", "sum", "none"')


def _pair(op: str, x: Tensor, target: Tensor) -> None:
    floating(op, x)
    if x.shape != target.shape:
        raise ShapeError.of(op, f"the input is {x.shape}, the target {target.shape}", "reshape or broadcast one of them"
        )  # fmt: skip


# --- distances --------------------------------------------------------------------------------------------


def _distance(op: str, name: str, x: Tensor, target: Tensor, reduction: str, **options: float) -> Tensor:
    """A loss of pairs of elements, as `planish.ptir.library.losses` has it."""
    _pair(op, x, target)
    return reduced(op, library.loss(name, x, target, **options), reduction)


def mse_loss(x: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """(x - target)²."""
    return _distance("mse_loss", "mean_squared_error", x, target, reduction)


def l1_loss(x: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """|x - target|."""
    return _distance("l1_loss", "mean_absolute_error", x, target, reduction)


def huber_loss(x: Tensor, target: Tensor, delta: float = 1.0, reduction: str = "mean") -> Tensor:
    """d²/2 below |d| = delta, delta·(|d| - delta/2) from there on."""
    if delta <= 0:
        raise ShapeError.of("huber_loss", f"delta {delta} is not positive")
    return _distance("huber_loss", "huber", x, target, reduction, delta=delta)


def smooth_l1_loss(x: Tensor, target: Tensor, beta: float = 1.0, reduction: str = "mean") -> Tensor:
    """`huber_loss` over beta; `l1_loss` at beta 0."""
    return _distance("smooth_l1_loss", "smooth_l1", x, target, reduction, beta=beta)


def cosine_similarity(x: Tensor, y: Tensor, axis: int = 1, epsilon: float = 1e-8) -> Tensor:
    """x·y / (max(|x|, epsilon)·max(|y|, epsilon)) along an axis."""
    x, y = fn.broadcast_arrays(floating("cosine_similarity", x), y)
    return library.cosine_similarity(x, y, axis, epsilon)


def pairwise_distance(
    x: Tensor, y: Tensor, p: float = 2.0, epsilon: float = 1e-6, keepdims: bool = False
) -> Tensor:
    """(Σ |x - y + epsilon|ᵖ) to the power 1/p, over the last axis."""
    return _length(floating("pairwise_distance", x) - y + epsilon, p, -1, keepdims)


def _length(x: Tensor, p: float, axis: int, keepdims: bool) -> Tensor:
    if p == 2:
        return fn.sqrt(fn.sum(x * x, axis=axis, keepdims=keepdims))
    if p == 0:
        return fn.sum(fn.sign(fn.abs(x)), axis=axis, keepdims=keepdims)
    if math.isinf(p):
        return (fn.max if p > 0 else fn.min)(fn.abs(x), axis=axis, keepdims=keepdims)
    if p == 1:
        return fn.sum(fn.abs(x), axis=axis, keepdims=keepdims)
    return fn.pow(fn.sum(fn.pow(fn.abs(x), p), axis=axis, keepdims=keepdims), 1 / p)


# --- classes ----------------------------------------------------------------------------------------------


def binary_cross_entropy(
    x: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """-(t·log x + (1-t)·log(1-x)) of probabilities; logarithms go no lower than -100."""
    _pair("binary_cross_entropy", x, target)
    lowest = math.exp(-100.0)
    yes = _bounded_log(x, lowest)
    no = _bounded_log(1.0 - x, lowest)
    loss = -(target * yes + (1.0 - target) * no)
    return reduced("binary_cross_entropy", loss if weight is None else loss * weight, reduction)


def _bounded_log(x: Tensor, lowest: float) -> Tensor:
    inside = x > lowest
    return fn.where(inside, fn.log(fn.where(inside, x, 1.0)), -100.0)


def binary_cross_entropy_with_logits(
    x: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    pos_weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """`binary_cross_entropy` of sigmoid(x), without overflow; `pos_weight` multiplies the part of t."""
    op = "binary_cross_entropy_with_logits"
    _pair(op, x, target)
    loss = (1.0 - target) * x - _part(target, pos_weight) * log_sigmoid(x)
    return reduced(op, loss if weight is None else loss * weight, reduction)


def _part(target: Tensor, pos_weight: Tensor | None) -> Tensor | float:
    return 1.0 if pos_weight is None else (pos_weight - 1.0) * target + 1.0


def _classes(op: str, x: Tensor, target: Tensor) -> int:
    """The axis of classes: 1, or the only one."""
    axis = 0 if x.ndim == 1 else 1
    if x.ndim == 0 or target.shape != (*x.shape[:axis], *x.shape[axis + 1 :]):
        raise ShapeError.of(
            op,
            f"the input is {x.shape}, the target {target.shape}",
            "the target has the shape of the input without its axis of classes (axis 1)",
        )
    if not target.dtype.is_int:
        raise DTypeError.of(op, f"the target is {target.dtype.name}", "classes are integers")
    return axis


def nll_loss(
    x: Tensor, target: Tensor, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean"
) -> Tensor:
    """The negative log probability (along axis 1) of the class that the target names, weighted by class.

    Elements whose target is `ignore_index` cost nothing and do not count. Any other label that is no class is an error if
    the labels are known, and makes the loss and its gradient NaN if they are not.
    """
    axis = _classes("nll_loss", floating("nll_loss", x), target)
    return _picked("nll_loss", x, target, weight, ignore_index, reduction, axis)[0]


def _picked(
    op: str, x: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, reduction: str, axis: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The loss; which elements count; what they count for."""
    target, is_class = _labels(op, target, x, axis, ignore_index)
    counts = target != ignore_index
    # A class that is ignored may lie outside.
    inside = fn.where(counts, target, 0)
    picked = fn.squeeze(fn.take_along_axis(x, fn.expand_dims(inside, axis=axis), axis=axis), axis)
    share = counts.astype(x.dtype) if weight is None else fn.where(counts, _of(weight, inside), 0.0)
    # multiplied, a NaN reaches the gradient too
    scale = share if is_class is None else fn.where(is_class | ~counts, share, math.nan)
    loss = fn.where(counts, -picked * scale, 0.0)
    return _shared(op, loss, share, reduction), counts, share


def _labels(op: str, target: Tensor, x: Tensor, axis: int, ignore_index: int) -> tuple[Tensor, Tensor | None]:
    """Labels in a dtype that holds every class, and which of them name one; None if all do.

    Labels that are there already are looked at, and those outside are an error; for others that is up to the program.
    """
    classes = x._type.dims[axis]
    known = target._known
    if known is not None and isinstance(classes, int):
        wrong = known[((known < 0) | (known >= classes)) & (known != ignore_index)]
        if wrong.size:
            raise IndexOutOfRange.of(op, f"the target has the label {wrong.flat[0]}, and there are {classes} classes",
                f"labels are 0 to {classes - 1}, or ignore_index={ignore_index} for what does not count",
            )  # fmt: skip
    labels = target if target.dtype in (int32, int64) else target.astype(int64)
    if known is not None and isinstance(classes, int):
        return labels, None
    return labels, (labels >= 0) & (labels < size_of(x, axis, labels.dtype))


def _of(weight: Tensor, classes: Tensor) -> Tensor:
    return fn.reshape(fn.take(weight, fn.reshape(classes, (-1,)), axis=0), classes.shape)


def _shared(op: str, loss: Tensor, share: Tensor, reduction: str) -> Tensor:
    """The mean is over what counts, not over all."""
    if reduction == "mean":
        return fn.sum(loss) / fn.sum(share)
    return reduced(op, loss, reduction)


def cross_entropy(
    x: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> Tensor:
    """`nll_loss` of `log_softmax(x)` along axis 1. The target holds classes, or probabilities in the shape of x.

    Labels that are no class are treated as in `nll_loss`.
    """
    floating("cross_entropy", x)
    if x.shape == target.shape and target.dtype.is_float:
        return _soft_cross_entropy(x, target, weight, label_smoothing, reduction)
    axis = _classes("cross_entropy", x, target)
    logs = log_softmax(x, axis)
    hard, counts, share = _picked("cross_entropy", logs, target, weight, ignore_index, reduction, axis)
    if label_smoothing == 0.0:
        return hard
    spread = logs if weight is None else logs * _along(weight, x, axis)
    even = fn.where(counts, -fn.sum(spread, axis=axis), 0.0) / float(x.shape[axis])
    smooth = _shared("cross_entropy", even, share, reduction)
    return hard * (1.0 - label_smoothing) + smooth * label_smoothing


def _along(weight: Tensor, x: Tensor, axis: int) -> Tensor:
    return weight.reshape((-1, *[1] * (x.ndim - 1 - axis)))


def _soft_cross_entropy(
    x: Tensor, target: Tensor, weight: Tensor | None, label_smoothing: float, reduction: str
) -> Tensor:
    axis = 0 if x.ndim == 1 else 1
    wanted = target
    if label_smoothing:
        wanted = target * (1.0 - label_smoothing) + label_smoothing / x.shape[axis]
    if weight is not None:
        wanted = wanted * _along(weight, x, axis)
    loss = -fn.sum(wanted * log_softmax(x, axis), axis=axis)
    if reduction == "mean":
        return fn.sum(loss) / float(max(loss.size, 1))
    return reduced("cross_entropy", loss, reduction)


def kl_div(x: Tensor, target: Tensor, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """target · (log target - x) of log probabilities x; `reduction="batchmean"` divides by the batch alone."""
    _pair("kl_div", x, target)
    loss = library.loss("kl_divergence", x, target, log_target=log_target)
    if reduction == "batchmean":
        return fn.sum(loss) / float(x.shape[0])
    return reduced("kl_div", loss, reduction)


# --- counts and margins -----------------------------------------------------------------------------------


def poisson_nll_loss(
    x: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    epsilon: float = 1e-8,
    reduction: str = "mean",
) -> Tensor:
    """e^x - t·x, or x - t·log(x + epsilon); `full` adds Stirling's term where t > 1."""
    _pair("poisson_nll_loss", x, target)
    loss = fn.exp(x) - target * x if log_input else x - target * fn.log(x + epsilon)
    if full:
        many = target > 1
        known = fn.where(many, target, 1.0)
        stirling = known * fn.log(known) - known + fn.log(known * (2.0 * math.pi)) * 0.5
        loss = loss + fn.where(many, stirling, 0.0)
    return reduced("poisson_nll_loss", loss, reduction)


def gaussian_nll_loss(
    x: Tensor,
    target: Tensor,
    variance: Tensor,
    full: bool = False,
    epsilon: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """(log v + (x - t)²/v)/2 with v at least epsilon (the bound has no gradient); `full` adds log(2π)/2."""
    _pair("gaussian_nll_loss", x, target)
    low = variance < epsilon
    spread = variance + stop_gradient(fn.where(low, epsilon - variance, 0.0))
    loss = (fn.log(spread) + fn.square(x - target) / spread) * 0.5
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return reduced("gaussian_nll_loss", loss, reduction)


def _above(x: Tensor) -> Tensor:
    """max(x, 0), flat up to and at 0."""
    return fn.where(x > 0, x, 0.0)


def soft_margin_loss(x: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """log(1 + exp(-t·x)), t is 1 or -1."""
    _pair("soft_margin_loss", x, target)
    return reduced("soft_margin_loss", softplus(-target * x, threshold=math.inf), reduction)


def hinge_embedding_loss(x: Tensor, target: Tensor, margin: float = 1.0, reduction: str = "mean") -> Tensor:
    """x where t is 1, max(0, margin - x) where it is -1."""
    _pair("hinge_embedding_loss", x, target)
    return reduced("hinge_embedding_loss", fn.where(target == 1, x, _above(margin - x)), reduction)


def margin_ranking_loss(
    x1: Tensor, x2: Tensor, target: Tensor, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """max(0, -t·(x1 - x2) + margin)."""
    floating("margin_ranking_loss", x1)
    return reduced("margin_ranking_loss", _above(-target * (x1 - x2) + margin), reduction)


def cosine_embedding_loss(
    x1: Tensor, x2: Tensor, target: Tensor, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """1 - cos where t is 1, max(0, cos - margin) where it is -1."""
    cosine = cosine_similarity(x1, x2, axis=-1)
    return reduced(
        "cosine_embedding_loss", fn.where(target == 1, 1.0 - cosine, _above(cosine - margin)), reduction
    )


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    epsilon: float = 1e-6,
    reduction: str = "mean",
    swap: bool = False,
) -> Tensor:
    """max(0, |anchor - positive| - |anchor - negative| + margin); with `swap`, the nearer of anchor and positive counts."""
    near = pairwise_distance(anchor, positive, p, epsilon)
    far = pairwise_distance(anchor, negative, p, epsilon)
    if swap:
        far = fn.minimum(far, pairwise_distance(positive, negative, p, epsilon))
    return reduced("triplet_margin_loss", _above(near - far + margin), reduction)


__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "cosine_similarity",
    "cross_entropy", "gaussian_nll_loss", "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss",
    "margin_ranking_loss", "mse_loss", "nll_loss", "pairwise_distance", "poisson_nll_loss", "smooth_l1_loss",
    "soft_margin_loss", "triplet_margin_loss",
]  # fmt: skip
