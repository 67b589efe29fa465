"""Constant folding: an op whose operands are all constants is a constant.

What an op means is said once, in `arithmetic`, and every op folds through it: each ALU op and conversion, on numbers and
on constants per lane. The frequent integer ops take a short cut that computes in Python's integers and wraps.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final, cast

from planish import dtypes
from planish.uop.evaluate import constant_value
from planish.uop.matcher import Matcher, rule
from planish.uop.node import Number, UOp
from planish.uop.ops import BINARY, CONSTANTS, UNARY, Ops
from planish.uop.pattern import node
from planish.uop.symbolic.letters import known

_SHORT: Final[dict[Ops, Callable[[Any, Any], Any]]] = {
    Ops.ADD: operator.add, Ops.SUB: operator.sub, Ops.MUL: operator.mul, Ops.MAX: max, Ops.MIN: min,
    Ops.AND: operator.and_, Ops.OR: operator.or_, Ops.XOR: operator.xor,
    Ops.CMPLT: operator.lt, Ops.CMPLE: operator.le, Ops.CMPEQ: operator.eq, Ops.CMPNE: operator.ne,
}  # fmt: skip
_FLOAT_SHORT: Final = frozenset({Ops.ADD, Ops.SUB, Ops.MUL})
"""Exact in float64 up to one rounding, and rounding that again to float32 gives what float32 would have given."""


def fold(root: UOp) -> UOp:
    """The constant that a node made of constants is."""
    value = constant_value(root)
    if isinstance(value, tuple):
        return root.table.lanes(value, root.dtype.scalar)
    return root.table.const(value, root.dtype)


def _fold_binary(root: UOp, x: UOp, y: UOp) -> UOp:
    short = _SHORT.get(root.op)
    if short is not None and x.op is y.op is Ops.CONST:
        dtype = x.dtype.scalar
        if dtype.is_integral or (
            root.op in _FLOAT_SHORT and (dtype is dtypes.float32 or dtype is dtypes.float64)
        ):
            return root.const_like(short(x.arg, y.arg))
    return fold(root)


def _is_foldable_cast(root: UOp, x: UOp) -> bool:
    """Numbers convert to numbers; complex to real has no meaning."""
    return not root.dtype.is_pointer and (
        root.dtype.is_complex or root.dtype.is_bool or not x.dtype.is_complex
    )


def _uniform(root: UOp) -> UOp | None:
    lanes = root.table.lanes(cast("tuple[Number, ...]", root.arg), root.dtype.scalar)
    return None if lanes is root else lanes


folding: Final = Matcher(
    "folding",
    [
        rule(node(UNARY, known("x")), fold, says="op(constant) -> constant"),
        rule(node(BINARY, known("x"), known("y")), _fold_binary, says="constant ∘ constant -> constant"),
        rule(node(Ops.WHERE, node(CONSTANTS), node(CONSTANTS), node(CONSTANTS)), fold,
             says="where(constant, constant, constant) -> constant"),
        rule(node(Ops.MULACC, node(CONSTANTS), node(CONSTANTS), node(CONSTANTS)), fold,
             says="mulacc(constant, constant, constant) -> constant"),
        rule(node((Ops.CAST, Ops.BITCAST), known("x")), fold, when=_is_foldable_cast,
             says="cast(constant) -> constant"),
        rule(node(Ops.VCONST), _uniform, says="vconst(c, …, c) -> c"),
    ],
)  # fmt: skip
