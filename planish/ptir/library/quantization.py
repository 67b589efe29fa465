"""Quantised numbers as plain integers: what `quantize` and `dequantize` compute (semantics section 12)."""

from __future__ import annotations

import numpy as np

from planish import dtypes
from planish.dtypes import DType
from planish.ptir.graph_value import GraphValue
from planish.ptir.ops import numerics
from planish.ptir.types import Quant


def _laid_out(
    x: GraphValue, numbers: tuple[float, ...] | tuple[int, ...], axis: int | None, dtype: DType
) -> GraphValue:
    """One number in all, or one per index of an axis, for every element of x."""
    graph = x.graph
    if axis is None or len(set(numbers)) == 1:
        return graph.full(x.dims, numbers[0], dtype)
    shape = [1] * x.rank
    shape[axis] = len(numbers)
    source = np.float64 if dtype.is_float else np.int64
    line = numerics.convert(np.array(numbers, source), dtype)
    return graph.constant(line.reshape(shape)).broadcast_to(x.dims)


def quantize(x: GraphValue, dtype: DType, quant: Quant) -> GraphValue:
    """clamp(round(x / scale) + zero_point) as plain integers of the storage dtype."""
    computed = numerics.accumulator(quant.expressed)
    wide = x if x.dtype is computed else x.cast(computed)
    steps = wide.div(_laid_out(wide, quant.scale, quant.axis, computed)).round()
    # With a zero point of 16 bits the sum is exact in float32 wherever it is not clamped anyway; beyond, in float64.
    if dtype.bits > 16 and computed is not dtypes.float64:
        steps = steps.cast(dtypes.float64)
    zero = _laid_out(steps, quant.zero_point, quant.axis, steps.dtype)
    return steps.is_nan().select(zero, steps.add(zero)).cast(dtype)


def dequantize(q: GraphValue, quant: Quant) -> GraphValue:
    """(q - zero_point) * scale of plain integers."""
    computed = numerics.accumulator(quant.expressed)
    exact = dtypes.int32 if q.dtype.bits <= 16 else dtypes.int64
    wide = q if q.dtype is exact else q.cast(exact)
    steps = wide.sub(_laid_out(wide, quant.zero_point, quant.axis, exact)).cast(computed)
    result = steps.mul(_laid_out(steps, quant.scale, quant.axis, computed))
    return result if quant.expressed is computed else result.cast(quant.expressed)
