"""Whether the order of a range matters.

The values of a range may be taken in any order, or side by side, unless

* a SCAN runs along it;
* a STORE in its loop writes to a place that does not depend on it: the last one counts;
* a STORE writes to a place that data decides: two iterations may meet there, and the later one counts. (Ranges that
  provably keep places apart are free: of `m[idx[i]*64 + j]`, j < 64, the j; of `m[i*64 + idx[i]]`, idx < 64, the i; and any range
  that a gate compares with what the row leaves when it is divided by something, as `claim` makes it, or lets its first value through alone.) A place that no data decides is
  written once, by the contract of kernels;
* the kernel reads a buffer that it writes, elsewhere than at the place written.

Besides, the length of another loop may depend on a range; such a range stays as it is. Iterations that use the same LOCAL memory
one after the other (`hold`) may run in any order, and on several cores, but not in lanes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, cast

from planish.uop.laws import memory_of
from planish.uop.nest import closed_by, plain_index, stores_in
from planish.uop.nest.access import is_global
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.symbolic import simplify
from planish.uop.symbolic.conditions import conjuncts

_READS: Final = frozenset({Ops.INDEX, Ops.LOAD})


def ordered(nodes: Sequence[UOp]) -> dict[UOp, str]:
    """The ranges of a kernel whose order matters because of what is stored, and why."""
    reasons: dict[UOp, str] = {}
    written: dict[UOp, list[UOp]] = {}
    for end in (n for n in nodes if n.op is Ops.END):
        for store in stores_in(end):
            place = store.src[0]
            if place.op is not Ops.INDEX:
                continue
            if is_global(place.src[0]):
                written.setdefault(place.src[0], []).append(end)
            for r in closed_by(end):
                reason = _why_ordered(r, place, store)
                if reason is not None:
                    reasons.setdefault(r, reason)
    stores = [n.src[0] for n in nodes if n.op is Ops.STORE]  # some stand in no loop
    for buffer, ends in written.items():
        places = {place.src[1:] for place in stores if memory_of(place) is buffer}
        if any(n.op is Ops.INDEX and memory_of(n) is buffer and n.src[1:] not in places for n in nodes):
            for end in ends:
                for r in closed_by(end):
                    reasons.setdefault(r, "the kernel reads other elements of what it writes")
    return reasons


def _why_ordered(r: UOp, place: UOp, store: UOp) -> str | None:
    index = plain_index(place)
    if index is None:
        return "it is not known where is stored"
    if _is_claimed(r, place, index) or _is_first_alone(r, place, index):
        return None
    if r not in index.ranges:
        return "every iteration stores to the same place"
    data = [n for n in index.toposort() if n.op in _READS and n is not index]
    ranges = frozenset(s for read in data for s in read.ranges)
    if not ranges or r in _beyond_data(index) or r in _kept_apart(index, _limits(place, index)):
        return None
    return "data decides where is stored, and the last of several counts"


def _is_claimed(r: UOp, place: UOp, index: UOp) -> bool:
    """Whether a gate lets a range through only where the row of the place, divided by something, leaves it, or a number that it is a digit of: so rows are claimed."""
    gate = place.src[1]
    if gate is index or r not in gate.ranges or r in index.ranges:
        return False
    for clause in conjuncts(gate.src[0]) or ():
        if clause.op is not Ops.CMPEQ:
            continue
        for left, number in (clause.src, clause.src[::-1]):
            if left.op is not Ops.FLOORMOD or left.src[1].op is not Ops.CONST:
                continue
            if r not in number.ranges or not is_row_major(number):
                continue
            rows = [row for part in (index, _below(index)) for row in _rows(part, _limits(place, index))]
            if any(simplify(row % left.src[1]) is simplify(left) for row in rows):
                return True
    return False


def _is_first_alone(r: UOp, place: UOp, index: UOp) -> bool:
    """Whether a gate lets no value of a range through but the first."""
    gate = place.src[1]
    if gate is index or r in index.ranges:
        return False
    clauses = conjuncts(gate.src[0]) or ()
    return any(
        c.op is Ops.CMPLT and c.src[0] is r and c.src[1].op is Ops.CONST and c.src[1].arg == 1
        for c in clauses
    )


def _rows(index: UOp, limits: Sequence[_Limit]) -> Iterator[UOp]:
    """What follows from a place: it, and the rows that it may lie in."""
    yield index
    for n in dict.fromkeys(_factors(index)):
        yield simplify(index // n)
    yield from _rows_of_data(index, limits)


def _below(index: UOp) -> UOp:
    """A place less its terms beyond all that data adds up to: they follow from the place, and so does what is left."""
    beyond = _beyond_data(index)
    left = [term for term in _summands(index) if not (_terms(term) and term.ranges <= beyond)]
    return simplify(sum(left[1:], left[0])) if left and beyond else index


def _chosen(index: UOp) -> list[UOp]:
    """The parts of a place that data decides."""
    return [term for term in _summands(index) if any(n.op in _READS for n in term.toposort())]


def _whole_rows(index: UOp, limits: Sequence[_Limit]) -> Iterator[tuple[int, list[UOp], _Terms]]:
    """Lengths of rows of which data decides which, by a place: the length, what data decides, and the ranges within a row."""
    chosen = _chosen(index)
    terms = _terms(*(term for term in _summands(index) if term not in chosen))
    reach = None if not terms else _distinct(_spans(terms, limits))
    if terms and reach is not None:
        for n in dict.fromkeys(_factors(index)):
            if n > reach and all(simplify(term % n).arg == 0 for term in chosen):
                yield n, chosen, terms


def _rows_of_data(index: UOp, limits: Sequence[_Limit]) -> Iterator[UOp]:
    """The rows of a place, if gates keep what is beside what data decides below their length: of `m[idx[i]*12 + j]` where j < 12, idx[i]."""
    for n, chosen, _ in _whole_rows(index, limits):
        if chosen:
            yield simplify(sum(chosen[1:], chosen[0]) // n)


_Terms = dict[UOp, int]
"""Ranges and what each is multiplied by."""


class _Limit(NamedTuple):
    """A sum of ranges that a gate lets through below a number."""

    terms: _Terms
    below: int


def _limits(place: UOp, index: UOp) -> list[_Limit]:
    """What the gate of a place says of sums of ranges: `j < 200` where an axis runs up to a multiple."""
    gate = place.src[1]
    if gate is index:
        return []
    limits: list[_Limit] = []
    for clause in conjuncts(gate.src[0]) or ():
        if clause.op is Ops.CMPLT and clause.src[1].op is Ops.CONST:
            terms = _terms(clause.src[0])
            if terms and _distinct(_spans(terms)) is not None:
                limits.append(_Limit(terms, cast("int", clause.src[1].arg)))
    return limits


def _kept_apart(index: UOp, limits: Sequence[_Limit]) -> frozenset[UOp]:
    """Ranges that never meet at one place whatever the data is: index % n is a row-major place of theirs, in which data has no part."""
    for n in sorted(set(_factors(index)), reverse=True):  # the largest leaves most of them
        rest = simplify(index % n)
        if rest.ranges and is_row_major(rest):
            return rest.ranges
    return next((frozenset(terms) for _, _, terms in _whole_rows(index, limits)), frozenset())


def _beyond_data(index: UOp) -> frozenset[UOp]:
    """Ranges that are taken times more than all that data can add up to, and than ranges below them: of `m[i*64 + idx[i]]`, idx < 64, the i."""
    plain: _Terms = {}
    reach = 0
    for term in _summands(index):
        terms = _terms(term)
        if terms is None or not terms.keys().isdisjoint(plain):
            reach += term.vmax - term.vmin
        else:
            plain |= terms
    free: set[UOp] = set()
    for r, factor in sorted(plain.items(), key=lambda each: each[1]):
        if factor <= reach:  # it goes as far as all those below it
            free.clear()
        else:
            free.add(r)
        reach += factor * r.vmax
    return frozenset(free)


def _factors(index: UOp) -> Iterator[int]:
    for node in index.toposort():
        if node.op is Ops.MUL and node.src[1].op is Ops.CONST:
            factor = node.src[1].arg
            if (
                isinstance(factor, int) and factor > 1
            ):  # data that decides a place may be computed from floats
                yield factor


def is_row_major(index: UOp) -> bool:
    """Whether an index is a sum of ranges, each times more than all those below it can add up to: no two values meet."""
    terms = _terms(index)
    return terms is not None and _distinct(_spans(terms)) is not None


def _summands(index: UOp) -> Iterator[UOp]:
    """What an index adds up; a sum times a number is one of products."""
    stack = [(index, 1)]
    while stack:
        term, factor = stack.pop()
        if term.op is Ops.ADD:
            stack.extend((source, factor) for source in term.src)
        elif term.op is Ops.MUL and term.src[1].op is Ops.CONST and term.src[0].op in {Ops.ADD, Ops.MUL}:
            stack.append((term.src[0], factor * cast("int", term.src[1].arg)))
        else:
            yield simplify(term * factor) if factor != 1 else term


def _terms(*indices: UOp) -> _Terms | None:
    """The ranges of a sum, each with its factor; None if it is something else. Constants are left out."""
    terms: _Terms = {}
    for index in indices:
        for term in _summands(index):
            scaled = term.op is Ops.MUL and term.src[1].op is Ops.CONST
            r, factor = (term.src[0], cast("int", term.src[1].arg)) if scaled else (term, 1)
            if r.op is Ops.CONST:
                continue
            if r.op is not Ops.RANGE or factor < 1 or r in terms:
                return None
            terms[r] = factor
    return terms


def _spans(terms: _Terms, limits: Sequence[_Limit] = ()) -> list[tuple[int, int]]:
    """Factors, and the most that each is taken times; ranges that a gate bounds together count as one."""
    left, spans = dict(terms), []
    for limit in limits:
        first, factor = next(iter(limit.terms.items()))
        times = left.get(first, 0) // factor
        if times and all(left.get(r) == times * f for r, f in limit.terms.items()):
            spans.append((times, limit.below - 1))
            for r in limit.terms:
                del left[r]
    return spans + [(factor, r.vmax) for r, factor in left.items()]


def _distinct(spans: Sequence[tuple[int, int]]) -> int | None:
    """The largest sum of multiples, if each is of more than all those below it can add up to; None if two sums may be equal."""
    reach = 0
    for factor, largest in sorted(spans):
        if factor <= reach:
            return None
        reach += factor * largest
    return reach
