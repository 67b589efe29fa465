"""Laws: equations in Python's notation, read once.

    law("x + 0 -> x", INTEGRAL, "FoldAddZero")

`x y z w` stand for anything, `p q` for bools, `a b c` for constants; `ones` is the number with every bit set, `top` the
place of the highest bit, `lowest` and `highest` are the ends of the dtype. What is
no operator is written as a call: `max(x, y)`, `where(p, x, y)`, `truncdiv(x, y)`. A word before a colon belongs to the
name of the law (`int: x // 1 -> x`); of a law with a condition, what follows `when` or a comma says it.
"""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import product
from types import FunctionType
from typing import Final, NamedTuple, TypeAlias, cast

from planish.dtypes import Kind
from planish.records import dataclass

NAMED: Final = frozenset({"ones", "top", "lowest", "highest"})
CONSTANTS: Final = NAMED | {"a", "b", "c"}
BOOLS: Final = frozenset({"p", "q"})

_OPERATORS: Final[dict[type[ast.AST], str]] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.LShift: "shl", ast.RShift: "shr",
    ast.USub: "neg", ast.Invert: "not",
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne",
}  # fmt: skip
COMPARISONS: Final = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})
LOGIC: Final = frozenset({"and", "or", "xor", "not"})
COMMUTATIVE: Final = frozenset({"add", "mul", "max", "min", "and", "or", "xor", "eq", "ne"})


class Letter(NamedTuple):
    """What stands for any value."""

    name: str

    @property
    def is_constant(self) -> bool:
        return self.name in CONSTANTS

    @property
    def is_bool(self) -> bool:
        return self.name in BOOLS

    @property
    def is_named(self) -> bool:
        """Whether it is a certain number of the dtype."""
        return self.name in NAMED


class Number(NamedTuple):
    """A number that is written out."""

    value: bool | int | float

    @property
    def is_constant(self) -> bool:
        return True


class Apply(NamedTuple):
    """An op on expressions."""

    op: str
    of: tuple[Expression, ...]

    @property
    def is_constant(self) -> bool:
        return False

    @property
    def is_comparison(self) -> bool:
        return self.op in COMPARISONS


Expression: TypeAlias = "Letter | Number | Apply"


@dataclass(frozen=True)
class Law:
    """One equation."""

    says: str
    """The equation as it is written: the name of the law."""
    on: frozenset[Kind] | None
    """The kinds of dtype it holds for; None: all that its ops have."""
    pattern: str | None
    """The PTIR pattern it is part of."""
    uop: frozenset[Kind] | bool
    """Where kernels use it: the kinds, or whether at all. Their normal form leaves some true equations out."""
    when: Callable[..., bool] | None
    """A condition on the numbers of the constants, asked for by name; `dtype` is that of the operands."""
    once: bool
    """Whether the inner ops must have no other use, lest they be computed as well."""

    @cached_property
    def sides(self) -> tuple[Apply, Expression]:
        """The two expressions."""
        left, right = self.texts
        return cast("Apply", _read(left)), _read(right)

    @property
    def texts(self) -> tuple[str, str]:
        """The two expressions as they are written."""
        left, right = self.says.rpartition(": ")[2].split(" -> ")
        if self.when is not None:
            right = right.partition(" when " if " when " in right else ", ")[0]
        return left, right

    @property
    def left(self) -> Apply:
        return self.sides[0]

    @property
    def of_comparisons(self) -> bool:
        """Whether it is logic of comparisons: its kinds are those of what is compared."""
        left = self.left
        return left.op in LOGIC and any(isinstance(part, Apply) and part.is_comparison for part in walk(left))

    @property
    def right(self) -> Expression:
        return self.sides[1]


def law(
    says: str,
    on: frozenset[Kind] | None = None,
    pattern: str | None = None,
    *,
    uop: frozenset[Kind] | bool = True,
    when: Callable[..., bool] | None = None,
    once: bool = False,
) -> Law:
    """A row of the table."""
    row = Law(says, on, pattern, uop, when, once)
    _unread.append(row)
    return row


def walk(expression: Expression) -> list[Expression]:
    """An expression and all in it, each before its parts."""
    parts: list[Expression] = []
    left = [expression]
    while left:
        part = left.pop()
        parts.append(part)
        if isinstance(part, Apply):
            left.extend(part.of[::-1])
    return parts


def normal(expression: Expression) -> Expression:
    """The one of all orders of its commutative ops that stands for them."""
    if not isinstance(expression, Apply):
        return expression
    of = [normal(part) for part in expression.of]
    return Apply(expression.op, tuple(sorted(of, key=repr) if expression.op in COMMUTATIVE else of))


def orders(expression: Apply) -> Iterator[Apply]:
    """An expression with the operands of its commutative ops in every order; a constant stays on the right."""
    parts = [tuple(orders(part)) if isinstance(part, Apply) else (part,) for part in expression.of]
    # Most have one order, which is the expression itself.
    whole = [expression.of] if all(len(part) == 1 for part in parts) else list(product(*parts))
    yield from [expression] if len(whole) == 1 else [Apply(expression.op, of) for of in whole]
    if (
        expression.op in COMMUTATIVE
        and not expression.of[1].is_constant
        and expression.of[0] != expression.of[1]
    ):
        yield from [Apply(expression.op, of[::-1]) for of in whole]


def parameters_of(function: Callable[..., object]) -> tuple[str, ...]:
    """The names that a rule's function or condition asks for; of a plain function without what `inspect` takes to say so."""
    asked = getattr(function, "asks", None)
    if asked is not None:
        return tuple(asked)
    if type(function) is not FunctionType or hasattr(function, "__wrapped__"):
        return tuple(inspect.signature(function).parameters)
    code = function.__code__
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & inspect.CO_VARARGS)
    return code.co_varnames[: count + bool(code.co_flags & inspect.CO_VARKEYWORDS)]


def _read(text: str) -> Expression:
    parts = _logic(text)
    if parts is not None:
        op, left, right = parts
        return Apply(op, (_read(left), _read(right)))
    return _expression(_tree(text))


def _logic(text: str) -> tuple[str, str, str] | None:
    """Logic of comparisons, which needs no parentheses here, unlike in Python: its op and sides."""
    for symbol, op in (("|", "or"), ("&", "and")):
        left, separator, right = text.partition(f" {symbol} ")
        if separator and "(" not in text and any(sign in left and sign in right for sign in ("<", "=")):
            return op, left, right
    return None


_unread: Final[list[Law]] = []
_trees: Final[dict[str, ast.expr]] = {}


def _tree(text: str) -> ast.expr:
    """What Python reads in an expression. The laws that are there by now are read at once: one by one they take five times as long."""
    text = text.strip()
    if text not in _trees:
        wanted = [text, *(side for row in _unread for side in row.texts)]
        _unread.clear()
        for each in wanted:  # grows
            parts = _logic(each)
            wanted += () if parts is None else parts[1:]
        leaves = list(dict.fromkeys(each.strip() for each in wanted if _logic(each) is None))
        body = ast.parse("\n".join(leaves)).body
        _trees.update(
            {leaf: read.value for leaf, read in zip(leaves, body, strict=True) if isinstance(read, ast.Expr)}
        )
    return _trees[text]


def _expression(tree: ast.AST) -> Expression:
    if isinstance(tree, ast.Name):
        return Number(math.inf) if tree.id == "inf" else Letter(tree.id)
    if isinstance(tree, ast.Constant) and isinstance(tree.value, (bool, int, float)):
        return Number(tree.value)
    if isinstance(tree, ast.UnaryOp):
        of = _expression(tree.operand)
        if isinstance(of, Number) and isinstance(tree.op, ast.USub):
            return Number(-of.value)
        return Apply(_OPERATORS[type(tree.op)], (of,))
    if isinstance(tree, ast.BinOp):
        return Apply(_OPERATORS[type(tree.op)], (_expression(tree.left), _expression(tree.right)))
    if isinstance(tree, ast.Compare):
        (op,), (right,) = tree.ops, tree.comparators
        return Apply(_OPERATORS[type(op)], (_expression(tree.left), _expression(right)))
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name):
        return Apply(tree.func.id, tuple([_expression(part) for part in tree.args]))
    raise ValueError(f"a law cannot be read at {ast.unparse(tree) if isinstance(tree, ast.expr) else tree!r}")
