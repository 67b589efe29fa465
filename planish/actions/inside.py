"""Whether a read stays inside of its buffer by its own gate, however far a loop runs.

A convolution reads x[h + r - 1] where 0 <= h + r - 1 < n: that h runs on beyond its end makes it read something else, which nobody
stores, but nothing that is not there. Such a read needs no other gate; and without one, what neighbouring windows read
stays the same.

How: a gate is a conjunction of comparisons, each of which bounds a sum (`Condition`). What the index is made of is replaced by
such sums as far as possible, and what is left has bounds of its own.
"""

from __future__ import annotations

from planish.dtypes import PtrDType
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.symbolic.affine import Affine, affine
from planish.uop.symbolic.conditions import Condition, conjuncts


def stays_inside(place: UOp) -> bool:
    """Whether every element that a gated read can ask for is there."""
    memory = place.src[0].dtype
    if len(place.src) != 2 or not isinstance(memory, PtrDType) or place.src[0].op is not Ops.DEFINE_GLOBAL:
        return False
    gated = place.src[1]
    if gated.op is not Ops.WHERE or gated.src[2].op is not Ops.INVALID:
        return False
    parts, index = conjuncts(gated.src[0]), affine(gated.src[1])
    if parts is None or index is None:
        return False
    low, high = _bounds(index, [found for part in parts if (found := Condition.of(part)) is not None])
    return low >= 0 and high < memory.size


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
