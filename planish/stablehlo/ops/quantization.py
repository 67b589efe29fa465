"""Integers that stand for reals: quantised tensors."""

from __future__ import annotations

from planish.ptir.graph_value import GraphValue as V
from planish.ptir.types import Quant
from planish.stablehlo.registry import lowering
from planish.stablehlo.site import Site
from planish.stablehlo.syntax import QuantizedElement, Tensor


def quant_of(element: QuantizedElement) -> Quant:
    """The same in PTIR."""
    return Quant(element.expressed, element.scales, element.zero_points, element.axis)


def as_quantized(at: Site, x: V, element: QuantizedElement) -> V:
    """Plain integers: a quantised tensor is its storage here, and its type says what they stand for."""
    if element.storage is not x.dtype:
        at.refuse(f"{x.type} does not hold {element}")
    return x


@lowering("stablehlo.uniform_quantize")
def uniform_quantize(at: Site, x: V) -> V:
    element = at.tensor().element
    if not isinstance(element, QuantizedElement):
        at.refuse("its result is not quantised")
    source = at.op.operands[0].type
    if isinstance(source, Tensor) and isinstance(source.element, QuantizedElement):
        x = _dequantized(x, source.element)
    return quantized(x, element)


def quantized(x: V, element: QuantizedElement) -> V:
    """round(x / scale) + zero point, within the range of the storage."""
    wide = x.quantize(element.storage, element.scales, element.zero_points, element.axis).bitcast(element.storage)
    if element.low is not None and element.high is not None:
        wide = wide.max(element.low).min(element.high)
    return wide


@lowering("stablehlo.uniform_dequantize")
def uniform_dequantize(at: Site, x: V) -> V:
    source = at.op.operands[0].type
    if not isinstance(source, Tensor) or not isinstance(source.element, QuantizedElement):
        at.refuse("its operand is not quantised")
    return _dequantized(x, source.element)


def _dequantized(x: V, element: QuantizedElement) -> V:
    graph = x.graph
    kind = element.expressed
    wide = x.cast(kind)
    if element.axis is None:
        return wide.sub(float(element.zero_points[0])).mul(element.scales[0])
    dims = [1] * x.rank
    dims[element.axis] = len(element.scales)
    import numpy as np

    zeros = graph.constant(np.array(element.zero_points, kind.numpy), kind).reshape(dims).broadcast_to(x.dims)
    scales = graph.constant(np.array(element.scales, kind.numpy), kind).reshape(dims).broadcast_to(x.dims)
    return wide.sub(zeros).mul(scales)
