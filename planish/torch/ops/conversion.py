"""Dtypes: casts, other readings of the same bits, complex numbers and their parts."""

from __future__ import annotations

import math
from typing import Any

from planish import dtypes
from planish.dtypes import DType
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library.common import cast
from planish.torch.registry import lowering
from planish.torch.site import FxSite


@lowering("aten._to_copy")
def to_copy(
    at: FxSite,
    x: V,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
    non_blocking: bool = False,
    memory_format: Any = None,
) -> V:
    if device is not None and device.type == "meta":
        raise at.refuse("to the device meta")
    return cast(x, at.dtype)


@lowering("prims.convert_element_type")
def convert_element_type(at: FxSite, x: V, dtype: Any) -> V:
    return cast(x, at.dtype)


@lowering("aten.view.dtype")
def view_dtype(at: FxSite, x: V, dtype: Any) -> V:
    own = at.dtype
    if own is x.dtype:
        return x
    if own.is_complex or x.dtype.is_complex or own.is_bool or x.dtype.is_bool:
        raise at.refuse(f"{x.dtype.name} seen as {own.name}")
    if own.bits == x.dtype.bits:
        return x.bitcast(own)
    if own.bits < x.dtype.bits:
        parts = x.bitcast(own)
        return parts.reshape((*x.dims[:-1], x.dims[-1] * (x.dtype.bits // own.bits)))
    ratio = own.bits // x.dtype.bits
    return x.reshape((*x.dims[:-1], x.dims[-1] // ratio, ratio)).bitcast(own)


@lowering(
    "aten.clone",
    "aten.alias",
    "aten.detach",
    "aten.lift_fresh",
    "aten.lift_fresh_copy",
    "aten.contiguous",
    "prims.clone",
    "prims.view_of",
    "aten.resolve_neg",
)
def same(at: FxSite, x: V, *, memory_format: Any = None) -> V:
    return x


# --- complex numbers --------------------------------------------------------------------------------------


@lowering("aten.complex")
def complex_(at: FxSite, x: V, y: V) -> V:
    part = _part_of(at.dtype)
    left, right = at.together(x, y, dtype=part)
    return left.complex(right)


def _part_of(dtype: DType) -> DType:
    return dtypes.float64 if dtype.bits == 128 else dtypes.float32


@lowering("aten.polar")
def polar(at: FxSite, x: V, y: V) -> V:
    radius, angle = at.together(x, y, dtype=_part_of(at.dtype))
    return radius.mul(angle.cos()).complex(radius.mul(angle.sin()))


@lowering("aten.real", "prims.real")
def real(at: FxSite, x: V) -> V:
    return x.real() if x.dtype.is_complex else x


@lowering("aten.imag", "prims.imag")
def imag(at: FxSite, x: V) -> V:
    return x.imag()


@lowering(
    "aten.conj",
    "aten._conj",
    "aten._conj_physical",
    "aten.conj_physical",
    "aten.resolve_conj",
    "prims.conj_physical",
)
def conj(at: FxSite, x: V) -> V:
    if str(at.node.target).startswith("aten.resolve"):
        return x
    return x.conj() if x.dtype.is_complex else x


@lowering("aten._neg_view")
def neg_view(at: FxSite, x: V) -> V:
    return x.neg()


@lowering("aten.angle")
def angle(at: FxSite, x: V) -> V:
    if x.dtype.is_complex:
        return x.imag().atan2(x.real())
    value = cast(x, at.dtype)
    turned = value.lt(0).select(at.full(x.dims, math.pi), at.full(x.dims, 0.0))
    return value.is_nan().select(value, turned)


@lowering("aten.view_as_real")
def view_as_real(at: FxSite, x: V) -> V:
    return x.real().expand_dims(-1).concat([x.imag().expand_dims(-1)], -1)


@lowering("aten.view_as_complex")
def view_as_complex(at: FxSite, x: V) -> V:
    first, second = (x[..., number] for number in range(2))
    return first.complex(second)
