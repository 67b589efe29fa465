"""Losses of classifiers."""

from __future__ import annotations

from planish import dtypes
from planish.onnx.ops.common import cast
from planish.onnx.registry import op
from planish.onnx.site import NodeSite
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library import normalize
from planish.ptir.library.common import gather


def _nll(at: NodeSite, log_shares: V, target: V, weight: V | None) -> V:
    """-log of the share of the class that the target names; weighted, and nothing for the class to ignore."""
    reduction, ignored = at.attr("reduction", "mean"), at.attr("ignore_index")
    if reduction not in ("none", "sum", "mean"):
        raise at.refuse(f"there is no reduction {reduction!r}")
    wide = normalize.widened(log_shares)
    index = cast(target, dtypes.int64)
    others = [at.graph.iota(index.dims, n, dtypes.int64) for n in range(index.rank)]
    loss = gather(wide, [index, *others], [1, 0, *range(2, wide.rank)]).neg()
    share: V | None = None
    if weight is not None:
        share = gather(normalize.widened(weight), [index], [0])
    if ignored is not None:
        counts = index.ne(ignored)
        loss = counts.select(loss, 0)
        ones = at.graph.full(index.dims, 1.0, wide.dtype)
        share = counts.select(ones if share is None else share, 0)
    if share is not None:
        loss = loss.mul(share)
    if reduction == "none":
        return cast(loss, log_shares.dtype)
    total = loss.reduce_sum()
    if reduction == "mean":
        total = (
            total.div(share.reduce_sum())
            if share is not None
            else normalize.mean(loss, list(range(loss.rank)))
        )
    return cast(total, log_shares.dtype)


@op("NegativeLogLikelihoodLoss")
def negative_log_likelihood_loss(at: NodeSite, x: V, target: V, weight: V | None = None) -> V:
    return _nll(at, x, target, weight)


@op("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy_loss(at: NodeSite, x: V, target: V, weight: V | None = None) -> tuple[V, V]:
    shares = normalize.log_softmax(x, 1)
    return _nll(at, shares, target, weight), shares
