"""Softmax and its like, means and variances, and the normalisations built on them.

Narrow floats are computed in float32 and rounded once, at the end. Written so that each is one row kernel: the row is read once,
its statistics stay with it, and it is written once. Parameters (`weight`, `bias`, `mean` …) may be None where the formula then lacks them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from planish.dtypes import UNSIGNED, DType
from planish.errors import ShapeError
from planish.ptir.dims import product
from planish.ptir.graph_value import GraphValue
from planish.ptir.library.common import along, normal_axis
from planish.ptir.ops.numerics import accumulator

_WORDS: Final = {dtype.bits: dtype for dtype in UNSIGNED}


def widened(x: GraphValue) -> GraphValue:
    """In the dtype sums run in."""
    return converted(x, accumulator(x.dtype))


def converted(x: GraphValue, dtype: DType) -> GraphValue:
    """A cast, where it is one."""
    return x if x.dtype is dtype else x.cast(dtype)


def _axes(x: GraphValue, axes: int | Sequence[int]) -> list[int]:
    given = [axes] if isinstance(axes, int) else list(axes)
    return sorted(normal_axis(x, axis) for axis in given)


def count_of(x: GraphValue, axes: Sequence[int]) -> GraphValue | float:
    """How many elements some axes hold together: a number, or a scalar of x's dtype where a size is named."""
    size = product(x.dims[axis] for axis in axes)
    if isinstance(size, int):
        return float(size)
    total = x.graph.full((), 1, "i64")
    for axis in axes:
        total = total.mul(x.dimension_size(axis))
    return total.cast(x.dtype)


def mean(x: GraphValue, axes: int | Sequence[int], keepdims: bool = False) -> GraphValue:
    """The mean over some axes."""
    over = _axes(x, axes)
    wide = widened(x)
    total = wide.reduce_sum(over, keepdims)
    return converted(_divided(total, count_of(wide, over)), x.dtype)


def _divided(x: GraphValue, count: GraphValue | float) -> GraphValue:
    return x.div(count if isinstance(count, float) else count.broadcast_to(x.dims))


def variance(
    x: GraphValue, axes: int | Sequence[int], keepdims: bool = False, correction: float = 0.0
) -> GraphValue:
    """The mean squared distance from the mean; divided by the count less `correction`."""
    over = _axes(x, axes)
    wide = widened(x)
    centred = wide.sub(mean(wide, over, True).broadcast_like(wide))
    count = count_of(wide, over)
    if correction:
        count = count - correction if isinstance(count, float) else count.sub(correction)
    return converted(_divided(centred.square().reduce_sum(over, keepdims), count), x.dtype)


# --- softmax ----------------------------------------------------------------------------------------------


def _fixed(x: GraphValue) -> GraphValue:
    """The same, as a constant to differentiation: read as bits and back, which the compiler takes out again."""
    return x.bitcast(_WORDS[x.dtype.bits]).bitcast(x.dtype)


def _shifted(x: GraphValue, axis: int) -> GraphValue:
    """Less the largest of its line. The shift cancels, so that nothing needs to be differentiated through it."""
    wide = widened(x)
    return wide.sub(_fixed(wide.reduce_max([axis], keepdims=True)).broadcast_like(wide))


def softmax(x: GraphValue, axis: int = -1) -> GraphValue:
    """exp(x) · (1 / Σ exp(x)), shifted by the largest: one division per row. A row of -inf alone is NaN."""
    grown = _shifted(x, axis).exp()
    share = grown.reduce_sum([axis], keepdims=True).reciprocal()
    return converted(grown.mul(share.broadcast_like(grown)), x.dtype)


def log_softmax(x: GraphValue, axis: int = -1) -> GraphValue:
    """x - log Σ exp(x)."""
    shifted = _shifted(x, axis)
    total = shifted.exp().reduce_sum([axis], keepdims=True).log()
    return converted(shifted.sub(total.broadcast_like(shifted)), x.dtype)


def logsumexp(x: GraphValue, axes: int | Sequence[int] = -1, keepdims: bool = False) -> GraphValue:
    """log Σ exp(x): -inf of nothing or of -inf alone, inf with an inf among them."""
    over = _axes(x, axes)
    wide = widened(x)
    top = _fixed(wide.reduce_max(over, keepdims=True))
    # An infinite shift would make NaN of the infinities it meets.
    shift = top.is_finite().select(top, 0)
    total = wide.sub(shift.broadcast_like(wide)).exp().reduce_sum(over, keepdims=True).log()
    result = total.add(shift)
    if not keepdims:
        result = result.reshape([dim for axis, dim in enumerate(x.dims) if axis not in over])
    return converted(result, x.dtype)


# --- normalisations ---------------------------------------------------------------------------------------


def affine(
    x: GraphValue, weight: GraphValue | None, bias: GraphValue | None, axis: int | None = None
) -> GraphValue:
    """x·weight + bias; the parameters lie along an axis, or along the last axes."""
    for parameter, op in ((weight, GraphValue.mul), (bias, GraphValue.add)):
        if parameter is not None:
            wide = converted(parameter, x.dtype)
            x = op(x, wide.broadcast_to(x.dims) if axis is None else along(wide, x.dims, axis))
    return x


def standardised(
    x: GraphValue, over: Sequence[int], epsilon: float
) -> tuple[GraphValue, GraphValue, GraphValue]:
    """(x - mean) / sqrt(variance + epsilon) over some axes, which stay in the mean and in the factor that come with it."""
    average = mean(x, over, True)
    centred = x.sub(average.broadcast_like(x))
    factor = _inverse_length(centred, over, epsilon)
    return centred.mul(factor.broadcast_like(x)), average, factor


def by_root_mean_square(x: GraphValue, over: Sequence[int], epsilon: float) -> tuple[GraphValue, GraphValue]:
    """x / sqrt(mean(x²) + epsilon) over some axes, and the factor."""
    factor = _inverse_length(x, over, epsilon)
    return x.mul(factor.broadcast_like(x)), factor


def _inverse_length(x: GraphValue, over: Sequence[int], epsilon: float) -> GraphValue:
    return _divided(x.square().reduce_sum(list(over), True), count_of(x, over)).add(epsilon).rsqrt()


def layer_norm(
    x: GraphValue,
    weight: GraphValue | None = None,
    bias: GraphValue | None = None,
    axis: int = -1,
    epsilon: float = 1e-5,
) -> GraphValue:
    """Each slice over the axes from `axis` on, brought to mean 0 and variance 1; then weight and bias of those axes."""
    normal, _, _ = standardised(widened(x), range(normal_axis(x, axis), x.rank), epsilon)
    return converted(affine(normal, weight, bias), x.dtype)


def rms_norm(
    x: GraphValue, weight: GraphValue | None = None, axis: int = -1, epsilon: float = 1e-6
) -> GraphValue:
    """x / sqrt(mean(x²) + epsilon) over the axes from `axis` on, times weight."""
    scaled, _ = by_root_mean_square(widened(x), range(normal_axis(x, axis), x.rank), epsilon)
    return converted(affine(scaled, weight, None), x.dtype)


def group_norm(
    x: GraphValue,
    groups: int,
    weight: GraphValue | None = None,
    bias: GraphValue | None = None,
    epsilon: float = 1e-5,
) -> GraphValue:
    """Of (N, C, …): channels in equal consecutive groups, each brought to mean 0 and variance 1; weight and bias per channel."""
    batch, channels, *space = x.dims
    if channels % groups != 0:
        raise ShapeError(f"{channels} channels do not fit {groups} groups", op="group_norm")
    wide = widened(x)
    parts = wide.reshape((batch, groups, channels // groups, *space))
    normal, _, _ = standardised(parts, range(2, parts.rank), epsilon)
    return converted(affine(normal.reshape(x.dims), weight, bias, 1), x.dtype)


def instance_norm(
    x: GraphValue, weight: GraphValue | None = None, bias: GraphValue | None = None, epsilon: float = 1e-5
) -> GraphValue:
    """Of (N, C, …): every channel of every sample on its own."""
    normal, _, _ = standardised(widened(x), range(2, x.rank), epsilon)
    return converted(affine(normal, weight, bias, 1), x.dtype)


def batch_norm(
    x: GraphValue,
    running_mean: GraphValue,
    running_variance: GraphValue,
    weight: GraphValue | None = None,
    bias: GraphValue | None = None,
    axis: int = 1,
    epsilon: float = 1e-5,
) -> GraphValue:
    """With statistics that are given: (x - mean) / sqrt(variance + epsilon) · weight + bias per channel.

    Written as one product and one sum per element, with factors per channel.
    """
    axis = normal_axis(x, axis)
    wide = widened(x)
    factor = converted(running_variance, wide.dtype).add(epsilon).rsqrt()
    if weight is not None:
        factor = factor.mul(converted(weight, wide.dtype))
    shift = converted(running_mean, wide.dtype).mul(factor).neg()
    if bias is not None:
        shift = shift.add(converted(bias, wide.dtype))
    return converted(wide.mul(along(factor, x.dims, axis)).add(along(shift, x.dims, axis)), x.dtype)


def batch_norm_training(
    x: GraphValue,
    weight: GraphValue | None = None,
    bias: GraphValue | None = None,
    axis: int = 1,
    epsilon: float = 1e-5,
) -> tuple[GraphValue, GraphValue, GraphValue]:
    """With the statistics of this batch; gives the result, the mean and the (biased) variance per channel."""
    axis = normal_axis(x, axis)
    over = [other for other in range(x.rank) if other != axis]
    wide = widened(x)
    average, spread = mean(wide, over), variance(wide, over)
    result = batch_norm(wide, average, spread, weight, bias, axis, epsilon)
    return converted(result, x.dtype), average, spread
