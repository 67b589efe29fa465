"""Quotient and remainder put together again: `(x // c)*c + x % c -> x`, wherever in a sum they stand.

Reshapes take an index apart and later put it together; nothing is left when both are seen. By then the quotient has been
simplified on its own, so it is recognised by what it is, not by how it looks: `w // (a*d)` is the quotient by d of
`z // a` if w and z differ by a multiple of a*d.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from planish.uop.matcher import Matcher, rule
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.pattern import INDEX, NodePattern, node
from planish.uop.symbolic.affine import TERMS_LIMIT, Affine, affine, known_affine
from planish.uop.symbolic.letters import integer, x, y
from planish.uop.symbolic.polynomial import factors_of, product_of, without

# a member of an enum costs more to look up than a name
_ADD, _CONST, _FLOORDIV, _FLOORMOD, _MUL = Ops.ADD, Ops.CONST, Ops.FLOORDIV, Ops.FLOORMOD, Ops.MUL

_DIVISIONS: Final = frozenset({Ops.FLOORDIV, Ops.FLOORMOD})
_NESTING: Final = 8
_LEAVES: Final = frozenset({Ops.CONST, Ops.DEFINE_VAR, Ops.RANGE, Ops.SPECIAL})


class _Part(NamedTuple):
    """A term of a sum with a division among its factors."""

    division: UOp
    rest: list[UOp]
    factor: int
    term: UOp


def _holds_division(part: UOp) -> bool:
    """Whether a part of a sum in normal form is a division, or a product or group with one."""
    if part.op is _MUL and part.src[1].op is _CONST:
        part = part.src[0]
    if part.op in _DIVISIONS:
        return True
    if part.op is _MUL:
        return any(factor.op in _DIVISIONS for factor in factors_of(part))
    for _ in range(TERMS_LIMIT):
        if part.op is not _ADD:
            return part.op in _DIVISIONS
        if part.src[1].op in _DIVISIONS or part.src[1].op is _MUL:
            return True
        part = part.src[0]
    return False


def _may_divide(root: UOp) -> bool:
    """Whether a sum could hold something to put together that its left operand alone does not.

    The left operand was looked at before. Terms are sorted, divisions after leaves: a leaf at the end means there are none.
    """
    part = root.src[1]
    if part.op is _MUL and part.src[1].op is _CONST:
        part = part.src[0]
    return part.op not in _LEAVES


def _parts(sum_: Affine) -> Iterator[_Part]:
    for term, factor in sum_.terms.items():
        if term.op in _DIVISIONS:
            yield _Part(term, [], factor, term)
        elif term.op is _MUL:
            factors = factors_of(term)
            for position, division in enumerate(factors):
                if division.op in _DIVISIONS:
                    yield _Part(division, factors[:position] + factors[position + 1 :], factor, term)


class _Whole(NamedTuple):
    """What quotient and remainder are of: `value / scale`."""

    value: Affine
    scale: int = 1


def _dividend_of(quotient: UOp, y: UOp, d: int) -> _Whole | None:
    """x with `quotient*d + y % d = x` (a multiple of it: `scale`); None if there is none to be seen."""
    if quotient.op is not _FLOORDIV or quotient.src[1].op is not _CONST:
        return None
    e = integer(quotient.src[1])
    w, whole = known_affine(quotient.src[0]), known_affine(y)
    if e <= 0 or w is None or whole is None:
        return None
    if e == d and quotient.src[0] is y:
        return _Whole(whole)
    if d % e == 0:
        aligned = _aligned(whole, d, w, e)
        return None if aligned is None else _Whole(aligned)
    z, a = _scaled_divisor(y, whole)
    if a > 1 and a * d % e == 0:
        aligned = _aligned(z, a * d, w, e)
        if aligned is not None:
            shift = aligned.plus(z, -1)
            if shift.constant % a or any(f % a for f in shift.terms.values()):
                return None
            shift = Affine({t: f // a for t, f in shift.terms.items()}, shift.constant // a)
            return _Whole(whole.plus(shift))
    # A factor may have been taken out of the remainder alone: y % d = ((y*h) % (d*h)) / h.
    h = e // d
    aligned = _aligned(whole.scaled(h), e, w, e) if e % d == 0 else None
    return None if aligned is None else _Whole(aligned, h)


def _scaled_divisor(y: UOp, sum_: Affine) -> tuple[Affine, int]:
    """(z, a) with y = z // a: a = 1 if y is no division."""
    if len(sum_.terms) == 1:
        ((term, factor),) = sum_.terms.items()
        if factor == 1 and term.op is _FLOORDIV and term.src[1].op is _CONST:
            a = integer(term.src[1])
            z = known_affine(term.src[0])
            if a > 0 and z is not None:
                return Affine(z.terms, z.constant + sum_.constant * a), a
    return sum_, 1


def _aligned(z: Affine, d: int, w: Affine, e: int) -> Affine | None:
    """z' = z modulo d with z' // d = w // e, where e divides d.

    That holds for z' = g*w + s with g = d / e if s stays within [0, g).
    """
    g = d // e
    rest = _reduced(z.plus(w, -g), d)
    low, high = rest.interval()
    return w.scaled(g).plus(rest) if low >= 0 and high < g else None


def _reduced(rest: Affine, d: int) -> Affine:
    """A sum equal modulo d, with small factors. A remainder of a multiple of d may stand for its dividend."""
    for _ in range(_NESTING):
        terms = {t: r - d if 2 * r > d else r for t, f in rest.terms.items() if (r := f % d)}
        rest = Affine(terms, rest.constant % d)
        for term, f in terms.items():
            if term.op is _FLOORMOD and term.src[1].op is _CONST and f * integer(term.src[1]) % d == 0:
                inner = known_affine(term.src[0])
                if inner is not None:
                    rest = rest.plus(Affine({term: f}, 0), -1).plus(inner, f)
                    break
        else:
            break
    return rest


def _times(sum_: Affine, rest: list[UOp]) -> Affine | None:
    """A sum times factors: over its terms if there are factors at all."""
    if not rest:
        return sum_
    result = Affine({}, 0)
    for term, f in sum_.terms.items():
        result = result.plus(Affine({product_of([*factors_of(term), *rest], term): f}, 0))
    if sum_.constant:
        result = result.plus(Affine({product_of(rest, rest[0]): sum_.constant}, 0))
    return result


def _replace(sum_: Affine, remainder: _Part, quotient: _Part, value: Affine, scale: int = 1) -> Affine | None:
    scaled = _times(value, remainder.rest)
    if scaled is None or remainder.factor % scale:
        return None
    gone = Affine({remainder.term: remainder.factor, quotient.term: quotient.factor}, 0)
    return sum_.plus(gone, -1).plus(scaled, remainder.factor // scale)


def _belongs(remainder: _Part, other: _Part) -> int:
    """The divisor of a remainder that another part continues, by its factor; 0 if it does not."""
    divisor = remainder.division.src[1]
    if divisor.op is not _CONST:
        return 0
    d = integer(divisor)
    if d <= 0 or other.factor != remainder.factor * d:
        return 0
    if len(other.rest) != len(remainder.rest) or without(other.rest, remainder.rest) is None:
        return 0
    return d


def _whole(sum_: Affine, remainder: _Part, other: _Part) -> Affine | None:
    """(x // c)*c + x % c."""
    d = _belongs(remainder, other)
    if not d or other.division.op is not _FLOORDIV:
        return None
    whole = _dividend_of(other.division, remainder.division.src[0], d)
    return None if whole is None else _replace(sum_, remainder, other, *whole)


def _wider(sum_: Affine, remainder: _Part, other: _Part) -> Affine | None:
    """((x // c) % d)*c + x % c."""
    d = _belongs(remainder, other)
    if not d or other.division.op is not _FLOORMOD:
        return None
    inner, e = other.division.src
    if e.op is not _CONST or integer(e) <= 0 or d * integer(e) >= 1 << 62:
        return None
    y = remainder.division.src[0]
    whole = _dividend_of(inner, y, d)
    if whole is None or not whole.value.fits:
        return None
    wider = whole.value.build(y) % (d * integer(e) * whole.scale)
    return _replace(sum_, remainder, other, Affine({wider: 1}, 0), whole.scale)


def _whole_symbolic(sum_: Affine, remainder: _Part, other: _Part) -> Affine | None:
    """(x // n)*n + x % n."""
    y, n = remainder.division.src
    division = other.division
    if division.op is not _FLOORDIV or division.src != (y, n) or n.vmin <= 0:
        return None
    if n.op is _CONST:
        return None
    scale = integer(n.src[1]) if n.op is _MUL and n.src[1].op is _CONST else 1
    left = without(other.rest, remainder.rest + factors_of(n))
    whole = affine(y)
    if left != [] or whole is None or other.factor != remainder.factor * scale:
        return None
    return _replace(sum_, remainder, other, whole)


_Joining = Callable[[Affine, _Part, _Part], "Affine | None"]


def _join(root: UOp, joining: _Joining) -> UOp | None:
    """The sum with one remainder and what belongs to it made one."""
    if not _may_divide(root) or not _holds_division(root.src[1]):
        return None
    sum_ = known_affine(root)
    if sum_ is None:
        return None
    parts = list(_parts(sum_))
    for remainder in parts:
        if remainder.division.op is _FLOORMOD:
            for other in parts:
                if other.term is not remainder.term:
                    result = joining(sum_, remainder, other)
                    if result is not None:
                        return result.build(root) if result.fits else None
    return None


def _remainder(root: UOp) -> UOp | None:
    """x - (x // c)*c, inside a longer sum."""
    if not _may_divide(root):
        return None
    sum_ = known_affine(root)
    if sum_ is None:
        return None
    for term, factor in sum_.terms.items():
        if term.op is not _FLOORDIV or term.src[1].op is not _CONST:
            continue
        d = integer(term.src[1])
        if d <= 0 or factor % d:
            continue
        scale = -(factor // d)
        y = affine(term.src[0])
        if y is None or not y.terms or any(sum_.terms.get(t) != f * scale for t, f in y.terms.items()):
            continue
        result = sum_.plus(Affine({term: factor}, 0), -1).plus(y, -scale)
        result = result.plus(Affine({term.src[0] % d: 1}, 0), scale)
        return result.build(root) if result.fits else None
    return None


_sum: Final[NodePattern] = node(Ops.ADD, x, y)

recombine: Final = Matcher(
    "recombine",
    [
        rule(_sum, lambda root: _join(root, _whole), on=INDEX, says="(x // c)*(c*m) + (x % c)*m -> x*m"),
        rule(_sum, lambda root: _join(root, _wider), on=INDEX, says="((x // c) % d)*(c*m) + (x % c)*m -> (x % (c*d))*m"),
        rule(_sum, lambda root: _join(root, _whole_symbolic), on=INDEX, says="(x // n)*n*m + (x % n)*m -> x*m"),
        rule(_sum, _remainder, on=INDEX, says="x*m - (x // c)*(c*m) -> (x % c)*m"),
    ],
)  # fmt: skip
