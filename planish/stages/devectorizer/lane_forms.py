"""Vectors of indices and gates, lane by lane, without a node per lane.

Nearly every vector of indices is a few scalars times a constant per lane, plus a constant per lane. `Forms.form` reads that
off (`Form`), so that a register tile of 384 lanes is a handful of lists of numbers; a node is built only for the
places that are accessed. What is not a sum (a quotient of a vector, a comparison) is written out lane by lane.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final, NamedTuple, cast

from planish.records import dataclass
from planish.uop.node import UOp
from planish.uop.ops import ALU, Ops
from planish.uop.symbolic import simplify, symbolic
from planish.uop.symbolic.affine import Affine, affine

# a member of an enum costs more to look up than a name
_ADD, _AND, _CAT, _CONST, _GEP, _INVALID = Ops.ADD, Ops.AND, Ops.CAT, Ops.CONST, Ops.GEP, Ops.INVALID
_MUL, _NEG, _SUB, _VCONST, _VECTORIZE = Ops.MUL, Ops.NEG, Ops.SUB, Ops.VCONST, Ops.VECTORIZE

ELEMENTWISE: Final = ALU | {Ops.RARE, Ops.CAST, Ops.BITCAST}
_MOST_TERMS: Final = 64
"""A vector of that many different scalars is no sum worth looking at."""


class LaneForm(NamedTuple):
    """Σ term·factor + Σ term·factors[lane] + constants[lane]; terms are scalars. Most, as the loops around a tile, have one factor in all lanes."""

    common: dict[UOp, int]
    """The terms that have the same factor in every lane: what lanes differ by is all the rest."""
    terms: dict[UOp, list[int]]
    constants: list[int]

    def chosen(self, lanes: tuple[int, ...]) -> LaneForm:
        """Some lanes of it."""
        return LaneForm(
            self.common,
            {term: [factors[i] for i in lanes] for term, factors in self.terms.items()},
            [self.constants[i] for i in lanes],
        )

    def plus(self, other: LaneForm, sign: int) -> LaneForm:
        """Lane by lane: this and `sign` times the other."""
        common, terms = dict(self.common), dict(self.terms)
        for term, factor in other.common.items():
            if term in terms:
                terms[term] = [x + sign * factor for x in terms[term]]
            else:
                common[term] = common.get(term, 0) + sign * factor
        for term, factors in other.terms.items():
            mine = terms.get(term) or [common.pop(term, 0)] * len(factors)
            terms[term] = [x + sign * y for x, y in zip(mine, factors, strict=True)]
        return LaneForm(
            common, terms, [x + sign * y for x, y in zip(self.constants, other.constants, strict=True)]
        )

    def times(self, factors: list[int]) -> LaneForm:
        """Lane by lane: this times a number."""
        constants = [x * y for x, y in zip(self.constants, factors, strict=True)]
        terms = {
            term: [x * y for x, y in zip(mine, factors, strict=True)] for term, mine in self.terms.items()
        }
        if factors.count(factors[0]) == len(factors):
            return LaneForm({term: x * factors[0] for term, x in self.common.items()}, terms, constants)
        return LaneForm(
            {}, {term: [x * y for y in factors] for term, x in self.common.items()} | terms, constants
        )

    def bases(self) -> list[tuple[int, ...]]:
        """For each lane the factors of the terms that lanes may differ by: lanes with equal ones differ by a constant."""
        if not self.terms:
            return [()] * len(self.constants)
        return list(zip(*self.terms.values(), strict=True))

    def is_constant(self) -> bool:
        """Whether every lane is a number."""
        return not self.common and not self.terms


@dataclass(slots=True)
class Forms:
    """What is known of the vectors of one kernel."""

    forms: dict[UOp, LaneForm]
    lanes: dict[tuple[UOp, int], UOp]
    simplest: dict[UOp, UOp] = field(default_factory=dict)
    bases: dict[object, UOp] = field(default_factory=dict)
    """Sums without their constants, in normal form."""
    places: dict[UOp, object] = field(default_factory=dict)
    """Of vectors of places what `accesses.py` found of their lanes."""

    def form(self, vector: UOp) -> LaneForm:
        """A vector of indices as a sum. (Iterative: index sums can be deep.)"""
        known = self.forms
        stack = [vector]
        while stack:
            node = stack[-1]
            if node in known:
                stack.pop()
                continue
            missing = [source for source in _summands(node) if source not in known]
            if missing:
                stack.extend(missing)
                continue
            known[node] = self._form(node)
            stack.pop()
        return known[vector]

    def at(self, form: LaneForm, lane: int, like: UOp) -> UOp:
        """One lane of a sum as a scalar expression in normal form; `like` has its dtype. Places of a tile differ by constants."""
        terms = {term: factor for term, factor in form.common.items() if factor}
        terms |= {term: factors[lane] for term, factors in form.terms.items() if factors[lane]}
        constant = form.constants[lane]
        key = like.dtype, tuple(terms.items())
        base = self.bases.get(key)
        if base is None:
            base = self.bases[key] = simplify(Affine(terms, 0).build(like), symbolic)
        return ahead(base, constant)

    def _form(self, node: UOp) -> LaneForm:
        op, src, count = node.op, node.src, node.dtype.lanes
        if op is _CONST:
            return LaneForm({}, {}, [cast("int", node.arg)] * count)
        if op is _VCONST:
            return LaneForm({}, {}, list(cast("tuple[int, ...]", node.arg)))
        if op is _GEP and src[0].dtype.lanes > 1:
            return self.forms[src[0]].chosen(cast("tuple[int, ...]", node.arg))
        if op is _CAT and all(part.dtype.lanes > 1 for part in src):
            return _joined([self.forms[part] for part in src])
        if op is _ADD or op is _SUB:
            return self.forms[src[0]].plus(self.forms[src[1]], 1 if op is _ADD else -1)
        if op is _NEG:
            return self.forms[src[0]].times([-1] * count)
        if op is _MUL:
            x, y = self.forms[src[0]], self.forms[src[1]]
            if y.is_constant():
                return x.times(y.constants)
            if x.is_constant():
                return y.times(x.constants)
        if op is _VECTORIZE and all(lane is src[0] for lane in src):
            return of_scalars([src[0]]).chosen((0,) * count)
        return of_scalars(self.scalars(node))

    def lane(self, value: UOp, number: int) -> UOp:
        """One lane of a vector as a scalar expression, as it stands."""
        known = self.lanes
        stack = [(value, number)]
        while stack:
            key = node, lane = stack[-1]
            if key in known:
                stack.pop()
                continue
            needs = _lane_needs(node, lane)
            missing = [need for need in needs if need not in known]
            if missing:
                stack.extend(missing)
                continue
            known[key] = _lane_value(node, lane, [known[need] for need in needs])
            stack.pop()
        return known[value, number]

    def scalars(self, vector: UOp) -> list[UOp]:
        """One scalar expression per lane, in simplest form: equal ones are one node."""
        if (
            vector.op is _AND and vector.dtype.is_bool
        ):  # rows and columns of a tile: few gates, many pairs of them
            pairs = list(zip(*map(self.scalars, vector.src), strict=True))
            both = {pair: _both(*pair) for pair in dict.fromkeys(pairs)}
            return [both[pair] for pair in pairs]
        if vector.op is _CAT:
            return [lane for part in vector.src for lane in self.scalars(part)]
        if vector.op is _GEP:  # one row's gate for all lanes of a register
            chosen = cast("tuple[int, ...]", vector.arg)
            known = {
                number: self.simple(self.lane(vector.src[0], number)) for number in dict.fromkeys(chosen)
            }
            return [known[number] for number in chosen]
        return [self.simple(self.lane(vector, number)) for number in range(vector.dtype.lanes)]

    def simple(self, lane: UOp) -> UOp:
        """A scalar in simplest form: few of many differ."""
        if lane not in self.simplest:
            self.simplest[lane] = simplify(lane, symbolic)
        return self.simplest[lane]


def ahead(index: UOp, count: int) -> UOp:
    """The index of an element so far behind another: of equal elements the same node, or their loop would be there twice."""
    if index.op is _CONST:
        return index.const_like(cast("int", index.arg) + count)
    base, constant = base_and_constant(index)
    return base + (constant + count) if constant + count else base


def base_and_constant(index: UOp) -> tuple[UOp, int]:
    """An index as a sum of one without a constant, and a constant."""
    if index.op is _ADD and index.src[1].op is _CONST:
        return index.src[0], cast("int", index.src[1].arg)
    return index, 0


def _both(a: UOp, b: UOp) -> UOp:
    for one, other in ((a, b), (b, a)):
        if one.op is _CONST:
            return other if one.arg else one
    return a if a is b else a & b


def _summands(node: UOp) -> tuple[UOp, ...]:
    """The vectors whose forms make the form of this one."""
    if node.op in {_ADD, _SUB, _NEG, _MUL}:
        return node.src
    if node.op in {_GEP, _CAT}:
        return tuple(source for source in node.src if source.dtype.lanes > 1)
    return ()


def _joined(parts: list[LaneForm]) -> LaneForm:
    first = parts[0].common
    common = {t: factor for t, factor in first.items() if all(part.common.get(t) == factor for part in parts)}
    names = dict.fromkeys(t for part in parts for t in (*part.common, *part.terms) if t not in common)
    terms: dict[UOp, list[int]] = {term: [] for term in names}
    constants: list[int] = []
    for part in parts:
        count = len(part.constants)
        for term, factors in terms.items():
            factors.extend(part.terms.get(term) or [part.common.get(term, 0)] * count)
        constants.extend(part.constants)
    return LaneForm(common, terms, constants)


def of_scalars(lanes: list[UOp]) -> LaneForm:
    """Scalars of all kinds as one form."""
    terms: dict[UOp, list[int]] = {}
    constants = [0] * len(lanes)
    for number, lane in enumerate(lanes):
        sum_ = affine(lane)
        if sum_ is None or len(terms) + len(sum_.terms) > _MOST_TERMS:
            sum_ = Affine({lane: 1}, 0)
        for term, factor in sum_.terms.items():
            terms.setdefault(term, [0] * len(lanes))[number] = factor
        constants[number] = sum_.constant
    common = {t: factors[0] for t, factors in terms.items() if factors.count(factors[0]) == len(factors)}
    return LaneForm(common, {t: factors for t, factors in terms.items() if t not in common}, constants)


def _lane_needs(node: UOp, lane: int) -> list[tuple[UOp, int]]:
    if node.dtype.lanes == 1 or node.op in {_CONST, _VCONST, _VECTORIZE}:
        return []
    if node.op is _GEP:
        return [(node.src[0], cast("tuple[int, ...]", node.arg)[lane])]
    if node.op in ELEMENTWISE and all(s.dtype.lanes == node.dtype.lanes for s in node.src):
        return [(source, lane) for source in node.src]
    if node.op is _CAT:
        for source in node.src:
            if lane < source.dtype.lanes:
                return [(source, lane)]
            lane -= source.dtype.lanes
    return []


def _lane_value(node: UOp, lane: int, parts: list[UOp]) -> UOp:
    if node.dtype.lanes == 1:
        return node
    scalar = node.dtype.scalar
    if node.op in {_CONST, _INVALID}:
        return node.replace(dtype=scalar)
    if node.op is _VCONST:
        return node.table.const(cast("tuple[int, ...]", node.arg)[lane], scalar)
    if node.op is _VECTORIZE:
        return node.src[lane]
    if node.op in {_GEP, _CAT}:
        return parts[0]
    if parts:
        return node.table.make(node.op, scalar, tuple(parts), node.arg)
    return node.gep(lane)
