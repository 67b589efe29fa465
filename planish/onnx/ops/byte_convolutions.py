"""Convolutions of bytes as products: what a window sees of all channels becomes a row of bytes, and rows meet the kernels as a matrix.

Copying bytes into rows costs little beside what is gained: processors multiply four of them at once. At the edge of a picture a row has
the zero point, which is worth nothing. Kernels of channels apart, and of few channels, have rows too short for that.
"""

from __future__ import annotations

import itertools
from math import prod
from typing import Final

from planish import dtypes
from planish.onnx.ops.common import scalar
from planish.onnx.ops.linear import matmul
from planish.onnx.ops.whole_products import WHOLE, Array, Units, byte_matrix
from planish.onnx.ops.windows import NodeWindow
from planish.onnx.site import NodeSite
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library.common import along

_FEW: Final = 8
"""Channels below which floats are as fast."""


def convolve_bytes(
    at: NodeSite, x: V, zero: V | None, kernel: Array | None, points: Array | None, window: NodeWindow
) -> V | None:
    """A convolution of bytes less their zero points with a known kernel, exactly; None where something else is to do it."""
    if kernel is None or x.dtype not in (dtypes.int8, dtypes.uint8) or kernel.ndim != x.rank:
        return None
    if (zero is not None and zero.type.size != 1) or kernel.shape[1] < _FEW or x.dims[1] != kernel.shape[1]:
        return None
    if points is not None and points.ndim > 1:
        return None
    last = x.rank - 1
    # (M, C, …) to (… C, M)
    rows = kernel.transpose((*range(2, x.rank), 1, 0)).reshape(prod(kernel.shape[1:]), -1)
    matrix = byte_matrix(at, rows, points, turned=True)
    if matrix is None:
        return None
    patches = _patches(x, 0 if zero is None else scalar(zero.cast(x.dtype)), window)
    sums = matrix.less_zero_points(matmul(patches, matrix.stored, WHOLE), patches, zero)
    return sums.transpose((0, last, *range(1, last)))


def _patches(x: V, filler: V | int, window: NodeWindow) -> V:
    """(N, C, …) as (N, windows …, taps · C)."""
    edges = [(0, 0), (0, 0), *window.padding]
    if any(any(pair) for pair in edges):
        x = x.pad([low for low, _ in edges], [high for _, high in edges], value=filler)
    x = x.transpose((0, *range(2, x.rank), 1))
    batch, *space, channels = x.dims
    counts = [
        (size - span) // stride + 1
        for size, span, stride in zip(space, window.spans, window.strides, strict=True)
    ]
    parts = []
    for tap in itertools.product(*map(range, window.shape)):
        starts = [n * step for n, step in zip(tap, window.dilations, strict=True)]
        limits = [
            start + (count - 1) * stride + 1
            for start, count, stride in zip(starts, counts, window.strides, strict=True)
        ]
        parts.append(x.slice([0, *starts, 0], [batch, *limits, channels], [1, *window.strides, 1]))
    return parts[0].concat(parts[1:], x.rank - 1) if len(parts) > 1 else parts[0]


def convolve_units(at: NodeSite, x: V, kernel: V, window: NodeWindow) -> V | None:
    """A convolution of what was quantised, in integers that take their unit afterwards; None where floats do it."""
    known: dict[int, Units] = at.engine.units
    a, b = known.get(x.id), known.get(kernel.id)
    if a is None or b is None or a.value is not x or b.value is not kernel or a.is_weight:
        return None
    if a.unit.type.size != 1 or (b.zero is not None and b.points is None):
        return None
    if any(
        each.type.size > 1 and (each.rank != 1 or b.axis != 0)
        for each in (b.unit, b.zero)
        if each is not None
    ):
        return None
    sums = convolve_bytes(at, a.stored, a.zero, b.weights, b.points, window)
    if sums is None:
        return None
    wide, unit = sums.cast(dtypes.float32), scalar(a.unit)
    if b.unit.type.size == 1:
        return wide.mul(unit.mul(scalar(b.unit)).broadcast_to(wide.dims))
    return wide.mul(along(b.unit.mul(unit.broadcast_to(b.unit.dims)), wide.dims, 1))
