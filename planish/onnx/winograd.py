"""Which convolutions of constant weights had better be done by Winograd's interpolation (`ptir/library/interpolated_convolution.py`).

What is made in between costs memory traffic: it is done where that is clearly less than what the products save. Weights are interpolated
once, when they are laid out (`weight_layouts.py`).
"""

from __future__ import annotations

import math
from typing import Final

from planish import dtypes
from planish.config import current
from planish.ptir.function import Inst, Value
from planish.ptir.library.interpolated_convolution import interpolation
from planish.ptir.ops.contract import ConvolutionAttrs
from planish.target import Target

_WORTH: Final = 0.8
"""What it has to take by the time of the plain sum: both are reckoned from the target, and by less they cannot be told apart."""
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
    matrices = interpolation(kernel[axis])
    if matrices is None or attrs.strides[axis - 2] > 1 or attrs.rhs_dilation[axis - 2] > 1:
        return math.inf
    points, item = len(matrices.image), 4
    per_cycle = machine.multiplies * machine.lanes(dtypes.float32)
    plain = math.prod(result) * math.prod(kernel[1:]) / per_cycle
    steps = -(-result[axis] // matrices.rows)
    fewer = plain * points * steps / (kernel[axis] * result[axis])
    weights = item * math.prod(kernel)
    between = [
        item * points * steps * math.prod(shape) // shape[axis] for shape in (image, result)
    ]  # written once, read once
    moved = sum(2 * size / machine.rate(size) for size in between)
    more = weights * points // kernel[axis]
    fewer += moved + more / machine.rate(more) + machine.launch * _KERNELS
    return fewer / (plain + weights / machine.rate(weights) + machine.launch)
