"""Integers that stand for reals. A quantised tensor is its integers here; what they stand for, its type says."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from planish.ptir.graph_value import GraphValue as V
from planish.stablehlo.registry import lowering
from planish.stablehlo.site import Site
from planish.stablehlo.syntax import HloTensorType, HloValue, Operation, QuantizedElement

_AS_THEY_ARE: Final = frozenset([
    "func.call", "func.return", "stablehlo.return", "stablehlo.constant", "stablehlo.uniform_quantize",
    "stablehlo.uniform_dequantize", "stablehlo.bitcast_convert", "stablehlo.broadcast_in_dim", "stablehlo.case",
    "stablehlo.concatenate", "stablehlo.custom_call", "stablehlo.dynamic_slice",
    "stablehlo.dynamic_update_slice", "stablehlo.gather", "stablehlo.get_tuple_element", "stablehlo.if",
    "stablehlo.optimization_barrier", "stablehlo.pad", "stablehlo.reshape", "stablehlo.reverse",
    "stablehlo.select", "stablehlo.slice", "stablehlo.transpose", "stablehlo.tuple", "stablehlo.while",
    "check.expect_eq", "check.expect_eq_const",
])  # fmt: skip
"""Operations that move integers, whatever these stand for."""


def element_of(value: HloValue) -> QuantizedElement | None:
    """How a value is quantised."""
    type = value.type
    return (
        type.element
        if isinstance(type, HloTensorType) and isinstance(type.element, QuantizedElement)
        else None
    )


def is_computed(op: Operation) -> bool:
    """Whether an operation computes with what quantised operands or results stand for."""
    return op.name not in _AS_THEY_ARE and any(element_of(v) is not None for v in (*op.operands, *op.results))


def expressed(op: Operation) -> Operation:
    """The same operation on the numbers that are meant."""

    def plain(value: HloValue) -> HloValue:
        element = element_of(value)
        if element is None or not isinstance(value.type, HloTensorType):
            return value
        return HloValue(value.name, HloTensorType(value.type.dims, element.expressed, value.type.bounds))

    return replace(op, operands=[plain(v) for v in op.operands], results=[plain(v) for v in op.results])


@lowering("stablehlo.uniform_quantize")
def uniform_quantize(at: Site, x: V) -> V:
    element = at.tensor().element
    if not isinstance(element, QuantizedElement):
        at.refuse("its result is not quantised")
    source = at.op.operands[0].type
    if isinstance(source, HloTensorType) and isinstance(source.element, QuantizedElement):
        x = dequantized(x, source.element)
    return quantized(x, element)


def quantized(x: V, element: QuantizedElement) -> V:
    """round(x / scale) + zero point, within the range of the storage."""
    wide = x.quantize(element.storage, element.scales, element.zero_points, element.axis).bitcast(
        element.storage
    )
    if element.low is not None and element.high is not None:
        wide = wide.max(element.low).min(element.high)
    return wide


@lowering("stablehlo.uniform_dequantize")
def uniform_dequantize(at: Site, x: V) -> V:
    source = at.op.operands[0].type
    if not isinstance(source, HloTensorType) or not isinstance(source.element, QuantizedElement):
        at.refuse("its operand is not quantised")
    return dequantized(x, source.element)


def dequantized(x: V, element: QuantizedElement) -> V:
    """(q - zero point) · scale."""
    graph = x.graph
    kind = element.expressed
    wide = x.cast(kind)
    if element.axis is None:
        return wide.sub(float(element.zero_points[0])).mul(element.scales[0])
    dims = [1] * x.rank
    dims[element.axis] = len(element.scales)
    zeros = graph.constant(np.array(element.zero_points, kind.numpy), kind).reshape(dims).broadcast_to(x.dims)
    scales = graph.constant(np.array(element.scales, kind.numpy), kind).reshape(dims).broadcast_to(x.dims)
    return wide.sub(zeros).mul(scales)
