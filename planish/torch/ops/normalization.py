"""Normalisation as one op with its statistics; derivatives follow from torch's decompositions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import torch
from torch import fx

from planish import dtypes
from planish.dtypes import DType
from planish.ptir.graph_value import GraphValue as V
from planish.torch.registry import lowering
from planish.torch.site import NodeSite, cast, sizes, spread


def _wide(dtype: DType) -> DType:
    return dtypes.float64 if dtype is dtypes.float64 else dtypes.float32


def _standard(x: V, axes: Sequence[int], count: int, eps: float) -> tuple[V, V, V]:
    """(x - mean) · rstd over axes, the mean and rstd, with the axes kept."""
    middle = x.reduce_sum(axes, True).div(float(count))
    apart = x.sub(spread(middle, x.dims))
    scale = apart.mul(apart).reduce_sum(axes, True).div(float(count)).add(eps).rsqrt()
    return apart.mul(spread(scale, x.dims)), middle, scale


@lowering("aten.native_layer_norm")
def native_layer_norm(
    at: NodeSite, x: V, normalized_shape: Sequence[int], weight: V | None, bias: V | None, eps: float
) -> tuple[V, V, V]:
    wide = cast(x, _wide(x.dtype))
    axes = list(range(x.rank - len(normalized_shape), x.rank))
    found, middle, scale = _standard(wide, axes, math.prod(normalized_shape), eps)
    if weight is not None:
        found = found.mul(spread(cast(weight, wide.dtype), found.dims))
    if bias is not None:
        found = found.add(spread(cast(bias, wide.dtype), found.dims))
    kind = at.kind(at.fakes[1].dtype)
    return cast(found, x.dtype), cast(middle, kind), cast(scale, kind)


_IMAGE: Final = 64
"""Pixels of a channel from which on its sum is worth a kernel."""


def channels_lie_last(at: NodeSite) -> bool:
    """Whether what is normalised is made of a convolution's result on a GPU, element by element: it lies as that does."""
    node = at.node.args[0]
    if at.fakes[0].device.type != "cuda":
        return False
    while isinstance(node, fx.Node) and torch.Tag.pointwise in getattr(node.target, "tags", ()):
        node = node.all_input_nodes[0]
    return isinstance(node, fx.Node) and str(node.target).startswith("aten.convolution")


def _by_channel(x: V, groups: int, count: int, eps: float) -> tuple[V, V, V]:
    """`_standard` of groups of channels, pixels first: what a convolution gives has its channels last on a GPU, where a group is no row."""
    batch, channels, *_ = x.dims
    space = list(range(2, x.rank))

    def mean(values: V) -> V:
        return values.reduce_sum(space).reshape((batch, groups, -1)).reduce_sum([2], True).div(float(count))

    def pixels(of_groups: V) -> V:
        each = spread(of_groups, (batch, groups, channels // groups)).reshape((batch, channels))
        return spread(each.reshape((batch, channels, *[1] * len(space))), x.dims)

    middle = mean(x)
    apart = x.sub(pixels(middle))
    scale = mean(apart.mul(apart)).add(eps).rsqrt()
    return apart.mul(pixels(scale)), middle, scale


@lowering("aten.native_group_norm")
def native_group_norm(
    at: NodeSite,
    x: V,
    weight: V | None,
    bias: V | None,
    batch: int,
    channels: int,
    area: int,
    group: int,
    eps: float,
) -> tuple[V, V, V]:
    wide, count = cast(x, _wide(x.dtype)), (channels // group) * area
    if channels_lie_last(at) and area >= _IMAGE:
        found, middle, scale = _by_channel(wide, group, count, eps)
    else:
        rows = wide.reshape((batch, group, count))
        found, middle, scale = _standard(rows, [2], count, eps)
        found = found.reshape(x.dims)
    column = (channels, *(1,) * (x.rank - 2))
    if weight is not None:
        found = found.mul(spread(cast(weight, wide.dtype).reshape(column), found.dims))
    if bias is not None:
        found = found.add(spread(cast(bias, wide.dtype).reshape(column), found.dims))
    kind = at.kind(at.fakes[1].dtype)
    return (
        cast(found, x.dtype),
        cast(middle, kind).reshape((batch, group)),
        cast(scale, kind).reshape((batch, group)),
    )


@lowering("aten._fused_rms_norm")
def fused_rms_norm(
    at: NodeSite, x: V, normalized_shape: Sequence[int], weight: V | None, eps: float | None
) -> tuple[V, V]:
    wide = cast(x, _wide(x.dtype))
    axes = list(range(x.rank - len(normalized_shape), x.rank))
    count = math.prod(sizes(at, x)[axis] for axis in axes)
    smallest = {16: 2.0**-10, 32: 2.0**-23, 64: 2.0**-52}[wide.dtype.bits]
    squares = wide.mul(wide).reduce_sum(axes, True).div(float(count))
    scale = squares.add(smallest if eps is None else eps).rsqrt()
    found = wide.mul(spread(scale, x.dims))
    if weight is not None:
        found = found.mul(spread(cast(weight, wide.dtype), found.dims))
    return cast(found, x.dtype), cast(scale, at.kind(at.fakes[1].dtype))
