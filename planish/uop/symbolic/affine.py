"""Sums as data: `x = Σ factor·term + constant`, read off a node and built back in normal form.

`affine` sees through additions, subtractions and constant factors, however they are nested; what is left are
the *terms*: leaves, divisions, products of variables and so on. `Affine.build` is its inverse and a normal form:
equal sums become the same node, whatever they looked like. The form:

* terms that share a factor (up to sign) are one product: `(x + y)*4`, which costs one multiplication;
* terms stand in `order`, in a left-leaning chain, the constant last: `((x + y*3) + 5)`;
* a factor stands on the right of its term, one of 1 is left out, -1 stays (subtraction costs nothing extra).
"""

from __future__ import annotations

from operator import attrgetter
from typing import Final, cast

from planish.uop.node import UOp
from planish.uop.ops import Ops

# a member of an enum costs more to look up than a name
_ADD, _CONST, _MUL, _NEG, _SUB = Ops.ADD, Ops.CONST, Ops.MUL, Ops.NEG, Ops.SUB

TERMS_LIMIT: Final = 24
"""Longer sums are left alone: real indices have below ten terms, and work per node must stay bounded."""
_STEPS_LIMIT: Final = 4 * TERMS_LIMIT
INDEX_LIMIT: Final = 2**63
_by_order: Final = attrgetter("order")


class Affine:
    """Σ factor·term + constant. `terms` holds no zero factors."""

    __slots__ = ("constant", "terms")

    def __init__(self, terms: dict[UOp, int], constant: int) -> None:
        self.terms = terms
        self.constant = constant

    def __repr__(self) -> str:
        return f"<affine {self.terms} + {self.constant}>"

    @property
    def fits(self) -> bool:
        """Whether every factor is an index constant (64 bits)."""
        limit = INDEX_LIMIT
        return -limit <= self.constant < limit and all(-limit <= f < limit for f in self.terms.values())

    def interval(self) -> tuple[int, int]:
        """Bounds of the value, from those of the terms."""
        low = high = self.constant
        for term, factor in self.terms.items():
            least, most = term._interval()
            if factor > 0:
                low += factor * least
                high += factor * most
            else:
                low += factor * most
                high += factor * least
        return low, high

    def weight(self) -> int:
        """The cost of the sum in normal form, without that of its terms: one product per distinct factor."""
        factors = {abs(f) for f in self.terms.values()}
        factors.discard(1)
        parts = len(self.terms) + (self.constant != 0)
        return len(factors) + max(parts - 1, 0)

    def scaled(self, factor: int) -> Affine:
        """This sum times a number."""
        if factor == 0:
            return Affine({}, 0)
        return Affine({t: f * factor for t, f in self.terms.items()}, self.constant * factor)

    def plus(self, other: Affine, factor: int = 1) -> Affine:
        """This sum and `factor` times the other."""
        terms = dict(self.terms)
        for term, f in other.terms.items():
            total = terms.get(term, 0) + f * factor
            if total:
                terms[term] = total
            else:
                terms.pop(term, None)
        return Affine(terms, self.constant + other.constant * factor)

    def build(self, like: UOp) -> UOp:
        """The sum as a node of the dtype of `like`, in normal form. All factors must fit."""
        terms, constant = self.terms, self.constant
        if len(terms) == 1:  # by far the most frequent
            ((term, factor),) = terms.items()
            result = term if factor == 1 else _times(term, factor)
            return _plus(result, like.const_like(constant)) if constant else result
        if not terms:
            return like.const_like(constant)
        groups: dict[int, list[UOp]] = {}
        parts: list[UOp] = []
        for term, factor in terms.items():
            if factor == 1:
                parts.append(term)
            elif factor == -1:
                parts.append(_times(term, factor))
            else:
                groups.setdefault(abs(factor), []).append(term)
        for members in groups.values():
            if len(members) > 1:
                members.sort(key=_by_order)
            common = terms[members[0]]
            total = members[0]
            for term in members[1:]:
                total = _plus(total, term if terms[term] == common else _times(term, -1))
            parts.append(_times(total, common))
        if len(parts) > 1:
            parts.sort(key=_by_order)
        result = parts[0]
        for part in parts[1:]:
            result = _plus(result, part)
        return _plus(result, like.const_like(constant)) if constant else result


def _plus(x: UOp, y: UOp) -> UOp:
    return x.table.make(_ADD, x.dtype, (x, y))


def _times(x: UOp, factor: int) -> UOp:
    return x.table.make(_MUL, x.dtype, (x, x.const_like(factor)))


def affine(node: UOp) -> Affine | None:
    """A sum taken apart; None if it has too many terms or is too entangled to be worth it."""
    terms: dict[UOp, int] = {}
    constant = 0
    stack = [(node, 1)]
    steps = 0
    while stack:
        x, factor = stack.pop()
        op = x.op
        if op is _ADD:
            steps += 1
            if steps > _STEPS_LIMIT:
                return None
            stack.append((x.src[1], factor))
            stack.append((x.src[0], factor))
        elif op is _MUL and x.src[1].op is _CONST:
            stack.append((x.src[0], factor * cast("int", x.src[1].arg)))
        elif op is _CONST:
            constant += factor * cast("int", x.arg)
        elif op is _SUB:
            steps += 1
            if steps > _STEPS_LIMIT:
                return None
            stack.append((x.src[1], -factor))
            stack.append((x.src[0], factor))
        elif op is _NEG:
            stack.append((x.src[0], -factor))
        else:
            terms[x] = terms.get(x, 0) + factor
    if 0 in terms.values():
        terms = {t: f for t, f in terms.items() if f}
    return Affine(terms, constant) if len(terms) <= TERMS_LIMIT else None


def known_affine(node: UOp) -> Affine | None:
    """The same, remembered in the node's table, for rules that look at one sum in turn. Not to be changed."""
    memo = cast("dict[UOp, Affine | None]", node.table.memos.setdefault(known_affine, {}))
    if node in memo:
        return memo[node]
    sum_ = memo[node] = affine(node)
    return sum_
