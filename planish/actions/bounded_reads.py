"""Whether a read stays inside of its buffer by its own gate, however far a loop runs.

A convolution reads x[h + r - 1] where 0 <= h + r - 1 < n: that h runs on beyond its end makes it read something else, which nobody
stores, but nothing that is not there. Such a read needs no other gate; and without one, what neighbouring windows read
stays the same.

How: a gate is a conjunction of comparisons, each of which bounds a sum (`Condition`). There are three proofs. `stays_inside`: what the
index is made of is replaced by such sums as far as possible, and what is left has bounds of its own; they lie in the buffer. It takes
sizes that are numbers. `reads_nothing_new`: the index knows the loop only through one such sum, which has all values
up to the gate's bound already, by other loops in it (above, the last h with the last r). So whatever is read when the loop runs on is
read now, and sizes may be names. `is_periodic`: of the loop only a quotient or a remainder is seen, and no new one (steps or
phases of a transposed convolution).
"""

from __future__ import annotations

from planish.dtypes import PtrDType
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.rewrite import substitute
from planish.uop.symbolic import simplify
from planish.uop.symbolic.affine import Affine, affine
from planish.uop.symbolic.conditions import Condition, conjuncts


def _gate(place: UOp) -> tuple[list[Condition | None], UOp] | None:
    """What the gate of a read of an argument says, and the index behind it."""
    if len(place.src) != 2 or place.src[0].op is not Ops.DEFINE_GLOBAL:
        return None
    gated = place.src[1]
    if gated.op is not Ops.WHERE or gated.src[2].op is not Ops.INVALID:
        return None
    parts = conjuncts(gated.src[0])
    return None if parts is None else ([Condition.of(part) for part in parts], gated.src[1])


def is_periodic(place: UOp, r: UOp, last: int) -> bool:
    """Whether a read knows a loop by one quotient or remainder only, and has all that there are up to a last value already."""
    users = {n for index in place.src[1:] for n in index.toposort() if r in n.src}
    if len(users) != 1 or r.src[0].op is not Ops.CONST:
        return False  # of two of them, each known, the pair may be new
    (seen,) = users
    if seen.op not in {Ops.FLOORDIV, Ops.FLOORMOD}:
        return False
    if seen.src[0] is not r or seen.src[1].op is not Ops.CONST or (size := seen.src[1].vmax) < 1:
        return False
    return last // size == r.vmax // size if seen.op is Ops.FLOORDIV else size <= r.vmax + 1


def stays_inside(place: UOp, r: UOp) -> bool:
    """Whether every element that a gated read can ask for is there, however far r runs.

    What is there of a buffer whose sizes are names is less than at its largest: no index between has to be inside.
    """
    memory, said = place.src[0].dtype, _gate(place)
    if said is None or not isinstance(memory, PtrDType) or (index := affine(said[1])) is None:
        return False
    if r.src[0].op is not Ops.CONST or _has_names(place.src[1]):
        return False
    low, high = _bounds(index, [one for one in said[0] if one is not None])
    return low >= 0 and high < memory.size


def _has_names(index: UOp) -> bool:
    """Whether a size that is a name is a part of an index or its gate; loops that run so far do not count."""
    nodes = index.toposort(lambda node: node.op is not Ops.RANGE)
    return any(node.op is Ops.DEFINE_VAR for node in nodes)


def reads_nothing_new(place: UOp, r: UOp) -> bool:
    """Whether a gated read, were r to go on, would ask for no element that it does not ask for as it is."""
    said = _gate(place)
    if said is None or None in said[0]:
        return False
    conditions, index = [one for one in said[0] if one is not None], said[1]
    about = [one for one in conditions if one.sum.terms.get(r)]
    others = [one for one in conditions if one not in about]
    if not about or any(r in t.ranges for one in conditions for t in one.sum.terms if t is not r):
        return False
    windows = {tuple(sorted((t.serial, f) for t, f in _upwards(one, r).items() if t.ranges)) for one in about}
    sum_ = {t: f for t, f in _upwards(about[0], r).items() if t.ranges}
    partners = [t for t in sum_ if t is not r]
    if len(windows) != 1 or any(t.op is not Ops.RANGE or len(t.src) != 1 or t.src[0].ranges for t in sum_):
        return False
    if any(partner in t.ranges for one in others for t in one.sum.terms for partner in partners):
        return False
    if not _has_no_gaps(sum_) or any(not _is_seen_through(index, r, sum_[r], p, sum_[p]) for p in partners):
        return False
    last = Affine({}, 0)
    for term, factor in sum_.items():
        end = affine(term.src[0])
        if end is None:
            return False
        if factor > 0:
            last = last.plus(end.plus(Affine({}, -1)), factor)
    # one of the bounds above suffices: together they allow no more
    return any(_least(last.plus(bound, -1)) >= 0 for one in about for bound in _limit(one, r))


def _least(sum_: Affine) -> int:
    """A lower bound of a sum of sizes, in which quotients are no more than a remainder below what they divide: (n + 1) // 2 · 2 >= n."""
    for term, factor in list(sum_.terms.items()):
        if term.op is not Ops.FLOORDIV or term.src[1].op is not Ops.CONST or factor < 0:
            continue
        by, whole = term.src[1].vmax, affine(term.src[0])
        if whole is not None and by > 0 and factor % by == 0:
            sum_ = sum_.plus(Affine({term: 1}, 0), -factor).plus(whole.plus(Affine({}, 1 - by)), factor // by)
    return sum_.interval()[0]


def _upwards(said: Condition, r: UOp) -> dict[UOp, int]:
    """The terms of a condition's sum, r's factor positive."""
    terms = said.sum.terms
    return dict(terms) if terms[r] > 0 else {t: -f for t, f in terms.items()}


def _limit(said: Condition, r: UOp) -> list[Affine]:
    """The greatest value that a condition allows the ranges of its sum."""
    bound = said.high if said.sum.terms[r] > 0 else None if said.low is None else -said.low
    sizes = Affine({t: -f for t, f in _upwards(said, r).items() if not t.ranges}, 0)
    return [] if bound is None else [sizes.plus(Affine({}, bound))]


def _has_no_gaps(sum_: dict[UOp, int]) -> bool:
    """Whether a sum of ranges has all values between its least and its greatest."""
    reached = 1
    for term, factor in sorted(sum_.items(), key=lambda item: abs(item[1])):
        if abs(factor) > reached:
            return False
        reached += abs(factor) * max(term.src[0].vmin - 1, 0)
    return True


def _is_seen_through(index: UOp, r: UOp, own: int, partner: UOp, other: int) -> bool:
    """Whether an index stays the same where one range goes up and the other down, so that their sum does."""
    moved = substitute(index, {r: r + other, partner: partner - own})
    first, second = affine(simplify(moved)), affine(simplify(index))
    if first is None or second is None:
        return False
    return not (difference := first.plus(second, -1)).terms and not difference.constant


def _bounds(index: Affine, conditions: list[Condition]) -> tuple[int, int]:
    """Of a sum, where the conditions hold."""
    sums: dict[object, Condition] = {}
    for one in conditions:
        same = sums.get(one.key, one)
        low = max((b for b in (one.low, same.low) if b is not None), default=None)
        high = min((b for b in (one.high, same.high) if b is not None), default=None)
        sums[one.key] = Condition(one.sum, low, high)
    least = most = 0
    for known in sorted(sums.values(), key=lambda one: -len(one.sum.terms)):
        if known.low is None or known.high is None:
            continue
        factors = {index.terms.get(term, 0) / factor for term, factor in known.sum.terms.items()}
        if len(factors) != 1 or not (factor := factors.pop()) or factor != int(factor):
            continue
        times = int(factor)
        index = index.plus(known.sum, -times)
        ends = times * known.low, times * known.high
        least, most = least + min(ends), most + max(ends)
    low, high = index.interval()
    return low + least, high + most
