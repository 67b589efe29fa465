"""Selects: decided, nested, of bools, and of constants."""

from __future__ import annotations

from planish.ptir import ops
from planish.ptir.ops.definition import OpKey
from planish.ptir.rewrite import views as v
from planish.ptir.rules import draft as d
from planish.ptir.rules.lawful import by_laws
from planish.ptir.rules.numbers import is_constant, will_fold
from planish.ptir.rules.rule import Answer, family, rule

by_laws(
    __name__, FoldSelectOfConstant=5, FoldSelectOfSame=5, InvertSelect=4, ReplaceSelectOfBools=3,
    FoldSelectOfItsPredicate=3, FoldNestedSelect=3, JoinSelects=2, ReplaceSelectByMinMax=2,
    FoldSelectOfEquality=2,
)  # fmt: skip


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


class OfSelectView(
    v.OpView,
    roots=(
        OpKey.ELEMENTWISE_UNARY, OpKey.ELEMENTWISE_BINARY, OpKey.COMPARE, OpKey.CAST,
    ),
):  # fmt: skip
    """An elementwise op, but a select itself, whose first operand may be a select."""


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
