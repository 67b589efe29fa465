"""Selects: decided, nested, of bools, and of constants."""

from __future__ import annotations

from typing import ClassVar

from planish.ptir import ops
from planish.ptir.ops.definition import OpKey
from planish.ptir.rewrite.pattern import Root
from planish.ptir.rewrite.prelude import OpRewritePattern, OpView, PatternSet, ProgramRewriter, SelectView
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
from planish.ptir.rules.shapes import same_scalar


class FoldSelectOfConstant(OpRewritePattern[SelectView]):
    """select(True, x, y) -> x, select(False, x, y) -> y."""

    benefit = 5
    radius = 2
    operands = (CONSTANT,)

    def match_and_rewrite(self, op: SelectView, rw: ProgramRewriter) -> bool:
        truth = number_of(op.predicate)
        if truth is None:
            return rw.fail(op.inst, "the predicate is not the same everywhere")
        return d.replace(rw, op.inst, op.on_true if truth else op.on_false)


class FoldSelectOfSame(OpRewritePattern[SelectView]):
    """select(p, x, x) -> x."""

    benefit = 5
    radius = 2

    def match_and_rewrite(self, op: SelectView, rw: ProgramRewriter) -> bool:
        if not same_number(op.on_true, op.on_false):
            return rw.fail(op.inst, "the two differ")
        return d.replace(rw, op.inst, op.on_true)


class InvertSelect(OpRewritePattern[SelectView]):
    """select(not p, x, y) -> select(p, y, x)."""

    benefit = 4
    radius = 1
    operands = (ops.not_,)

    def match_and_rewrite(self, op: SelectView, rw: ProgramRewriter) -> bool:
        inner = op.predicate.def_inst
        if inner is None:
            return False
        swapped = d.draft(ops.select, (inner.operands[0], op.on_false, op.on_true))
        return d.replace(rw, op.inst, swapped)


class ReplaceSelectOfBools(OpRewritePattern[SelectView]):
    """select(p, True, False) -> p, select(p, True, y) -> p | y, select(p, x, False) -> p & x, and with not p."""

    benefit = 3
    radius = 2

    def may_match(self, op: SelectView, rw: ProgramRewriter) -> bool:
        return op.dtype.is_bool

    def match_and_rewrite(self, op: SelectView, rw: ProgramRewriter) -> bool:
        p, x, y = op.operands
        opposite = d.draft(ops.not_, (p,))
        if is_true(x):
            return d.replace(rw, op.inst, p if is_false(y) else d.draft(ops.or_, (p, y)))
        if is_false(x):
            return d.replace(rw, op.inst, opposite if is_true(y) else d.draft(ops.and_, (opposite, y)))
        if is_false(y):
            return d.replace(rw, op.inst, d.draft(ops.and_, (p, x)))
        if is_true(y):
            return d.replace(rw, op.inst, d.draft(ops.or_, (opposite, x)))
        return rw.fail(op.inst, "neither is constant")


class FoldSelectOfItsPredicate(OpRewritePattern[SelectView]):
    """select(p, p, y) -> p | y, select(p, x, p) -> p & x."""

    benefit = 3
    radius = 1

    def match_and_rewrite(self, op: SelectView, rw: ProgramRewriter) -> bool:
        p, x, y = op.operands
        if x is p:
            return d.replace(rw, op.inst, d.draft(ops.or_, (p, y)))
        if y is p:
            return d.replace(rw, op.inst, d.draft(ops.and_, (p, x)))
        return rw.fail(op.inst, "the predicate is not selected")


class FoldNestedSelect(OpRewritePattern[SelectView]):
    """select(p, select(p, x, y), z) -> select(p, x, z), select(p, x, select(p, y, z)) -> select(p, x, z)."""

    benefit = 3
    radius = 2

    def match_and_rewrite(self, op: SelectView, rw: ProgramRewriter) -> bool:
        p, x, y = op.operands
        first, second = SelectView.of(x), SelectView.of(y)
        inside = first is not None and first.predicate is p
        outside = second is not None and second.predicate is p
        if not inside and not outside:
            return rw.fail(op.inst, "no select with the same predicate below")
        chosen = first.on_true if first is not None and inside else x
        other = second.on_false if second is not None and outside else y
        return d.replace(rw, op.inst, d.draft(ops.select, (p, chosen, other)))


class JoinSelects(OpRewritePattern[SelectView]):
    """select(p, select(q, x, y), y) -> select(p & q, x, y), select(p, x, select(q, x, y)) -> select(p | q, x, y).

    Only if nothing else needs the inner one.
    """

    benefit = 2
    radius = 2
    watch_uses = True

    def match_and_rewrite(self, op: SelectView, rw: ProgramRewriter) -> bool:
        p, x, y = op.operands
        first, second = SelectView.of(x), SelectView.of(y)
        if first is not None and same_scalar(first.on_false, y) and x.has_one_use:
            both = d.draft(ops.and_, (p, first.predicate))
            return d.replace(rw, op.inst, d.draft(ops.select, (both, first.on_true, y)))
        if second is not None and same_scalar(second.on_true, x) and y.has_one_use:
            either = d.draft(ops.or_, (p, second.predicate))
            return d.replace(rw, op.inst, d.draft(ops.select, (either, x, second.on_false)))
        return rw.fail(op.inst, "no select below that shares a value and is not needed elsewhere")


class ReplaceSelectByMinMax(OpRewritePattern[SelectView]):
    """select(x < y, x, y) -> min(x, y), select(x > y, x, y) -> max(x, y), and swapped; not of floats (NaN, -0)."""

    benefit = 2
    radius = 2
    operands = ((ops.lt, ops.le, ops.gt, ops.ge),)

    def match_and_rewrite(self, op: SelectView, rw: ProgramRewriter) -> bool:
        test = op.predicate.def_inst
        if test is None or op.dtype.is_float:
            return rw.fail(op.inst, "NaN and -0 are not selected as min and max do")
        x, y = test.operands
        if (op.on_true, op.on_false) == (x, y):
            smaller = test.op in (ops.lt, ops.le)
        elif (op.on_true, op.on_false) == (y, x):
            smaller = test.op in (ops.gt, ops.ge)
        else:
            return rw.fail(op.inst, "other values are compared than selected")
        return d.replace(rw, op.inst, d.draft(ops.min if smaller else ops.max, (x, y)))


class FoldSelectOfEquality(OpRewritePattern[SelectView]):
    """select(x == y, x, y) -> y, select(x != y, x, y) -> x; not of floats, where -0 == +0."""

    benefit = 2
    radius = 2
    operands = ((ops.eq, ops.ne),)

    def match_and_rewrite(self, op: SelectView, rw: ProgramRewriter) -> bool:
        test = op.predicate.def_inst
        if test is None or op.dtype.is_float or op.dtype.is_complex:
            return rw.fail(op.inst, "equal floats may differ in sign")
        pair = (op.on_true, op.on_false)
        if pair != test.operands and pair[::-1] != test.operands:
            return rw.fail(op.inst, "other values are compared than selected")
        return d.replace(rw, op.inst, op.on_false if test.op is ops.eq else op.on_true)


class SinkSelectBelowUnary(OpRewritePattern[SelectView]):
    """select(p, f(x), f(y)) -> f(select(p, x, y)), if nothing else needs f(x) and f(y)."""

    radius = 2
    watch_uses = True

    def match_and_rewrite(self, op: SelectView, rw: ProgramRewriter) -> bool:
        left, right = op.on_true.def_inst, op.on_false.def_inst
        if left is None or right is None or left.op is not right.op or left.attrs != right.attrs:
            return rw.fail(op.inst, "two different ops")
        if left.op.key not in (OpKey.ELEMENTWISE_UNARY, OpKey.CAST) or not left.op.elementwise:
            return rw.fail(op.inst, "not an elementwise op of one operand")
        if not (op.on_true.has_one_use and op.on_false.has_one_use):
            return rw.fail(op.inst, "an operand is needed elsewhere")
        if is_constant(left.operands[0]) or is_constant(right.operands[0]):
            return rw.fail(op.inst, "an operand folds")
        chosen = d.draft(ops.select, (op.predicate, left.operands[0], right.operands[0]))
        return d.replace(rw, op.inst, d.draft(left.op, (chosen,), left.attrs))


class OfSelectView(OpView):
    """An elementwise op, but a select itself, whose first operand may be a select."""

    __slots__ = ()
    roots: ClassVar[tuple[Root, ...]] = (
        OpKey.ELEMENTWISE_UNARY,
        OpKey.ELEMENTWISE_BINARY,
        OpKey.COMPARE,
        OpKey.CAST,
    )


class LiftSelectOfConstants(OpRewritePattern[OfSelectView]):
    """f(select(p, c, d)) -> select(p, f(c), f(d)), f(select(p, c, d), e) -> select(p, f(c, e), f(d, e))."""

    benefit = 2
    radius = 2
    operands = (ops.select,)

    def match_and_rewrite(self, op: OfSelectView, rw: ProgramRewriter) -> bool:
        inner = SelectView.of(op.operands[0])
        rest = op.operands[1:]
        if inner is None or not all(will_fold(v.literal) for v in (inner.on_true, inner.on_false, *rest)):
            return rw.fail(op.inst, "not all of the values are constant")
        arms = [d.draft(op.op, (arm, *rest), op.inst.attrs) for arm in (inner.on_true, inner.on_false)]
        return d.replace(rw, op.inst, d.draft(ops.select, (inner.predicate, *arms)))


def populate_canonicalization(patterns: PatternSet) -> None:
    """Add the patterns of selects."""
    patterns.add(
        FoldSelectOfConstant,
        FoldSelectOfSame,
        InvertSelect,
        ReplaceSelectOfBools,
        FoldSelectOfItsPredicate,
        FoldNestedSelect,
        JoinSelects,
        ReplaceSelectByMinMax,
        FoldSelectOfEquality,
        SinkSelectBelowUnary,
        LiftSelectOfConstants,
    )
