"""Winograd convolutions of constant weights: fewer products for rows of taps, by interpolation.

    conv(x, w)  ->  A · conv(B · x, G · w), along rows of the image

Four rows of results of three taps take six products instead of twelve. B and A are sums of whole rows, so that nothing moves within a
row; G is applied once, when weights are laid out (`weight_layouts.py`). What is made in between costs memory traffic: it is done where
that is clearly less than what the products save. The terms that are summed up are others than those of the plain sum: errors are a few
times as large (5e-7 of the largest result where those are 2e-7), and what is not finite reaches the rows beside it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final

from planish import dtypes
from planish.config import current
from planish.onnx.interpolation import Interpolation, interpolation
from planish.ptir import ops
from planish.ptir.function import Inst, Value
from planish.ptir.graph_value import GraphValue
from planish.ptir.ops.contract import ConvolutionAttrs
from planish.ptir.types import DimLike
from planish.target import Target

_WORTH: Final = 0.8
"""What it has to take by the time of the plain sum."""
_KERNELS: Final = 4
"""Launches: one before the convolution, and sums of its results."""


def best_axis(inst: Inst, machine: Target) -> int | None:
    """The axis of the image along which a convolution had better be done so; None if it had not."""
    attrs, (image, kernel) = inst.attrs, inst.operands
    if (
        not current().winograd
        or not isinstance(attrs, ConvolutionAttrs)
        or not _is_plain(attrs, image, kernel)
    ):
        return None
    axes = range(2, image.type.rank - 1)  # rows: along the last axis everything would be moved
    shares = {axis: _share(inst, attrs, axis, machine) for axis in axes}
    best = min(shares, key=shares.__getitem__, default=None)
    return best if best is not None and shares[best] <= _WORTH else None


def _is_plain(attrs: ConvolutionAttrs, image: Value, kernel: Value) -> bool:
    """Floats, channels first, in one group, of an image that is not spread out."""
    space = attrs.lhs_layout[2:]
    return (
        attrs.lhs_layout == attrs.out_layout == "NC" + space
        and attrs.rhs_layout == "OI" + space
        and attrs.groups == 1
        and set(attrs.lhs_dilation) == {1}
        and {image.type.dtype, kernel.type.dtype, attrs.accum_dtype, attrs.out_dtype} == {dtypes.float32}
        and kernel.type.is_static
    )


def _share(inst: Inst, attrs: ConvolutionAttrs, axis: int, machine: Target) -> float:
    """What it takes along an axis, by what the plain sum takes; infinity where it cannot be done. Of named sizes the largest count."""
    image, kernel = (value.type.max_shape for value in inst.operands)
    result = inst.results[0].type.max_shape
    found = interpolation(kernel[axis])
    if found is None or attrs.strides[axis - 2] > 1 or attrs.rhs_dilation[axis - 2] > 1:
        return math.inf
    points, item = len(found.image), 4
    per_cycle = machine.multiplies * machine.lanes(dtypes.float32)
    plain = math.prod(result) * math.prod(kernel[1:]) / per_cycle
    steps = -(-result[axis] // found.rows)
    fewer = plain * points * steps / (kernel[axis] * result[axis])
    weights = item * math.prod(kernel)
    between = [
        item * points * steps * math.prod(shape) // shape[axis] for shape in (image, result)
    ]  # written once, read once
    moved = sum(2 * size / machine.rate(size) for size in between)
    more = weights * points // kernel[axis]
    fewer += moved + more / machine.rate(more) + machine.launch * _KERNELS
    return fewer / (plain + weights / machine.rate(weights) + machine.launch)


def convolved(
    x: GraphValue, kernel: GraphValue, attrs: ConvolutionAttrs, axis: int, found: Interpolation
) -> GraphValue:
    """A convolution with a kernel that is interpolated: in as many groups as there are points, of what each has of x."""
    place, taps, rows, points = axis - 2, len(found.weights[0]), found.rows, len(found.image)
    size = x.dims[axis]
    length = size + attrs.low[place] + attrs.high[place] - taps + 1
    steps = (length + rows - 1) // rows
    last = rows * steps + taps - 1 - size - attrs.low[place]
    padded = x.pad(_only(x.rank, axis, attrs.low[place]), _only(x.rank, axis, last))
    image = [_every(padded, axis, n, rows, steps) for n in range(rows + taps - 1)]
    looked, *others = (_weighted(image, row) for row in found.image)
    low, high = _without(attrs.low, place), _without(attrs.high, place)
    grouped = replace(attrs, low=low, high=high, groups=points)
    total = x.graph.emit(ops.convolution, (looked.concat(others, 1), kernel), grouped)
    batch, channels, *space = total.dims
    each = channels // points
    starts = [[0, n * each, *[0] * len(space)] for n in range(points)]
    sums = [total.slice(start, [batch, start[1] + each, *space]) for start in starts]
    before, after = (batch, each, *space[:place]), tuple(space[place + 1 :])
    first, *rest = (_weighted(sums, row).reshape((*before, steps, 1, *after)) for row in found.results)
    whole = first.concat(rest, axis + 1).reshape((*before, rows * steps, *after))
    return whole.slice([0] * x.rank, [*before, length, *after])


def _only(rank: int, axis: int, amount: DimLike) -> list[DimLike]:
    return [amount if n == axis else 0 for n in range(rank)]


def _without(amounts: tuple[int, ...], place: int) -> tuple[int, ...]:
    return (*amounts[:place], 0, *amounts[place + 1 :])


def _every(x: GraphValue, axis: int, first: int, stride: int, count: DimLike) -> GraphValue:
    """So many rows from the first on, each a stride from the one before."""
    starts, strides, limits = [0] * x.rank, [1] * x.rank, list(x.dims)
    starts[axis], strides[axis], limits[axis] = first, stride, first + stride * (count - 1) + 1
    return x.slice(starts, limits, strides)


def _weighted(values: Sequence[GraphValue], factors: Sequence[Fraction]) -> GraphValue:
    """A sum; factors of one and zero cost nothing."""
    total: GraphValue | None = None
    for value, factor in zip(values, factors, strict=True):
        if not factor:
            continue
        part = value if abs(factor) == 1 else value.mul(float(abs(factor)))
        if total is None:
            total = part if factor > 0 else part.neg()
        else:
            total = total.add(part) if factor > 0 else total.sub(part)
    if total is None:
        raise ValueError("a sum of nothing")
    return total
