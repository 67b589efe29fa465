"""Normalisation as one op with its statistics; derivatives follow from torch's decompositions."""

from __future__ import annotations

from collections.abc import Sequence

from planish import dtypes
from planish.dtypes import DType
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library import normalize
from planish.ptir.library.common import cast
from planish.torch.registry import lowering
from planish.torch.site import FxSite


def _wide(dtype: DType) -> DType:
    return dtypes.float64 if dtype is dtypes.float64 else dtypes.float32


@lowering("aten.native_layer_norm")
def native_layer_norm(
    at: FxSite, x: V, normalized_shape: Sequence[int], weight: V | None, bias: V | None, eps: float
) -> tuple[V, V, V]:
    axes = range(x.rank - len(normalized_shape), x.rank)
    normed, middle, scale = normalize.standardised(cast(x, _wide(x.dtype)), axes, eps)
    kind = at.kind(at.fakes[1].dtype)
    return cast(normalize.affine(normed, weight, bias), x.dtype), cast(middle, kind), cast(scale, kind)


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
    rows = cast(x, _wide(x.dtype)).reshape((batch, group, channels // group, *x.dims[2:]))
    normed, middle, scale = normalize.standardised(rows, range(2, rows.rank), eps)
    normed = normalize.affine(normed.reshape(x.dims), weight, bias, 1)
    kind = at.kind(at.fakes[1].dtype)
    per_group = [cast(each, kind).reshape((batch, group)) for each in (middle, scale)]
    return cast(normed, x.dtype), per_group[0], per_group[1]


@lowering("aten._fused_rms_norm")
def fused_rms_norm(
    at: FxSite, x: V, normalized_shape: Sequence[int], weight: V | None, eps: float | None
) -> tuple[V, V]:
    wide = cast(x, _wide(x.dtype))
    smallest = {16: 2.0**-10, 32: 2.0**-23, 64: 2.0**-52}[wide.dtype.bits]
    axes = range(x.rank - len(normalized_shape), x.rank)
    normed, scale = normalize.by_root_mean_square(wide, axes, smallest if eps is None else eps)
    return cast(normalize.affine(normed, weight, None), x.dtype), cast(scale, at.kind(at.fakes[1].dtype))
