"""Comparisons: decided by bounds, turned round by NOT, and solved for the variable.

The forms everything ends in. On integers and `index`, a constant is compared by `<` alone: `x < c` or `c < x`; a
NOT of a comparison is the opposite comparison. On `index`, which is exact, constants gather on the constant's
side, common terms cancel and divisions are multiplied out. Floats keep NaN in mind: `x < x` is False, but
`x <= x` asks whether x is a number, and NOT stays around `<`.
"""

from __future__ import annotations

from typing import Final

from planish.algebra import scalar
from planish.uop.matcher import Matcher, rule
from planish.uop.node import UOp
from planish.uop.ops import COMPARISONS, Ops
from planish.uop.pattern import FLOAT, INDEX, INTEGRAL, NodePattern, node
from planish.uop.symbolic.affine import Affine, affine
from planish.uop.symbolic.lawful import rules
from planish.uop.symbolic.letters import a, c, integer, x, y

_EQUALITY: Final = (Ops.CMPEQ, Ops.CMPNE)
_EXTREMA: Final = frozenset({Ops.MIN, Ops.MAX})
_ORDER: Final = (Ops.CMPLT, Ops.CMPLE)


def _decided(root: UOp, x: UOp, y: UOp) -> UOp | None:
    """The truth value, if the bounds of the two sides leave only one."""
    low, high = x._interval()
    least, most = y._interval()
    op = root.op
    if op is Ops.CMPLT:
        if high < least:
            return root.const_like(True)
        return root.const_like(False) if low >= most else None
    if op is Ops.CMPLE:
        if high <= least:
            return root.const_like(True)
        return root.const_like(False) if low > most else None
    if high < least or most < low:
        return root.const_like(op is Ops.CMPNE)
    return root.const_like(op is Ops.CMPEQ) if low == high == least == most else None


def _decided_by_ends(root: UOp, x: UOp, y: UOp) -> UOp | None:
    """The truth value, if it follows from that a range ends below its size, which has only a name, or from one side of a MIN or MAX."""
    if all(r.src[0].op is Ops.CONST for r in root.ranges):
        return None
    left, right = affine(x), affine(y)
    if left is None or right is None:
        return None
    difference = left.plus(right, -1)
    if not any(
        t.op in _EXTREMA or (t.op is Ops.RANGE and t.src[0].op is not Ops.CONST) for t in difference.terms
    ):
        return None
    low = max(_undivided(_at_ends(each, 0), 0).interval()[0] for each in _sides(difference, 0))
    high = min(_undivided(_at_ends(each, 1), 1).interval()[1] for each in _sides(difference, 1))
    if root.op in _EQUALITY:
        return root.const_like(root.op is Ops.CMPNE) if low > 0 or high < 0 else None
    allowed = root.op is Ops.CMPLE
    if high < allowed:
        return root.const_like(True)
    return root.const_like(False) if low >= allowed else None


def _undivided(sum_: Affine, most: int) -> Affine:
    """What is never less (most: 1) or never more (0) than a sum, with x in the place of c*(x // c): that is x, or up to c - 1 less."""
    bound = sum_
    for term, factor in sum_.terms.items():
        if term.op is not Ops.FLOORDIV or term.src[1].op is not Ops.CONST:
            continue
        divisor, whole = integer(term.src[1]), affine(term.src[0])
        if whole is None or divisor < 2 or factor % divisor:
            continue
        times = factor // divisor
        bound = bound.plus(Affine({term: factor}, 0), -1).plus(whole, times)
        if (times > 0) != bool(most):
            bound = bound.plus(Affine({}, 1 - divisor), times)
    return bound


def _sides(sum_: Affine, most: int) -> list[Affine]:
    """Sums that are never less (most: 1) or never more (0) than one with a MIN or MAX in it: itself, and with one side in its place."""
    sums = [sum_]
    for term, factor in sum_.terms.items():
        if term.op in _EXTREMA and (factor > 0) == ((term.op is Ops.MIN) == bool(most)):
            rest = sum_.plus(Affine({term: factor}, 0), -1)
            sums += [rest.plus(side, factor) for side in map(affine, term.src) if side is not None]
    return sums


def _at_ends(sum_: Affine, most: int) -> Affine:
    """The least or greatest value of a sum by its ranges, in terms of their sizes."""
    bound = Affine({}, sum_.constant)
    for term, factor in sum_.terms.items():
        end = affine(term.src[0]) if term.op is Ops.RANGE and term.src[0].op is not Ops.CONST else None
        if end is None:
            bound = bound.plus(Affine({term: factor}, 0))
        elif (factor > 0) == bool(most):
            bound = bound.plus(end.plus(Affine({}, -1)), factor)
    return bound


def _below_product(x: UOp, a: UOp, c: UOp) -> UOp | None:
    """x*a < c, solved for x."""
    factor, limit = integer(a), integer(c)
    if factor == 0:
        return None
    return x < -(-limit // factor) if factor > 0 else x.const_like(limit // factor) < x


def _above_product(x: UOp, a: UOp, c: UOp) -> UOp | None:
    """c < x*a, solved for x."""
    factor, limit = integer(a), integer(c)
    if factor == 0:
        return None
    return x.const_like(limit // factor) < x if factor > 0 else x < -(-limit // factor)


def _equals_product(root: UOp, x: UOp, a: UOp, c: UOp) -> UOp | None:
    factor, wanted = integer(a), integer(c)
    if factor == 0:
        return None
    if wanted % factor:
        return root.const_like(root.op is Ops.CMPNE)
    return root.replace(src=(x, x.const_like(wanted // factor)))


def _drop_factor(root: UOp, x: UOp, y: UOp, c: UOp) -> UOp | None:
    factor = integer(c)
    if factor == 0:
        return None
    return root.replace(src=(x, y) if factor > 0 else (y, x))


def _is_positive(a: UOp) -> bool:
    return integer(a) > 0


def _quotient_equals(x: UOp, a: UOp, c: UOp) -> UOp:
    """x // a == c says that x lies in one period of a."""
    first = integer(c) * integer(a)
    return (x.const_like(first - 1) < x) & (x < first + integer(a))


def _quotient_differs(x: UOp, a: UOp, c: UOp) -> UOp:
    first = integer(c) * integer(a)
    return (x < first) | (x.const_like(first + integer(a) - 1) < x)


def _cancel(root: UOp, x: UOp, y: UOp) -> UOp | None:
    """Both sides less the terms they share; a constant stays on the side where it is positive."""
    if (x.op is not Ops.ADD and y.op is not Ops.ADD) or Ops.CONST in (x.op, y.op):
        return None
    left, right = affine(x), affine(y)
    if left is None or right is None:
        return None
    shared = [t for t, f in left.terms.items() if f * right.terms.get(t, 0) > 0]
    if not shared and not (left.constant and right.constant):
        return None
    for term in shared:
        common = min(left.terms[term], right.terms[term], key=abs)
        _take(left, term, common)
        _take(right, term, common)
    surplus = left.constant - right.constant
    left.constant, right.constant = max(surplus, 0), max(-surplus, 0)
    if not left.terms and right.terms:
        left.constant, right.constant = surplus, 0
    elif not right.terms:
        left.constant, right.constant = 0, -surplus
    if not (left.fits and right.fits):
        return None
    return root.replace(src=(left.build(x), right.build(y)))


def _take(sum_: Affine, term: UOp, factor: int) -> None:
    rest = sum_.terms[term] - factor
    if rest:
        sum_.terms[term] = rest
    else:
        del sum_.terms[term]


def _divide_sum(root: UOp, x: UOp, limit: int) -> UOp | None:
    """g·A + R < limit with 0 ≤ R < g as A < quotient, where R cannot tip the balance."""
    sum_ = affine(x)
    if sum_ is None:
        return None
    limit -= sum_.constant
    for size in sorted({abs(f) for f in sum_.terms.values()} - {1}, reverse=True):
        whole = {t: f // size for t, f in sum_.terms.items() if f % size == 0}
        rest = Affine({t: f for t, f in sum_.terms.items() if f % size}, 0)
        low, high = rest.interval()
        quotient, left_over = divmod(limit - 1, size)
        if low < 0 or high >= size or (left_over < high and left_over >= low):
            continue
        # g·A + R ≤ g·quotient + left_over: R decides nothing, so A alone does.
        bound = quotient if left_over >= high else quotient - 1
        return Affine(whole, 0).build(x) < bound + 1
    return None


def _below_sum(root: UOp, x: UOp, c: UOp) -> UOp | None:
    return _divide_sum(root, x, integer(c))


def _above_sum(root: UOp, x: UOp, c: UOp) -> UOp | None:
    """c < x, as the opposite of x < c + 1."""
    below = _divide_sum(root, x, integer(c) + 1)
    if below is None:
        return None
    whole, bound = below.src
    return bound.const_like(integer(bound) - 1) < whole


def _without_signs(root: UOp, x: UOp, y: UOp) -> UOp:
    return root.replace(src=(y, x) if root.op in _ORDER else (x, y))


def _sum(name: str) -> NodePattern:
    return node(Ops.ADD, name=name)


comparison: Final = Matcher(
    "comparison",
    [
        # -- a value and itself -----------------------------------------------------------------------------------
        *rules(scalar.COMPARED_WITH_ITSELF),
        # -- by bounds --------------------------------------------------------------------------------------------
        rule(node(COMPARISONS, x, y), _decided, on=INTEGRAL, says="x ? y -> True or False, where bounds decide"),
        rule(
            node(COMPARISONS, x, y), _decided_by_ends, on=INDEX,
            says="x ? y -> True or False, where r <= n - 1 decides for ranges r of named sizes n",
        ),
        # -- one form for each ------------------------------------------------------------------------------------
        *rules(scalar.NEGATED_COMPARISONS),
        # -- constants gather on one side -------------------------------------------------------------------------
        *rules(scalar.SHIFTED_COMPARISONS),
        rule(
            node(_EQUALITY, x + a, c), lambda root, x, a, c: root.replace(src=(x, x.const_like(c.arg - a.arg))),
            on=INTEGRAL, says="x + a == c -> x == c - a, and !=",
        ),
        rule(x * a < c, _below_product, on=INDEX, says="x*a < c -> x < ceil(c/a), a > 0; turned round for a < 0"),
        rule(c < x * a, _above_product, on=INDEX, says="c < x*a -> floor(c/a) < x, a > 0; turned round for a < 0"),
        rule(
            node(_EQUALITY, x * a, c), _equals_product, on=INDEX,
            says="x*a == c -> x == c/a, or False; and !=",
        ),
        rule(
            (x // a) < c, lambda x, a, c: x < integer(c) * integer(a), when=_is_positive, on=INDEX,
            says="x // a < c -> x < c*a, a > 0",
        ),
        rule(
            c < (x // a), lambda x, a, c: x.const_like((integer(c) + 1) * integer(a) - 1) < x, when=_is_positive,
            on=INDEX, says="c < x // a -> (c + 1)*a - 1 < x, a > 0",
        ),
        rule(
            (x // a).eq(c), _quotient_equals, when=_is_positive, on=INDEX,
            says="x // a == c -> c*a - 1 < x & x < c*a + a, a > 0",
        ),
        rule(
            (x // a).ne(c), _quotient_differs, when=_is_positive, on=INDEX,
            says="x // a != c -> x < c*a | c*a + a - 1 < x, a > 0",
        ),
        rule(_sum("x") < c, _below_sum, on=INDEX, says="x*a + y < c -> x < c/a, where y cannot matter"),
        rule(c < _sum("x"), _above_sum, on=INDEX, says="c < x*a + y -> c/a < x, where y cannot matter"),
        # -- the same on both sides -------------------------------------------------------------------------------
        rule(
            node(COMPARISONS, x, y), _cancel, on=INDEX, says="x + z ? y + z -> x ? y",
        ),
        rule(
            node(COMPARISONS, x * c, y * c), _drop_factor, on=INDEX, says="x*c ? y*c -> x ? y, or turned round",
        ),
        rule(
            node((Ops.CMPLT, *_EQUALITY), x + y * -1, 0), lambda root, x, y: root.replace(src=(x, y)), on=INDEX,
            says="x - y ? 0 -> x ? y",
        ),
        rule(node(Ops.CMPLT, 0, x + y * -1), y < x, on=INDEX, says="0 < x - y -> y < x"),
        rule((x + y * -1) < 1, x <= y, on=INDEX, says="x - y < 1 -> x <= y"),
        rule(node(Ops.CMPLT, -1, x + y * -1), y <= x, on=INDEX, says="-1 < x - y -> y <= x"),
        rule(x < (y + 1), x <= y, on=INDEX, says="x < y + 1 -> x <= y"),
        rule((x + -1) < y, x <= y, on=INDEX, says="x - 1 < y -> x <= y"),
        rule(x <= (y + -1), x < y, on=INDEX, says="x <= y - 1 -> x < y"),
        rule((x + 1) <= y, x < y, on=INDEX, says="x + 1 <= y -> x < y"),
        # -- extrema with a constant ------------------------------------------------------------------------------
        *rules(scalar.COMPARED_EXTREMA),
        # -- signs of floats --------------------------------------------------------------------------------------
        rule(
            node(COMPARISONS, -x, -y), _without_signs, on=FLOAT,
            says="float: -x ? -y -> y ? x",
        ),
        rule(
            node(COMPARISONS, -x, c), lambda root, x, c: root.replace(src=(x.const_like(-c.arg), x)), on=FLOAT,
            says="float: -x ? c -> -c ? x",
        ),
        rule(
            node(_ORDER, c, -x), lambda root, x, c: root.replace(src=(x, x.const_like(-c.arg))), on=FLOAT,
            says="float: c ? -x -> x ? -c",
        ),
    ],
)  # fmt: skip
