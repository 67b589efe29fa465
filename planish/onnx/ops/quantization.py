"""Quantised numbers: QuantizeLinear and its kin, products and convolutions of integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from planish import dtypes
from planish.dtypes import DType
from planish.onnx.ops.byte_convolutions import convolve_bytes
from planish.onnx.ops.casting import convert, convert_array
from planish.onnx.ops.common import Array, Tensor, axis_of, is_device, is_host, numpy_kind, scalar, sizes
from planish.onnx.ops.convolution import convolve
from planish.onnx.ops.linear import matmul
from planish.onnx.ops.whole_products import WHOLE, byte_matrix, known_input, point_of, remember, shifted
from planish.onnx.ops.windows import window_of
from planish.onnx.registry import op
from planish.onnx.site import NodeSite
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library.common import along
from planish.ptir.library.normalize import converted, widened
from planish.ptir.library.shaping import repeat


def laid(at: NodeSite, value: V, x: V, axis: int, block: int) -> V:
    """A scale or zero point for every element of x: one in all, one per index of an axis, or one per block along it."""
    if value.type.size == 1:
        return scalar(value).broadcast_to(x.dims)
    axis = axis_of(at, axis, x.rank)
    if value.rank == 1 and not block:
        return along(value, x.dims, axis)
    if not block:
        raise at.refuse(f"a scale of {value.type} for {x.type} needs a block size")
    every = repeat(value, block, axis)
    limits = list(every.dims)
    limits[axis] = x.dims[axis]
    return every if every.dims == x.dims else every.slice([0] * x.rank, limits)


def laid_array(at: NodeSite, value: Array, x: Array, axis: int, block: int) -> Array:
    """The same on the host."""
    if value.size == 1:
        return value.reshape(())
    axis = axis_of(at, axis, x.ndim)
    if not block:
        return value.reshape([-1 if n == axis else 1 for n in range(x.ndim)])
    return np.take(np.repeat(value, block, axis), range(x.shape[axis]), axis)


def rounded(x: V, zero: V | None, dtype: DType) -> V:
    """Steps to integers of a storage dtype, half to even, clamped."""
    return stored(_whole(x), zero, dtype)


def _whole(x: V) -> V:
    return x.round() if x.dtype.bits >= 32 else x.round().cast(dtypes.float32)


def within(steps: V, zero: V | None, dtype: DType) -> V:
    """Whole steps, as floats, that fit into a storage dtype once the zero point is added."""
    low, high = float(dtype.min or 0), float(dtype.max or 0)
    if zero is None:
        return steps.clamp(low, high)
    point = zero.cast(steps.dtype)
    return steps.max(point.neg().add(low)).min(point.neg().add(high))


def stored(steps: V, zero: V | None, dtype: DType) -> V:
    """Whole steps with the zero point, as integers of a storage dtype, clamped.

    Integers are clamped by one instruction, floats by more: what is no number stays that, and is 0 as an integer.
    """
    low, high = int(dtype.min or 0), int(dtype.max or 0)
    whole = steps.cast(dtypes.int32)
    if zero is None:
        return whole.clamp(low, high).cast(dtype)
    point = zero.cast(dtypes.int32)
    return whole.max(point.neg().add(low)).min(point.neg().add(high)).add(point).cast(dtype)


def _output_kind(at: NodeSite, given: Sequence[Any]) -> np.dtype[Any]:
    zero = given[2] if len(given) > 2 else None
    if zero is not None:
        return np.dtype(zero.dtype.numpy if isinstance(zero, V) else zero.dtype)
    to = at.attr("output_dtype", 0)
    return numpy_kind(at, to) if to else np.dtype(np.uint8)


def _host_quantize(at: NodeSite, given: Sequence[Any]) -> list[int]:
    everything = any(map(is_host, given)) or not is_device(_output_kind(at, given))
    return list(range(len(given))) if everything else []


@op("QuantizeLinear", known=_host_quantize)
def quantize_linear(at: NodeSite, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    target = _output_kind(at, [x, scale, zero])
    axis, block = at.attr("axis", 1), at.attr("block_size", 0)
    saturate, precision = bool(at.attr("saturate", 1)), at.attr("precision", 0)
    at.attr("output_dtype")
    if isinstance(x, np.ndarray) and isinstance(scale, np.ndarray):
        given = zero if isinstance(zero, np.ndarray) else None
        return _quantize_array(at, x, scale, given, target, (axis, block, saturate))
    if not isinstance(x, V) or not isinstance(scale, V) or isinstance(zero, np.ndarray):
        raise at.refuse("mixes data with values")
    wider = x.dtype if x.dtype.is_float and x.dtype.bits > scale.dtype.bits else scale.dtype
    computed = dtypes.from_numpy(numpy_kind(at, precision)) if precision else wider
    wide = converted(x, computed)
    steps = wide.div(laid(at, converted(scale, computed), x, axis, block))
    dtype = dtypes.from_numpy(target)
    if dtype.is_float:
        return convert(steps, dtype, saturate)
    points = None if zero is None else laid(at, zero, x, axis, block)
    whole = _whole(steps)
    result = stored(whole, points, dtype)
    at.engine.steps[result.id] = (result, within(whole, points, dtype), _zero_of(at), axis, block)
    return result


def _zero_of(at: NodeSite) -> Any:
    """What the node is given as zero point, an array if it is known."""
    return at.scope.find(at.node.input[2]) if len(at.node.input) > 2 and at.node.input[2] else None


def _steps_of(at: NodeSite, x: V, axis: int, block: int) -> V | None:
    """The whole steps that a value was made of, if a node quantised it around the zero point of this one."""
    kept = at.engine.steps.get(x.id)
    if kept is None or kept[0] is not x:
        return None
    steps: V = kept[1]
    zero, layout = kept[2], [*kept[3:]]
    mine = _zero_of(at)
    same = (
        np.array_equal(zero, mine)
        if isinstance(zero, np.ndarray) and isinstance(mine, np.ndarray)
        else zero is mine
    )
    scalars = zero is None or (isinstance(zero, np.ndarray) and zero.size == 1)
    return steps if same and (scalars or layout == [axis, block]) else None


def _quantize_array(
    at: NodeSite,
    x: Array,
    scale: Array,
    zero: Array | None,
    target: np.dtype[Any],
    how: tuple[int, int, bool],
) -> Array:
    axis, block, saturate = how
    steps = x.astype(np.float32) / laid_array(at, scale, x, axis, block).astype(np.float32)
    if np.issubdtype(target, np.integer) or target.name in ("int2", "uint2", "int4", "uint4"):
        shift = 0 if zero is None else laid_array(at, zero, x, axis, block).astype(np.int32)
        bits = int(target.name.lstrip("uint"))
        low, high = (0, (1 << bits) - 1) if target.name[0] == "u" else (-(1 << bits - 1), (1 << bits - 1) - 1)
        whole = np.clip(np.rint(steps), -(2**30), 2**30).astype(np.int32)
        return np.asarray(np.clip(whole + shift, low, high)).astype(target)
    if zero is not None and target.name.startswith(("float4", "float6")):
        steps = steps + laid_array(at, zero, x, axis, block).astype(np.float32)
    return convert_array(steps, target, saturate)


def _host_dequantize(at: NodeSite, given: Sequence[Any]) -> list[int]:
    return list(range(len(given))) if any(map(is_host, given)) else []


@op("DequantizeLinear", known=_host_dequantize)
def dequantize_linear(at: NodeSite, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    axis, block, to = at.attr("axis", 1), at.attr("block_size", 0), at.attr("output_dtype", 0)
    if isinstance(x, np.ndarray) and isinstance(scale, np.ndarray):
        steps = x.astype(np.float32)
        if isinstance(zero, np.ndarray):
            steps = steps - laid_array(at, zero, x, axis, block).astype(np.float32)
        factors = laid_array(at, scale, x, axis, block).astype(np.float32)
        return np.asarray(steps * factors).astype(numpy_kind(at, to) if to else scale.dtype)
    if not isinstance(x, V) or not isinstance(scale, V) or isinstance(zero, np.ndarray):
        raise at.refuse("mixes data with values")
    target = dtypes.from_numpy(numpy_kind(at, to)) if to else scale.dtype
    whole, unit = _steps_of(at, x, axis, block), widened(scale)
    if whole is not None and whole.dtype is unit.dtype:
        value = converted(whole.mul(laid(at, unit, x, axis, block)), target)
    else:
        value = converted(dequantized(at, x, scale, zero, axis, block), target)
    return value if block else remember(at, value, x, unit, zero, axis)


def dequantized(at: NodeSite, x: V, scale: V, zero: V | None, axis: int = 1, block: int = 0) -> V:
    """(x - zero) · scale in float32 or wider."""
    factors = widened(scale)
    if x.dtype.is_float:
        wide = converted(x, factors.dtype)
    elif zero is None:
        wide = x.cast(factors.dtype)
    else:
        exact = dtypes.int32 if x.dtype.bits <= 32 else dtypes.int64
        shift = converted(laid(at, zero, x, axis, block), exact)
        wide = converted(x, exact).sub(shift).cast(factors.dtype)
    return wide.mul(laid(at, factors, x, axis, block))


@op("DynamicQuantizeLinear")
def dynamic_quantize_linear(at: NodeSite, x: V) -> tuple[V, V, V]:
    quantized, scale, zero = dynamically(x, dtypes.uint8)
    return quantized, scale, zero


def dynamically(x: V, dtype: DType) -> tuple[V, V, V]:
    """x as integers that span its own range, 0 included; with the scale and the zero point."""
    low, high = int(dtype.min or 0), int(dtype.max or 0)
    top, bottom = x.reduce_max().max(0.0), x.reduce_min().min(0.0)
    same = top.eq(bottom)
    span = same.select(x.graph.full((), 1.0, x.dtype), top.sub(bottom))
    scale = span.div(float(high - low))
    zero = bottom.div(scale).neg().add(float(low)).clamp(float(low), float(high)).round()
    steps = x.div(scale.broadcast_to(x.dims)).round().add(zero.broadcast_to(x.dims))
    return steps.clamp(float(low), float(high)).cast(dtype), scale, zero.cast(dtype)


# -- products of integers --------------------------------------------------------------------------------------------


@op("MatMulInteger")
def matmul_integer(at: NodeSite, a: V, b: V, a_zero: V | None = None, b_zero: V | None = None) -> V:
    return product_of_bytes(at, a, point_of(at, 2, a_zero), (b, 1), (point_of(at, 3, b_zero), 3))


def product_of_bytes(
    at: NodeSite, a: V, a_zero: V | None, b: tuple[V, int], b_zero: tuple[V | None, int]
) -> V:
    """A product of bytes less their zero points, exactly; the right operand with the positions that the node has it at."""
    right, position = b
    points, points_at = b_zero
    matrix = None
    if a.rank > 1 and a.dtype.bits == 8 and (a_zero is None or a_zero.type.size == 1):
        known = known_input(at, position), known_input(at, points_at)
        matrix = byte_matrix(at, known[0], known[1]) if points is None or known[1] is not None else None
    if matrix is None:
        rows = -1 if a.rank == 1 else -2
        return matmul(shifted(a, a_zero, rows), shifted(right, points, -1), WHOLE)
    return matrix.less_zero_points(matmul(a, matrix.stored, WHOLE), a, a_zero)


def convolve_integers(at: NodeSite, x: V, x_zero: V | None, w: V, w_zero: V | None, position: int) -> V:
    """A convolution of bytes less their zero points, exactly; `position` is where the node has its kernel.

    Where the kernel is known, and so small that no sum can leave the integers that float32 has, floats compute it.
    """
    window, groups = window_of(at, x, sizes(at, w, 2)), at.attr("group", 1)
    points = known_input(at, position + 2)
    if groups == 1 and (points is not None or w_zero is None):
        whole = convolve_bytes(at, x, x_zero, known_input(at, position), points, window)
        if whole is not None:
            return whole
    kernel = _exact_in_float(at, position)
    if kernel is not None:
        total = convolve(shifted(x, x_zero, 1, dtypes.float32), at.value(kernel), window, groups)
        return total.cast(dtypes.int32)
    return convolve(
        shifted(x, x_zero, 1, dtypes.int32), shifted(w, w_zero, 0, dtypes.int32), window, groups, WHOLE
    )


def _exact_in_float(at: NodeSite, position: int) -> Array | None:
    """The kernel less its zero point as floats, if sums of products with bytes stay below 2**24."""
    names = at.node.input
    zero_at = position + 2
    kernel = at.scope.find(names[position])
    zero = at.scope.find(names[zero_at]) if len(names) > zero_at and names[zero_at] else np.zeros((), np.int8)
    if not isinstance(kernel, np.ndarray) or not isinstance(zero, np.ndarray) or at.engine.varies(kernel):
        return None
    points = zero.astype(np.float32).reshape([-1, *[1] * (kernel.ndim - 1)])
    whole = np.asarray(kernel.astype(np.float32) - points)
    most = np.abs(whole).sum(tuple(range(1, kernel.ndim)), dtype=np.float64).max(initial=0.0)
    return whole if most * 255 < 1 << 24 else None


@op("ConvInteger")
def conv_integer(at: NodeSite, x: V, w: V, x_zero: V | None = None, w_zero: V | None = None) -> V:
    return convolve_integers(at, x, x_zero, w, w_zero, 1)


def _requantized(x: V, factor: V, zero: V, dtype: DType) -> V:
    steps = x.cast(factor.dtype).mul(factor)
    point = zero.cast(factor.dtype).broadcast_to(x.dims)
    low, high = float(dtype.min or 0), float(dtype.max or 0)
    return steps.add(point).round().clamp(low, high).cast(dtype)


@op("QLinearMatMul")
def qlinear_matmul(
    at: NodeSite, a: V, a_scale: V, a_zero: V, b: V, b_scale: V, b_zero: V, y_scale: V, y_zero: V
) -> V:
    rows = -1 if a.rank == 1 else -2
    product = matmul(
        shifted(a, point_of(at, 2, a_zero), rows), shifted(b, point_of(at, 5, b_zero), -1), WHOLE
    )
    left = _factor(a_scale, product, -2)
    right = _factor(b_scale, product, -1)
    factor = left.mul(right).div(_factor(y_scale, product, -1))
    return _requantized(product, factor, scalar(y_zero), y_zero.dtype)


def _factor(scale: V, like: V, axis: int) -> V:
    """A scale for every element, in float32 at least."""
    wide = widened(scale)
    if wide.type.size == 1:
        return scalar(wide).broadcast_to(like.dims)
    return along(wide, like.dims, axis % like.rank) if wide.rank == 1 else wide.broadcast_to(like.dims)


@op("QLinearConv")
def qlinear_conv(
    at: NodeSite,
    x: V,
    x_scale: V,
    x_zero: V,
    w: V,
    w_scale: V,
    w_zero: V,
    y_scale: V,
    y_zero: V,
    bias: V | None = None,
) -> V:
    total = convolve_integers(at, x, x_zero, w, w_zero, 3)
    if bias is not None:
        total = total.add(along(bias, total.dims, 1))
    factor = _factor(x_scale, total, 1).mul(_factor(w_scale, total, 1)).div(_factor(y_scale, total, 1))
    return _requantized(total, factor, scalar(y_zero), y_zero.dtype)
