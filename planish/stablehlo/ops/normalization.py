"""Batch normalisation: inference, training, and its derivative."""

from __future__ import annotations

from math import prod

from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library import normalize
from planish.ptir.library.common import along
from planish.stablehlo.registry import lowering
from planish.stablehlo.site import Site


def _others(x: V, axis: int) -> list[int]:
    return [a for a in range(x.rank) if a != axis]


@lowering("stablehlo.batch_norm_inference")
def batch_norm_inference(
    at: Site, x: V, scale: V, offset: V, mean: V, variance: V, *, epsilon: float, feature_index: int
) -> V:
    centred = x.sub(along(mean, x.dims, feature_index))
    deviation = along(variance.add(epsilon).sqrt(), x.dims, feature_index)
    return (
        centred.div(deviation)
        .mul(along(scale, x.dims, feature_index))
        .add(along(offset, x.dims, feature_index))
    )


@lowering("stablehlo.batch_norm_training")
def batch_norm_training(
    at: Site, x: V, scale: V, offset: V, *, epsilon: float, feature_index: int
) -> tuple[V, V, V]:
    axes = _others(x, feature_index)
    mean, variance = normalize.mean(x, axes), normalize.variance(x, axes)
    normalized = batch_norm_inference(
        at, x, scale, offset, mean, variance, epsilon=epsilon, feature_index=feature_index
    )
    return normalized, mean, variance


@lowering("stablehlo.batch_norm_grad")
def batch_norm_grad(
    at: Site, x: V, scale: V, mean: V, variance: V, gradient: V, *, epsilon: float, feature_index: int
) -> tuple[V, V, V]:
    axes, sizes = _others(x, feature_index), at.whole(x)
    count = float(prod(sizes[axis] for axis in axes))
    inverse = variance.add(epsilon).rsqrt()
    centred = x.sub(along(mean, x.dims, feature_index))
    of_scale = gradient.mul(centred).reduce_sum(axes)
    of_offset = gradient.reduce_sum(axes)
    correction = centred.mul(along(of_scale.mul(inverse).mul(inverse).div(count), x.dims, feature_index))
    inner = gradient.sub(along(of_offset.div(count), x.dims, feature_index)).sub(correction)
    return inner.mul(along(scale.mul(inverse), x.dims, feature_index)), of_scale.mul(inverse), of_offset
