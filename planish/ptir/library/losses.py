"""Losses: what a model's output costs. `reduction` is "mean", "sum" or "none"."""

from __future__ import annotations

from planish import dtypes
from planish.errors import GraphError
from planish.ptir.graph_value import GraphValue
from planish.ptir.library.activations import softplus
from planish.ptir.library.common import gather, normal_axis
from planish.ptir.library.normalize import converted, count_of, log_softmax, widened


def _reduced(loss: GraphValue, reduction: str, weight: GraphValue | None = None) -> GraphValue:
    """All elements added up, or their (weighted) mean."""
    if reduction == "none":
        return loss
    total = loss.reduce_sum()
    if reduction == "sum":
        return total
    if reduction != "mean":
        raise GraphError(f"there is no reduction {reduction!r}", remedy="mean, sum or none")
    count = count_of(loss, range(loss.rank)) if weight is None else weight.reduce_sum()
    return total.div(count)


def mean_squared_error(x: GraphValue, target: GraphValue, reduction: str = "mean") -> GraphValue:
    """(x - target)²."""
    return _reduced(x.sub(target).square(), reduction)


def mean_absolute_error(x: GraphValue, target: GraphValue, reduction: str = "mean") -> GraphValue:
    """|x - target|."""
    return _reduced(x.sub(target).abs(), reduction)


def huber(x: GraphValue, target: GraphValue, delta: float = 1.0, reduction: str = "mean") -> GraphValue:
    """d²/2 below |d| = delta, delta·(|d| - delta/2) from there on."""
    distance = x.sub(target).abs()
    near = distance.square().mul(0.5)
    far = distance.sub(0.5 * delta).mul(delta)
    return _reduced(distance.lt(delta).select(near, far), reduction)


def smooth_l1(x: GraphValue, target: GraphValue, beta: float = 1.0, reduction: str = "mean") -> GraphValue:
    """`huber` over beta; at beta 0 the absolute error."""
    if beta == 0:
        return mean_absolute_error(x, target, reduction)
    return huber(x, target, beta, reduction).div(beta)


def binary_cross_entropy_with_logits(
    x: GraphValue, target: GraphValue, weight: GraphValue | None = None, reduction: str = "mean"
) -> GraphValue:
    """-(t·log σ(x) + (1-t)·log(1-σ(x))) = softplus(x) - t·x, times a weight per element."""
    loss = softplus(x).sub(target.mul(x))
    return _reduced(loss if weight is None else loss.mul(weight), reduction)


def nll_loss(
    log_probability: GraphValue,
    target: GraphValue,
    weight: GraphValue | None = None,
    ignore_index: int | None = -100,
    reduction: str = "mean",
) -> GraphValue:
    """The negative log probability, on axis 1, of the class that `target` names; weighted by class.

    Elements whose target is `ignore_index` cost nothing and do not count. Narrow floats are added up in float32.
    """
    wide = widened(log_probability)
    at = target.cast(dtypes.int64)
    others = [at.graph.iota(at.dims, axis, dtypes.int64) for axis in range(at.rank)]
    # gather addresses (class, batch, space …): the class first, then the axes of the target in order.
    picked = gather(wide, [at, *others], [1, 0, *range(2, wide.rank)]).neg()
    share = None if weight is None else gather(widened(weight), [at], [0])
    if ignore_index is not None:
        # A class that is ignored may lie outside, and what is read there may be anything.
        counts = at.ne(ignore_index)
        picked = counts.select(picked, 0)
        share = counts.cast(wide.dtype) if share is None else counts.select(share, 0)
    loss = picked if share is None else picked.mul(share)
    return converted(_reduced(loss, reduction, share), log_probability.dtype)


def cross_entropy(
    logits: GraphValue,
    target: GraphValue,
    weight: GraphValue | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> GraphValue:
    """`nll_loss` of `log_softmax` on axis 1; with label smoothing, that share goes to all classes alike."""
    shares = log_softmax(logits, 1)
    hard = nll_loss(shares, target, weight, ignore_index, reduction)
    if label_smoothing == 0:
        return hard
    counts = target.ne(ignore_index)
    classes = count_of(logits, [1])
    weighted = shares
    if weight is not None:
        weighted = shares.mul(weight.reshape([-1, *[1] * (logits.rank - 2)]).broadcast_to(shares.dims))
    every = weighted.reduce_sum([1]).neg()
    even = counts.select(
        every.div(classes if isinstance(classes, float) else classes.broadcast_to(every.dims)), 0
    )
    if reduction != "none":
        even = even.reduce_sum()
    if reduction == "mean":
        share = counts.cast(shares.dtype)
        if weight is not None:
            share = counts.select(gather(weight, [target.cast(dtypes.int64)], [0]), 0)
        even = even.div(share.reduce_sum())
    return hard.mul(1 - label_smoothing).add(even.mul(label_smoothing))


def kl_divergence(
    log_probability: GraphValue, target: GraphValue, log_target: bool = False, reduction: str = "mean"
) -> GraphValue:
    """target · (log target - log probability), 0 where the target is 0; with `log_target` the target is a logarithm."""
    if log_target:
        return _reduced(target.exp().mul(target.sub(log_probability)), reduction)
    some = target.gt(0)
    known = some.select(target, 1)
    # at 0 the loss is 0, and moves with the log probability by 0
    nothing = target.mul(0.0).sub(target.mul(log_probability))
    return _reduced(some.select(known.mul(known.log().sub(log_probability)), nothing), reduction)


def cosine_similarity(x: GraphValue, y: GraphValue, axis: int = 1, epsilon: float = 1e-8) -> GraphValue:
    """x·y / (max(|x|, epsilon) · max(|y|, epsilon)) along an axis."""
    axis = normal_axis(x, axis)
    dot = x.mul(y).reduce_sum([axis])
    # Each squared length has its own bound; where it holds, the slope of a length of 0 is not asked for.
    least = epsilon * epsilon
    left, right = (v.square().reduce_sum([axis]) for v in (x, y))
    left, right = (total.gt(least).select(total, least).sqrt() for total in (left, right))
    return dot.div(left.mul(right))
