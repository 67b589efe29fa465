"""Plain ops that a target may lack, by others; and conditions in the form that costs least."""

from __future__ import annotations

from typing import Final

from planish.dtypes import Kind
from planish.stages.linearizer.decompositions.reals import Reals
from planish.stages.linearizer.decompositions.support import Support
from planish.uop.matcher import Rule, rule
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.pattern import BOOL, FLOAT, INTEGERS, anything, node, where

_X, _Y, _P = anything("x"), anything("y"), anything("p", BOOL)
_SIGNED: Final = frozenset({Kind.INT})
_UNSIGNED: Final = frozenset({Kind.UINT})


def _clear_sign(x: UOp) -> UOp | None:
    return Reals(x, Support(frozenset())).magnitude(x) if x.dtype.bits >= 32 else None


def plain_rules(support: Support) -> list[Rule]:
    """Equations that put what the target has in place of what it lacks."""
    candidates: list[tuple[Ops, Rule]] = [
        (Ops.NEG, rule(-_X, node(Ops.SUB, 0, _X), on=INTEGERS, says="int: -x -> 0 - x")),
        (Ops.NEG, rule(-_X, node(Ops.SUB, -0.0, _X), on=FLOAT, says="float: -x -> -0.0 - x")),
        (Ops.SUB, rule(_X - _Y, _X + -_Y, on=INTEGERS | FLOAT, says="x - y -> x + -y")),
        (Ops.NOT, rule(~_X, _X ^ -1, on=_SIGNED, says="int: ~x -> x ^ -1")),
        (Ops.NOT, rule(~_X, lambda x: x ^ (x.dtype.scalar.wrap(-1)), on=_UNSIGNED, says="uint: ~x -> x ^ ones")),
        (Ops.NOT, rule(~_P, lambda p: p ^ True, on=BOOL, says="bool: ~p -> p ^ True")),
        (Ops.ABS, rule(node(Ops.ABS, _X), lambda x: (x < 0).where(-x, x), on=_SIGNED, says="|x| -> x < 0 ? -x : x")),
        (Ops.ABS, rule(node(Ops.ABS, _X), _X, on=_UNSIGNED, says="uint: |x| -> x")),
        (Ops.ABS, rule(node(Ops.ABS, _X), _clear_sign, on=FLOAT, says="float: |x| -> the sign bit cleared")),
        (Ops.RECIP, rule(node(Ops.RECIP, _X), node(Ops.FDIV, 1.0, _X), on=FLOAT, says="recip(x) -> 1.0 / x")),
        (Ops.MAX, rule(_X.max(_Y), where(_X < _Y, _Y, _X), on=INTEGERS, says="int: max(x, y) -> x < y ? y : x")),
        (Ops.MIN, rule(_X.min(_Y), where(_X < _Y, _X, _Y), on=INTEGERS, says="int: min(x, y) -> x < y ? x : y")),
        (Ops.CMPLE, rule(_X <= _Y, ~(_Y < _X), on=INTEGERS, says="int: x <= y -> ~(y < x)")),
        (Ops.CMPLE, rule(_X <= _Y, (_X < _Y) | _X.eq(_Y), on=FLOAT, says="float: x <= y -> x < y | x == y")),
        (Ops.CMPNE, rule(_X.ne(_Y), ~_X.eq(_Y), on=INTEGERS | FLOAT, says="x != y -> ~(x == y)")),
        (Ops.MULACC, rule(node(Ops.MULACC, _X, _Y, anything("z")), _X * _Y + anything("z"), on=INTEGERS,
                          says="int: mulacc(x, y, z) -> x*y + z")),
    ]  # fmt: skip
    return [rule_ for op, rule_ in candidates if support.lacks(op)]


def _both(support: Support, *ops: Ops) -> bool:
    return all(op in support.ops for op in ops)


def condition_rules(support: Support) -> list[Rule]:
    """Negations moved into comparisons and selects, where they cost nothing."""
    rules = [
        rule(where(~_P, _X, _Y), where(_P, _Y, _X), says="where(~p, x, y) -> where(p, y, x)"),
        rule(node(Ops.AND, ~_P, ~anything("q", BOOL)), ~(_P | anything("q", BOOL)), on=BOOL, says="~p & ~q -> ~(p | q)"),
        rule(node(Ops.OR, ~_P, ~anything("q", BOOL)), ~(_P & anything("q", BOOL)), on=BOOL, says="~p | ~q -> ~(p & q)"),
    ]  # fmt: skip
    if _both(support, Ops.CMPLE, Ops.CMPLT):
        rules += [
            rule(
                node(Ops.NOT, node(Ops.CMPLT, _X, _Y).of(INTEGERS)), _Y <= _X, says="int: ~(x < y) -> y <= x"
            ),
            rule(
                node(Ops.NOT, node(Ops.CMPLE, _X, _Y).of(INTEGERS)), _Y < _X, says="int: ~(x <= y) -> y < x"
            ),
        ]
    if _both(support, Ops.CMPEQ, Ops.CMPNE):
        rules += [
            rule(node(Ops.NOT, _X.eq(_Y)), _X.ne(_Y), says="~(x == y) -> x != y"),
            rule(node(Ops.NOT, _X.ne(_Y)), _X.eq(_Y), says="~(x != y) -> x == y"),
        ]
    return rules
