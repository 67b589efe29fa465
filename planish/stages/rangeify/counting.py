"""Reductions done by counting: how often a condition on a range holds, and what equal terms come to.

`Span` reads a conjunction of comparisons as `low <= r < high`. `repeated` is a reduction of equal terms without a loop, where
that is *exact*: integers wrap and index values are exact, so a sum is a product; a float constant may be counted while
all its multiples are floats (1.0 up to 2**24 times in float32), anything else is left to the loop that rounds.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple, cast

from planish.dtypes import DType
from planish.uop.matcher import Matcher, rule
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.pattern import anything, node
from planish.uop.symbolic.affine import Affine, affine
from planish.uop.symbolic.cast import exact_integers
from planish.uop.symbolic.conditions import conjuncts

IDEMPOTENT: Final = frozenset({Ops.MAX, Ops.MIN, Ops.AND, Ops.OR})


# -- conditions --------------------------------------------------------------------------------------------------


class RangeLimits(NamedTuple):
    """What a comparison says about a range: low <= r <= high; None where it says nothing."""

    low: UOp | None
    high: UOp | None


class Span(NamedTuple):
    """low <= r < high, within 0 … the size of r; `others` are the conjuncts that do not ask about r."""

    low: UOp
    high: UOp
    others: tuple[UOp, ...]

    @property
    def length(self) -> UOp:
        """For how many values of r it holds."""
        return (self.high - self.low).max(0)

    @staticmethod
    def of(condition: UOp, r: UOp, negated: bool = False) -> Span | None:
        """What a condition says about r; None if it says something else."""
        parts = [condition] if negated else conjuncts(condition)
        if parts is None:
            return None
        low, high = r.const_like(0), r.src[0]
        others = []
        for part in parts:
            if r not in part.ranges:
                others.append(part.logical_not() if negated else part)
                continue
            side = side_of(part, r, negated)
            if side is None:
                return None
            low = low if side.low is None else low.max(side.low)
            high = high if side.high is None else high.min(side.high + 1)
        return Span(low, high, tuple(others))


def side_of(condition: UOp, r: UOp, negated: bool = False) -> RangeLimits | None:
    """What one comparison of index values, linear in r, says about r."""
    while condition.op is Ops.NOT:
        negated, condition = not negated, condition.src[0]
    difference = _difference(condition, r)
    if difference is None:
        return None
    f, rest = difference
    # f*r + rest lies between these:
    limits = {
        (Ops.CMPLT, False): (None, -1),
        (Ops.CMPLT, True): (0, None),
        (Ops.CMPLE, False): (None, 0),
        (Ops.CMPLE, True): (1, None),
        (Ops.CMPEQ, False): (0, 0),
        (Ops.CMPNE, True): (0, 0),
    }.get((condition.op, negated))
    if limits is None:
        return None
    least, most = limits
    if f < 0:  # (-f)*r - rest lies between the negatives
        f, rest = -f, rest * -1
        least, most = (None if most is None else -most), (None if least is None else -least)
    return RangeLimits(
        None if least is None else (rest * -1 + (least + f - 1)) // f,
        None if most is None else (rest * -1 + most) // f,
    )


def _difference(comparison: UOp, r: UOp) -> tuple[int, UOp] | None:
    """(f, rest) of left - right = f*r + rest, rest without r."""
    if comparison.op not in {Ops.CMPLT, Ops.CMPLE, Ops.CMPEQ, Ops.CMPNE}:
        return None
    left, right = comparison.src
    if not left.dtype.is_index or left.dtype.lanes > 1:
        return None
    a, b = affine(left), affine(right)
    if a is None or b is None:
        return None
    difference = a.plus(b, -1)
    terms = dict(difference.terms)
    f = terms.pop(r, 0)
    if f == 0 or any(r in term.ranges for term in terms):
        return None
    rest = Affine(terms, difference.constant)
    return (f, rest.build(left)) if rest.fits else None


def solved(condition: UOp, r: UOp, negated: bool = False) -> UOp | None:
    """e, if the condition is r == e."""
    while condition.op is Ops.NOT:
        negated, condition = not negated, condition.src[0]
    if condition.op is not (Ops.CMPNE if negated else Ops.CMPEQ):
        return None
    difference = _difference(condition, r)
    if difference is None or difference[0] not in {1, -1}:
        return None
    f, rest = difference
    return rest * -f


# -- equal terms -------------------------------------------------------------------------------------------------


def multiples_are_exact(value: float, times: int, dtype: DType) -> bool:
    """Whether value, 2*value … times*value are all values of the dtype, so that summing them rounds nothing."""
    if not math.isfinite(value) or not math.isfinite(cast("float", dtype.const(value * times))):
        return False
    numerator, _ = value.as_integer_ratio()
    odd = abs(numerator) // (numerator & -numerator) if numerator else 0
    return odd * times <= exact_integers(dtype)


def repeated(op: Ops, x: UOp, count: UOp) -> UOp | None:
    """x combined with itself `count` times, which is at least 0; None where that needs a loop."""
    if op in IDEMPOTENT:
        return x if count.vmin >= 1 else None
    if x.dtype.is_integral:
        if op is Ops.ADD:
            return x * count.cast(x.dtype)
        number = count.arg if count.op is Ops.CONST else None
        return _power(op, x, number) if isinstance(number, int) else None
    if x.dtype.is_float and x.op is Ops.CONST:
        return _counted(op, x, count)
    return None


def _counted(op: Ops, x: UOp, count: UOp) -> UOp | None:
    value = cast("float", x.arg)
    if op is Ops.MUL:
        return x if value == 1 else None
    if op is not Ops.ADD or not multiples_are_exact(value, count.vmax, x.dtype):
        return None
    if value.is_integer():
        # multiplied as integers: a sum of no terms is 0.0, where 0 * -1.0 would be -0.0
        return (count * int(value)).cast(x.dtype)
    return count.cast(x.dtype) * x if value > 0 else None


def _power(op: Ops, x: UOp, number: int) -> UOp | None:
    """x·x·… or x ^ x ^ …, by squaring."""
    if op is Ops.XOR:
        return x if number % 2 else x.const_like(0)
    if op is not Ops.MUL:
        return None
    result: UOp | None = None
    while number:
        if number % 2:
            result = x if result is None else result * x
        number //= 2
        x = x * x if number else x
    return x.const_like(1) if result is None else result


def _drop_unused(root: UOp) -> UOp | None:
    """A REDUCE less the ranges that its operand does not depend on."""
    x, *ranges = root.src
    if root.dtype is not x.dtype:
        return None
    needed = x.ranges.union(*(r.ranges - {r} for r in ranges))
    for r in ranges:
        if r.op is Ops.RANGE and r not in needed and len(r.src) == 1:
            less = repeated(cast("Ops", root.arg), x, r.src[0])
            if less is not None:
                rest = tuple(other for other in ranges if other is not r)
                return less.reduce(cast("Ops", root.arg), *rest) if rest else less
    return None


pm_reduce_unused: Final = Matcher(
    "pm_reduce_unused",
    [
        rule(
            node(Ops.REDUCE, anything("x"), rest=True), _drop_unused,
            says="reduce(x, r) -> x combined size(r) times, x without r, where that is exact",
        )
    ],
)  # fmt: skip
