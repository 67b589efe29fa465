"""Trigonometric functions and their inverses.

sin x, cos x, tan x          x = q π/2 + r, |r| <= π/4. Up to 2**17 (float64: 2**26) π/2 in three parts, whose products are exact;
                             beyond, which is rare, by Payne and Hanek: x times enough bits of 1/2π in integers, so that
                             every finite x, however large, has a fraction of full precision
atan2(y, x)                  n / d with 0 <= n <= d; above tan(π/8) turned by π/4: atan(n/d) = π/4 + atan((n-d)/(n+d))
asin x, acos x               a polynomial up to 1/2; beyond by the root of (1 - |x|)/2
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

from planish import dtypes
from planish.stages.linearizer.decompositions import coefficients
from planish.stages.linearizer.decompositions.reals import Pair, Reals, decomposes
from planish.uop.node import UOp
from planish.uop.ops import Ops

INVERSE_TAU: Final = int(
    "28be60db9391054a7f09d5f47d4d377036d8a5664f10e4107f9458eaf7aef1586dc91b8e909374b801924bba827464873f877ac72c4a69cf"
    "ba208d7d4baed1213a671c09ad17df904e64758e60d4ce7d272117e2ef7e4a0ec7fe25fff7816603fbcbc462d6829b47db4d9fb3c9f2c26d"
    "d3d18fd9a797fa8b5d49eeb1faf97c5ecf41ce7de294a4ba9afed7ec47e35742",
    16,
)
INVERSE_TAU_BITS: Final = 1152
"""1/2π = INVERSE_TAU / 2**INVERSE_TAU_BITS."""

_RIGHT_ANGLE: Final = {
    32: (1.570796251296997, 7.549789415861596e-08, 5.390302529957765e-15),
    64: (1.5707963267948966, 6.123233995736765e-17, 1.0828566739219139e-32),
}
"""π/2 in three parts."""
_FAR: Final = {32: 2.0**17, 64: 2.0**26}
"""From here on three parts are too few, or the quotient is too far from the nearest integer."""

_QUARTER: Final = {
    32: (0.785398006439209, 1.5695823663008923e-07),
    64: (0.7853981633974474, 9.18794589678809e-16),
}
"""π/4 in two parts, the first so short that its multiples up to 4 are exact."""


def _words(m: Reals) -> list[int]:
    """1/2π cut into words, after one word of zeros."""
    width = m.format.bits
    count = (m.format.bias + 1) // width + 4
    whole = INVERSE_TAU << (width * count)  # zeros at the end never reach the result
    total = INVERSE_TAU_BITS + width * count
    return [0] + [(whole >> (total - width * (k + 1))) & ((1 << width) - 1) for k in range(count - 1)]


def _window(m: Reals, skip: UOp) -> list[UOp]:
    """Three words of the expansion behind the first `skip` bits."""
    width = m.format.bits
    number = skip >> (width.bit_length() - 1)
    words: list[UOp] = [m.table.const(word, m.word) for word in _words(m)]
    step = 1 << ((m.format.bias + 1) // width).bit_length() - 1
    while step:
        needed = 3 + step  # what this and the smaller steps can still ask for
        chosen = (number & step).ne(0)
        words = [
            chosen.where(words[k + step], words[k]) if k + step < len(words) else words[k]
            for k in range(min(needed, len(words)))
        ]
        step >>= 1
    amount = skip & (width - 1)
    back = (width - 1) - amount
    # A shift by the whole width, where amount is 0, is made of two.
    return [(words[k] << amount) | ((words[k + 1] >> 1) >> back) for k in range(3)]


def _wide_product(m: Reals, x: UOp, y: UOp) -> tuple[UOp, UOp]:
    """The high and the low word of the product of two words."""
    if m.format.bits == 32:
        wide = x.cast(dtypes.uint64) * y.cast(dtypes.uint64)
        return (wide >> 32).cast(dtypes.uint32), wide.cast(dtypes.uint32)
    mask = 0xFFFFFFFF
    a, b, c, d = x >> 32, x & mask, y >> 32, y & mask
    low, cross1, cross2, high = b * d, a * d, b * c, a * c
    middle = (low >> 32) + (cross1 & mask) + (cross2 & mask)
    return high + (cross1 >> 32) + (cross2 >> 32) + (middle >> 32), x * y


def reduce_angle(m: Reals, size: UOp) -> tuple[UOp, Pair]:
    """q (an unsigned word) and r with size = q π/2 + r, |r| <= π/4; size >= 0 and finite."""
    width, half, mantissa = m.format.bits, m.format.bits // 2, m.format.mantissa
    pattern = size.bitcast(m.word)
    exponent = pattern >> mantissa
    # 1 + the unbiased exponent; below 1/2 it is not needed
    skip = (exponent < m.format.bias - 1).where(m.table.const(0, m.word), exponent - (m.format.bias - 1))
    significand = (pattern << (width - 1 - mantissa)) | (1 << (width - 1))
    first, second, third = _window(m, skip)
    middle_high, middle_low = _wide_product(m, significand, second)
    below, _ = _wide_product(m, significand, third)
    low = middle_low + below
    carry = (low < middle_low).where(m.table.const(1, m.word), 0)
    high = significand * first + middle_high + carry
    # Two bits are the quadrant; the rest is a signed fraction of a quarter turn.
    fraction = (high << 2) | (low >> (width - 2))
    quadrant = (high >> (width - 2)) + (fraction >> (width - 1))
    # In half words, which floats hold exactly, each put under the right exponent.
    top = fraction ^ (1 << (width - 1))  # offset instead of sign
    pieces = [top >> half, fraction & ((1 << half) - 1), (low << 2) >> half, (low << 2) & ((1 << half) - 1)]
    floats = []
    for place, piece in enumerate(pieces, start=1):
        unit = 2.0 ** (mantissa - half * place)
        offset = unit if place > 1 else unit + 0.5
        floats.append(m.from_bits((piece | m.format.pattern(unit)).bitcast(m.signed)) - offset)
    high_part, lost = m.ordered_sum(floats[0], floats[1])
    turn_high, turn_low = m.ordered_sum(high_part, floats[2] + floats[3])
    right_angle = m.constant_pair(
        m.pick(1.5707963705062866, math.pi / 2), m.pick(-4.371138828673793e-08, 6.123233995736766e-17)
    )
    reduced = m.multiply(Pair(turn_high, turn_low + lost), right_angle)
    small = size < math.pi / 4
    zero = m.const(0.0)
    return (
        small.where(m.table.const(0, m.word), quadrant),
        Pair(small.where(size, reduced.hi), small.where(zero, reduced.lo)),
    )


def _reduce_near(m: Reals, x: UOp) -> tuple[UOp, Pair]:
    """q (an integer node) and r with x = q π/2 + r, |r| <= about π/4; |x| < _FAR; with a fused multiply-add."""
    first, second, third = _RIGHT_ANGLE[m.format.bits]
    magic = 1.5 * 2.0**m.format.mantissa
    shifted = m.fma(x, m.const(2 / math.pi), m.const(magic))
    n = shifted - magic
    # x and n times the first part are multiples of the last place of the second, so is their difference: it is exact
    rest = m.fma(n, m.const(-first), x)
    product, product_low = m.product(n, m.const(second))
    high = rest - product
    lost = (rest - high) - product
    return m.bits(shifted), Pair(high, m.fma(n, m.const(-third), lost - product_low))


def _sine(m: Reals, r: Pair, z: UOp) -> Pair:
    """sin(r) = r + r z S(z), z = r²."""
    return Pair(r.hi, m.fma(r.hi * z, m.polynomial(z, coefficients.SIN), m.fma(z * -0.5, r.lo, r.lo)))


def _cosine(m: Reals, r: Pair, z: UOp) -> Pair:
    """cos(r) = 1 - z/2 + z² C(z) - r.hi r.lo."""
    one, half = m.const(1.0), m.const(-0.5)
    high = m.fma(z, half, one)
    lost = m.fma(z, half, one - high)
    return Pair(high, m.fma(z * z, m.polynomial(z, coefficients.COS), m.fma(-r.hi, r.lo, lost)))


class _Angle(NamedTuple):
    """x = ± (quadrant π/2 + r), of which only the sign is taken from x; the quadrant is an integer node, modulo 4."""

    x: UOp
    quadrant: UOp
    r: Pair


def _by_angle(m: Reals, x: UOp, function: Callable[[Reals, _Angle], UOp]) -> UOp:
    """A function of an angle: the short way, and where a lane is too far away, infinite or NaN, the long one."""
    size = m.magnitude(x)
    quadrant, r = reduce_angle(m, size)
    anywhere = function(m, _Angle(x, quadrant.bitcast(m.signed), r))
    anywhere = m.nan_where((size < math.inf).logical_not(), anywhere)
    if not (m.fused and m.branches):
        return anywhere
    near = function(m, _Angle(x, *_reduce_near(m, size)))
    return m.rare((size < _FAR[m.format.bits]).logical_not(), anywhere, near)


def _sin(m: Reals, angle: _Angle) -> UOp:
    x, quadrant, r = angle
    z = r.hi * r.hi
    sine, cosine = _sine(m, r, z), _cosine(m, r, z)
    odd = (quadrant & 1).ne(0)
    value = odd.where(cosine.hi, sine.hi) + odd.where(cosine.lo, sine.lo)
    # negative in quadrants 2 and 3
    return m.with_sign(value, m.sign_bit(m.bits(x) ^ (quadrant << (m.format.bits - 2))))


def _cos(m: Reals, angle: _Angle) -> UOp:
    _, quadrant, r = angle
    z = r.hi * r.hi
    sine, cosine = _sine(m, r, z), _cosine(m, r, z)
    odd = (quadrant & 1).ne(0)
    value = odd.where(sine.hi, cosine.hi) + odd.where(sine.lo, cosine.lo)
    # negative in quadrants 1 and 2
    return m.with_sign(value, m.sign_bit((quadrant + 1) << (m.format.bits - 2)))


def _tan(m: Reals, angle: _Angle) -> UOp:
    """r + r z T(z), z = r²; in odd quadrants -1 over it."""
    x, quadrant, r = angle
    z = r.hi * r.hi
    # what r.lo adds: r.lo (1 + tan²), about
    tail = m.fma(r.hi * z, m.polynomial(z, coefficients.TAN), m.fma(z, r.lo, r.lo))
    tangent, low = m.ordered_sum(r.hi, tail)
    inverse = m.const(1.0) / tangent
    missing = m.fma(-low, inverse, m.rest(inverse, tangent, m.const(1.0)))
    value = (quadrant & 1).ne(0).where(m.fma(missing, inverse, inverse), tangent)
    return m.with_sign(value, m.sign_bit(m.bits(x) ^ (quadrant << (m.format.bits - 1))))


@decomposes(Ops.SIN, "sin(x) -> ±sin(r) or ±cos(r), x = q π/2 + r")
def sin(m: Reals, x: UOp) -> UOp:
    return _by_angle(m, x, _sin)


@decomposes(Ops.COS, "cos(x) -> ±cos(r) or ±sin(r), x = q π/2 + r")
def cos(m: Reals, x: UOp) -> UOp:
    return _by_angle(m, x, _cos)


@decomposes(Ops.TAN, "tan(x) -> ±(sin(r)/cos(r))**±1, x = q π/2 + r")
def tan(m: Reals, x: UOp) -> UOp:
    return _by_angle(m, x, _tan)


# -- inverses -------------------------------------------------------------------------------------------------------


def _angle(m: Reals, y: UOp, x: UOp, *, flip: UOp | None) -> UOp:
    """The angle of the point (x, y), y, x >= 0 and not both 0 or infinite; where `flip`, of (-x, y)."""
    swapped = x < y
    n, d = swapped.where(x, y), swapped.where(y, x)
    turned = n > d * 0.41421356
    top, (bottom, lost) = turned.where(n - d, n), m.ordered_sum(d, turned.where(n, m.const(0.0)))
    inverse = m.const(1.0) / bottom if m.fused else None
    t = top / bottom if inverse is None else top * inverse
    missing = m.rest(t, bottom, top) - t * lost
    missing = missing / bottom if inverse is None else missing * inverse
    # A quotient near the smallest numbers is its own result, and what it lacks cannot be told any more.
    missing = (m.magnitude(t) < 2.0**-m.format.precision).where(m.const(0.0), missing)
    z = t * t
    tail = m.fma(t * z, m.polynomial(z, coefficients.ATAN), missing)
    # angle = k π/4 ± (t + tail)
    k = turned.where(m.const(1.0), 0.0)
    k = swapped.where(m.const(2.0) - k, k)
    down = swapped
    if flip is not None:
        k = flip.where(m.const(4.0) - k, k)
        down = down ^ flip
    t, tail = down.where(-t, t), down.where(-tail, tail)
    high, low = _QUARTER[m.format.bits]
    total, lost = m.ordered_sum(k * high, t)
    return total + (lost + m.fma(k, m.const(low), tail))


@decomposes(Ops.ATAN, "atan(x) -> k π/4 ± atan(t), |t| <= tan(π/8)")
def atan(m: Reals, x: UOp) -> UOp:
    # From here on the angle is π/2 to the last bit.
    size = m.clamp(m.magnitude(x), 0.0, 2.0 ** (m.format.precision + 3))
    return m.with_sign(_angle(m, size, m.const(1.0), flip=None), m.sign(x))


@decomposes(Ops.ATAN2, "atan2(y, x) -> k π/4 ± atan(t), |t| <= tan(π/8)")
def atan2(m: Reals, y: UOp, x: UOp) -> UOp:
    height, width = m.magnitude(y), m.magnitude(x)
    zero, one = m.const(0.0), m.const(1.0)
    # Sum and product of both are to stay in range. What the smaller loses at the lower end, the quotient would too.
    far = 2.0 ** (m.format.bias // 2)
    largest = (height < width).where(width, height)
    scale = (largest >= far).where(m.const(2.0 / far), (largest < 1.0 / far).where(m.const(far), one))
    tall, wide = height.eq(math.inf), width.eq(math.inf)
    a = tall.where(one, wide.where(zero, height * scale))
    b = (wide | largest.eq(0.0)).where(one, tall.where(zero, width * scale))
    angle = _angle(m, a, b, flip=m.bits(x) < 0)
    return m.nan_where(x.ne(x) | y.ne(y), m.with_sign(angle, m.sign(y)))


def _arc(m: Reals, size: UOp) -> tuple[UOp, Pair, UOp]:
    """Whether size > 1/2, then asin of size, or else half the acos: as t + tail; t a pair."""
    far = size > 0.5
    z = far.where((m.const(1.0) - size) * 0.5, size * size)
    root = z.alu(Ops.SQRT)
    correction = m.rest(root, root, z) / (root + root)
    zero = m.const(0.0)
    t = Pair(far.where(root, size), (far & root.ne(0.0)).where(correction, zero))
    return far, t, m.fma(t.hi * z, m.polynomial(z, coefficients.ASIN), t.lo)


@decomposes(Ops.ASIN, "asin(x) -> π/2 - 2 asin(sqrt((1 - x)/2))")
def asin(m: Reals, x: UOp) -> UOp:
    size = m.magnitude(x)
    far, t, tail = _arc(m, size)
    high, low = _QUARTER[m.format.bits]
    # π/2 - 2 (t + tail)
    folded, lost = m.ordered_sum(m.const(2 * high), t.hi * -2.0)
    beyond = folded + (lost + (tail * -2.0 + 2 * low))
    result = far.where(beyond, t.hi + tail)
    return m.nan_where((size <= 1.0).logical_not(), m.with_sign(result, m.sign(x)))


@decomposes(Ops.ACOS, "acos(x) -> 2 asin(sqrt((1 - x)/2))")
def acos(m: Reals, x: UOp) -> UOp:
    size = m.magnitude(x)
    far, t, tail = _arc(m, size)
    high, low = _QUARTER[m.format.bits]
    negative = m.bits(x) < 0
    # 1/2 < |x|: 2 (t + tail), or π minus it. Else π/2 -+ (t + tail).
    first = far.where(negative.where(m.const(4 * high), 0.0), m.const(2 * high))
    second = far.where(negative.where(m.const(4 * low), 0.0), m.const(2 * low))
    factor = far.where(negative.where(m.const(-2.0), 2.0), negative.where(m.const(1.0), -1.0))
    total, lost = m.ordered_sum(first, t.hi * factor)
    result = total + (lost + m.fma(tail, factor, second))
    return m.nan_where((size <= 1.0).logical_not(), result)
