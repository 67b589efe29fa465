"""Division and modulo, with floor semantics: the arithmetic that reshapes turn into, made to vanish.

Everything rests on one view: write the dividend as `x = Σ fᵢ·tᵢ + k` (`affine.py`) and, for a number g, split each
factor into `fᵢ = g·qᵢ + rᵢ`. If `Σ rᵢ·tᵢ + k` stays within one period of g, by its bounds, then `x // g` is the plain sum
`Σ qᵢ·tᵢ + m`. With g the divisor that ends the division; with g a factor of it, a smaller division is left.

Floor semantics need no conditions on signs. On `index` nothing wraps; on user integers the few rules here ask
bounds that exclude it. A symbolic divisor must be proved positive.
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd
from typing import Final

from planish.algebra import scalar
from planish.uop.matcher import Matcher, rule
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.pattern import INDEX, INTEGERS, INTEGRAL, node, where
from planish.uop.symbolic.affine import Affine, affine, known_affine
from planish.uop.symbolic.lawful import rules
from planish.uop.symbolic.letters import a, b, c, integer, p, x, y
from planish.uop.symbolic.polynomial import divide_by_symbol

_DIVISORS_LIMIT: Final = 1 << 16
"""Up to here all factors of a divisor are tried; above, those it shares with the factors of the dividend."""

_DIVISIONS: Final = frozenset({Ops.FLOORDIV, Ops.FLOORMOD})


def _build(parts: Affine, like: UOp) -> UOp | None:
    return parts.build(like) if parts.fits else None


# -- one period ------------------------------------------------------------------------------------------------


def _quotient(parts: Affine, g: int) -> Affine | None:
    """`x // g` as a plain sum, if the remainders of the factors keep x within one period of g."""
    for prefer in (_nearest, _nearest_below, _above):
        low = high = parts.constant
        quotients: dict[UOp, int] = {}
        changed = False
        for term, factor in parts.terms.items():
            r = factor % g
            if r:
                rest = prefer(r, g)
                changed = changed or rest != r
                least, most = term._interval()
                if rest > 0:
                    low += rest * least
                    high += rest * most
                else:
                    low += rest * most
                    high += rest * least
                if high - low >= g:
                    break
                r = rest
            if factor != r:
                quotients[term] = (factor - r) // g
        else:
            period = low // g
            if period == high // g:
                return Affine(quotients, period)
        if not changed and prefer is _nearest_below:
            return None  # the third choice is what was just tried
    return None


def _nearest(r: int, g: int) -> int:
    """The remainder of least size, the positive one of a tie."""
    return r if 2 * r <= g else r - g


def _nearest_below(r: int, g: int) -> int:
    """The remainder of least size, the negative one of a tie."""
    return r if 2 * r < g else r - g


def _above(r: int, g: int) -> int:
    return r


@lru_cache(maxsize=1024)
def _divisors(n: int) -> tuple[int, ...]:
    """The divisors of n but 1 and itself, greatest first."""
    small = [d for d in range(2, int(n**0.5) + 1) if n % d == 0]
    return tuple(sorted({*small, *(n // d for d in small)}, reverse=True))


def _candidates(parts: Affine, n: int) -> tuple[int, ...]:
    if n <= _DIVISORS_LIMIT:
        return _divisors(n)
    shared = {gcd(n, f) for f in parts.terms.values()}
    shared |= {gcd(p, q) for p in shared for q in shared}
    return tuple(sorted((g for g in shared if 1 < g < n), reverse=True))


def _positive(x: UOp, c: UOp) -> tuple[Affine | None, int]:
    """The dividend as a sum, and the divisor; None unless that is positive."""
    n = integer(c)
    return (known_affine(x) if n > 0 else None), n


def _one_period(x: UOp, c: UOp) -> tuple[Affine, Affine] | None:
    """(x, x // c) if the latter is a plain sum."""
    parts, n = _positive(x, c)
    if parts is None or _is_lone(parts):
        return None
    quotient = _quotient(parts, n)
    return None if quotient is None else (parts, quotient)


def _is_lone(parts: Affine) -> bool:
    """t + k: what the bounds do not decide, no split of factors will."""
    return len(parts.terms) == 1 and next(iter(parts.terms.values())) in {1, -1}


def _divide_within_period(x: UOp, c: UOp) -> UOp | None:
    pair = _one_period(x, c)
    return None if pair is None else _build(pair[1], x)


def _modulo_within_period(x: UOp, c: UOp) -> UOp | None:
    pair = _one_period(x, c)
    return None if pair is None else _build(pair[0].plus(pair[1], -integer(c)), x)


def _is_zero(node: UOp) -> bool:
    return node.op is Ops.CONST and node.arg == 0


def _by_factor(x: UOp, c: UOp) -> tuple[Affine, Affine, int] | None:
    """(x, x // g, g) for the greatest factor g of the divisor that makes x // g a plain sum."""
    parts, n = _positive(x, c)
    if parts is None or _is_lone(parts):
        return None
    for g in _candidates(parts, n):
        quotient = _quotient(parts, g)
        if quotient is not None:
            return parts, quotient, g
    return None


def _divide_by_factor(x: UOp, c: UOp) -> UOp | None:
    factored = _by_factor(x, c)
    if factored is None:
        return None
    _, quotient, g = factored
    inner = _build(quotient, x)
    return None if inner is None else inner // (integer(c) // g)


def _modulo_by_factor(x: UOp, c: UOp) -> UOp | None:
    factored = _by_factor(x, c)
    if factored is None:
        return None
    parts, quotient, g = factored
    left = parts.plus(quotient, -g)
    if quotient.weight() + 1 + left.weight() + bool(left.terms or left.constant) > parts.weight():
        return None  # the product with g would be one more
    inner, rest = _build(quotient, x), _build(left, x)
    if inner is None or rest is None:
        return None
    wide = inner % (integer(c) // g) * g
    return wide if _is_zero(rest) else wide + rest


# -- multiples of the divisor ------------------------------------------------------------------------------------


def _divide_multiples(x: UOp, c: UOp) -> UOp | None:
    """Terms that the divisor divides leave the division; other large factors too, if the sum does not grow."""
    parts, n = _positive(x, c)
    if parts is None:
        return None
    exact = Affine({t: f // n for t, f in parts.terms.items() if f % n == 0}, 0)
    large = {
        # A division that is only partly taken out would be computed twice.
        t: q
        for t, f in parts.terms.items()
        if (q := _toward_zero(f, n)) and (f % n == 0 or t.op not in _DIVISIONS)
    }
    most = Affine(large, parts.constant // n)
    multiple = Affine(exact.terms, parts.constant // n if parts.constant % n == 0 else 0)
    before = parts.weight()
    for quotient in (most, multiple, exact):
        if not quotient.terms and not quotient.constant:
            continue
        rest = parts.plus(quotient, -n)
        if rest.weight() + quotient.weight() + bool(rest.terms) <= before:
            inside, outside = _build(rest, x), _build(quotient, x)
            if inside is None or outside is None:
                return None
            return outside + inside // c
    return None


def _modulo_multiples(x: UOp, c: UOp) -> UOp | None:
    """Factors are reduced by multiples of the divisor, keeping their sign; the constant becomes a remainder."""
    parts, n = _positive(x, c)
    if parts is None:
        return None
    quotient = Affine(
        {t: q for t, f in parts.terms.items() if (q := _toward_zero(f, n))}, parts.constant // n
    )
    if not quotient.terms and not quotient.constant:
        return None
    inside = _build(parts.plus(quotient, -n), x)
    return None if inside is None else inside % c


def _toward_zero(f: int, n: int) -> int:
    return f // n if f >= 0 else -(-f // n)


def _modulo_of_modulo(x: UOp, c: UOp) -> UOp | None:
    """An inner modulo is nothing if its period, scaled, is a multiple of the outer one."""
    parts, n = _positive(x, c)
    if parts is None:
        return None
    sum_: Affine | None = None
    for term, factor in parts.terms.items():
        if term.op is Ops.FLOORMOD and term.src[1].op is Ops.CONST and factor * integer(term.src[1]) % n == 0:
            inner = affine(term.src[0])
            if inner is not None:
                sum_ = (sum_ or parts).plus(Affine({term: 1}, 0), -factor).plus(inner, factor)
    if sum_ is None:
        return None
    inside = _build(sum_, x)
    return None if inside is None else inside % c


# -- nested divisions --------------------------------------------------------------------------------------------


def _divide_quotient(x: UOp, a: UOp, b: UOp) -> UOp | None:
    p, q = integer(a), integer(b)
    if p <= 0 or q <= 0 or p * q >= 1 << 63:
        return None
    return x // (p * q)


def _divide_shifted_quotient(x: UOp, a: UOp, c: UOp, b: UOp) -> UOp | None:
    p, q, shift = integer(a), integer(b), integer(c)
    if p <= 0 or q <= 0 or max(p * q, abs(shift * p)) >= 1 << 62:
        return None
    return (x + shift * p) // (p * q)


def _divide_remainder(x: UOp, a: UOp, b: UOp) -> UOp | None:
    p, q = integer(a), integer(b)
    if p <= 0 or q <= 1 or p % q:
        return None
    return (x // q) % (p // q)


# -- bounds and signs --------------------------------------------------------------------------------------------


def _one_quotient(x: UOp, y: UOp) -> int | None:
    """x // y, if the bounds allow one value only."""
    d_low, d_high = y._interval()
    if d_low <= 0 and (d_low != d_high or d_low == 0):
        return None
    low, high = x._interval()
    if d_low == d_high:
        quotient = low // d_low
        return quotient if quotient == high // d_low else None
    corners = {low // d_low, low // d_high, high // d_low, high // d_high}
    return corners.pop() if len(corners) == 1 else None


def _divide_by_bounds(x: UOp, y: UOp) -> UOp | None:
    quotient = _one_quotient(x, y)
    return None if quotient is None else x.const_like(quotient)


def _modulo_by_bounds(x: UOp, y: UOp) -> UOp | None:
    quotient = _one_quotient(x, y)
    if quotient is None:
        return None
    if quotient == 0:
        return x
    if y.op is not Ops.CONST:
        return None
    return x + x.const_like(-quotient * integer(y))


def _turns(x: UOp, c: UOp) -> bool:
    """Whether a negative divisor changes sides: not if only the signs of a plain sum, in use as it is, would change."""
    if integer(c) >= 0:
        return False
    parts = known_affine(x)
    return parts is None or len(parts.terms) < 2 or any(f not in {1, -1} for f in parts.terms.values())


def _non_negative(x: UOp, y: UOp) -> bool:
    return x.vmin >= 0 and y.vmin >= 0


# -- symbolic divisors -------------------------------------------------------------------------------------------


def _divide_symbolic(x: UOp, y: UOp) -> UOp | None:
    if y.vmin == y.vmax:  # a number, folded or not: the rules above know better
        return None
    division = divide_by_symbol(x, y)
    if division is None:
        return None
    quotient, rest, proved = division
    return quotient if proved else quotient + rest // y


def _modulo_symbolic(x: UOp, y: UOp) -> UOp | None:
    if y.vmin == y.vmax:  # a number, folded or not: the rules above know better
        return None
    division = divide_by_symbol(x, y)
    if division is None:
        return None
    _, rest, proved = division
    return rest if proved else rest % y


# -- user integers: only where the bounds exclude wrapping -------------------------------------------------------


def _product_fits(x: UOp, c: UOp) -> bool:
    """Whether x * c stays within the dtype."""
    n, dtype = integer(c), x.dtype
    return all(dtype.wrap(v * n) == v * n for v in x._interval())


def _is_not_zero(x: UOp) -> bool:
    return x.vmin > 0 or x.vmax < 0


def _cancels(x: UOp, c: UOp) -> bool:
    return integer(c) > 0 and _product_fits(x, c)


divmod_rules: Final = Matcher(
    "divmod",
    [
        # -- by bounds ----------------------------------------------------------------------------------------------
        rule(x // y, _divide_by_bounds, on=INTEGRAL, says="x // y -> q when the bounds leave one quotient"),
        rule(x % y, _modulo_by_bounds, on=INTEGRAL, says="x % y -> x - q*y when the bounds leave one quotient"),
        rule(
            node(Ops.TRUNCDIV, x, y), x // y, when=_non_negative, on=INTEGERS,
            says="int: truncdiv(x, y) -> x // y when x, y >= 0",
        ),
        rule(
            node(Ops.TRUNCMOD, x, y), x % y, when=_non_negative, on=INTEGERS,
            says="int: truncmod(x, y) -> x % y when x, y >= 0",
        ),
        rule(x // c, (x * -1) // -c, when=_turns, on=INDEX, says="x // -c -> (x*-1) // c"),
        rule(x % c, ((x * -1) % -c) * -1, when=_turns, on=INDEX, says="x % -c -> ((x*-1) % c)*-1"),
        # -- nested -------------------------------------------------------------------------------------------------
        rule((x // a) // b, _divide_quotient, on=INDEX, says="(x // a) // b -> x // (a*b) when a, b > 0"),
        rule(
            ((x // a) + c) // b, _divide_shifted_quotient, on=INDEX,
            says="(x // a + c) // b -> (x + c*a) // (a*b) when a, b > 0",
        ),
        rule((x % a) // b, _divide_remainder, on=INDEX, says="(x % a) // b -> (x // b) % (a // b) when b divides a"),
        rule(x % c, _modulo_of_modulo, on=INDEX, says="(x + (y % a)*f) % c -> (x + y*f) % c when c divides a*f"),
        # -- sums ---------------------------------------------------------------------------------------------------
        rule(x // c, _divide_within_period, on=INDEX, says="(x*f + y) // c -> x*q + m when f = c*q + r and x*r + y stays in [m*c, m*c + c)"),
        rule(x % c, _modulo_within_period, on=INDEX, says="(x*f + y) % c -> x*r + y - m*c when f = c*q + r and x*r + y stays in [m*c, m*c + c)"),
        rule(x // c, _divide_multiples, on=INDEX, says="(x*c + y) // c -> x + y // c"),
        rule(x % c, _modulo_multiples, on=INDEX, says="(x*f + k) % c -> (x*(f mod c) + k mod c) % c"),
        rule(x // c, _divide_by_factor, on=INDEX, says="x // (g*d) -> (x // g) // d when x // g is a plain sum"),
        rule(x % c, _modulo_by_factor, on=INDEX, says="x % (g*d) -> ((x // g) % d)*g + x - (x // g)*g when x // g is a plain sum"),
        # -- symbolic divisors --------------------------------------------------------------------------------------
        rule(x // y, _divide_symbolic, on=INDEX, says="(x*n + y) // n -> x + y // n when n > 0, and x when 0 <= y < n"),
        rule(x % y, _modulo_symbolic, on=INDEX, says="(x*n + y) % n -> y % n when n > 0, and y when 0 <= y < n"),
        # -- selects ------------------------------------------------------------------------------------------------
        rule(where(p, a, b) // c, where(p, a // c, b // c), when=lambda c: c.arg != 0, on=INTEGRAL, says="where(p, a, b) // c -> where(p, a // c, b // c)"),
        rule(where(p, a, b) % c, where(p, a % c, b % c), when=lambda c: c.arg != 0, on=INTEGRAL, says="where(p, a, b) % c -> where(p, a % c, b % c)"),
        # -- user integers ------------------------------------------------------------------------------------------
        *rules(scalar.FLOORING),
        rule(x // x, 1, when=_is_not_zero, on=INTEGERS, says="int: x // x -> 1 when x is not 0"),
        *rules(scalar.FLOORING_TWICE),
        rule((x * c) // c, x, when=_cancels, on=INTEGERS, says="int: (x * c) // c -> x when x * c does not wrap"),
        rule((x * c) % c, 0, when=_cancels, on=INTEGERS, says="int: (x * c) % c -> 0 when x * c does not wrap"),
    ],
)  # fmt: skip
