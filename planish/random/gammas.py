"""The gamma distribution and those made of it: beta, Dirichlet, chi-square, Student's t, F and others.

Drawn as logarithms, so that tiny shapes do not underflow to 0, by Marsaglia and Tsang's rejection (2000): each round draws anew for all
numbers, and those accepted before keep theirs. Gradients with respect to the shape are those of the number that holds its place in the
distribution (implicit reparameterisation: Figurnov et al., 2018), and all others follow from it.
"""

from __future__ import annotations

import math

from planish import dtypes
from planish.dtypes import DType
from planish.errors import ShapeError
from planish.frontend.control import while_loop
from planish.frontend.custom import custom_jvp
from planish.frontend.tensor import functions as fn
from planish.frontend.tensor.array import Tensor
from planish.random.core import Numbers, Shape, _checked, _open, fold_in, normal, split
from planish.random.parameters import prepared

_LARGE = 1e4
"""Shapes from which the cube of a normal number is exact enough (Wilson and Hilferty, 1931): a sum would take too many terms."""


@custom_jvp
def _log_gamma(key: Tensor, shape: Tensor) -> Tensor:
    """The logarithm of a gamma number for each shape, in its dtype."""
    dtype = shape.dtype
    small = shape < 1.0
    # a number of shape a + 1 times u to the power 1/a has shape a
    d = fn.where(small, shape + 1.0, shape) - 1.0 / 3.0
    c = 1.0 / fn.sqrt(9.0 * d)

    def some_wait(state: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        return ~fn.all(state[1])

    def round(state: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        number, done, kept = state
        first, second = split(fold_in(key, number))
        z = normal(first, shape.shape, dtype)
        u = _open("gamma", second, shape.shape, dtype)
        base = 1.0 + c * z
        inside = base > 0.0
        logs = 3.0 * fn.log(fn.where(inside, base, 1.0))
        fits = fn.log(u) < 0.5 * z * z + d * (1.0 - fn.exp(logs) + logs)
        return number + 1, done | (inside & fits), fn.where(done, kept, logs)

    # a shape that is no positive number is never accepted
    valid = shape > 0.0
    _, _, cubes = while_loop(some_wait, round, (fn.asarray(0), ~valid, fn.zeros_like(shape)))
    u = _open("gamma", fold_in(key, -1), shape.shape, dtype)
    boost = fn.where(small, fn.log(u) / fn.where(valid, shape, 1.0), 0.0)
    return fn.where(valid, fn.log(fn.where(valid, d, 1.0)) + cubes + boost, math.nan)


@_log_gamma.defjvp
def _tangent(primals: tuple[Tensor, Tensor], tangents: tuple[None, Tensor]) -> tuple[Tensor, Tensor]:
    key, shape = primals
    drawn = _log_gamma(key, shape)
    return drawn, tangents[1] * _slope(drawn.astype(dtypes.float64), shape.astype(dtypes.float64)).astype(
        shape.dtype
    )


def _slope(logs: Tensor, shape: Tensor) -> Tensor:
    """d log x / da at the same place of the distribution: minus the slope of the distribution by a over x times its density.

    The distribution is density · x/a · S with S = Σ xⁿ/((a+1)…(a+n)), so that this is -(S·(log x - ψ(a+1)) + dS/da)/a: a sum of
    positive terms and one of negative ones.
    """
    large = shape > _LARGE
    a = fn.where(large | ~(shape > 0.0), 1.0, shape)
    x = fn.where(large, 1.0, fn.exp(logs))

    def goes_on(state: tuple[Tensor, ...]) -> Tensor:
        n, term, _, total, _ = state
        return fn.any(term > total * 1e-18) & (n < 1 << 17)

    def add(state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        n, term, inverse, total, slope = state
        n = n + 1
        term = term * x / (a + n)
        inverse = inverse + 1.0 / (a + n)
        return n, term, inverse, total + term, slope - term * inverse

    one, none = fn.ones_like(a), fn.zeros_like(a)
    _, _, _, total, slope = while_loop(goes_on, add, (fn.asarray(0), one, none, one, none))
    by_series = -(total * (logs - fn.digamma(a + 1.0)) + slope) / a
    # x = a·w³ with w = 1 - 1/(9a) + z/(3·sqrt(a)), for the z that belongs to this x
    wide = fn.where(large, shape, 1.0)
    w = fn.exp((fn.where(large, logs, 0.0) - fn.log(wide)) / 3.0)
    z = (w - 1.0 + 1.0 / (9.0 * wide)) * 3.0 * fn.sqrt(wide)
    by_normal = 1.0 / wide + 3.0 / w * (1.0 / (9.0 * wide * wide) - z / (6.0 * wide * fn.sqrt(wide)))
    return fn.where(large, by_normal, fn.where(shape > 0.0, by_series, math.nan))


def loggamma(key: Tensor, a: Numbers, shape: Shape | None = None, dtype: DType | None = None) -> Tensor:
    """Logarithms of gamma numbers: exact where the numbers themselves would be 0."""
    (shapes,), wanted = prepared("loggamma", shape, dtype, a)
    return _log_gamma(_checked("loggamma", key), shapes).astype(wanted)


def gamma(
    key: Tensor, a: Numbers, shape: Shape | None = None, dtype: DType | None = None, scale: Numbers = 1.0
) -> Tensor:
    """Gamma numbers of shape a: density xᵃ⁻¹·e⁻ˣ/Γ(a), times a scale."""
    (shapes, factor), wanted = prepared("gamma", shape, dtype, a, scale)
    return (fn.exp(_log_gamma(_checked("gamma", key), shapes)) * factor).astype(wanted)


def beta(
    key: Tensor, a: Numbers, b: Numbers, shape: Shape | None = None, dtype: DType | None = None
) -> Tensor:
    """Numbers between 0 and 1 with density ∝ xᵃ⁻¹·(1 - x)ᵇ⁻¹."""
    (first, second), wanted = prepared("beta", shape, dtype, a, b)
    one, two = split(_checked("beta", key))
    logs = _log_gamma(one, first) - _log_gamma(two, second)
    return (1.0 / (1.0 + fn.exp(-logs))).astype(wanted)


def dirichlet(key: Tensor, alpha: Tensor, shape: Shape | None = None, dtype: DType | None = None) -> Tensor:
    """Shares that add up to 1 along the last axis, which is that of alpha; `shape` is that of the others."""
    given: object = alpha
    if not isinstance(given, Tensor) or given.ndim < 1:
        raise ShapeError.of("dirichlet", "alpha has no axis", "it holds one number per share")
    sizes = alpha.shape[:-1] if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)
    (shapes,), wanted = prepared("dirichlet", (*sizes, alpha.shape[-1]), dtype, alpha)
    logs = _log_gamma(_checked("dirichlet", key), shapes)
    shares = fn.exp(logs - fn.max(logs, axis=-1, keepdims=True))
    return (shares / fn.sum(shares, axis=-1, keepdims=True)).astype(wanted)


def chisquare(key: Tensor, df: Numbers, shape: Shape | None = None, dtype: DType | None = None) -> Tensor:
    """Sums of squares of df normal numbers."""
    (freedom,), wanted = prepared("chisquare", shape, dtype, df)
    return (2.0 * fn.exp(_log_gamma(_checked("chisquare", key), freedom * 0.5))).astype(wanted)


def t(key: Tensor, df: Numbers, shape: Shape | None = None, dtype: DType | None = None) -> Tensor:
    """Student's: a normal number over the root of an independent mean of df squares of others."""
    (freedom,), wanted = prepared("t", shape, dtype, df)
    one, two = split(_checked("t", key))
    half = freedom * 0.5
    spread = fn.exp(0.5 * (fn.log(half) - _log_gamma(two, half)))
    return (normal(one, freedom.shape, freedom.dtype) * spread).astype(wanted)


def f(
    key: Tensor, dfnum: Numbers, dfden: Numbers, shape: Shape | None = None, dtype: DType | None = None
) -> Tensor:
    """Fisher's: the ratio of two means of dfnum and dfden squares of normal numbers."""
    (first, second), wanted = prepared("f", shape, dtype, dfnum, dfden)
    one, two = split(_checked("f", key))
    above, below = _log_gamma(one, first * 0.5), _log_gamma(two, second * 0.5)
    return (fn.exp(above - below) * second / first).astype(wanted)


def generalized_normal(
    key: Tensor, p: Numbers, shape: Shape | None = None, dtype: DType | None = None
) -> Tensor:
    """Density ∝ exp(-|x|ᵖ)."""
    (power,), wanted = prepared("generalized_normal", shape, dtype, p)
    one, two = split(_checked("generalized_normal", key))
    size = fn.exp(_log_gamma(one, 1.0 / power) / power)
    turned = _open("generalized_normal", two, power.shape, power.dtype) < 0.5
    return fn.where(turned, -size, size).astype(wanted)


__all__ = ["beta", "chisquare", "dirichlet", "f", "gamma", "generalized_normal", "loggamma", "t"]
