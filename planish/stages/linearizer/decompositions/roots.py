"""Roots: the cube root, and the reciprocal of the square root. (SQRT itself is a machine op.)"""

from __future__ import annotations

import math

from planish.stages.linearizer.decompositions import coefficients
from planish.stages.linearizer.decompositions.reals import Reals, decomposes
from planish.uop.node import UOp
from planish.uop.ops import Ops


@decomposes(Ops.RSQRT, "rsqrt(x) -> 1 / sqrt(x)")
def rsqrt(m: Reals, x: UOp) -> UOp:
    """1 / sqrt(x): two roundings."""
    return m.const(1.0) / x.alu(Ops.SQRT)


@decomposes(Ops.RECIP_ESTIMATE, "about 1/x -> 1/x")
def recip_estimate(m: Reals, x: UOp) -> UOp:
    return x.alu(Ops.RECIP)


@decomposes(Ops.CBRT, "cbrt(m 2**3k) -> 2**k cbrt(m)")
def cbrt(m: Reals, x: UOp) -> UOp:
    """2**k times the root of m 2**j, the exponent being 3k + j: a cubic to start with, then Halley and Newton."""
    size = m.magnitude(x)
    lifted, shift = m.lift_subnormal(size)
    mantissa, n = m.split(lifted, 1.0)
    # A third of the exponent, rounded down, by a product that is exact for so small a number.
    offset = 3 * 1024
    exponent = n + shift + offset
    third = (exponent * 43691) >> 17
    rest = exponent - third * 3
    value = rest.eq(0).where(mantissa, rest.eq(1).where(mantissa * 2.0, mantissa * 4.0))
    factor = rest.eq(0).where(m.const(1.0), rest.eq(1).where(m.const(2.0 ** (1 / 3)), 2.0 ** (2 / 3)))
    root = m.polynomial(mantissa, coefficients.CBRT) * factor
    for _ in range(1 if m.format.bits == 32 else 2):
        cube = root * root * root
        root = root - root * ((cube - value) / (cube + cube + value))
    # One step of Newton's on the exact cube, so that only the last rounding counts.
    square, square_low = m.product(root, root)
    cube_high, cube_low = m.product(square, root)
    missing = (value - cube_high) - m.fma(square_low, root, cube_low)
    root = root + missing / (square * 3.0)
    result = m.with_sign(root * m.power(third - 1024), m.sign(x))
    return (size.eq(0.0) | (size < math.inf).logical_not()).where(x, result)
