"""Sums of products, for division by a symbolic size: `(i*n + j) // n -> i` once `0 <= j < n` is proved.

A polynomial maps monomials (tuples of factor nodes, sorted) to integer coefficients. The proof of `s < d` replaces
each loop index in s by the greatest value it takes, itself a polynomial (a range below n: n - 1), so that what
cannot be seen from numeric bounds, `j*m + k < n*m` for j below n and k below m, follows by cancellation.
"""

from __future__ import annotations

from typing import Final, cast

from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.symbolic.affine import INDEX_LIMIT, Affine, affine

Monomial = tuple[UOp, ...]
Polynomial = dict[Monomial, int]

_MONOMIALS_LIMIT: Final = 24
_NODES_LIMIT: Final = 64
_ROUNDS: Final = 8
"""A range may be bounded by an expression of other ranges; so often the bound is put in."""


def _add(p: Polynomial, q: Polynomial, factor: int = 1) -> Polynomial:
    result = dict(p)
    for monomial, f in q.items():
        total = result.get(monomial, 0) + f * factor
        if total:
            result[monomial] = total
        else:
            result.pop(monomial, None)
    return result


def _serial(node: UOp) -> int:
    return node.serial


def times(p: Polynomial, q: Polynomial) -> Polynomial | None:
    if len(p) * len(q) > 4 * _MONOMIALS_LIMIT:
        return None
    result: Polynomial = {}
    for m1, f1 in p.items():
        for m2, f2 in q.items():
            monomial = tuple(sorted((*m1, *m2), key=_serial)) if m1 and m2 else m1 or m2
            result[monomial] = result.get(monomial, 0) + f1 * f2
    return {m: f for m, f in result.items() if f}


_INNER: Final = frozenset({Ops.ADD, Ops.SUB, Ops.MUL, Ops.NEG})


def number(value: int) -> Polynomial:
    """A constant polynomial."""
    return {(): value} if value else {}


def polynomial(root: UOp) -> Polynomial | None:
    """A node multiplied out; None if that is too large."""
    nodes = root.toposort(lambda n: n.op in _INNER)
    if len(nodes) > _NODES_LIMIT:
        return None
    values: dict[UOp, Polynomial] = {}
    for node in nodes:
        op = node.op
        value: Polynomial | None
        if op is Ops.CONST:
            value = number(cast("int", node.arg))
        elif op not in _INNER:
            value = {(node,): 1}
        elif op is Ops.MUL:
            value = times(values[node.src[0]], values[node.src[1]])
        elif op is Ops.NEG:
            value = {m: -f for m, f in values[node.src[0]].items()}
        else:
            value = _add(values[node.src[0]], values[node.src[1]], 1 if op is Ops.ADD else -1)
        if value is None or len(value) > _MONOMIALS_LIMIT:
            return None
        values[node] = value
    return values[root]


def least(p: Polynomial) -> int:
    """A lower bound of the value."""
    total = 0
    for monomial, f in p.items():
        low = high = f
        for factor in monomial:
            a, b = factor._interval()
            corners = (low * a, low * b, high * a, high * b)
            low, high = min(corners), max(corners)
        total += low
    return total


def _ceiling(node: UOp) -> UOp | None:
    """An expression that the node is less than, where it is not a number."""
    if node.op is Ops.RANGE or node.op is Ops.SPECIAL:
        bound = node.src[0]
    elif node.op is Ops.FLOORMOD and node.src[1].vmin > 0:
        bound = node.src[1]
    else:
        return None
    return None if bound.op is Ops.CONST else bound


def _top(node: UOp, monomial: Monomial, keep: set[UOp]) -> Polynomial | None:
    """The greatest value of a factor, as a polynomial; None for one that is better left as it is.

    A size that the divisor is made of stays, so that it can cancel; a lone factor has numeric bounds anyway.
    """
    bound = _ceiling(node)
    if bound is not None:
        top = polynomial(bound)
        return None if top is None else _add(top, {(): 1}, -1)
    if len(monomial) > 1 and node not in keep:
        return number(node.vmax)
    return None


def _raised(p: Polynomial, keep: set[UOp]) -> Polynomial | None:
    """The polynomial with one factor at its greatest (where its coefficient is negative: least) value.

    That leaves it no less than it was, if all else is not negative. None if there is no such factor.
    """
    for monomial in p:
        for factor in monomial:
            greatest = _top(factor, monomial, keep)
            if greatest is not None:
                return _with_factor_at(p, factor, greatest)
    return None


def _with_factor_at(p: Polynomial, factor: UOp, greatest: Polynomial) -> Polynomial | None:
    if factor.vmin < 0:
        return None
    result: Polynomial = {}
    for monomial, f in p.items():
        if factor not in monomial:
            result = _add(result, {monomial: f})
            continue
        rest = list(monomial)
        rest.remove(factor)
        if factor in rest or any(other.vmin < 0 for other in rest):
            return None
        if f > 0:
            product = times({tuple(rest): f}, greatest)
            if product is None:
                return None
            result = _add(result, product)
    return result


def is_below(s: Polynomial, d: Polynomial) -> bool:
    """Whether s < d is certain."""
    keep = {factor for monomial in d for factor in monomial}
    current: Polynomial | None = s
    for _ in range(_ROUNDS):
        if current is None:
            return False
        if least(_add(d, current, -1)) > 0:
            return True
        current = _raised(current, keep)
    return current is not None and least(_add(d, current, -1)) > 0


def factors_of(node: UOp) -> list[UOp]:
    """The factors of a product in normal form, without the constant."""
    factors: list[UOp] = []
    while node.op is Ops.MUL:
        if node.src[1].op is not Ops.CONST:
            factors.append(node.src[1])
        node = node.src[0]
    if node.op is not Ops.CONST:
        factors.append(node)
    return factors


def without(factors: list[UOp], removed: list[UOp]) -> list[UOp] | None:
    rest = list(factors)
    for factor in removed:
        if factor not in rest:
            return None
        rest.remove(factor)
    return rest


def product_of(factors: list[UOp], like: UOp) -> UOp:
    if not factors:
        return like.const_like(1)
    result = factors[0]
    for factor in factors[1:]:
        result = result * factor
    return result


def divide_by_symbol(x: UOp, d: UOp) -> tuple[UOp, UOp, bool] | None:
    """(q, s, proved) with x = q*d + s for a divisor known to be positive; proved: 0 <= s < d.

    None if nothing can be taken out of x and nothing proved.
    """
    if d.vmin <= 0:
        return None
    parts = affine(x)
    if parts is None:
        return None
    scale = 1
    if d.op is Ops.MUL and d.src[1].op is Ops.CONST:
        scale = cast("int", d.src[1].arg)
    wanted = factors_of(d)
    quotient, rest = Affine({}, 0), dict(parts.terms)
    for term, factor in parts.terms.items():
        if factor % scale == 0:
            left = without(factors_of(term), wanted)
            if left is not None:
                q = affine(product_of(left, x))
                if q is None:
                    return None
                quotient = quotient.plus(q, factor // scale)
                del rest[term]
    small = Affine(rest, parts.constant)
    if quotient.terms or quotient.constant:
        if not (small.fits and quotient.fits):
            return None
        s = small.build(x)
        return quotient.build(x), s, _is_remainder(s, d)
    if _is_remainder(x, d):
        return x.const_like(0), x, True
    return _divide_expanded(x, d)


def _is_remainder(s: UOp, d: UOp) -> bool:
    if s.vmin < 0:
        return False
    if s.vmax < d.vmin:
        return True
    p, q = polynomial(s), polynomial(d)
    return p is not None and q is not None and is_below(p, q)


def _divide_expanded(x: UOp, d: UOp) -> tuple[UOp, UOp, bool] | None:
    """The same on products multiplied out, for a divisor of one monomial; only if that ends the division."""
    p, q = polynomial(x), polynomial(d)
    if p is None or q is None or len(q) != 1:
        return None
    ((divisor, scale),) = q.items()
    quotient: Polynomial = {}
    rest: Polynomial = {}
    for monomial, f in p.items():
        left = without(list(monomial), list(divisor)) if f % scale == 0 else None
        if left is None:
            rest[monomial] = f
        else:
            quotient[tuple(left)] = f // scale
    if not quotient or least(rest) < 0 or not is_below(rest, q):
        return None
    if any(not -INDEX_LIMIT <= f < INDEX_LIMIT for f in (*quotient.values(), *rest.values())):
        return None
    return _node(quotient, x), _node(rest, x), True


def _node(p: Polynomial, like: UOp) -> UOp:
    result: UOp | None = None
    for monomial, f in p.items():
        term = product_of(list(monomial), like) * f
        result = term if result is None else result + term
    return like.const_like(0) if result is None else result
