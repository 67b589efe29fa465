"""What a condition says: bounds of a sum, read off a comparison, and what follows from several of them.

A comparison of index sums is `low <= Σ fᵢ·tᵢ <= high` with coprime factors, the first of them positive, so that two
comparisons about the same sum are seen to be. `tighten` drops the conjuncts that others imply; `simplify_under` finds a
cheaper form of an expression, equal wherever the conditions hold: what a condition bounds is replaced by a fresh
variable with these bounds, the result simplified, and the variable replaced back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd
from typing import Final, NamedTuple

from planish.uop.matcher import Matcher
from planish.uop.node import UOp
from planish.uop.ops import ALU, COMPARISONS, Ops, Variable
from planish.uop.rewrite import rewrite, substitute
from planish.uop.symbolic.affine import Affine, affine
from planish.uop.symbolic.comparison import comparison
from planish.uop.symbolic.cost import cost
from planish.uop.symbolic.divmod import divmod_rules
from planish.uop.symbolic.folding import folding
from planish.uop.symbolic.identities import identities
from planish.uop.symbolic.minmax import minmax
from planish.uop.symbolic.recombine import recombine
from planish.uop.symbolic.select import select
from planish.uop.symbolic.terms import terms

# a member of an enum costs more to look up than a name
_AND, _CMPEQ, _CMPLE, _CMPLT, _CONST, _NOT = Ops.AND, Ops.CMPEQ, Ops.CMPLE, Ops.CMPLT, Ops.CONST, Ops.NOT
_RANGE, _SPECIAL = Ops.RANGE, Ops.SPECIAL

_CONJUNCTS_LIMIT: Final = 16
_NODES_LIMIT: Final = 256
"""Larger expressions are not simplified under a condition: the search must stay cheap."""

_STAND_IN: Final = "_within"
_inner: Final = folding + identities + select + minmax + comparison + terms + recombine + divmod_rules
_INTERESTING: Final = frozenset(
    {Ops.FLOORDIV, Ops.FLOORMOD, Ops.TRUNCDIV, Ops.TRUNCMOD, Ops.MAX, Ops.MIN, Ops.WHERE}
)
_LEAVES: Final = frozenset({Ops.CONST, Ops.VCONST, Ops.DEFINE_VAR, Ops.RANGE, Ops.SPECIAL, Ops.INVALID})


class Condition(NamedTuple):
    """low <= sum <= high; None where there is no bound. `sum` has no constant."""

    sum: Affine
    low: int | None
    high: int | None

    @property
    def key(self) -> tuple[tuple[int, int], ...]:
        """The same for conditions about the same sum."""
        return tuple((t.serial, f) for t, f in self.sum.terms.items())

    @staticmethod
    def of(node: UOp) -> Condition | None:
        """What a comparison of index values says; None if it says nothing of this kind."""
        negated = False
        while node.op is _NOT:
            negated, node = not negated, node.src[0]
        if node.op not in COMPARISONS or not node.src[0].dtype.is_index or node.dtype.lanes > 1:
            return None
        left, right = affine(node.src[0]), affine(node.src[1])
        if left is None or right is None:
            return None
        difference = left.plus(right, -1)
        if not difference.terms:
            return None
        bounds = _difference_bounds(node.op, negated, difference)
        return None if bounds is None else _normal(difference, *bounds)

    def holds(self, low: int, high: int) -> bool:
        """Whether it holds for every sum within these bounds."""
        return (self.low is None or self.low <= low) and (self.high is None or high <= self.high)

    def fails(self, low: int, high: int) -> bool:
        """Whether it holds for no sum within these bounds."""
        return (self.low is not None and high < self.low) or (self.high is not None and self.high < low)


def _difference_bounds(op: Ops, negated: bool, difference: Affine) -> tuple[int | None, int | None] | None:
    """The bounds of left - right that a comparison states."""
    if op is _CMPLT:
        return (0, None) if negated else (None, -1)
    if op is _CMPLE:
        return (1, None) if negated else (None, 0)
    if (op is _CMPEQ) is not negated:
        return 0, 0
    low, high = difference.interval()  # not equal: says something at an end
    if low == 0:
        return 1, None
    return (None, -1) if high == 0 else None


def _normal(difference: Affine, low: int | None, high: int | None) -> Condition:
    order = sorted(difference.terms.items(), key=lambda item: item[0].serial)
    common = gcd(*(f for _, f in order))
    if order[0][1] < 0:
        common = -common
    low = None if low is None else low - difference.constant
    high = None if high is None else high - difference.constant
    if common < 0:
        low, high = high, low
    low = None if low is None else -(-low // common)
    high = None if high is None else high // common
    return Condition(Affine({t: f // common for t, f in order}, 0), low, high)


def conjuncts(condition: UOp) -> list[UOp] | None:
    """The parts of a conjunction; None if there are too many."""
    parts: dict[UOp, None] = {}
    stack = [condition]
    while stack:
        part = stack.pop()
        if part.op is _AND:
            stack.append(part.src[1])
            stack.append(part.src[0])
            if len(stack) > _CONJUNCTS_LIMIT:
                return None
        else:
            parts[part] = None
    return list(parts) if len(parts) <= _CONJUNCTS_LIMIT else None


def tighten(condition: UOp) -> UOp | None:
    """The conjunction in order, without what the rest of it implies; None if it cannot be read."""
    if condition.op is not _AND or condition.dtype.lanes > 1:
        return None
    parts = conjuncts(condition)
    if parts is None:
        return None
    parts.sort(key=lambda n: n.order)
    said = {part: Condition.of(part) for part in parts}
    kept = list(parts)
    for part in parts:
        mine = said[part]
        if mine is None:
            continue
        others = [c for other in kept if other is not part and (c := said[other]) is not None]
        low, high = _bounds_under(mine, others)
        if mine.fails(low, high):
            return condition.const_like(False)
        if mine.holds(low, high):
            kept.remove(part)
    if not kept:
        return condition.const_like(True)
    result = kept[0]
    for part in kept[1:]:
        result = result & part
    return result


def _bounds_under(condition: Condition, others: Sequence[Condition]) -> tuple[int, int]:
    """The bounds of a condition's sum where the others hold."""
    terms = condition.sum.terms
    key = condition.key
    narrowed: dict[UOp, tuple[int, int]] = {}
    same: list[Condition] = []
    for other in others:
        if other.key == key:
            same.append(other)
        if len(other.sum.terms) == 1:
            ((term, _),) = other.sum.terms.items()
            if term in terms:
                narrowed[term] = _intersect(narrowed.get(term) or term._interval(), other)
    low = high = 0
    for term, f in terms.items():
        least, most = narrowed.get(term) or term._interval()
        low += f * (least if f > 0 else most)
        high += f * (most if f > 0 else least)
    bounds = low, high
    for other in same:
        bounds = _intersect(bounds, other)
    return bounds


def _intersect(bounds: tuple[int, int], condition: Condition) -> tuple[int, int]:
    low, high = bounds
    if condition.low is not None:
        low = max(low, condition.low)
    if condition.high is not None:
        high = min(high, condition.high)
    return low, high


# -- an expression where conditions hold -------------------------------------------------------------------------


def simplify_under(x: UOp, known: Sequence[Condition], rules: Matcher = _inner) -> UOp | None:
    """An expression cheaper than x and equal to it where the conditions hold; None if none is found.

    Only for expressions without loads, and only if something in them could gain from better bounds.
    """
    nodes = x.toposort()
    if len(nodes) > _NODES_LIMIT or not any(n.op in _INTERESTING for n in nodes):
        return None
    if any((n.op not in ALU and n.op not in _LEAVES) or _is_stand_in(n) for n in nodes):
        return None
    joined = _join(known)
    present = set(nodes)
    best, least = x, cost(x)
    for attempt in _attempts(joined, present):
        candidate = attempt.apply(best, rules)
        if candidate is not None and (price := cost(candidate)) < least:
            best, least = candidate, price
    return None if best is x else best


def _computes(node: UOp) -> bool:
    """Whether what is below a node is part of its value: how long a loop is does not depend on who asks in it."""
    return node.op not in {_RANGE, _SPECIAL}


class _Within(NamedTuple):
    """low <= sum <= high, from conditions and bounds together."""

    sum: Affine
    low: int
    high: int


def _join(known: Sequence[Condition]) -> list[_Within]:
    """What the conditions say of each sum, where it is more than the bounds do, and possible."""
    joined: dict[tuple[tuple[int, int], ...], _Within] = {}
    for condition in known:
        before = joined.get(condition.key)
        bounds = condition.sum.interval() if before is None else (before.low, before.high)
        joined[condition.key] = _Within(condition.sum, *_intersect(bounds, condition))
    return [w for w in joined.values() if (w.low, w.high) != w.sum.interval() and w.low <= w.high]


class _Attempt(NamedTuple):
    """Replacements to simplify under and the way back; several cases must all come to the same."""

    cases: tuple[tuple[dict[UOp, UOp], dict[UOp, UOp]], ...]

    def apply(self, x: UOp, rules: Matcher) -> UOp | None:
        agreed: UOp | None = None
        for there, back in self.cases:
            changed = substitute(x, there, _computes)
            if changed is x:
                return None
            simple = rewrite(substitute(rewrite(changed, rules), back, _computes), rules)
            if agreed is not None and simple is not agreed:
                return None
            agreed = simple
        return agreed


def _attempts(joined: Sequence[_Within], present: set[UOp]) -> Iterator[_Attempt]:
    there: dict[UOp, UOp] = {}
    back: dict[UOp, UOp] = {}
    for number, within in enumerate(joined):
        if len(within.sum.terms) == 1:
            ((term, _),) = within.sum.terms.items()
            if term in present:
                stand_in = _bounded(within, term, number)
                there[term] = stand_in
                if stand_in.op is not _CONST:
                    back[stand_in] = term
    if there:
        yield _Attempt(((there, back),))
    for number, within in enumerate(joined):
        if len(within.sum.terms) > 1:
            yield from _attempts_for_sum(within, number, present)


def _attempts_for_sum(within: _Within, number: int, present: set[UOp]) -> Iterator[_Attempt]:
    terms = within.sum.terms
    like = next(iter(terms))
    whole = within.sum.build(like)
    stand_in = _bounded(within, like, number)
    back = {} if stand_in.op is _CONST else {stand_in: whole}
    for pivot, f in terms.items():
        if f in {1, -1} and pivot in present:
            # From sum = f*pivot + rest: pivot = f*(stand_in - rest).
            rest = Affine({t: g for t, g in terms.items() if t is not pivot}, 0)
            value = Affine({stand_in: 1}, 0).plus(rest, -1).scaled(f)
            yield _Attempt((({pivot: value.build(like)}, back),))
    if within.low == 1 and all(f > 0 and t.vmin >= 0 for t, f in terms.items()):
        # Some term is at least 1; whichever it is, the result must be the same.
        cases = []
        for position, term in enumerate(terms):
            if term.vmax >= 1:
                at_least = _bounded(_Within(Affine({term: 1}, 0), 1, term.vmax), term, position)
                cases.append(({term: at_least}, {} if at_least.op is _CONST else {at_least: term}))
        if cases and all(term in present for case, _ in cases for term in case):
            yield _Attempt(tuple(cases))


def _bounded(within: _Within, like: UOp, number: int) -> UOp:
    _, low, high = within
    if low == high:
        return like.const_like(low)
    return like.table.variable(f"{_STAND_IN}{number}", low, high, like.dtype)


def _is_stand_in(node: UOp) -> bool:
    """Whether a variable of the program has a name like ours: then it could be taken for one."""
    return isinstance(node.arg, Variable) and node.arg.name.startswith(_STAND_IN)
