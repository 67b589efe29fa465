"""Scalar laws (`planish.algebra`) as rules of kernels."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from planish.algebra.law import Apply, Expression, Law, Letter, Number, parameters_of, walk
from planish.dtypes import Kind
from planish.uop.matcher import Guard, Rule, rule
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.pattern import BOOL, NodePattern, anything, binary, constant, literal, node

_OPS: Final = {
    "div": Ops.FDIV, "mod": Ops.FLOORMOD, "lt": Ops.CMPLT, "le": Ops.CMPLE, "eq": Ops.CMPEQ, "ne": Ops.CMPNE,
}  # fmt: skip
_TURNED: Final = {"gt": Ops.CMPLT, "ge": Ops.CMPLE}


def rules(laws: Iterable[Law], guards: Mapping[str, Guard] | None = None) -> list[Rule]:
    """The rules of those laws that kernels use; `guards` adds conditions on nodes to some, by name."""
    by_name = guards or {}
    return [as_rule(each, by_name.get(each.says)) for each in laws if each.uop]


def as_rule(law: Law, guard: Guard | None = None) -> Rule:
    """A law as a rule, on the kinds where kernels use it."""
    kinds = law.uop if isinstance(law.uop, frozenset) else law.on
    left = law.left
    parts = walk(left)
    shared: dict[Expression, str] = {
        part: f"same{number}" for number, part in enumerate(walk(law.right)) if isinstance(part, Apply) and part in parts
    }  # fmt: skip
    inner = law.of_comparisons
    letters = [part for part in parts if isinstance(part, Letter)]
    free = frozenset(part for part in letters if letters.count(part) == 1)
    shape = _pattern(left, shared, kinds if inner else None, free)
    named = next((part.name for part in letters if part.is_named), None)
    if named is not None:
        guard = _NAMED[named]
    elif law.when is not None:
        guard = _on_numbers(law.when)
    if law.right == Letter("ones") and named is None:
        return rule(shape, _ones, on=kinds, says=law.says)
    return rule(shape, _pattern(law.right, shared), when=guard, says=law.says, on=None if inner else kinds)


def _pattern(
    expression: Expression,
    shared: Mapping[Expression, str],
    kinds: frozenset[Kind] | None = None,
    free: frozenset[Expression] = frozenset(),
) -> NodePattern:
    """An expression as a pattern; `kinds` are those of compared operands, `free` the letters that occur once."""
    if isinstance(expression, Number):
        return literal(expression.value)
    if isinstance(expression, Letter):
        name = expression.name
        return (
            constant(name) if expression.is_constant else anything(name, BOOL if expression.is_bool else None)
        )
    parts = [_pattern(part, shared, kinds, free) for part in expression.of]
    turned = _TURNED.get(expression.op)
    if turned is not None:
        parts.reverse()
    op = turned or _OPS.get(expression.op) or Ops[expression.op.upper()]
    either = len(parts) == 2 and not parts[0].is_constant and not free.issuperset(expression.of)
    pattern = binary(op, *parts) if either else node(op, *parts)
    if kinds is not None and expression.is_comparison:
        pattern = pattern.of(kinds)
    name_ = shared.get(expression)
    return pattern if name_ is None else pattern.named(name_)


def _is_ones(ones: UOp) -> bool:
    return ones.arg == ones.dtype.wrap(-1)


def _is_lowest(lowest: UOp) -> bool:
    return lowest.arg == (-math.inf if lowest.dtype.is_float else lowest.dtype.min)


def _is_highest(highest: UOp) -> bool:
    return highest.arg == (math.inf if highest.dtype.is_float else highest.dtype.max)


_NAMED: Final[dict[str, Guard]] = {"ones": _is_ones, "lowest": _is_lowest, "highest": _is_highest}


def _ones(root: UOp) -> UOp:
    return root.const_like(root.dtype.wrap(-1))


def _on_numbers(when: Callable[..., bool]) -> Guard:
    """A condition on numbers as a guard on nodes."""
    asked = parameters_of(when)
    typed = "dtype" in asked

    def guard(*given: UOp) -> bool:
        numbers = [each.arg for each in given]
        return when(*numbers, given[0].dtype) if typed else when(*numbers)

    guard.asks = [name for name in asked if name != "dtype"]  # type: ignore[attr-defined]
    return guard
