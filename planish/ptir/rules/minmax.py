"""Maxima and minima: bounds that do not bind, clamps in one order, and signs.

The order has -0 below +0 and NaN beyond both ends (semantics 3.3): a constant that is not NaN compares by its
place in it.
"""

from __future__ import annotations

import math

from planish.ptir import ops
from planish.ptir.function import Inst, Value
from planish.ptir.ops import numerics
from planish.ptir.rewrite import views as v
from planish.ptir.rules import draft as d
from planish.ptir.rules.lawful import laws
from planish.ptir.rules.numbers import CONSTANT, is_constant, number_of
from planish.ptir.rules.rule import Answer, family, rule

by_law = laws(__name__)


Place = tuple[float | int, int]


def place_of(value: Value) -> Place | None:
    """Where a constant that is not NaN stands in the order of max and min."""
    number = number_of(value)
    if number is None or isinstance(number, complex) or math.isnan(number):
        return None
    return number, int(math.copysign(1.0, number)) if number == 0 and isinstance(number, float) else 0


@rule(benefit=4, radius=2, roots=(ops.max, ops.min), any_operand=CONSTANT)
def FoldUselessBound(op: v.BinaryView) -> Answer:
    """max(x, lowest) -> x, min(x, highest) -> x."""
    bound = numerics.lowest(op.dtype) if op.op is ops.max else numerics.highest(op.dtype)
    return op.lhs if number_of(op.rhs) == bound else "the bound binds"


@rule(benefit=4, radius=2, roots=(ops.max, ops.min), any_operand=CONSTANT)
def FoldExtremeBound(op: v.BinaryView) -> Answer:
    """max(x, highest) -> highest, min(x, lowest) -> lowest; not of floats, where NaN wins."""
    bound = numerics.highest(op.dtype) if op.op is ops.max else numerics.lowest(op.dtype)
    if op.dtype.is_float or number_of(op.rhs) != bound:
        return "x may lie beyond the bound, or be NaN"
    return op.rhs


@rule(benefit=2, radius=2, roots=(ops.max,), operands=(ops.min, CONSTANT))
def NormalizeClamp(op: v.BinaryView, inner: Inst) -> Answer:
    """max(min(x, high), low) -> min(max(x, low), high) where low <= high."""
    if is_constant(inner.operands[0]):
        return "the inner one folds"
    high, low = place_of(inner.operands[1]), place_of(op.rhs)
    if inner.operands[1].literal is None or high is None or low is None or low > high:
        return "not two constant bounds with room between them"
    raised = d.draft(ops.max, (inner.operands[0], op.rhs))
    return d.draft(ops.min, (raised, inner.operands[1]))


@rule(benefit=3, radius=2, roots=(ops.max, ops.min), operands=((ops.min, ops.max), CONSTANT))
def FoldEmptyClamp(op: v.BinaryView, inner: Inst) -> Answer:
    """min(max(x, low), high) -> high where high <= low, max(min(x, high), low) -> low; not of floats (NaN)."""
    if inner.op is op.op or op.dtype.is_float:
        return "not a clamp, or x may be NaN"
    first, second = place_of(inner.operands[1]), place_of(op.rhs)
    if inner.operands[1].literal is None or first is None or second is None:
        return "not two constant bounds"
    if second > first if op.op is ops.min else second < first:
        return "there is room between the bounds"
    return op.rhs


ReplaceMaxOfOppositesByAbs = by_law("ReplaceMaxOfOppositesByAbs", benefit=3)
SinkNegBelowMinMax = by_law("SinkNegBelowMinMax")


populate_canonicalization = family(__name__)
