"""Continuous distributions by formulas of uniform and normal numbers: log-normal, Weibull, Pareto, von Mises and others."""

from __future__ import annotations

import math

from planish import dtypes, linalg
from planish.dtypes import DType
from planish.errors import ShapeError
from planish.frontend.control import while_loop
from planish.frontend.tensor import functions as fn
from planish.frontend.tensor.array import Tensor
from planish.random.core import (
    Numbers,
    Shape,
    _checked,
    _open,
    _sizes,
    _unit,
    exponential,
    fold_in,
    normal,
    split,
)
from planish.random.gammas import generalized_normal
from planish.random.parameters import prepared


def lognormal(
    key: Tensor, sigma: Numbers = 1.0, shape: Shape | None = None, dtype: DType | None = None
) -> Tensor:
    """eˣ of normal numbers x with deviation sigma."""
    (spread,), wanted = prepared("lognormal", shape, dtype, sigma)
    return fn.exp(normal(key, spread.shape, spread.dtype) * spread).astype(wanted)


def pareto(key: Tensor, b: Numbers, shape: Shape | None = None, dtype: DType | None = None) -> Tensor:
    """Numbers from 1 on, above x with probability x⁻ᵇ."""
    (power,), wanted = prepared("pareto", shape, dtype, b)
    return fn.exp(exponential(key, power.shape, power.dtype) / power).astype(wanted)


def weibull(
    key: Tensor,
    concentration: Numbers,
    scale: Numbers = 1.0,
    shape: Shape | None = None,
    dtype: DType | None = None,
) -> Tensor:
    """Numbers above x with probability exp(-(x/scale)^concentration)."""
    (power, factor), wanted = prepared("weibull", shape, dtype, concentration, scale)
    # by the logarithm of an exponential number, which is never -inf
    logs = fn.log(-fn.log(_open("weibull", key, power.shape, power.dtype)))
    return (fn.exp(logs / power) * factor).astype(wanted)


def rayleigh(
    key: Tensor, scale: Numbers = 1.0, shape: Shape | None = None, dtype: DType | None = None
) -> Tensor:
    """The length of a normal vector of two elements."""
    (factor,), wanted = prepared("rayleigh", shape, dtype, scale)
    return (fn.sqrt(2.0 * exponential(key, factor.shape, factor.dtype)) * factor).astype(wanted)


def maxwell(key: Tensor, shape: Shape = (), dtype: DType = dtypes.float32) -> Tensor:
    """The length of a normal vector of three elements."""
    vectors = normal(key, (*_sizes(shape), 3), dtype)
    return fn.sqrt(fn.sum(vectors * vectors, axis=-1))


def triangular(
    key: Tensor,
    left: Numbers,
    mode: Numbers,
    right: Numbers,
    shape: Shape | None = None,
    dtype: DType | None = None,
) -> Tensor:
    """Numbers from left to right, most of them near the mode."""
    (low, peak, high), wanted = prepared("triangular", shape, dtype, left, mode, right)
    u = _unit("triangular", key, low.shape, low.dtype)
    share = (peak - low) / (high - low)
    rising = low + fn.sqrt(u * (high - low) * (peak - low))
    falling = high - fn.sqrt((1.0 - u) * (high - low) * (high - peak))
    return fn.where(u < share, rising, falling).astype(wanted)


def wald(key: Tensor, mean: Numbers, shape: Shape | None = None, dtype: DType | None = None) -> Tensor:
    """The inverse Gaussian distribution of scale 1 (Michael, Schucany and Haas, 1976)."""
    (centre,), wanted = prepared("wald", shape, dtype, mean)
    one, two = split(_checked("wald", key))
    z = normal(one, centre.shape, centre.dtype)
    y = centre * z * z
    # the smaller root as a quotient: the difference of two large numbers would lose it
    smaller = 2.0 * centre / (2.0 + y + fn.sqrt(y * (4.0 + y)))
    u = _unit("wald", two, centre.shape, centre.dtype)
    return fn.where(u * (centre + smaller) <= centre, smaller, centre * centre / smaller).astype(wanted)


def vonmises(
    key: Tensor, mu: Numbers, kappa: Numbers, shape: Shape | None = None, dtype: DType | None = None
) -> Tensor:
    """Angles from -π to π with density ∝ exp(kappa · cos(x - mu)), by Best and Fisher's rejection (1979)."""
    (centre, focus), wanted = prepared("vonmises", shape, dtype, mu, kappa)
    _checked("vonmises", key)
    kind = focus.dtype
    # a normal number in the limit; a uniform one at 0
    tight, flat = focus > 1e6, focus < 1e-6
    k = fn.where(tight | flat | fn.isnan(focus), 1.0, focus)
    tau = 1.0 + fn.sqrt(1.0 + 4.0 * k * k)
    rho = (tau - fn.sqrt(2.0 * tau)) / (2.0 * k)
    r = (1.0 + rho * rho) / (2.0 * rho)

    def some_wait(state: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        return ~fn.all(state[1])

    def round(state: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        number, done, kept = state
        first, second = split(fold_in(key, number))
        z = fn.cos(_unit("vonmises", first, k.shape, kind) * math.pi)
        w = (1.0 + r * z) / (r + z)
        y = k * (r - w)
        u = _open("vonmises", second, k.shape, kind)
        fits = (y * (2.0 - y) > u) | (fn.log(y / u) + 1.0 >= y)
        return number + 1, done | fits, fn.where(done, kept, w)

    _, _, w = while_loop(some_wait, round, (fn.asarray(0), tight | flat, fn.zeros_like(k)))
    sign_key, rest_key = split(fold_in(key, -1))
    u = _unit("vonmises", sign_key, k.shape, kind)
    angle = fn.acos(fn.clip(w, -1.0, 1.0))
    offset = fn.where(u < 0.5, -angle, angle)
    offset = fn.where(flat, (2.0 * u - 1.0) * math.pi, offset)
    deviation = normal(rest_key, k.shape, kind) / fn.sqrt(fn.where(tight, focus, 1.0))
    turned = fn.where(tight, deviation, offset) + centre
    whole = turned - 2.0 * math.pi * fn.round(turned / (2.0 * math.pi))
    return fn.where(focus >= 0.0, whole, math.nan).astype(wanted)


def multivariate_normal(
    key: Tensor, mean: Tensor, cov: Tensor, shape: Shape | None = None, dtype: DType | None = None
) -> Tensor:
    """Normal vectors along the last axis with a mean and a matrix of covariances; `shape` is that of the other axes."""
    if mean.ndim < 1 or cov.ndim < 2 or cov.shape[-2:] != (mean.shape[-1],) * 2:
        raise ShapeError.of("multivariate_normal", f"a mean {mean.shape} and covariances {cov.shape} do not fit", "n and n × n numbers"
        )  # fmt: skip
    lead = fn.broadcast_shapes(mean.shape[:-1], cov.shape[:-2]) if shape is None else _sizes(shape)
    (middle,), wanted = prepared("multivariate_normal", (*lead, mean.shape[-1]), dtype, mean)
    z = normal(key, middle.shape, middle.dtype)
    factor = linalg.cholesky(cov.astype(middle.dtype))
    return (middle + fn.squeeze(fn.matmul(factor, fn.expand_dims(z, axis=-1)), -1)).astype(wanted)


def orthogonal(key: Tensor, n: int, shape: Shape = (), dtype: DType = dtypes.float32) -> Tensor:
    """Orthogonal n × n matrices, all alike (Haar's measure); `shape` is that of the axes in front."""
    q, r = linalg.qr(normal(key, (*_sizes(shape), n, n), dtype))
    # the signs of a decomposition are its maker's choice: those of r make it one of a kind
    return q * fn.expand_dims(fn.where(linalg.diagonal(r) < 0.0, -1.0, 1.0).astype(q.dtype), axis=-2)


def ball(key: Tensor, d: int, p: Numbers = 2.0, shape: Shape = (), dtype: DType = dtypes.float32) -> Tensor:
    """Points of d elements, evenly in the ball where Σ |x|ᵖ ≤ 1 (Barthe et al., 2005)."""
    one, two = split(_checked("ball", key))
    sizes = _sizes(shape)
    g = generalized_normal(one, p, (*sizes, d), dtype)
    more = exponential(two, sizes, dtype)
    power = p.astype(dtype) if isinstance(p, Tensor) else p
    total = fn.sum(fn.abs(g) ** power, axis=-1) + more
    return g / fn.expand_dims(total ** (1.0 / power), axis=-1)


__all__ = [
    "ball", "lognormal", "maxwell", "multivariate_normal", "orthogonal", "pareto", "rayleigh", "triangular", "vonmises", "wald", "weibull",
]  # fmt: skip
