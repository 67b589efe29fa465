"""Convolutions by interpolation of polynomials (Winograd, after Cook and Toom): fewer products for rows of taps.

    y = A · ((G · w) ∘ (B · x))
    conv(x, w)  ->  A · conv(B · x, G · w), along rows of the image

The taps w and m neighbouring results y are coefficients of polynomials; their products at m + taps - 1 points say all that is asked for:
four sums of three products each take six products instead of twelve. B and A are sums of whole rows, so that nothing moves within a
row; G is for whoever knows the weights to apply once. The terms that are summed up are others than those of the plain sum: errors are a
few times as large (5e-7 of the largest result where those are 2e-7), and what is not finite reaches the rows beside it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from planish.ptir import ops
from planish.ptir.dims import DimLike
from planish.ptir.graph_value import GraphValue
from planish.ptir.ops.contract import ConvolutionAttrs

Array = NDArray[Any]
Matrix = tuple[tuple[Fraction, ...], ...]
_POINTS: Final = (0, 1, -1, 2, -2)
"""Where polynomials are looked at, besides at infinity. With more of them numbers grow apart, and so do errors."""


class Interpolation(NamedTuple):
    """The matrices of y = A · ((G · w) ∘ (B · x)), where y are `rows` sums of products with the taps w."""

    rows: int
    results: Matrix
    weights: Matrix
    image: Matrix


@cache
def interpolation(taps: int) -> Interpolation | None:
    """For so many taps; None where points are too few for two rows."""
    rows = len(_POINTS) + 2 - taps
    if taps < 2 or rows < 2:
        return None
    results = tuple(
        (*(Fraction(point) ** row for point in _POINTS), Fraction(row == rows - 1)) for row in range(rows)
    )
    weights, image = [], []
    for point in _POINTS:
        others = [each for each in _POINTS if each != point]
        scale = math.prod(point - each for each in others)
        weights.append(tuple(Fraction(point**tap, scale) for tap in range(taps)))
        image.append((*_with_zeros(others), Fraction(0)))
    weights.append(tuple(Fraction(tap == taps - 1) for tap in range(taps)))
    image.append(_with_zeros(_POINTS))
    return Interpolation(rows, results, tuple(weights), tuple(image))


def _with_zeros(zeros: Sequence[int]) -> tuple[Fraction, ...]:
    """The coefficients of the polynomial with these zeros, the constant first."""
    coefficients = [Fraction(1)]
    for zero in zeros:
        shifted = [Fraction(0), *coefficients]
        coefficients = [a - zero * b for a, b in zip(shifted, [*coefficients, Fraction(0)], strict=True)]
    return tuple(coefficients)


def interpolated(kernel: Array, axis: int) -> Array:
    """A kernel (O, I, …) at all points along an axis, as (points · O, I, …) of one tap there."""
    scheme = interpolation(kernel.shape[axis])
    if scheme is None:
        raise ValueError(f"there is no interpolation of {kernel.shape[axis]} taps")
    taps = np.moveaxis(kernel, axis, 0).reshape(kernel.shape[axis], -1)
    factors = np.array([[float(factor) for factor in row] for row in scheme.weights], kernel.dtype)
    shape = list(kernel.shape)
    shape[axis] = 1
    shape[0] *= len(factors)
    kernels: Array = np.matmul(factors, taps).reshape(shape)
    return kernels


# -- in a graph ----------------------------------------------------------------------------------------------------


def convolved(
    x: GraphValue, kernel: GraphValue, attrs: ConvolutionAttrs, axis: int, scheme: Interpolation
) -> GraphValue:
    """A convolution with a kernel that is interpolated: in as many groups as there are points, of what each has of x."""
    place, taps, rows, points = axis - 2, len(scheme.weights[0]), scheme.rows, len(scheme.image)
    size = x.dims[axis]
    length = size + attrs.low[place] + attrs.high[place] - taps + 1
    steps = (length + rows - 1) // rows
    last = rows * steps + taps - 1 - size - attrs.low[place]
    padded = x.pad(_only(x.rank, axis, attrs.low[place]), _only(x.rank, axis, last))
    image = [_every(padded, axis, n, rows, steps) for n in range(rows + taps - 1)]
    looked, *others = (_weighted(image, row) for row in scheme.image)
    low, high = _without(attrs.low, place), _without(attrs.high, place)
    grouped = replace(attrs, low=low, high=high, groups=points)
    total = x.graph.emit(ops.convolution, (looked.concat(others, 1), kernel), grouped)
    batch, channels, *space = total.dims
    each = channels // points
    starts = [[0, n * each, *[0] * len(space)] for n in range(points)]
    sums = [total.slice(start, [batch, start[1] + each, *space]) for start in starts]
    before, after = (batch, each, *space[:place]), tuple(space[place + 1 :])
    first, *rest = (_weighted(sums, row).reshape((*before, steps, 1, *after)) for row in scheme.results)
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
