"""Functions of floats that the kernel IR has no op for: erfinv, lgamma, digamma, in terms of those it has.

Narrow floats come here widened to float32. The gamma functions compute float32 in float64, so that cancellation costs nothing;
float64 itself stays within 16 ULP, or 16 eps absolute near a zero (docs/semantics.md 1.5).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Final

from planish import dtypes
from planish.scalars.special import BERNOULLI
from planish.uop.node import UOp
from planish.uop.ops import Ops

Function = Callable[[UOp], UOp]


def _in_double(function: Function) -> Function:
    @wraps(function)
    def compute(x: UOp) -> UOp:
        return function(x.cast(dtypes.float64)).cast(x.dtype)

    return compute


def _polynomial(x: UOp, coefficients: Sequence[float]) -> UOp:
    """The first coefficient is that of the highest power."""
    total = x.const_like(coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total


# -- the inverse of erf ----------------------------------------------------------------------------------------------
# Of erfinv(x) / x, with w = -log(1 - x²): polynomials in w - center below the first limit, then in sqrt(w) - center.
# Interpolated at Chebyshev nodes, highest power first. Arguments below 1 stay below the last limit.

_SINGLE_NEAR: Final = (
    -8.931926309685423e-09, 2.333596782477798e-08, 4.681313612309168e-07, -3.4639851946849376e-06,
    -4.972419901605463e-06, 0.00021834939252585173, -0.0012527264188975096, -0.004177392926067114,
    0.24664027988910675, 1.5014094114303589,
)  # fmt: skip
_SINGLE_FAR: Final = (
    0.00012038586282869801, -0.0003137155727017671, -6.295263301581144e-05, 0.0014898369554430246,
    -0.0035945950075984, 0.005685348063707352, -0.007637774106115103, 0.009445450268685818,
    1.001675009727478, 2.832976818084717,
)  # fmt: skip
_DOUBLE_NEAR: Final = (
    3.240704459379902e-21, -1.113483769832702e-21, -3.4996044354754177e-19, 1.150022252066253e-18,
    1.557432024623325e-17, -1.3016928016796445e-16, -4.0282154327661744e-17, 6.596407712420834e-15,
    -4.001237735091896e-14, -8.118399443074353e-14, 2.6304834740560442e-12, -1.2976885526532075e-11,
    -5.414287198084716e-11, 1.0512181539804126e-09, -4.11266082002324e-09, -2.9070382262927266e-08,
    4.234788173782339e-07, -1.3654691850603575e-06, -1.3882523394405316e-05, 0.00018673420802464837,
    -0.000740702534154477, -0.00603367087142785, 0.2401581824255883, 1.6536545626831027,
)  # fmt: skip
_DOUBLE_FAR: Final = (
    -1.5102695423335065e-08, 6.969241977629694e-10, 1.3104351499972014e-07, -2.713451105439456e-07,
    -2.7004219280868947e-08, 1.4987130784186127e-06, -3.986084395214756e-06, 2.9257291901789823e-06,
    1.2465167157087251e-05, -4.731898412011245e-05, 6.828708654753377e-05, 2.4031257015092525e-05,
    -0.00035503780975963814, 0.0009532893637435638, -0.0016882755357337071, 0.0024914420969817607,
    -0.003751208508215561, 0.00537091455357168, 1.0052589676941652, 3.0838856104922208,
)  # fmt: skip
_DOUBLE_FARTHEST: Final = (
    -1.5439278197208357e-11, 4.2802433037309425e-11, 4.6977303445962895e-11, -4.3738896637340697e-10,
    1.3589365341577091e-09, -3.471437933896719e-09, 7.777428539826636e-09, -1.525516018129263e-08,
    2.9044909320789473e-08, -6.75560303537366e-08, 2.2904362741369038e-07, -9.930294774982885e-07,
    4.526054328559671e-06, -1.9681770676949253e-05, 7.59952779202494e-05, -0.00021503011983024694,
    -0.000138719318373517, 1.0103004648645455, 4.849906401408584,
)  # fmt: skip


def erfinv(x: UOp) -> UOp:
    """x p(w): 1 - |x| is exact, so that w is good to the last bit however close x is to 1."""
    size = x.alu(Ops.ABS)
    rest = 1.0 - size
    w = (size > 0.5).where(-(rest * (size + 1.0)).alu(Ops.LOG), -(-(x * x)).alu(Ops.LOG1P))
    root = w.alu(Ops.SQRT)
    if x.dtype is dtypes.float32:
        near, limit = _polynomial(w - 2.5, _SINGLE_NEAR), 5.0
        far = _polynomial(root - 3.0, _SINGLE_FAR)
    else:
        near, limit = _polynomial(w - 3.125, _DOUBLE_NEAR), 6.25
        farthest = _polynomial(root - 5.0, _DOUBLE_FARTHEST)
        far = (root < 4.0).where(_polynomial(root - 3.25, _DOUBLE_FAR), farthest)
    y = x * (w < limit).where(near, far)
    # w is infinite at 1, and NaN beyond
    return size.eq(1.0).where(x * math.inf, y)


# -- the gamma function ----------------------------------------------------------------------------------------------

_LARGE: Final = 10.0
"""From here on the asymptotic series hold: the first term left out is below 2**-53 of the sum."""
_STEPS: Final = 8
_STIRLING: Final = tuple(b / (2 * k * (2 * k - 1)) for k, b in enumerate(BERNOULLI, 1))
_DIGAMMA: Final = tuple(b / (2 * k) for k, b in enumerate(BERNOULLI, 1))
_LGAMMA: Final = (
    -3.3634106716698643e-06, 5.243347943772127e-06, -3.141701075555155e-06, 4.939312310674292e-06,
    -1.1093831935230702e-05, 1.7455601766662794e-05, -2.628414257610881e-05, 4.159729145290115e-05,
    -6.633218881329272e-05, 0.00010565261976836096, -0.00016889233273334643, 0.00027127400224009565,
    -0.0004379952605342461, 0.0007115224750426455, -0.0011644144679247021, 0.0019229161306902386,
    -0.0032120740773551953, 0.005446457844800713, -0.009425622448467657, 0.01679709863118352,
    -0.03130848750101101, 0.06291140107456496, -0.14595989591430608, 0.4831289505409809,
)  # fmt: skip
"""log Γ(v + 3/2) / ((v + 1/2)(v - 1/2)) for |v| <= 1/2, highest power first: interpolated at Chebyshev nodes."""


def _sin_pi(x: UOp) -> UOp:
    """|sin(πx)|, from the distance to the nearest integer, which is exact."""
    away = (x - x.alu(Ops.ROUND)).alu(Ops.ABS)
    return (away * math.pi).alu(Ops.SIN)


@_in_double
def lgamma(x: UOp) -> UOp:
    """log|Γ(x)|: Stirling's series above 10; below, Γ(x) = (x-1)…(t) Γ(t) with t in [1, 2); left of 1/2 the reflection."""
    reflected = x < 0.5
    z = reflected.where(1.0 - x, x)
    # down to [1, 2) by factors, which one logarithm takes together
    t, factor = z, z.const_like(1.0)
    for _ in range(_STEPS):
        above = t >= 2.0
        t = above.where(t - 1.0, t)
        factor = above.where(factor * t, factor)
    below = t < 1.0  # z from [1/2, 1)
    factor = below.where(t, factor)
    t = below.where(t + 1.0, t)
    u = t - 1.0
    core = u * (u - 1.0) * _polynomial(u - 0.5, _LGAMMA)
    logarithm = (factor - 1.0).alu(Ops.LOG1P)
    small = below.where(core - logarithm, core + logarithm)
    inverse = 1.0 / z
    series = _polynomial(inverse * inverse, _STIRLING[::-1]) * inverse
    large = ((z - 0.5) * z.alu(Ops.LOG) - z) + (series + 0.5 * math.log(2 * math.pi))
    value = (z < _LARGE).where(small, (z < math.inf).where(large, z))
    sine = _sin_pi(x)
    mirrored = (math.pi / sine).alu(Ops.LOG) - value
    # a pole where x is an integer; beyond 2**52 every number is one
    mirrored = (x <= 0.0).alu(Ops.AND, x.eq(x.alu(Ops.FLOOR))).where(x.const_like(math.inf), mirrored)
    result = reflected.where(mirrored, value)
    return x.ne(x).where(x, x.alu(Ops.ABS).eq(math.inf).where(x.const_like(math.inf), result))


@_in_double
def digamma(x: UOp) -> UOp:
    """The recurrence up to 10, then the asymptotic series; left of 0 the reflection ψ(1-x) - π cot(πx)."""
    reflected = x < 0.0
    z = reflected.where(1.0 - x, x)
    shift = z.const_like(0.0)
    for _ in range(int(_LARGE)):
        small = z < _LARGE
        shift = small.where(shift + 1.0 / z, shift)
        z = small.where(z + 1.0, z)
    inverse = 1.0 / z
    square = inverse * inverse
    tail = _polynomial(square, _DIGAMMA[::-1]) * square
    value = ((z.alu(Ops.LOG) - inverse * 0.5) - tail) - shift
    value = z.eq(math.inf).where(z, value)
    away = x - x.alu(Ops.ROUND)
    mirrored = value - math.pi / (away * math.pi).alu(Ops.TAN)
    mirrored = away.eq(0.0).where(x.const_like(math.nan), mirrored)
    result = reflected.where(mirrored, value)
    result = x.eq(-math.inf).where(x.const_like(math.nan), result)
    return x.eq(0.0).where(-1.0 / x, result)
