"""Special functions of one float64, number by number, where NumPy has none: what results are compared with."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from planish.scalars.record import Array

BERNOULLI: Final = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
"""B2, B4, …: the coefficients of the asymptotic series of the gamma function and its derivatives."""


def each(function: Callable[[float], float]) -> Callable[[Array], Array]:
    def apply(array: Array) -> Array:
        flat = np.fromiter((function(float(v)) for v in array.ravel()), np.float64, array.size)
        return flat.reshape(array.shape)

    return apply


def lgamma_of(x: float) -> float:
    if math.isinf(x) or (x <= 0 and x == math.floor(x)):
        return math.inf
    try:
        return math.lgamma(x)
    except OverflowError:  # beyond the largest number
        return math.inf


def digamma_of(x: float) -> float:
    if math.isnan(x) or x == -math.inf:
        return math.nan
    if x == 0:
        return -math.copysign(math.inf, x)
    if x < 0:
        if x == math.floor(x):
            return math.nan
        # Reflection; the argument of tan is reduced first, so that large |x| lose nothing.
        return _digamma_positive(1.0 - x) - math.pi / math.tan(math.pi * math.fmod(x, 1.0))
    return _digamma_positive(x)


# Zeta-like coefficients B_{2k} / 2k of the asymptotic series.
_DIGAMMA_SERIES = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)


def _digamma_positive(x: float) -> float:
    if x == math.inf:
        return x
    shift = 0.0
    while x < 10.0:
        shift -= 1.0 / x
        x += 1.0
    square = 1.0 / (x * x)
    tail = 0.0
    for coefficient in reversed(_DIGAMMA_SERIES):
        tail = (tail + coefficient) * square
    return shift + math.log(x) - 0.5 / x - tail


def erfinv_of(x: float) -> float:
    if math.isnan(x) or abs(x) > 1:
        return math.nan
    if abs(x) == 1:
        return math.copysign(math.inf, x)
    if x == 0:
        return x
    # Winitzki's closed form starts within 0.2 %; Halley steps triple the digits each time. The complement
    # keeps the residual exact in the tails.
    w = math.log1p(-x * x)
    t = 2 / (math.pi * 0.147) + w / 2
    y = math.copysign(math.sqrt(math.sqrt(t * t - w / 0.147) - t), x)
    for _ in range(4):
        residual = (1 - abs(x)) - math.erfc(abs(y)) if abs(x) > 0.5 else math.erf(abs(y)) - abs(x)
        step = residual / (2 / math.sqrt(math.pi) * math.exp(-y * y))
        y = math.copysign(abs(y) - step / (1 + abs(y) * step), x)
    return y
