"""Losses of pairs of elements: what a model's output costs, before it is added up."""

from __future__ import annotations

from planish.ptir.graph_value import GraphValue
from planish.ptir.library.common import normal_axis


def mean_squared_error(x: GraphValue, target: GraphValue) -> GraphValue:
    """(x - target)²."""
    return x.sub(target).square()


def mean_absolute_error(x: GraphValue, target: GraphValue) -> GraphValue:
    """|x - target|."""
    return x.sub(target).abs()


def huber(x: GraphValue, target: GraphValue, delta: float = 1.0) -> GraphValue:
    """d²/2 below |d| = delta, delta·(|d| - delta/2) from there on."""
    distance = x.sub(target).abs()
    near = distance.square().mul(0.5)
    far = distance.sub(0.5 * delta).mul(delta)
    return distance.lt(delta).select(near, far)


def smooth_l1(x: GraphValue, target: GraphValue, beta: float = 1.0) -> GraphValue:
    """`huber` over beta; at beta 0 the absolute error."""
    if beta == 0:
        return mean_absolute_error(x, target)
    return huber(x, target, beta).div(beta)


def kl_divergence(log_probability: GraphValue, target: GraphValue, log_target: bool = False) -> GraphValue:
    """target · (log target - log probability), 0 where the target is 0; with `log_target` the target is a logarithm."""
    if log_target:
        return target.exp().mul(target.sub(log_probability))
    some = target.gt(0)
    known = some.select(target, 1)
    # at 0 the loss is 0, and moves with the log probability by 0
    nothing = target.mul(0.0).sub(target.mul(log_probability))
    return some.select(known.mul(known.log().sub(log_probability)), nothing)


def cosine_similarity(x: GraphValue, y: GraphValue, axis: int = 1, epsilon: float = 1e-8) -> GraphValue:
    """x·y / (max(|x|, epsilon) · max(|y|, epsilon)) along an axis."""
    axis = normal_axis(x, axis)
    dot = x.mul(y).reduce_sum([axis])
    # Each squared length has its own bound; where it holds, the slope of a length of 0 is not asked for.
    least = epsilon * epsilon
    left, right = (v.square().reduce_sum([axis]) for v in (x, y))
    left, right = (total.gt(least).select(total, least).sqrt() for total in (left, right))
    return dot.div(left.mul(right))
