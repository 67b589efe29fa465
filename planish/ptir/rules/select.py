"""Selects: decided, nested, of bools, and of constants."""

from __future__ import annotations

from typing import ClassVar

from planish.ptir import ops
from planish.ptir.function import Inst
from planish.ptir.ops.definition import OpKey
from planish.ptir.rewrite import views as v
from planish.ptir.rewrite.pattern import Root
from planish.ptir.rules import draft as d
from planish.ptir.rules.numbers import (
    CONSTANT,
    is_constant,
    is_false,
    is_true,
    number_of,
    same_number,
    will_fold,
)
from planish.ptir.rules.rule import Answer, family, rule
from planish.ptir.rules.shapes import same_scalar


@rule(benefit=5, radius=2, operands=(CONSTANT,))
def FoldSelectOfConstant(op: v.SelectView) -> Answer:
    """select(True, x, y) -> x, select(False, x, y) -> y."""
    truth = number_of(op.predicate)
    if truth is None:
        return "the predicate is not the same everywhere"
    return op.on_true if truth else op.on_false


@rule(benefit=5, radius=2)
def FoldSelectOfSame(op: v.SelectView) -> Answer:
    """select(p, x, x) -> x."""
    if not same_number(op.on_true, op.on_false):
        return "the two differ"
    return op.on_true


@rule(benefit=4, operands=(ops.not_,))
def InvertSelect(op: v.SelectView, inner: Inst) -> Answer:
    """select(not p, x, y) -> select(p, y, x)."""
    return d.draft(ops.select, (inner.operands[0], op.on_false, op.on_true))


@rule(benefit=3, radius=2, when=lambda op: op.dtype.is_bool)
def ReplaceSelectOfBools(op: v.SelectView) -> Answer:
    """select(p, True, False) -> p, select(p, True, y) -> p | y, select(p, x, False) -> p & x, and with not p."""
    p, x, y = op.operands
    opposite = d.draft(ops.not_, (p,))
    if is_true(x):
        return p if is_false(y) else d.draft(ops.or_, (p, y))
    if is_false(x):
        return opposite if is_true(y) else d.draft(ops.and_, (opposite, y))
    if is_false(y):
        return d.draft(ops.and_, (p, x))
    if is_true(y):
        return d.draft(ops.or_, (opposite, x))
    return "neither is constant"


@rule(benefit=3, radius=1)
def FoldSelectOfItsPredicate(op: v.SelectView) -> Answer:
    """select(p, p, y) -> p | y, select(p, x, p) -> p & x."""
    p, x, y = op.operands
    if x is p:
        return d.draft(ops.or_, (p, y))
    if y is p:
        return d.draft(ops.and_, (p, x))
    return "the predicate is not selected"


@rule(benefit=3, radius=2)
def FoldNestedSelect(op: v.SelectView) -> Answer:
    """select(p, select(p, x, y), z) -> select(p, x, z), select(p, x, select(p, y, z)) -> select(p, x, z)."""
    p, x, y = op.operands
    first, second = v.SelectView.of(x), v.SelectView.of(y)
    inside = first is not None and first.predicate is p
    outside = second is not None and second.predicate is p
    if not inside and not outside:
        return "no select with the same predicate below"
    chosen = first.on_true if first is not None and inside else x
    other = second.on_false if second is not None and outside else y
    return d.draft(ops.select, (p, chosen, other))


@rule(benefit=2, radius=2, watch_uses=True)
def JoinSelects(op: v.SelectView) -> Answer:
    """select(p, select(q, x, y), y) -> select(p & q, x, y), select(p, x, select(q, x, y)) -> select(p | q, x, y).

    Only if nothing else needs the inner one.
    """
    p, x, y = op.operands
    first, second = v.SelectView.of(x), v.SelectView.of(y)
    if first is not None and same_scalar(first.on_false, y) and x.has_one_use:
        both = d.draft(ops.and_, (p, first.predicate))
        return d.draft(ops.select, (both, first.on_true, y))
    if second is not None and same_scalar(second.on_true, x) and y.has_one_use:
        either = d.draft(ops.or_, (p, second.predicate))
        return d.draft(ops.select, (either, x, second.on_false))
    return "no select below that shares a value and is not needed elsewhere"


@rule(benefit=2, radius=2, operands=((ops.lt, ops.le, ops.gt, ops.ge),))
def ReplaceSelectByMinMax(op: v.SelectView, test: Inst) -> Answer:
    """select(x < y, x, y) -> min(x, y), select(x > y, x, y) -> max(x, y), and swapped; not of floats (NaN, -0)."""
    if op.dtype.is_float:
        return "NaN and -0 are not selected as min and max do"
    x, y = test.operands
    if (op.on_true, op.on_false) == (x, y):
        smaller = test.op in (ops.lt, ops.le)
    elif (op.on_true, op.on_false) == (y, x):
        smaller = test.op in (ops.gt, ops.ge)
    else:
        return "other values are compared than selected"
    return d.draft(ops.min if smaller else ops.max, (x, y))


@rule(benefit=2, radius=2, operands=((ops.eq, ops.ne),))
def FoldSelectOfEquality(op: v.SelectView, test: Inst) -> Answer:
    """select(x == y, x, y) -> y, select(x != y, x, y) -> x; not of floats, where -0 == +0."""
    if op.dtype.is_float or op.dtype.is_complex:
        return "equal floats may differ in sign"
    pair = (op.on_true, op.on_false)
    if pair != test.operands and pair[::-1] != test.operands:
        return "other values are compared than selected"
    return op.on_false if test.op is ops.eq else op.on_true


@rule(radius=2, watch_uses=True)
def SinkSelectBelowUnary(op: v.SelectView) -> Answer:
    """select(p, f(x), f(y)) -> f(select(p, x, y)), if nothing else needs f(x) and f(y)."""
    left, right = op.on_true.def_inst, op.on_false.def_inst
    if left is None or right is None or left.op is not right.op or left.attrs != right.attrs:
        return "two different ops"
    if left.op.key not in (OpKey.ELEMENTWISE_UNARY, OpKey.CAST) or not left.op.elementwise:
        return "not an elementwise op of one operand"
    if not (op.on_true.has_one_use and op.on_false.has_one_use):
        return "an operand is needed elsewhere"
    if is_constant(left.operands[0]) or is_constant(right.operands[0]):
        return "an operand folds"
    chosen = d.draft(ops.select, (op.predicate, left.operands[0], right.operands[0]))
    return d.draft(left.op, (chosen,), left.attrs)


class OfSelectView(v.OpView):
    """An elementwise op, but a select itself, whose first operand may be a select."""

    __slots__ = ()
    roots: ClassVar[tuple[Root, ...]] = (
        OpKey.ELEMENTWISE_UNARY,
        OpKey.ELEMENTWISE_BINARY,
        OpKey.COMPARE,
        OpKey.CAST,
    )


@rule(benefit=2, radius=2, operands=(ops.select,))
def LiftSelectOfConstants(op: OfSelectView) -> Answer:
    """f(select(p, c, d)) -> select(p, f(c), f(d)), f(select(p, c, d), e) -> select(p, f(c, e), f(d, e))."""
    inner = v.SelectView.of(op.operands[0])
    rest = op.operands[1:]
    if inner is None or not all(will_fold(v.literal) for v in (inner.on_true, inner.on_false, *rest)):
        return "not all of the values are constant"
    arms = [d.draft(op.op, (arm, *rest), op.inst.attrs) for arm in (inner.on_true, inner.on_false)]
    return d.draft(ops.select, (inner.predicate, *arms))


populate_canonicalization = family(__name__)
