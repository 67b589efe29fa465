"""Interpolation of polynomials (Cook and Toom): sums of products with a few taps by fewer products.

    y = A · ((G · w) ∘ (B · x))

The taps w and m neighbouring results y are coefficients of polynomials; their products at m + taps - 1 points say all that is asked for:
four sums of three products each take six products instead of twelve.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

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
    found = [Fraction(1)]
    for zero in zeros:
        shifted = [Fraction(0), *found]
        found = [a - zero * b for a, b in zip(shifted, [*found, Fraction(0)], strict=True)]
    return tuple(found)


def interpolated(kernel: Array, axis: int) -> Array:
    """A kernel (O, I, …) at all points along an axis, as (points · O, I, …) of one tap there."""
    found = interpolation(kernel.shape[axis])
    if found is None:
        raise ValueError(f"there is no interpolation of {kernel.shape[axis]} taps")
    taps = np.moveaxis(kernel, axis, 0).reshape(kernel.shape[axis], -1)
    factors = np.array([[float(factor) for factor in row] for row in found.weights], kernel.dtype)
    shape = list(kernel.shape)
    shape[axis] = 1
    shape[0] *= len(factors)
    made: Array = np.matmul(factors, taps).reshape(shape)
    return made
