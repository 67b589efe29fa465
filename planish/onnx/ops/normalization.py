"""Normalisations."""

from __future__ import annotations

from planish.onnx.ops.common import axis_of, kind, outputs, size_of
from planish.onnx.registry import op
from planish.onnx.site import NodeSite
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library import normalize
from planish.ptir.library.common import along
from planish.ptir.library.normalize import converted, widened
from planish.ptir.library.shaping import repeat


def _per_channel(x: V, numbers: V) -> V:
    """One number per channel, or (before opset 9, not spatial) one per element of a sample, for every element of x."""
    return along(numbers, x.dims, 1) if numbers.rank == 1 and x.rank > 1 else numbers.broadcast_to(x.dims)


def _scaled_by(x: V, mean: V, variance: V, scale: V, bias: V, epsilon: float) -> V:
    wide = widened(x)
    if mean.rank == 1 and x.rank > 1:
        return converted(normalize.batch_norm(wide, mean, variance, scale, bias, 1, epsilon), x.dtype)
    mean, variance, scale, bias = (
        _per_channel(x, converted(v, wide.dtype)) for v in (mean, variance, scale, bias)
    )
    return converted(wide.sub(mean).mul(variance.add(epsilon).rsqrt()).mul(scale).add(bias), x.dtype)


def _batch_statistics(x: V, scale: V) -> tuple[V, V]:
    over = [0, *range(2, x.rank)] if scale.rank == 1 else [0]
    wide = widened(x)
    return normalize.mean(wide, over), normalize.variance(wide, over)


@op("BatchNormalization")
def batch_normalization_early(
    at: NodeSite, x: V, scale: V, bias: V, mean: V, variance: V
) -> V | tuple[V, ...]:
    epsilon, momentum = at.attr("epsilon", 1e-5), at.attr("momentum", 0.9)
    at.attr("spatial", 1)
    testing = at.attr("is_test", 0)
    if testing or outputs(at) < 2:
        return _scaled_by(x, mean, variance, scale, bias, epsilon)
    now, spread_ = _batch_statistics(x, scale)
    result = _scaled_by(x, now, spread_, scale, bias, epsilon)
    return (result, *_blended(mean, variance, now, spread_, momentum), now, spread_)


def _blended(mean: V, variance: V, now: V, spread_: V, momentum: float) -> tuple[V, V]:
    """The running statistics after this batch."""
    kept = [converted(v, now.dtype).mul(momentum) for v in (mean, variance)]
    new = [v.mul(1 - momentum) for v in (now, spread_)]
    return converted(kept[0].add(new[0]), mean.dtype), converted(kept[1].add(new[1]), variance.dtype)


@op("BatchNormalization", since=14)
def batch_normalization(at: NodeSite, x: V, scale: V, bias: V, mean: V, variance: V) -> V | tuple[V, ...]:
    epsilon, momentum = at.attr("epsilon", 1e-5), at.attr("momentum", 0.9)
    if not at.attr("training_mode", 0):
        return _scaled_by(x, mean, variance, scale, bias, epsilon)
    now, spread_ = _batch_statistics(x, scale)
    result = _scaled_by(x, now, spread_, scale, bias, epsilon)
    return (result, *_blended(mean, variance, now, spread_, momentum))


@op("InstanceNormalization")
def instance_normalization(at: NodeSite, x: V, scale: V, bias: V) -> V:
    return normalize.instance_norm(x, scale, bias, at.attr("epsilon", 1e-5))


def _stashed(at: NodeSite, x: V) -> V:
    """In the dtype that `stash_type` names, or a wider one."""
    stash = kind(at, at.attr("stash_type", 1))
    return converted(x, x.dtype if x.dtype.bits > stash.bits else stash)


@op("LayerNormalization")
def layer_normalization(at: NodeSite, x: V, scale: V, bias: V | None = None) -> tuple[V, V, V]:
    axes = range(axis_of(at, at.attr("axis", -1), x.rank), x.rank)
    normal, mean, factor = normalize.standardised(_stashed(at, x), axes, at.attr("epsilon", 1e-5))
    return converted(normalize.affine(normal, scale, bias), x.dtype), mean, factor


@op("RMSNormalization")
def rms_normalization(at: NodeSite, x: V, scale: V) -> V:
    axes = range(axis_of(at, at.attr("axis", -1), x.rank), x.rank)
    normal, _ = normalize.by_root_mean_square(_stashed(at, x), axes, at.attr("epsilon", 1e-5))
    return normalize.affine(converted(normal, scale.dtype), scale, None)


def _group(at: NodeSite, x: V, scale: V, bias: V, groups: int) -> V:
    each = size_of(at, x, 1) // groups
    parts = _stashed(at, x).reshape((x.dims[0], groups, each, *x.dims[2:]))
    normal, _, _ = normalize.standardised(parts, range(2, parts.rank), at.attr("epsilon", 1e-5))
    return converted(normalize.affine(normal.reshape(x.dims), scale, bias, 1), x.dtype)


@op("GroupNormalization", since=18)
def group_normalization_by_group(at: NodeSite, x: V, scale: V, bias: V) -> V:
    groups = at.attributes.require("num_groups")
    each = size_of(at, x, 1) // groups
    return _group(at, x, repeat(scale, each, 0), repeat(bias, each, 0), groups)


@op("GroupNormalization", since=21)
def group_normalization(at: NodeSite, x: V, scale: V, bias: V) -> V:
    return _group(at, x, scale, bias, at.attributes.require("num_groups"))


@op("LpNormalization")
def lp_normalization(at: NodeSite, x: V) -> V:
    """x over its norm along an axis; 0 where the norm is 0."""
    axis, p = axis_of(at, at.attr("axis", -1), x.rank), at.attr("p", 2)
    if p not in (1, 2):
        raise at.refuse(f"there is no norm {p}")
    wide = widened(x)
    total = (
        wide.abs().reduce_sum([axis], True) if p == 1 else wide.square().reduce_sum([axis], True).sqrt()
    ).broadcast_like(wide)  # fmt: skip
    zero = at.graph.full(wide.dims, 0.0, wide.dtype)
    return converted(total.eq(zero).select(zero, wide.div(total)), x.dtype)


@op("LRN")
def lrn(at: NodeSite, x: V) -> V:
    size = at.attributes.require("size")
    alpha, beta, bias = at.attr("alpha", 1e-4), at.attr("beta", 0.75), at.attr("bias", 1.0)
    wide = widened(x)
    window = [1, size, *[1] * (x.rank - 2)]
    padding = [(0, 0), ((size - 1) // 2, size // 2), *[(0, 0)] * (x.rank - 2)]
    near = wide.square().reduce_window("sum", window, padding=padding)
    return converted(wide.div(near.mul(alpha / size).add(bias).pow(beta)), x.dtype)
