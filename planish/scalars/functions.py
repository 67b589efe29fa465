"""The scalar functions, one record each. Adding one here gives it to PTIR, its derivative, batching, and the Tensor API.

A function with a `formula` is complete. One that machines or stage 18 know has a row in `uop/ops.py` besides, and a
decomposition in `stages/linearizer/decompositions`.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from planish.scalars.record import FLOATS, INEXACT, FormulaValue, Scalar
from planish.scalars.special import BERNOULLI, digamma_of, each, erfinv_of, lgamma_of

_LN2: Final = math.log(2.0)

# fmt: off
# --- roots and reciprocals --------------------------------------------------------------------------------
reciprocal: Final = Scalar(
    "reciprocal", INEXACT, np.reciprocal, "1/x.", (lambda t, x, y: -(t * (y * y)),),
    exact=True, parity="odd", weight=8.0, kernel="RECIP",
)
sqrt: Final = Scalar(
    "sqrt", INEXACT, np.sqrt, "Square root.", (lambda t, x, y: t * 0.5 / y,), exact=True, weight=10.0
)
rsqrt: Final = Scalar(
    "rsqrt", INEXACT, lambda x: 1 / np.sqrt(x), "1/sqrt(x).", (lambda t, x, y: t * y / x * -0.5,), weight=12.0
)
cbrt: Final = Scalar(
    "cbrt", FLOATS, np.cbrt, "Cube root, also of negative numbers.", (lambda t, x, y: t / (y * y * 3.0),),
    parity="odd", weight=30.0,
)

# --- rounding ---------------------------------------------------------------------------------------------
floor: Final = Scalar("floor", FLOATS, np.floor, "Toward minus infinity.", exact=True, idempotent=True)
ceil: Final = Scalar("ceil", FLOATS, np.ceil, "Toward plus infinity.", exact=True, idempotent=True)
round: Final = Scalar(
    "round", FLOATS, np.rint, "To nearest, ties to even.", exact=True, idempotent=True, parity="odd"
)
trunc: Final = Scalar("trunc", FLOATS, np.trunc, "Toward zero.", exact=True, idempotent=True, parity="odd")

# --- exponentials and logarithms --------------------------------------------------------------------------
exp: Final = Scalar("exp", INEXACT, np.exp, "e**x.", (lambda t, x, y: t * y,), positive=True, weight=14.0)
exp2: Final = Scalar(
    "exp2", FLOATS, np.exp2, "2**x.", (lambda t, x, y: t * y * _LN2,), positive=True, weight=12.0
)
expm1: Final = Scalar(
    "expm1", INEXACT, np.expm1, "e**x - 1, accurate near 0.", (lambda t, x, y: t * (y + 1.0),), weight=20.0
)
log: Final = Scalar("log", INEXACT, np.log, "Natural logarithm.", (lambda t, x, y: t / x,), weight=18.0)
log2: Final = Scalar(
    "log2", INEXACT, np.log2, "Logarithm to base 2.", (lambda t, x, y: t / (x * _LN2),), weight=18.0
)
log1p: Final = Scalar(
    "log1p", INEXACT, np.log1p, "log(1 + x), accurate near 0.", (lambda t, x, y: t / (x + 1.0),), weight=22.0
)

# --- trigonometry -----------------------------------------------------------------------------------------
sin: Final = Scalar(
    "sin", INEXACT, np.sin, "Sine.", (lambda t, x, y: t * cos(x),), parity="odd", weight=25.0
)
cos: Final[Scalar] = Scalar(
    "cos", INEXACT, np.cos, "Cosine.", (lambda t, x, y: -(t * sin(x)),), parity="even", weight=25.0
)
tan: Final = Scalar(
    "tan", INEXACT, np.tan, "Tangent.", (lambda t, x, y: t * (y * y + 1.0),), parity="odd", weight=35.0
)
asin: Final = Scalar(
    "asin", INEXACT, np.arcsin, "Inverse sine.", (lambda t, x, y: t * rsqrt(-(x * x) + 1.0),),
    parity="odd", weight=25.0,
)
acos: Final = Scalar(
    "acos", INEXACT, np.arccos, "Inverse cosine.", (lambda t, x, y: -(t * rsqrt(-(x * x) + 1.0)),), weight=25.0
)
atan: Final = Scalar(
    "atan", INEXACT, np.arctan, "Inverse tangent.", (lambda t, x, y: t / (x * x + 1.0),),
    parity="odd", weight=22.0,
)
sinh: Final = Scalar(
    "sinh", INEXACT, np.sinh, "Hyperbolic sine.", (lambda t, x, y: t * cosh(x),), parity="odd", weight=25.0
)
cosh: Final[Scalar] = Scalar(
    "cosh", INEXACT, np.cosh, "Hyperbolic cosine.", (lambda t, x, y: t * sinh(x),),
    parity="even", positive=True, weight=25.0,
)
tanh: Final = Scalar(
    "tanh", INEXACT, np.tanh, "Hyperbolic tangent.", (lambda t, x, y: t * (-(y * y) + 1.0),),
    parity="odd", weight=20.0,
)
asinh: Final = Scalar(
    "asinh", INEXACT, np.arcsinh, "Inverse hyperbolic sine.", (lambda t, x, y: t * rsqrt(x * x + 1.0),),
    parity="odd", weight=35.0,
)
acosh: Final = Scalar(
    "acosh", INEXACT, np.arccosh, "Inverse hyperbolic cosine.",
    (lambda t, x, y: t * (rsqrt(x - 1.0) * rsqrt(x + 1.0)),), weight=35.0,
)
atanh: Final = Scalar(
    "atanh", INEXACT, np.arctanh, "Inverse hyperbolic tangent.", (lambda t, x, y: t / (-(x * x) + 1.0),),
    parity="odd", weight=30.0,
)

# --- special functions ------------------------------------------------------------------------------------
erf: Final = Scalar(
    "erf", FLOATS, each(math.erf), "Error function.", (lambda t, x, y: t * _density(x),),
    parity="odd", weight=25.0,
)
erfc: Final = Scalar(
    "erfc", FLOATS, each(math.erfc), "1 - erf(x), accurate in the tail.", (lambda t, x, y: -(t * _density(x)),),
    positive=True, weight=30.0,
)
erfinv: Final = Scalar(
    "erfinv", FLOATS, each(erfinv_of), "Inverse of erf.",
    (lambda t, x, y: t * (exp(y * y) * (math.sqrt(math.pi) / 2)),), parity="odd",
)
lgamma: Final = Scalar("lgamma", FLOATS, each(lgamma_of), "log |gamma(x)|.", (lambda t, x, y: t * digamma(x),))
digamma: Final[Scalar] = Scalar(
    "digamma", FLOATS, each(digamma_of), "Derivative of log gamma.", (lambda t, x, y: t * _trigamma(x),)
)

# --- functions of two numbers -----------------------------------------------------------------------------
atan2: Final = Scalar(
    "atan2", FLOATS, np.arctan2, "The angle of the point (y=first, x=second).",
    (lambda t, x, z, y: t * z / (x * x + z * z), lambda t, x, z, y: -(t * x / (x * x + z * z))),
    arity=2, weight=30.0,
)
hypot: Final = Scalar(
    "hypot", FLOATS, np.hypot, "sqrt(x*x + y*y) without overflow.",
    (lambda t, x, z, y: t * x / y, lambda t, x, z, y: t * z / y), arity=2, commutative=True, positive=True,
)
# fmt: on


def _density(x: FormulaValue) -> FormulaValue:
    return exp(-(x * x)) * (2.0 / math.sqrt(math.pi))


# Beyond this the asymptotic series is good to the last bit of a double.
_FAR: Final = 10


def _trigamma(x: FormulaValue) -> FormulaValue:
    """The derivative of digamma: 1/x² + 1/(x+1)² + …, its asymptotic series far out, reflection to the left of 1/2."""
    left = x < 0.5
    z = left.where(-x + 1.0, x)
    near = reciprocal(z * z)
    for step in range(1, _FAR):
        far = z + float(step)
        near = near + reciprocal(far * far)
    inverse = reciprocal(z + float(_FAR))
    square = inverse * inverse
    # 1/x, 1/(2x²) and then Bernoulli numbers over x³, x⁵, …
    tail = square * 0.0
    for number in reversed(BERNOULLI):
        tail = (tail + number) * square
    total = near + inverse * (tail + 1.0) + square * 0.5
    # sin(πx) by the distance to the nearest integer, which is exact
    sine = sin((x - round(x)) * math.pi)
    return left.where(reciprocal(sine * sine) * math.pi**2 - total, total)


__all__ = [
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "cos", "cosh", "digamma", "erf", "erfc", "erfinv",
    "exp", "exp2", "lgamma", "log", "log1p", "log2", "reciprocal", "rsqrt", "sin", "sinh", "sqrt", "tan",
]  # fmt: skip
"""What the Tensor API offers as it is; others it offers with more than the function (`floor` of integers, …)."""
