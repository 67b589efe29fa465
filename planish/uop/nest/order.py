"""Whether the order of a range matters.

The values of a range may be taken in any order, or side by side, unless

* a SCAN runs along it;
* a STORE in its loop writes to a place that does not depend on it: the last one counts;
* a STORE writes to a place that data decides: two iterations may meet there, and the later one counts. (Ranges that
  provably keep places apart are free: of `m[idx[i]*64 + j]`, j < 64, the j; of `m[i*64 + idx[i]]`, idx < 64, the i; and any range
  that a gate compares with what the row leaves when it is divided by something, as `claim` makes it.) A place that no data decides is
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
    found: dict[UOp, str] = {}
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
                    found.setdefault(r, reason)
    stores = [n.src[0] for n in nodes if n.op is Ops.STORE]  # some stand in no loop
    for buffer, ends in written.items():
        places = {place.src[1:] for place in stores if memory_of(place) is buffer}
        if any(n.op is Ops.INDEX and memory_of(n) is buffer and n.src[1:] not in places for n in nodes):
            for end in ends:
                for r in closed_by(end):
                    found.setdefault(r, "the kernel reads other elements of what it writes")
    return found


def _why_ordered(r: UOp, place: UOp, store: UOp) -> str | None:
    index = plain_index(place)
    if index is None:
        return "it is not known where is stored"
    if _is_claimed(r, place, index):
        return None
    if r not in index.ranges:
        return "every iteration stores to the same place"
    data = [n for n in index.toposort() if n.op in _READS and n is not index]
    ranges = frozenset(s for read in data for s in read.ranges)
    if ranges and r in _beyond_data(index):
        return None
    if r in ranges:
        return "data decides where is stored, and the last of several counts"
    if ranges and r not in _kept_apart(index, ranges, _limits(place, index)):
        return "data decides where is stored, and the last of several counts"
    return None


def _is_claimed(r: UOp, place: UOp, index: UOp) -> bool:
    """Whether a gate lets a range through only where the row of the place, divided by something, leaves it: so rows are claimed."""
    gate = place.src[1]
    if gate is index or r not in gate.ranges or r in index.ranges:
        return False
    for clause in conjuncts(gate.src[0]) or ():
        if clause.op is Ops.CMPEQ and r in clause.src:
            left = clause.src[0] if clause.src[1] is r else clause.src[1]
            if left.op is not Ops.FLOORMOD or left.src[1].op is not Ops.CONST:
                continue
            rows = [index, *(simplify(index // n) for n in dict.fromkeys(_factors(index)))]
            rows += _rows_of_data(index, _limits(place, index))
            if any(simplify(row % left.src[1]) is simplify(left) for row in rows):
                return True
    return False


def _rows_of_data(index: UOp, limits: Sequence[_Limit]) -> Iterator[UOp]:
    """The rows of a place, if gates keep what is beside what data decides below their length: of `m[idx[i]*12 + j]` where j < 12, idx[i]."""
    chosen = [term for term in _summands(index) if any(n.op in _READS for n in term.toposort())]
    terms = _terms(*(term for term in _summands(index) if term not in chosen))
    reach = None if terms is None or not limits else _distinct(_spans(terms, limits))
    if not chosen or reach is None:
        return
    row = sum(chosen[1:], chosen[0])
    for n in dict.fromkeys(_factors(row)):
        if n > reach and all(simplify(term % n).arg == 0 for term in chosen):
            yield simplify(row // n)


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
    found: list[_Limit] = []
    for clause in conjuncts(gate.src[0]) or ():
        if clause.op is Ops.CMPLT and clause.src[1].op is Ops.CONST:
            terms = _terms(clause.src[0])
            if terms and _distinct(_spans(terms)) is not None:
                found.append(_Limit(terms, cast("int", clause.src[1].arg)))
    return found


def _kept_apart(index: UOp, data: frozenset[UOp], limits: Sequence[_Limit]) -> frozenset[UOp]:
    """Ranges that never meet at one place whatever the data is: index % n is a row-major place of theirs, and free of data."""
    for n in sorted(set(_factors(index)), reverse=True):  # the largest leaves most of them
        rest = simplify(index % n)
        if rest.ranges and rest.ranges.isdisjoint(data) and is_row_major(rest):
            return rest.ranges
    if limits:
        free = [term for term in _summands(index) if term.ranges.isdisjoint(data)]
        terms = _terms(*free)
        reach = None if terms is None else _distinct(_spans(terms, limits))
        if terms and reach is not None:
            rows = [term for term in _summands(index) if not term.ranges.isdisjoint(data)]
            if any(n > reach and all(simplify(row % n).arg == 0 for row in rows) for n in _factors(index)):
                return frozenset(terms)
    return frozenset()


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
    stack = [index]
    while stack:
        term = stack.pop()
        if term.op is Ops.ADD:
            stack.extend(term.src)
        else:
            yield term


def _terms(*indices: UOp) -> _Terms | None:
    """The ranges of a sum, each with its factor; None if it is something else. Constants are left out."""
    found: _Terms = {}
    for index in indices:
        for term in _summands(index):
            scaled = term.op is Ops.MUL and term.src[1].op is Ops.CONST
            r, factor = (term.src[0], cast("int", term.src[1].arg)) if scaled else (term, 1)
            if r.op is Ops.CONST:
                continue
            if r.op is not Ops.RANGE or factor < 1 or r in found:
                return None
            found[r] = factor
    return found


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
