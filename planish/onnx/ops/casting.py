"""Conversions: Cast, CastLike and BitCast, on the device or, for the dtypes that only memory has, on the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto

from planish import dtypes
from planish.dtypes import DType
from planish.onnx.ops.common import Array, Tensor, is_device, is_host, numpy_kind
from planish.onnx.registry import op
from planish.onnx.site import NodeSite
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library.normalize import converted

_EIGHT_BITS = {
    np.dtype(d)
    for d in (
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e4m3fnuz,
        ml_dtypes.float8_e5m2,
        ml_dtypes.float8_e5m2fnuz,
    )
}
_SCALE_ONLY = np.dtype(ml_dtypes.float8_e8m0fnu)


def _largest(dtype: np.dtype[Any]) -> float:
    """The largest number of an 8-bit float."""
    words = np.arange(128, dtype=np.uint8).view(dtype).astype(np.float32)
    return float(words[np.isfinite(words)].max())


def convert_array(x: Array, dtype: np.dtype[Any], saturate: bool = True, rounding: str = "up") -> Array:
    """A conversion on the host. Text is read and written as Python does."""
    if dtype.kind == "O":
        return _texts(x)
    if x.dtype == object:
        return _numbers(x, dtype)
    if dtype == _SCALE_ONLY:
        return np.asarray(onnx.numpy_helper.to_float8e8m0(x.astype(np.float32), saturate, rounding)).astype(
            dtype
        )
    with np.errstate(all="ignore"):
        if dtype in _EIGHT_BITS and saturate and not (is_device(x.dtype) and x.dtype.kind in "iub"):
            limit = _largest(dtype)
            wide = x if x.dtype == np.float64 else x.astype(np.float32)
            return np.asarray(np.clip(wide, -limit, limit)).astype(dtype)
        if not is_device(x.dtype) and not is_device(dtype):
            return x.astype(np.float32).astype(dtype)
        return np.asarray(x).astype(dtype)


def _texts(x: Array) -> Array:
    flat = [
        v.decode() if isinstance(v, bytes) else v if isinstance(v, str) else str(v)
        for v in (x.reshape(-1).tolist() if x.dtype == object else x.reshape(-1))
    ]
    result = np.empty(len(flat), object)
    result[:] = flat
    return result.reshape(x.shape)


def _numbers(x: Array, dtype: np.dtype[Any]) -> Array:
    texts = [v.decode() if isinstance(v, bytes) else str(v) for v in x.reshape(-1).tolist()]
    if dtype.kind in "iu":
        return np.array([int(float(v)) if "." in v or "e" in v.lower() else int(v) for v in texts]).astype(
            dtype
        ).reshape(x.shape)  # fmt: skip
    return np.array([float(v) for v in texts], np.float64).astype(dtype).reshape(x.shape)


def convert(x: V, dtype: DType, saturate: bool = True) -> V:
    """A conversion on the device; 8-bit floats stop at their largest number where ONNX says so."""
    if saturate and dtype.is_float and dtype.bits == 8 and x.dtype.is_float:
        limit = _largest(dtype.numpy)
        wide = converted(x, dtypes.float32) if x.dtype.bits < 32 else x
        return wide.clamp(-limit, limit).cast(dtype)
    if dtype.is_int and dtype.bits < 8 and x.dtype.is_float:
        # Toward zero first, and then the low bits: what is out of range wraps.
        return x.cast(dtypes.int32).cast(dtype)
    return converted(x, dtype)


def _to(at: NodeSite, x: Tensor, target: np.dtype[Any]) -> Tensor:
    saturate, rounding = bool(at.attr("saturate", 1)), at.attr("round_mode", "up")
    if isinstance(x, np.ndarray):
        return convert_array(x, target, saturate, rounding)
    return convert(x, dtypes.from_numpy(target), saturate)


def _target(at: NodeSite) -> np.dtype[Any]:
    """Before opset 6 the type was named."""
    to = at.attributes.require("to")
    if isinstance(to, str):
        to = getattr(TensorProto, to.upper(), None)
        if to is None:
            raise at.refuse("does not name the type to convert to")
    return np.dtype(object) if to == TensorProto.STRING else numpy_kind(at, to)


def _host_cast(at: NodeSite, given: Sequence[Any]) -> list[int]:
    return [0] if is_host(given[0]) or not is_device(_target(at)) else []


@op("Cast", known=_host_cast)
def cast_(at: NodeSite, x: Tensor) -> Tensor:
    return _to(at, x, _target(at))


def _host_like(at: NodeSite, given: Sequence[Any]) -> list[int]:
    return [0, 1] if is_host(given[0]) or is_host(given[1]) else []


@op("CastLike", known=_host_like)
def cast_like(at: NodeSite, x: Tensor, like: Tensor) -> Tensor:
    return _to(at, x, like.dtype.numpy if isinstance(like, V) else like.dtype)


def _host_bits(at: NodeSite, given: Sequence[Any]) -> list[int]:
    target = _target(at)
    device = is_device(target) and not is_host(given[0]) and target != np.bool_
    x = given[0]
    held = x.dtype if isinstance(x, V) else dtypes.from_numpy(x.dtype) if device else None
    return [] if device and held is not None and not held.is_bool else [0]


@op("BitCast", known=_host_bits)
def bit_cast(at: NodeSite, x: Tensor) -> Tensor:
    target = _target(at)
    if isinstance(x, np.ndarray):
        if x.dtype.itemsize != target.itemsize:
            raise at.refuse(f"{x.dtype} and {target} do not have the same width")
        return np.ascontiguousarray(x).view(target).reshape(x.shape)
    result = x.bitcast(dtypes.from_numpy(target))
    if result.dims != x.dims:
        raise at.refuse(f"{x.type} and {target} do not have the same width")
    return result
