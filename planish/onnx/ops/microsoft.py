"""Fused and quantised ops of onnxruntime's exports (com.microsoft)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from planish import dtypes
from planish.onnx.ops.activations import swish, wide
from planish.onnx.ops.common import Array, axis_of, ints, scalar, size_of, sizes
from planish.onnx.ops.convolution import convolve, with_bias
from planish.onnx.ops.linear import gemm_product, matmul, scaled
from planish.onnx.ops.pooling import max_pool
from planish.onnx.ops.quantization import (
    dequantize_linear,
    dequantized,
    dynamically,
    laid,
    product_of_bytes,
    qlinear_conv,
    quantize_linear,
    rounded,
)
from planish.onnx.ops.recurrent import Layer, long_short
from planish.onnx.ops.shapes import trilu
from planish.onnx.ops.whole_products import byte_matrix, known_input, point_of, shifted
from planish.onnx.ops.windows import window_of
from planish.onnx.registry import op
from planish.onnx.site import NodeSite
from planish.ptir import ops
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library import activations as act
from planish.ptir.library import normalize, pooling
from planish.ptir.library.normalize import converted
from planish.ptir.library.shaping import broadcast_together

_DOMAIN = "com.microsoft"
_WHOLE = ops.DotAttrs(dtypes.int32, dtypes.int32)


def _added(x: V, bias: V | None) -> V:
    return x if bias is None else x.add(bias.broadcast_to(x.dims))


@op("Gelu", "BiasGelu", domain=_DOMAIN)
def gelu(at: NodeSite, x: V, bias: V | None = None) -> V:
    return wide(act.gelu, _added(x, bias))


@op("FastGelu", domain=_DOMAIN)
def fast_gelu(at: NodeSite, x: V, bias: V | None = None) -> V:
    return wide(lambda v: act.gelu(v, "tanh"), _added(x, bias))


@op("QuickGelu", domain=_DOMAIN)
def quick_gelu(at: NodeSite, x: V) -> V:
    alpha = at.attr("alpha", 1.702)
    return wide(lambda v: swish(v, alpha), x)


@op("BiasAdd", domain=_DOMAIN)
def bias_add(at: NodeSite, x: V, bias: V, skip: V) -> V:
    return _added(x, bias).add(skip)


@op("ExpandDims", domain=_DOMAIN, known=(1,))
def expand_dims(at: NodeSite, x: V, axis: Array) -> V:
    return x.expand_dims(axis_of(at, ints(axis)[0], x.rank + 1))


op("Trilu", domain=_DOMAIN, known=(1,))(trilu)


# -- products with more in them --------------------------------------------------------------------------------------


def _swapped(x: V, last: bool, batch: bool) -> V:
    """The last two axes exchanged; before that, `batch`, the first axis put in front of the last."""
    axes = list(range(x.rank))
    if batch:
        axes = [*axes[1:-1], 0, axes[-1]]
    if last:
        axes[-1], axes[-2] = axes[-2], axes[-1]
    return x if axes == sorted(axes) else x.transpose(axes)


@op("FusedMatMul", "TransposeMatMul", domain=_DOMAIN)
def fused_matmul(at: NodeSite, a: V, b: V) -> V:
    flags = [bool(at.attr(name, 0)) for name in ("transA", "transBatchA", "transB", "transBatchB")]
    alpha = at.attr("alpha", 1.0)
    return scaled(matmul(_swapped(a, *flags[:2]), _swapped(b, *flags[2:])), alpha)


_ACTIVATIONS: dict[str, Callable[[V, list[float]], V]] = {
    "Relu": lambda x, p: x.max(0),
    "Sigmoid": lambda x, p: x.sigmoid(),
    "Tanh": lambda x, p: x.tanh(),
    "LeakyRelu": lambda x, p: act.leaky_relu(x, *(p[:1] or [0.01])),
    "Clip": lambda x, p: x.clamp(p[0], p[1]),
    "HardSigmoid": lambda x, p: act.hard_sigmoid(x, *(p[:2] or [0.2, 0.5])),
    "Elu": lambda x, p: act.elu(x, *(p[:1] or [1.0])),
    "Softplus": lambda x, p: act.softplus(x),
    "HardSwish": lambda x, p: act.hard_swish(x),
    "Gelu": lambda x, p: act.gelu(x),
}


def activated(at: NodeSite, x: V, parameters: list[float]) -> V:
    name = at.attr("activation", "")
    if not name:
        return x
    function = _ACTIVATIONS.get(name)
    if function is None:
        raise at.refuse(f"there is no activation {name!r}")
    return function(x, parameters)


@op("FusedGemm", domain=_DOMAIN)
def fused_gemm(at: NodeSite, a: V, b: V, c: V | None = None) -> V:
    result = scaled(gemm_product(at, a, b), at.attr("alpha", 1.0))
    beta = at.attr("beta", 1.0)
    given = [at.attr(f"activation_{name}") for name in ("alpha", "beta", "gamma")]
    result = result if c is None else result.add(scaled(c, beta).broadcast_to(result.dims))
    return activated(at, result, [g for g in given if g is not None])


@op("FusedConv", domain=_DOMAIN)
def fused_conv(at: NodeSite, x: V, kernel: V, bias: V | None = None, more: V | None = None) -> V:
    window = window_of(at, x, sizes(at, kernel, 2))
    result = with_bias(convolve(x, kernel, window, at.attr("group", 1)), bias)
    result = result if more is None else result.add(more)
    return activated(at, result, list(at.attr("activation_params") or []))


@op("MatMulNBits", domain=_DOMAIN)
def matmul_nbits(
    at: NodeSite,
    a: V,
    b: V,
    scales: V,
    zeros: V | None = None,
    groups: V | None = None,
    bias: V | None = None,
) -> V:
    """A product with weights (N, K) of few bits, in blocks along K that share a scale and a zero point.

    They are widened to the dtype of what they are multiplied with, as the operator says; sums are float32.
    """
    depth, width = at.attributes.require("K"), at.attributes.require("N")
    bits, block = at.attr("bits", 4), at.attributes.require("block_size")
    at.attr("accuracy_level")
    at.attr("weight_prepacked")
    if groups is not None or bits not in (2, 4, 8):
        raise at.refuse(f"{bits} bits, or blocks in an order of their own")
    blocks = -(-depth // block)
    within = a.dtype if a.dtype in _HALVES else dtypes.float32
    weights = _unpacked(b.reshape((width, blocks * size_of(at, b, 2))), bits).cast(within)
    shape = (width, blocks, block)
    weights = weights.reshape(shape)
    if zeros is None:
        weights = weights.sub(float(1 << (bits - 1)))
    else:
        if zeros.dtype is dtypes.uint8:
            per_row = zeros.reshape((width, int(np.prod(sizes(at, zeros))) // width))
            points = _unpacked(per_row, bits).slice([0, 0], [width, blocks])
        else:
            points = zeros.reshape((width, blocks))
        weights = weights.sub(converted(points, within).expand_dims(2).broadcast_to(shape))
    factors = converted(scales, within).reshape((width, blocks, 1))
    weights = weights.mul(factors.broadcast_to(shape)).reshape((width, blocks * block))
    weights = weights.slice([0, 0], [width, depth])
    result = converted(a, within).dot_general(weights, ops.DotDims((), (a.rank - 1,), (1,)))
    return _added(converted(result, a.dtype), bias)


_HALVES: Final = frozenset({dtypes.float16, dtypes.bfloat16})


def _unpacked(x: V, bits: int) -> V:
    """Bytes as numbers of fewer bits, the low ones first, along the last axis."""
    if bits == 8:
        return x
    parts = 8 // bits
    mask = (1 << bits) - 1
    pieces = [x.shr_logical(n * bits).and_(mask).expand_dims(x.rank) for n in range(parts)]
    joined = pieces[0].concat(pieces[1:], x.rank)
    return joined.reshape((*x.dims[:-1], x.dims[-1] * parts))


@op("MatMulIntegerToFloat", domain=_DOMAIN)
def matmul_integer_to_float(
    at: NodeSite,
    a: V,
    b: V,
    a_scale: V,
    b_scale: V,
    a_zero: V | None = None,
    b_zero: V | None = None,
    bias: V | None = None,
) -> V:
    points = point_of(at, 4, a_zero), point_of(at, 5, b_zero)
    whole = product_of_bytes(at, a, points[0], (b, 1), (points[1], 5)).cast(a_scale.dtype)
    result = whole.mul(laid(at, a_scale, whole, -2, 0)).mul(laid(at, b_scale, whole, -1, 0))
    return _added(result, bias)


@op("DynamicQuantizeMatMul", domain=_DOMAIN)
def dynamic_quantize_matmul(
    at: NodeSite, a: V, b: V, b_scale: V, b_zero: V | None = None, bias: V | None = None
) -> V:
    whole, scale, zero = dynamically(a, dtypes.uint8)
    product = product_of_bytes(at, whole, zero, (b, 1), (point_of(at, 3, b_zero), 3)).cast(a.dtype)
    result = product.mul(scale.broadcast_to(product.dims)).mul(laid(at, b_scale, product, -1, 0))
    return _added(result, bias)


@op("DynamicQuantizeLSTM", domain=_DOMAIN)
def dynamic_quantize_lstm(
    at: NodeSite,
    x: V,
    w: V,
    r: V,
    b: V | None,
    lengths: V | None,
    h: V | None,
    c: V | None,
    p: V | None,
    w_scale: V,
    w_zero: V,
    r_scale: V,
    r_zero: V,
) -> tuple[V, ...]:
    """Weights are (directions, in, 4·hidden); the whole input, and the state in every step, become bytes of their own range."""

    def times(layer: Layer, n: int, position: int, weight: V, scale: V, zero: V) -> Callable[[V], V]:
        unit, point = (
            scalar(value) if value.type.size == 1 else layer.part(value, n) for value in (scale, zero)
        )
        # the state of a single sample is a row alone, in every step
        all_known = known_input(at, position), known_input(at, {1: 9, 2: 11}[position])
        own = [
            None if known is None else np.asarray(known[n if known.shape[0] > 1 else 0])
            for known in all_known
        ]
        matrix = None if own[1] is None else byte_matrix(at, own[0], own[1], turned=position == 2)

        def product(value: V) -> V:
            steps, own_unit, own_point = dynamically(value, dtypes.uint8)
            if matrix is None:
                left, right = shifted(steps, own_point, -2), shifted(layer.part(weight, n), point, -1)
                sums = matmul(left, right, _WHOLE)
            else:
                sums = matrix.less_zero_points(matmul(steps, matrix.stored, _WHOLE), steps, own_point)
            wide = sums.cast(value.dtype)
            return wide.mul(unit.mul(own_unit.broadcast_to(unit.dims)).broadcast_to(wide.dims))

        return product

    def weights(layer: Layer, n: int) -> tuple[Callable[[V], V], Callable[[V], V]]:
        return times(layer, n, 1, w, w_scale, w_zero), times(layer, n, 2, r, r_scale, r_zero)

    return long_short(Layer(at, x, r.transpose((0, 2, 1)), lengths, b, 4), weights, h, c, p)


# -- quantised everything --------------------------------------------------------------------------------------------

op("QuantizeLinear", domain=_DOMAIN)(quantize_linear)
op("DequantizeLinear", domain=_DOMAIN)(dequantize_linear)


@op("QLinearConv", domain=_DOMAIN)
def qlinear_conv_(at: NodeSite, *values: V | None) -> V:
    x, *others = values
    if not at.attr("channels_last", 0) or x is None:
        plain: V = qlinear_conv(at, *values)
        return plain
    return _channels_last(qlinear_conv(at, _channels_first(x), *others))


def _channels_first(x: V) -> V:
    return x.transpose([0, x.rank - 1, *range(1, x.rank - 1)])


def _channels_last(x: V) -> V:
    return x.transpose([0, *range(2, x.rank), 1])


@op("NhwcMaxPool", domain=_DOMAIN)
def nhwc_max_pool(at: NodeSite, x: V) -> V:
    return _channels_last(max_pool(at, _channels_first(x)))


@op("NhwcConv", "NhwcFusedConv", domain=_DOMAIN)
def nhwc_conv(at: NodeSite, x: V, kernel: V, bias: V | None = None, more: V | None = None) -> V:
    others = None if more is None else _channels_first(more)
    return _channels_last(fused_conv(at, _channels_first(x), _channels_first(kernel), bias, others))


def _again(x: V, scale: V, zero: V | None, like: V) -> V:
    """Numbers as integers again."""
    dtype = like.dtype if zero is None else zero.dtype
    steps = x.div(scalar(scale).broadcast_to(x.dims))
    return rounded(steps, None if zero is None else scalar(zero).broadcast_to(x.dims), dtype)


def _pairwise(name: str, function: Callable[[V, V], V]) -> None:
    def handler(
        at: NodeSite,
        a: V,
        a_scale: V,
        a_zero: V | None,
        b: V,
        b_scale: V,
        b_zero: V | None,
        scale: V,
        zero: V | None = None,
    ) -> V:
        left, right = broadcast_together(
            dequantized(at, a, a_scale, a_zero), dequantized(at, b, b_scale, b_zero)
        )
        return _again(function(left, right), scale, zero, a)

    op(name, domain=_DOMAIN)(handler)


_pairwise("QLinearAdd", V.add)
_pairwise("QLinearMul", V.mul)


def _single(name: str, function: Callable[[NodeSite, V], V]) -> None:
    def handler(at: NodeSite, x: V, x_scale: V, x_zero: V | None, scale: V, zero: V | None = None) -> V:
        return _again(function(at, dequantized(at, x, x_scale, x_zero)), scale, zero, x)

    op(name, domain=_DOMAIN)(handler)


def _softmax(at: NodeSite, x: V) -> V:
    axis = axis_of(at, at.attr("axis", -1), x.rank)
    if at.attributes.require("opset") < 13 and axis != x.rank - 1:
        raise at.refuse("several axes at once")
    return normalize.softmax(x, axis)


def _global_average(at: NodeSite, x: V) -> V:
    if at.attr("channels_last", 0):
        return normalize.mean(x, list(range(1, x.rank - 1)), True)
    return pooling.global_average_pool(x)


def _average(at: NodeSite, x: V) -> V:
    if at.attr("ceil_mode", 0):
        raise at.refuse("sizes rounded up")
    if at.attr("channels_last", 0):
        return _channels_last(_averaged(at, _channels_first(x)))
    return _averaged(at, x)


def _averaged(at: NodeSite, x: V) -> V:
    window = window_of(at, x)
    counted = bool(at.attr("count_include_pad", 0))
    return pooling.average_pool(
        x, window.shape, window.strides, window.padding, window.dilations, False, counted
    )


def _reduced(at: NodeSite, x: V) -> V:
    axes = at.attr("axes")
    chosen = [a % x.rank for a in axes] if axes else list(range(x.rank))
    return normalize.mean(x, chosen, bool(at.attr("keepdims", 1)))


_single("QLinearSigmoid", lambda at, x: x.sigmoid())
_single("QLinearLeakyRelu", lambda at, x: act.leaky_relu(x, at.attr("alpha", 0.01)))
_single("QLinearSoftmax", _softmax)
_single("QLinearGlobalAveragePool", _global_average)
_single("QLinearAveragePool", _average)
_single("QLinearReduceMean", _reduced)


@op("QLinearConcat", domain=_DOMAIN)
def qlinear_concat(at: NodeSite, scale: V, zero: V, *parts: V) -> V:
    values = [dequantized(at, parts[n], parts[n + 1], parts[n + 2]) for n in range(0, len(parts), 3)]
    joined = at.graph.concat(values, axis_of(at, at.attributes.require("axis"), values[0].rank))
    return _again(joined, scale, zero, parts[0])


@op("QLinearWhere", domain=_DOMAIN)
def qlinear_where(
    at: NodeSite, condition: V, x: V, x_scale: V, x_zero: V, y: V, y_scale: V, y_zero: V, scale: V, zero: V
) -> V:
    left, right = dequantized(at, x, x_scale, x_zero), dequantized(at, y, y_scale, y_zero)
    chosen, a, b = broadcast_together(condition, left, right)
    return _again(chosen.select(a, b), scale, zero, x)


@op("QGemm", domain=_DOMAIN)
def qgemm(
    at: NodeSite,
    a: V,
    a_scale: V,
    a_zero: V,
    b: V,
    b_scale: V,
    b_zero: V,
    c: V | None = None,
    scale: V | None = None,
    zero: V | None = None,
) -> V:
    turned_a, turned_b = bool(at.attr("transA", 0)), bool(at.attr("transB", 0))
    left, right = shifted(a, a_zero, -2), shifted(b, b_zero, 0 if turned_b else -1)
    whole = matmul(_swapped(left, turned_a, False), _swapped(right, turned_b, False), _WHOLE)
    if c is not None:
        whole = whole.add(c.broadcast_to(whole.dims))
    numbers = whole.cast(a_scale.dtype)
    factor = laid(at, a_scale, whole, -2, 0).mul(laid(at, b_scale, whole, -1, 0)).mul(at.attr("alpha", 1.0))
    result = numbers.mul(factor)
    return result if scale is None else _again(result, scale, zero, a)
