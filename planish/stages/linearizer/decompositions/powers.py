"""Powers of a constant exponent that are shorter to compute by themselves: whole ones, and odd multiples of one half.

x ** 4      = (x²)²           x² a pair of floats, so that the result is rounded once
x ** -3     = (1/x)² · 1/x    1/x a pair, too
x ** 1.5    = (√x)² · √x      and so is √x

Where a product is out of reach its pair is none (inf - inf), and where it is 0 its sign is lost: plain products say what the power is then.
It takes a fused multiply-add, without which exact products are as long as logarithms.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from planish.stages.linearizer.decompositions.reals import Reals
from planish.stages.linearizer.decompositions.support import Support
from planish.uop.node import UOp
from planish.uop.ops import Ops

_MOST: Final = 16
"""Of larger exponents the products are as many as there are steps in a logarithm and an exponential."""


class _Factor(NamedTuple):
    """hi + lo, or hi alone where that is exact; and the same in plain floats."""

    hi: UOp
    lo: UOp | None
    plain: UOp


def is_short_power(node: UOp, support: Support) -> bool:
    """Whether it is a power of such an exponent, on a machine that multiplies and adds in one."""
    return node.op is Ops.POW and support.fused and node.src[1].op is Ops.CONST and is_short(node.src[1].arg)


def is_short(exponent: object) -> bool:
    """Whether it is whole or an odd multiple of one half, and not large."""
    return isinstance(exponent, float) and 0 < abs(exponent) <= _MOST and (2 * exponent).is_integer()


def short_power(m: Reals, x: UOp, exponent: float) -> UOp:
    """x ** exponent; the exponent is short."""
    if exponent == 0.5:
        return _infinite_below(m, x).alu(Ops.SQRT)
    if not exponent.is_integer():
        x = _infinite_below(m, x)
    small, up = _small(m, x, exponent)
    lifted = x * small.where(m.const(2.0**up), 1.0)
    if exponent.is_integer():
        base, count = _Factor(lifted, None, lifted), int(exponent)
    else:
        base, count = _root(m, lifted), int(2 * exponent)
    power = _whole(m, base if count > 0 else _inverse(m, base), abs(count))
    return power * small.where(m.const(2.0 ** (-up * exponent)), 1.0)


def _infinite_below(m: Reals, x: UOp) -> UOp:
    """A base whose root is taken: -inf counts as inf, and -0 as 0."""
    return x.eq(-math.inf).where(m.const(math.inf), x + 0.0)


def _small(m: Reals, x: UOp, exponent: float) -> tuple[UOp, int]:
    """Where what is rounded off would be below the normal numbers, and the power of two that x is taken times there: an even one."""
    least, far = m.pick(100, 950), int(m.pick(64, 128))
    if exponent == -0.5:  # the root of a small number
        return x < 2.0 ** -(least - 20), far
    size, end = m.magnitude(x), 2.0 ** (least / -exponent)
    up = 2 * math.ceil(far / abs(exponent) / 2)
    return (size < end, up) if exponent > 0 else (size > end, -up)


def _root(m: Reals, x: UOp) -> _Factor:
    root = x.alu(Ops.SQRT)
    return _Factor(root, m.rest(root, root, x) / (root + root), root)


def _whole(m: Reals, base: _Factor, count: int) -> UOp:
    """base ** count by squaring, rounded once; the plain product where the pairs are none, or 0."""
    if count == 1:
        power, plain = base.hi, base.plain
    else:
        before = _power(m, base, count // 2)
        one, other = (before, before) if count % 2 == 0 else (_product(m, before, before), base)
        power, plain = m.fma(one.hi, other.hi, _cross(m, one, other)), one.plain * other.plain
    # where the plain product is a number, so are all pairs, and a result that is none is one that rounding makes 0 or infinite
    return (_is_number(m, power) | _is_number(m, plain)).where(power, plain)


def _is_number(m: Reals, x: UOp) -> UOp:
    """Whether it is neither 0 nor infinite, nor NaN."""
    return (m.magnitude(x).bitcast(m.word) - 1) < m.format.pattern(math.inf) - 1


def _power(m: Reals, base: _Factor, count: int) -> _Factor:
    power = base
    for bit in f"{count:b}"[1:]:
        power = _product(m, power, power)
        if bit == "1":
            power = _product(m, power, base)
    return power


def _cross(m: Reals, x: _Factor, y: _Factor, low: UOp | None = None) -> UOp:
    """What the products of one factor's hi with the other's lo are, and `low`."""
    for one, other in ((x, y), (y, x)):
        if other.lo is not None:
            low = one.hi * other.lo if low is None else m.fma(one.hi, other.lo, low)
    return m.const(0.0) if low is None else low


def _product(m: Reals, x: _Factor, y: _Factor) -> _Factor:
    high, low = m.product(x.hi, y.hi)
    return _Factor(*m.ordered_sum(high, _cross(m, x, y, low)), x.plain * y.plain)


def _inverse(m: Reals, x: _Factor) -> _Factor:
    inverse = m.const(1.0) / x.hi
    rest = m.rest(inverse, x.hi, m.const(1.0))
    if x.lo is not None:
        rest = m.fma(-inverse, x.lo, rest)
    return _Factor(*m.ordered_sum(inverse, rest * inverse), m.const(1.0) / x.plain)
