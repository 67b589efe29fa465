"""Complex arithmetic on pairs of reals: the operations, roots, exponentials and hyperbolic functions.

A complex number is a `Pair`: two values of one float dtype and shape. Branch cuts and special values are those of C99 Annex G, as
NumPy has them (semantics section 4). Sums, differences and products are rounded part by part, exactly as the interpreter does;
quotients are Smith's. The functions expect float64, which leaves room for float32 arguments of any size; for float64 they
scale where squares would leave the range.
"""

from __future__ import annotations

import math
from typing import TypeAlias

from planish.ptir.graph_value import GraphValue

Pair: TypeAlias = tuple[GraphValue, GraphValue]
Term: TypeAlias = GraphValue | float


def choose(condition: GraphValue, chosen: Term, other: Term, like: GraphValue) -> GraphValue:
    """`select` of values or numbers of the dtype and shape of `like`."""
    first, second = (
        term if isinstance(term, GraphValue) else like.graph.full(like.dims, term, like.dtype)
        for term in (chosen, other)
    )
    return condition.select(first, second)


def choose_pair(condition: GraphValue, chosen: tuple[Term, Term], other: Pair) -> Pair:
    """`select` of both parts."""
    re, im = (choose(condition, a, b, b) for a, b in zip(chosen, other, strict=True))
    return re, im


def sign_of(x: GraphValue, magnitude: float = 1.0) -> GraphValue:
    """±magnitude by the sign bit of x."""
    return x.graph.full(x.dims, magnitude, x.dtype).copysign(x)


def is_unbounded(x: GraphValue) -> GraphValue:
    """Infinite or NaN."""
    return x.is_finite().not_()


# --- arithmetic -------------------------------------------------------------------------------------------


def add(a: Pair, b: Pair) -> Pair:
    return a[0].add(b[0]), a[1].add(b[1])


def sub(a: Pair, b: Pair) -> Pair:
    return a[0].sub(b[0]), a[1].sub(b[1])


def neg(z: Pair) -> Pair:
    return z[0].neg(), z[1].neg()


def conj(z: Pair) -> Pair:
    return z[0], z[1].neg()


def mul(a: Pair, b: Pair) -> Pair:
    """Four products, each rounded: nothing is contracted."""
    return (a[0].mul(b[0]).sub(a[1].mul(b[1])), a[0].mul(b[1]).add(a[1].mul(b[0])))


def scale(z: Pair, factor: Term) -> Pair:
    return z[0].mul(factor), z[1].mul(factor)


def div(a: Pair, b: Pair) -> Pair:
    """Smith's quotient: divide by the larger part of b first."""
    flat = b[0].abs().ge(b[1].abs())
    large, small = flat.select(b[0], b[1]), flat.select(b[1], b[0])
    ratio = small.div(large)
    shrink = large.add(small.mul(ratio)).reciprocal()
    re = flat.select(a[0].add(a[1].mul(ratio)), a[0].mul(ratio).add(a[1])).mul(shrink)
    im = flat.select(a[1].sub(a[0].mul(ratio)), a[1].mul(ratio).sub(a[0])).mul(shrink)
    nothing = b[0].eq(0.0).and_(b[1].eq(0.0))
    return choose_pair(nothing, scale_down(a, b[0].abs()), (re, im))


def scale_down(z: Pair, divisor: GraphValue) -> Pair:
    return z[0].div(divisor), z[1].div(divisor)


def reciprocal(z: Pair) -> Pair:
    """1/z, by the larger part."""
    x, y = z
    flat = y.abs().le(x.abs())
    ratio = flat.select(y, x).div(flat.select(x, y))
    whole = flat.select(x, y).add(flat.select(y, x).mul(ratio))
    one = x.graph.full(x.dims, 1.0, x.dtype)
    return flat.select(one, ratio).div(whole), flat.select(ratio, one).neg().div(whole)


def modulus(z: Pair) -> GraphValue:
    return z[0].hypot(z[1])


def sign(z: Pair) -> Pair:
    """z/|z|, 0 at 0; a single infinite part has the direction of its axis."""
    x, y = z
    length = modulus(z)
    direction = scale_down(z, length)
    zero = length.eq(0.0)
    nan = x.is_nan().or_(y.is_nan())
    body = choose_pair(nan, (math.nan, math.nan), choose_pair(zero, (0.0, 0.0), direction))
    far_x, far_y = x.is_inf(), y.is_inf()
    on_x = choose_pair(far_x.and_(far_y.not_()), (sign_of(x), 0.0), body)
    return choose_pair(far_y.and_(far_x.not_()), (0.0, sign_of(y)), on_x)


def equal(a: Pair, b: Pair) -> GraphValue:
    return a[0].eq(b[0]).and_(a[1].eq(b[1]))


def by_i(z: Pair) -> Pair:
    """i·z."""
    return z[1].neg(), z[0]


def by_minus_i(z: Pair) -> Pair:
    """-i·z."""
    return z[1], z[0].neg()


# --- roots, exponential, logarithm ------------------------------------------------------------------------

_HUGE = 1e300
_TINY = 2.0**-960


def sqrt(z: Pair) -> Pair:
    """The root with a real part that is not negative; the imaginary part has the sign of y."""
    x, y = z
    width = x.abs().max(y.abs())
    # Scaled by 4ᵏ, so that neither squares nor sums leave the range; the root is scaled by 2ᵏ.
    large, small = width.gt(_HUGE), width.lt(_TINY)
    factor = choose(large, 0.25, choose(small, 2.0**108, 1.0, x), x)
    back = choose(large, 2.0, choose(small, 2.0**-54, 1.0, x), x)
    u, v = x.mul(factor), y.mul(factor)
    root = u.abs().add(u.hypot(v)).mul(0.5).sqrt()
    zero = root.eq(0.0)
    half = v.abs().div(choose(zero, 1.0, root.add(root), x))
    right = x.ge(0.0)
    re, im = right.select(root, half).mul(back), right.select(half, root).mul(back).copysign(y)
    finite = choose_pair(zero, (0.0, y), (re, im))
    # Beyond the finite numbers.
    forward = choose_pair(x.eq(math.inf), (math.inf, choose(y.is_nan(), y, sign_of(y, 0.0), y)), finite)
    backward = (choose(y.is_nan(), y, 0.0, y), sign_of(y, math.inf))
    ends = choose_pair(x.eq(-math.inf), backward, forward)
    upward = choose_pair(y.is_inf(), (math.inf, y), ends)
    lost = x.is_nan().and_(y.is_inf().not_())
    return choose_pair(lost, (math.nan, math.nan), upward)


def rsqrt(z: Pair) -> Pair:
    one = z[0].graph.full(z[0].dims, 1.0, z[0].dtype)
    return div((one, z[0].graph.full(z[0].dims, 0.0, z[0].dtype)), sqrt(z))


def _grown(x: GraphValue) -> tuple[GraphValue, GraphValue]:
    """exp(x) as a product of two factors, neither of which overflows before the product does."""
    large = x.gt(700.0)
    factor = large.select(x.mul(0.5), x).exp()
    return factor, choose(large, factor, 1.0, x)


def exp(z: Pair) -> Pair:
    """The exponential of x, turned by y."""
    x, y = z
    first, second = _grown(x)
    re, im = (first.mul(part).mul(second) for part in (y.cos(), y.sin()))
    real = choose_pair(y.eq(0.0), (first.mul(second), y), (re, im))
    nowhere = is_unbounded(y)
    down = choose_pair(x.eq(-math.inf).and_(nowhere), (0.0, sign_of(y, 0.0)), real)
    return choose_pair(x.eq(math.inf).and_(nowhere), (math.inf, math.nan), down)


def expm1(z: Pair) -> Pair:
    """The exponential less 1, accurate near 0, by cos y = 1 - 2·sin²(y/2)."""
    x, y = z
    half = y.mul(0.5).sin()
    return x.expm1().mul(y.cos()).sub(half.add(half).mul(half)), x.exp().mul(y.sin())


def log(z: Pair) -> Pair:
    """(log|z|, angle)."""
    return log_modulus(z), z[1].atan2(z[0])


def log_modulus(z: Pair) -> GraphValue:
    """log|z|, accurate near |z| = 1, for every z."""
    x, y = z[0].abs(), z[1].abs()
    long, short = x.max(y), x.min(y)
    near = long.sub(1.0).mul(long.add(1.0)).add(short.mul(short)).log1p().mul(0.5)
    huge = long.gt(_HUGE)
    half = choose(huge, 0.5, 1.0, x)
    length = x.mul(half).hypot(y.mul(half))
    far = length.log().add(choose(huge, math.log(2.0), 0.0, x))
    return length.gt(0.5).and_(length.lt(2.0)).select(near, far)


def log2(z: Pair) -> Pair:
    return scale(log(z), 1.0 / math.log(2.0))


def log1p(z: Pair) -> Pair:
    """log(1 + z)."""
    x, y = z[0].add(1.0), z[1]
    return x.hypot(y).log(), y.atan2(x)


# --- hyperbolic and trigonometric -------------------------------------------------------------------------


def _sinh_cosh(x: GraphValue) -> tuple[GraphValue, GraphValue, GraphValue]:
    """sinh x and cosh x, both to be multiplied by the third value once more, last."""
    large = x.abs().gt(700.0)
    half = x.abs().mul(0.5).exp()
    start = half.mul(0.5)
    sinh = large.select(start.copysign(x), x.sinh())
    cosh = large.select(start, x.cosh())
    return sinh, cosh, choose(large, half, 1.0, x)


def sinh(z: Pair) -> Pair:
    """(sinh x cos y, cosh x sin y)."""
    x, y = z
    grow, even, last = _sinh_cosh(x)
    re, im = grow.mul(y.cos()).mul(last), even.mul(y.sin()).mul(last)
    real = choose_pair(y.eq(0.0), (grow.mul(last), y), (re, im))
    nowhere = is_unbounded(y)
    zero = choose_pair(x.eq(0.0).and_(nowhere), (x, math.nan), real)
    return choose_pair(x.is_inf().and_(nowhere), (x, math.nan), zero)


def cosh(z: Pair) -> Pair:
    """(cosh x cos y, sinh x sin y)."""
    x, y = z
    odd, grow, last = _sinh_cosh(x)
    re, im = grow.mul(y.cos()).mul(last), odd.mul(y.sin()).mul(last)
    real = choose_pair(y.eq(0.0), (grow.mul(last), y.mul(sign_of(x))), (re, im))
    nowhere = is_unbounded(y)
    zero = choose_pair(x.eq(0.0).and_(nowhere), (math.nan, x.mul(sign_of(y))), real)
    return choose_pair(x.is_inf().and_(nowhere), (math.inf, math.nan), zero)


def tanh(z: Pair) -> Pair:
    """Kahan's form, which has no cancellation; beyond |x| = 22 the real part is ±1."""
    x, y = z
    slope = y.tan()
    beta = slope.mul(slope).add(1.0)
    grow = x.sinh()
    root = grow.mul(grow).add(1.0).sqrt()
    bottom = beta.mul(grow).mul(grow).add(1.0)
    middle = (beta.mul(root).mul(grow).div(bottom), slope.div(bottom))
    small = x.abs().mul(-2.0).exp()
    edge = (sign_of(x), y.sin().mul(y.cos()).mul(4.0).mul(small))
    body = choose_pair(x.abs().gt(22.0), edge, middle)
    real = choose_pair(y.eq(0.0), (x.tanh(), y), body)
    nowhere = is_unbounded(y)
    zero = choose_pair(x.eq(0.0).and_(nowhere), (x, math.nan), real)
    lost = choose_pair(is_unbounded(x).not_().and_(x.ne(0.0)).and_(nowhere), (math.nan, math.nan), zero)
    return choose_pair(x.is_inf().and_(nowhere), (sign_of(x), sign_of(y, 0.0)), lost)


def sin(z: Pair) -> Pair:
    return by_minus_i(sinh(by_i(z)))


def cos(z: Pair) -> Pair:
    return cosh(by_i(z))


def tan(z: Pair) -> Pair:
    return by_minus_i(tanh(by_i(z)))
