"""Ops that change what bits mean: cast, bitcast, quantize, dequantize (semantics sections 5 and 12)."""

from __future__ import annotations

from typing import Final

import numpy as np

from planish.dtypes import DType
from planish.ptir.ops import checking, numerics
from planish.ptir.ops import definition as d
from planish.ptir.ops.checking import dtype_error, shape_error
from planish.ptir.ops.literal import Array
from planish.ptir.types import Quant, TensorType
from planish.records import dataclass


@dataclass(frozen=True, slots=True)
class CastAttrs(d.Attrs):
    """The dtype to convert to."""

    dtype: DType


@dataclass(frozen=True, slots=True)
class BitcastAttrs(d.Attrs):
    """The dtype to read the bits as."""

    dtype: DType


@dataclass(frozen=True, slots=True)
class QuantizeAttrs(d.Attrs):
    """The storage dtype and what its integers stand for."""

    dtype: DType
    quant: Quant


@dataclass(frozen=True, slots=True)
class DequantizeAttrs(d.Attrs):
    """What the operand's integers stand for; equal to the `quant` of its type."""

    quant: Quant


# --- cast and bitcast -------------------------------------------------------------------------------------


@d.op(
    d.OpKey.CAST,
    evaluate=lambda arrays, attrs, types: (numerics.convert(arrays[0], attrs.dtype),),
    elementwise=True,
)
def cast(types: d.Types, attrs: CastAttrs, regions: d.Regions) -> d.ResultTypes:
    """The nearest value of another dtype; floats saturate to integers, integers wrap."""
    operand = types[0]
    checking.need_dtype("cast", operand, checking.ROUNDED)
    if attrs.dtype not in checking.ROUNDED:
        dtype_error("cast", f"{attrs.dtype.short} is not a tensor dtype")
    if operand.dtype.is_complex and not (attrs.dtype.is_complex or attrs.dtype.is_bool):
        dtype_error("cast", f"{operand} cannot become {attrs.dtype.short}", "take real() or imag() first")
    return (TensorType(attrs.dtype, operand.dims),)


def _to_bytes(array: Array) -> Array:
    """Little-endian bytes (nibbles for four-bit integers) along a new last axis."""
    bits = numerics.bits_of(array) if numerics.dtype_of(array).bits == 4 else np.ascontiguousarray(array)
    little = bits.astype(bits.dtype.newbyteorder("<"), copy=False)
    return little.reshape(*array.shape, 1).view(np.uint8)


def _evaluate_bitcast(arrays: d.Arrays, attrs: BitcastAttrs, types: d.Types) -> d.Results:
    source, target = numerics.dtype_of(arrays[0]), attrs.dtype
    shape = types[0].shape
    if arrays[0].size == 0:
        return (np.empty(shape, target.numpy),)
    raw = _to_bytes(arrays[0])
    if source.bits == 4 and target.bits > 4:
        pairs = raw.reshape(-1, 2)
        raw = pairs[:, 0] | (pairs[:, 1] << np.uint8(4))
    if target.bits == 4:
        nibbles = (
            raw.reshape(-1, 1)
            if source.bits == 4
            else np.stack([raw.reshape(-1) & 15, raw.reshape(-1) >> 4], -1)
        )
        return (numerics.from_bits(nibbles.reshape(shape), target),)
    return (np.ascontiguousarray(raw).reshape(-1).view(target.numpy).reshape(shape),)


@d.op(d.OpKey.BITCAST, evaluate=_evaluate_bitcast)
def bitcast(types: d.Types, attrs: BitcastAttrs, regions: d.Regions) -> d.ResultTypes:
    """The same bits read as another dtype; a trailing axis absorbs a difference in width."""
    operand = types[0]
    source, target = operand.dtype, attrs.dtype
    if target not in checking.NUMBERS or source not in checking.NUMBERS:
        dtype_error("bitcast", f"{source.short} to {target.short}: bools have no fixed bits", "cast to uint8")
    if source.bits == target.bits:
        return (TensorType(target, operand.dims),)
    if source.bits > target.bits:
        return (TensorType(target, (*operand.dims, source.bits // target.bits)),)
    ratio = target.bits // source.bits
    if not operand.dims or operand.dims[-1] != ratio:
        shape_error(
            "bitcast",
            f"{operand} does not end in an axis of {ratio}, the number of {source.short} in one {target.short}",
        )
    return (TensorType(target, operand.dims[:-1]),)


# --- quantisation -----------------------------------------------------------------------------------------

_STORAGE: Final[checking.DTypeSet] = frozenset(d for d in checking.INTS if d.bits <= 32)


def _check_quant(op: str, storage: DType, quant: Quant, shape: TensorType) -> None:
    if storage not in _STORAGE:
        dtype_error(op, f"integers of dtype {storage.short} cannot be quantised values", "use 4 to 32 bits")
    if quant.expressed not in checking.FLOATS:
        dtype_error(op, f"quantised values cannot stand for {quant.expressed.short}", "use a float dtype")
    count = 1
    if quant.axis is not None:
        checking.need_axis(op, quant.axis, shape.rank)
        size = shape.dims[quant.axis]
        if not isinstance(size, int):
            shape_error(op, f"the scale axis {quant.axis} of {shape} has a dynamic size")
        count = size
    if len(quant.scale) != count or len(quant.zero_point) != count:
        shape_error(
            op, f"{len(quant.scale)} scales and {len(quant.zero_point)} zero points where {count} are needed"
        )
    if not all(0 < scale < float("inf") for scale in quant.scale):
        dtype_error(op, f"scales {quant.scale} are not all positive and finite")
    for zero in quant.zero_point:
        if not int(storage.min or 0) <= zero <= int(storage.max or 0):
            dtype_error(op, f"zero point {zero} does not fit {storage.short}")


def _parameters(quant: Quant, rank: int) -> tuple[Array, Array, DType]:
    """Scales and zero points shaped to broadcast, and the dtype arithmetic runs in."""
    dtype = numerics.accumulator(quant.expressed)
    shape = [1] * rank
    if quant.axis is not None:
        shape[quant.axis] = len(quant.scale)
    scale = numerics.convert(np.array(quant.scale, np.float64), dtype)
    zero = np.array(quant.zero_point, np.int64)
    return scale.reshape(shape), zero.reshape(shape), dtype


@numerics.quiet
def _evaluate_quantize(arrays: d.Arrays, attrs: QuantizeAttrs, types: d.Types) -> d.Results:
    scale, zero, dtype = _parameters(attrs.quant, arrays[0].ndim)
    steps = np.rint(numerics.convert(arrays[0], dtype) / scale).astype(np.float64)
    # In float64 the sum with a 32-bit zero point is exact wherever it is not clamped anyway.
    shifted = np.where(np.isnan(steps), 0.0, steps) + zero
    return (numerics.convert(shifted, attrs.dtype),)


@d.op(d.OpKey.QUANTIZE, evaluate=_evaluate_quantize, foldable=False, way=d.Way.COMPOSITE)
def quantize(types: d.Types, attrs: QuantizeAttrs, regions: d.Regions) -> d.ResultTypes:
    """round(x / scale) + zero_point, half to even, saturating."""
    operand = types[0]
    checking.need_dtype("quantize", operand, checking.FLOATS)
    if operand.dtype is not attrs.quant.expressed:
        dtype_error(
            "quantize",
            f"{operand} is not of the expressed dtype {attrs.quant.expressed.short}",
            "cast it first",
        )
    _check_quant("quantize", attrs.dtype, attrs.quant, operand)
    return (TensorType(attrs.dtype, operand.dims, attrs.quant),)


@numerics.quiet
def _evaluate_dequantize(arrays: d.Arrays, attrs: DequantizeAttrs, types: d.Types) -> d.Results:
    scale, zero, dtype = _parameters(attrs.quant, arrays[0].ndim)
    steps = numerics.convert(arrays[0].astype(np.int64) - zero, dtype)
    return (numerics.convert(steps * scale, attrs.quant.expressed),)


@d.op(d.OpKey.DEQUANTIZE, evaluate=_evaluate_dequantize, way=d.Way.COMPOSITE)
def dequantize(types: d.Types, attrs: DequantizeAttrs, regions: d.Regions) -> d.ResultTypes:
    """(q - zero_point) * scale."""
    operand = types[0]
    if operand.quant != attrs.quant:
        dtype_error("dequantize", f"{operand} is not quantised as {attrs.quant}")
    _check_quant("dequantize", operand.dtype, attrs.quant, operand)
    return (TensorType(attrs.quant.expressed, operand.dims),)
