"""Hyperbolic functions and their inverses.

Near 0 a polynomial; farther out exponentials. The inverses are logarithms of a pair, which keeps them accurate where
the argument of the logarithm is close to 1.
"""

from __future__ import annotations

import math

from planish.stages.linearizer.decompositions import coefficients
from planish.stages.linearizer.decompositions.coefficients import Coefficients
from planish.stages.linearizer.decompositions.exp_log import exp_pair, exp_parts, exp_plain, log_of_pair
from planish.stages.linearizer.decompositions.reals import Pair, Reals, decomposes
from planish.uop.node import UOp
from planish.uop.ops import Ops


def _odd(m: Reals, x: UOp, near: UOp, far: UOp, bound: float) -> UOp:
    """Near where |x| < bound, else far, both functions of |x|, with the sign of x."""
    return m.with_sign((m.magnitude(x) < bound).where(near, far), m.sign(x))


def _series(m: Reals, x: UOp, row: Coefficients) -> UOp:
    """x + x³ p(x²)."""
    z = x * x
    return m.fma(x * z, m.polynomial(z, row), x)


def _half_exponential(m: Reals, x: UOp, sign: float) -> UOp:
    """(e**x + sign e**-x) / 2 for x >= 0: 2**(n-1) (e**r + sign 2**-2n e**-r)."""
    # Past this both forms are infinite, and 2**n has to stay within reach of `scale`.
    parts = exp_parts(m, m.clamp(x, 0.0, m.pick(91.0, 712.0)))
    high, low = exp_pair(m, parts)
    far = parts.n > m.format.precision
    inverse = m.power(far.where(m.int(-2 * m.format.precision), parts.n * -2)) / high
    return m.scale(high + (low + inverse * sign), parts.n - 1)


@decomposes(Ops.SINH, "sinh(x) -> (exp(x) - exp(-x)) / 2")
def sinh(m: Reals, x: UOp) -> UOp:
    size = m.magnitude(x)
    return _odd(m, x, _series(m, size, coefficients.SINH), _half_exponential(m, size, -1.0), 1.0)


@decomposes(Ops.COSH, "cosh(x) -> (exp(x) + exp(-x)) / 2")
def cosh(m: Reals, x: UOp) -> UOp:
    return _half_exponential(m, m.magnitude(x), 1.0)


@decomposes(Ops.TANH, "tanh(x) -> 1 - 2 / (exp(2x) + 1)")
def tanh(m: Reals, x: UOp) -> UOp:
    """1 - 2 / (e**2x + 1)."""
    size = m.magnitude(x)
    end = m.pick(10.0, 20.0)
    if m.estimates:
        power = (size.alu(Ops.MIN, m.const(end)) * (2.0 / math.log(2))).alu(Ops.EXP2_ESTIMATE)
        far = m.fma(m.const(-2.0), (power + 1.0).alu(Ops.RECIP_ESTIMATE), m.const(1.0))
        return _odd(m, x, _series(m, size, coefficients.TANH_FARTHER), far, 0.6)
    value, power = exp_plain(m, (size > end).where(m.const(end), size) * 2.0)
    far = m.const(1.0) - m.const(2.0) / m.fma(value, power, m.const(1.0))
    return _odd(m, x, _series(m, size, coefficients.TANH), far, 0.55)


@decomposes(Ops.TANH_ESTIMATE, "about tanh(x) -> tanh(x)")
def tanh_estimate(m: Reals, x: UOp) -> UOp:
    return x.alu(Ops.TANH)


def _large(m: Reals) -> float:
    """From here on x ± 1 under a square root does not count."""
    return 2.0 ** (m.format.precision // 2 + 4)


def _small(m: Reals) -> float:
    """Below it f(x) = x to the last bit, for the odd functions here."""
    return 2.0 ** -(m.format.precision // 2 + 1)


def _log_or_double(m: Reals, x: UOp, u: Pair) -> UOp:
    """log(u), or log(2x) where x is large and u of no use."""
    large = x >= _large(m)
    zero = m.const(0.0)
    pair = Pair(large.where(x, u.hi), large.where(zero, u.lo))
    return log_of_pair(m, pair, large.where(m.int(1), 0))


@decomposes(Ops.ASINH, "asinh(x) -> log(x + sqrt(x² + 1))")
def asinh(m: Reals, x: UOp) -> UOp:
    """log(|x| + sqrt(x² + 1))."""
    size = m.magnitude(x)
    square = m.product(size, size)
    root = m.root(m.add(Pair(m.const(1.0), m.const(0.0)), square))
    result = _log_or_double(m, size, m.add(root, Pair(size, m.const(0.0))))
    result = (size < math.inf).where(result, size)
    return _odd(m, x, size, result, _small(m))


@decomposes(Ops.ACOSH, "acosh(x) -> log(x + sqrt(x² - 1))")
def acosh(m: Reals, x: UOp) -> UOp:
    """log(x + sqrt(x² - 1))."""
    square = m.product(x, x)
    under = m.add(square, Pair(m.const(-1.0), m.const(0.0)))
    root = m.root(under)
    result = _log_or_double(m, x, m.add(root, Pair(x, m.const(0.0))))
    result = (x < math.inf).where(result, x)
    return x.eq(1.0).where(m.const(0.0), m.nan_where((x >= 1.0).logical_not(), result))


@decomposes(Ops.ATANH, "atanh(x) -> log((1 + x)/(1 - x)) / 2")
def atanh(m: Reals, x: UOp) -> UOp:
    """log((1 + |x|) / (1 - |x|)) / 2."""
    size = m.magnitude(x)
    one = m.const(1.0)
    ratio = m.divide(m.ordered_sum(one, size), m.ordered_sum(one, -size))
    result = log_of_pair(m, ratio) * 0.5
    result = size.eq(1.0).where(m.const(math.inf), m.nan_where((size <= 1.0).logical_not(), result))
    return _odd(m, x, size, result, _small(m))
