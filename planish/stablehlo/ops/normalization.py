"""Batch normalisation: inference, training, and its derivative."""

from __future__ import annotations

from planish.ptir.dims import DimLike
from planish.ptir.graph_value import GraphValue as V
from planish.stablehlo.registry import lowering
from planish.stablehlo.site import Site


def _along(x: V, like: V, axis: int) -> V:
    """One number per feature, in the shape of the data."""
    dims: list[DimLike] = [1] * like.rank
    dims[axis] = x.dims[0]
    return x.reshape(dims).broadcast_to(like.dims)


def _moments(at: Site, x: V, axis: int) -> tuple[V, V, float]:
    axes = [a for a in range(x.rank) if a != axis]
    sizes = at.whole(x)
    count = 1.0
    for a in axes:
        count *= sizes[a]
    mean = x.reduce_sum(axes).div(count)
    centred = x.sub(_along(mean, x, axis))
    return mean, centred.mul(centred).reduce_sum(axes).div(count), count


@lowering("stablehlo.batch_norm_inference")
def batch_norm_inference(
    at: Site, x: V, scale: V, offset: V, mean: V, variance: V, *, epsilon: float, feature_index: int
) -> V:
    centred = x.sub(_along(mean, x, feature_index))
    deviation = _along(variance.add(epsilon).sqrt(), x, feature_index)
    return centred.div(deviation).mul(_along(scale, x, feature_index)).add(_along(offset, x, feature_index))


@lowering("stablehlo.batch_norm_training")
def batch_norm_training(
    at: Site, x: V, scale: V, offset: V, *, epsilon: float, feature_index: int
) -> tuple[V, V, V]:
    mean, variance, _ = _moments(at, x, feature_index)
    found = batch_norm_inference(
        at, x, scale, offset, mean, variance, epsilon=epsilon, feature_index=feature_index
    )
    return found, mean, variance


@lowering("stablehlo.batch_norm_grad")
def batch_norm_grad(
    at: Site, x: V, scale: V, mean: V, variance: V, gradient: V, *, epsilon: float, feature_index: int
) -> tuple[V, V, V]:
    axes = [a for a in range(x.rank) if a != feature_index]
    count = 1.0
    for a, size in enumerate(at.whole(x)):
        count *= size if a != feature_index else 1
    inverse = variance.add(epsilon).rsqrt()
    centred = x.sub(_along(mean, x, feature_index))
    of_scale = gradient.mul(centred).reduce_sum(axes)
    of_offset = gradient.reduce_sum(axes)
    correction = centred.mul(_along(of_scale.mul(inverse).mul(inverse).div(count), x, feature_index))
    inner = gradient.sub(_along(of_offset.div(count), x, feature_index)).sub(correction)
    return inner.mul(_along(scale.mul(inverse), x, feature_index)), of_scale.mul(inverse), of_offset
