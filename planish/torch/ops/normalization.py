"""Normalisation as one op with its statistics; derivatives follow from torch's decompositions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from planish import dtypes
from planish.dtypes import DType
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library.common import spread
from planish.torch.registry import lowering
from planish.torch.site import FxSite, cast, sizes


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
    at: FxSite, x: V, normalized_shape: Sequence[int], weight: V | None, bias: V | None, eps: float
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


@lowering("aten.native_group_norm")
def native_group_norm(
    at: FxSite,
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
    rows = wide.reshape((batch, group, channels // group, *x.dims[2:]))
    found, middle, scale = _standard(rows, range(2, rows.rank), count, eps)
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
    at: FxSite, x: V, normalized_shape: Sequence[int], weight: V | None, eps: float | None
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
