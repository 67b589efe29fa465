"""Losses of classifiers."""

from __future__ import annotations

from planish.onnx.engine import At
from planish.onnx.registry import op
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library import losses, normalize


def _nll(at: At, log_shares: V, target: V, weight: V | None) -> V:
    reduction, ignored = at.attr("reduction", "mean"), at.attr("ignore_index")
    if reduction not in ("none", "sum", "mean"):
        raise at.refuse(f"there is no reduction {reduction!r}")
    return losses.nll_loss(log_shares, target, weight, ignored, reduction)


@op("NegativeLogLikelihoodLoss")
def negative_log_likelihood_loss(at: At, x: V, target: V, weight: V | None = None) -> V:
    return _nll(at, x, target, weight)


@op("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy_loss(at: At, x: V, target: V, weight: V | None = None) -> tuple[V, V]:
    shares = normalize.log_softmax(x, 1)
    return _nll(at, shares, target, weight), shares
