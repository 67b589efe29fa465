"""WHERE: known conditions, equal branches, nested selects, selects of bools, and ALU ops that move in or out.

An op moves into a select only where constants make it vanish there, and out of one only where that saves an op.
A select whose false branch is INVALID is a gate and keeps its shape (see `gates`).
"""

from __future__ import annotations

from typing import Final

from planish.algebra import scalar
from planish.uop.matcher import Matcher, rule
from planish.uop.node import UOp
from planish.uop.ops import BINARY, CONSTANTS, UNARY, Ops
from planish.uop.pattern import NodePattern, node, where
from planish.uop.symbolic.cost import DIVISIONS
from planish.uop.symbolic.lawful import rules
from planish.uop.symbolic.letters import known, p, x, y, z

_DIVISIONS: Final = frozenset({Ops.FLOORDIV, Ops.FLOORMOD})
_MOVING: Final = BINARY - _DIVISIONS
"""Binary ops that move into a select. (Divisions do so in `divmod`, which knows zero divisors.)"""

_KEEPING_GATES: Final = (
    "where(~p, x, y) -> where(p, y, x)",
    "where(p, where(q, x, y), y) -> where(p & q, x, y)",
)


def _is_no_gate(y: UOp) -> bool:
    return y.op is not Ops.INVALID


def _chosen(a: NodePattern | str, b: NodePattern | str) -> NodePattern:
    """A select between constants."""
    return where(p, known(a) if isinstance(a, str) else a, known(b) if isinstance(b, str) else b)


def _computed(op: Ops, *sources: UOp) -> UOp:
    return sources[0].alu(op, *sources[1:])


def _into_unary(root: UOp, p: UOp, a: UOp, b: UOp) -> UOp:
    return p.where(_computed(root.op, a), _computed(root.op, b))


def _into_left(root: UOp, p: UOp, a: UOp, b: UOp, c: UOp) -> UOp:
    return p.where(_computed(root.op, a, c), _computed(root.op, b, c))


def _may_divide_by_zero(root: UOp, *divisors: UOp) -> bool:
    """Whether an op moved into both branches could divide an index by zero where the branch is not chosen."""
    if root.op not in DIVISIONS or not root.dtype.is_index:
        return False
    return any(divisor.vmin <= 0 <= divisor.vmax for divisor in divisors)


def _into_right(root: UOp, p: UOp, a: UOp, b: UOp, c: UOp) -> UOp | None:
    if _may_divide_by_zero(root, a, b):
        return None
    return p.where(_computed(root.op, c, a), _computed(root.op, c, b))


def _into_both(root: UOp, p: UOp, x: UOp, y: UOp, z: UOp, w: UOp) -> UOp | None:
    """op(p ? x : y, p ? z : w), if one of the two branches is constant then: no op is added."""
    if Ops.INVALID in (x.op, y.op, z.op, w.op) or _may_divide_by_zero(root, z, w):
        return None
    folds = (x.op in CONSTANTS and z.op in CONSTANTS) or (y.op in CONSTANTS and w.op in CONSTANTS)
    return p.where(_computed(root.op, x, z), _computed(root.op, y, w)) if folds else None


def _out_of_right(root: UOp, p: UOp, left: UOp, right: UOp) -> UOp | None:
    """p ? x ∘ z : y ∘ z, in the same place on both sides: ordering operands is not this rule's business."""
    if (
        left.op is not right.op
        or left.src[1] is not right.src[1]
        or left.src[0].dtype is not right.src[0].dtype
    ):
        return None
    return _computed(left.op, p.where(left.src[0], right.src[0]), left.src[1])


def _out_of_left(root: UOp, p: UOp, left: UOp, right: UOp) -> UOp | None:
    if (
        left.op is not right.op
        or left.src[0] is not right.src[0]
        or left.src[1].dtype is not right.src[1].dtype
    ):
        return None
    if left.op is Ops.MUL and left.src[1].op is Ops.CONST and right.src[1].op is Ops.CONST:
        return None  # constant factors are cheaper than the product they would become
    return _computed(left.op, left.src[0], p.where(left.src[1], right.src[1]))


def _out_of_unary(root: UOp, p: UOp, left: UOp, right: UOp) -> UOp | None:
    return _computed(left.op, p.where(left.src[0], right.src[0])) if left.op is right.op else None


_w = x.named("w")
_left, _right = node(BINARY, name="left"), node(BINARY, name="right")

select: Final = Matcher(
    "select",
    [
        *rules(scalar.DECIDED_SELECTS),
        *rules(scalar.SELECTS, dict.fromkeys(_KEEPING_GATES, _is_no_gate)),
        # -- ops into a select of constants -----------------------------------------------------------------------
        rule(node(UNARY, _chosen("a", "b")), _into_unary, says="op(where(p, a, b)) -> where(p, op(a), op(b))"),
        rule(node(_MOVING, _chosen("a", "b"), known("c")), _into_left, says="where(p, a, b) ∘ c -> where(p, a ∘ c, b ∘ c)"),
        rule(node(BINARY, known("c"), _chosen("a", "b")), _into_right, says="c ∘ where(p, a, b) -> where(p, c ∘ a, c ∘ b)"),
        rule(
            node(BINARY, where(p, x, y), where(p, z, _w)), _into_both,
            says="where(p, a, y) ∘ where(p, b, w) -> where(p, a ∘ b, y ∘ w)",
        ),
        # -- ops out of a select ----------------------------------------------------------------------------------
        rule(where(p, _left, _right), _out_of_right, says="where(p, x ∘ z, y ∘ z) -> where(p, x, y) ∘ z"),
        rule(where(p, _left, _right), _out_of_left, says="where(p, z ∘ x, z ∘ y) -> z ∘ where(p, x, y)"),
        rule(
            where(p, node(UNARY, name="left"), node(UNARY, name="right")), _out_of_unary,
            says="where(p, op(x), op(y)) -> op(where(p, x, y))",
        ),
    ],
)  # fmt: skip
