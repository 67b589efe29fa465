"""Patterns: the shapes that rules look for, written like the algebra they stand for.

    x, y = anything("x"), anything("y")
    c = constant("c")
    (x + y) * c

A name used twice means the same node twice. Operators of commutative ops match both orders, except that a
constant is only looked for on the right: one rule puts it there. `node(...)` matches in the order given.
`matcher.py` makes rules of patterns, `compile.py` turns them into code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from planish.algebra import kinds
from planish.dtypes import Kind
from planish.errors import RewriteError
from planish.uop.node import Number
from planish.uop.ops import COMMUTATIVE, Ops

INTEGRAL: Final = kinds.INTEGRAL
INTEGERS: Final = kinds.INTEGERS
INDEX: Final = kinds.INDEX
FLOAT: Final = kinds.FLOAT
BOOL: Final = kinds.BOOL
BITS: Final = kinds.BITS
NUMBERS: Final = kinds.NUMBERS

_SYMBOLS: Final = {
    Ops.ADD: "+", Ops.SUB: "-", Ops.MUL: "*", Ops.FDIV: "/", Ops.FLOORDIV: "//", Ops.FLOORMOD: "%",
    Ops.AND: "&", Ops.OR: "|", Ops.XOR: "^", Ops.SHL: "<<", Ops.SHR: ">>",
    Ops.CMPLT: "<", Ops.CMPLE: "<=", Ops.CMPEQ: "==", Ops.CMPNE: "!=",
}  # fmt: skip


class NodePattern:
    """The shape of a node. Immutable; build them with the functions below and with operators."""

    __slots__ = ("alternatives", "arg", "kinds", "name", "ops", "ordered", "rest", "sources")

    def __init__(
        self,
        ops: frozenset[Ops] | None = None,
        sources: tuple[NodePattern, ...] | None = None,
        *,
        name: str | None = None,
        arg: object = ...,
        kinds: frozenset[Kind] | None = None,
        ordered: bool = True,
        rest: bool = False,
        alternatives: tuple[NodePattern, ...] = (),
    ) -> None:
        self.ops = ops
        self.sources = sources
        self.name = name
        self.arg = arg
        self.kinds = kinds
        self.ordered = ordered
        self.rest = rest
        self.alternatives = alternatives

    def named(self, name: str) -> NodePattern:
        """The same shape, bound to a name."""
        return NodePattern(
            self.ops, self.sources, name=name, arg=self.arg, kinds=self.kinds, ordered=self.ordered,
            rest=self.rest, alternatives=self.alternatives,
        )  # fmt: skip

    def of(self, kinds: frozenset[Kind]) -> NodePattern:
        """The same shape, on these dtype kinds only (a comparison: of its operands)."""
        return NodePattern(
            self.ops, self.sources, name=self.name, arg=self.arg, kinds=kinds, ordered=self.ordered,
            rest=self.rest, alternatives=self.alternatives,
        )  # fmt: skip

    @property
    def is_constant(self) -> bool:
        """Whether only a CONST can match."""
        return self.ops == _CONST_ONLY

    @property
    def is_leaf(self) -> bool:
        """Whether nothing is said about sources."""
        return self.sources is None and not self.alternatives

    def names(self) -> Iterator[str]:
        """All names bound in it. (Patterns are a few levels deep: recursion is safe.)"""
        if self.name is not None:
            yield self.name
        for part in (*(self.sources or ()), *self.alternatives):
            yield from part.names()

    def cast(self) -> NodePattern:
        """CAST of this."""
        return node(Ops.CAST, self)

    def eq(self, other: NodePattern | Number) -> NodePattern:
        """self == other."""
        return binary(Ops.CMPEQ, self, other)

    def ne(self, other: NodePattern | Number) -> NodePattern:
        """self != other."""
        return binary(Ops.CMPNE, self, other)

    def max(self, other: NodePattern | Number) -> NodePattern:
        """The greater."""
        return binary(Ops.MAX, self, other)

    def min(self, other: NodePattern | Number) -> NodePattern:
        """The smaller."""
        return binary(Ops.MIN, self, other)

    def __add__(self, other: NodePattern | Number) -> NodePattern:
        return binary(Ops.ADD, self, other)

    def __sub__(self, other: NodePattern | Number) -> NodePattern:
        return binary(Ops.SUB, self, other)

    def __mul__(self, other: NodePattern | Number) -> NodePattern:
        return binary(Ops.MUL, self, other)

    def __floordiv__(self, other: NodePattern | Number) -> NodePattern:
        return binary(Ops.FLOORDIV, self, other)

    def __mod__(self, other: NodePattern | Number) -> NodePattern:
        return binary(Ops.FLOORMOD, self, other)

    def __truediv__(self, other: NodePattern | Number) -> NodePattern:
        return binary(Ops.FDIV, self, other)

    def __pow__(self, other: NodePattern | Number) -> NodePattern:
        return binary(Ops.POW, self, other)

    def __and__(self, other: NodePattern | Number) -> NodePattern:
        return binary(Ops.AND, self, other)

    def __or__(self, other: NodePattern | Number) -> NodePattern:
        return binary(Ops.OR, self, other)

    def __xor__(self, other: NodePattern | Number) -> NodePattern:
        return binary(Ops.XOR, self, other)

    def __lshift__(self, other: NodePattern | Number) -> NodePattern:
        return binary(Ops.SHL, self, other)

    def __rshift__(self, other: NodePattern | Number) -> NodePattern:
        return binary(Ops.SHR, self, other)

    def __lt__(self, other: NodePattern | Number) -> NodePattern:
        return binary(Ops.CMPLT, self, other)

    def __le__(self, other: NodePattern | Number) -> NodePattern:
        return binary(Ops.CMPLE, self, other)

    def __neg__(self) -> NodePattern:
        return node(Ops.NEG, self)

    def __invert__(self) -> NodePattern:
        return node(Ops.NOT, self)

    def __str__(self) -> str:
        return _text(self, top=True)

    def __repr__(self) -> str:
        return f"<pattern {self}>"


_CONST_ONLY: Final = frozenset({Ops.CONST})


def anything(name: str | None = None, kinds: frozenset[Kind] | None = None) -> NodePattern:
    """Any node (of these dtype kinds)."""
    return NodePattern(name=name, kinds=kinds)


def constant(name: str | None = None, kinds: frozenset[Kind] | None = None) -> NodePattern:
    """Any CONST."""
    return NodePattern(_CONST_ONLY, name=name, kinds=kinds)


def literal(value: Number) -> NodePattern:
    """The CONST with this value (a float zero: with this sign)."""
    return NodePattern(_CONST_ONLY, arg=value)


def node(
    op: Ops | Iterable[Ops],
    *sources: NodePattern | Number,
    name: str | None = None,
    arg: object = ...,
    kinds: frozenset[Kind] | None = None,
    rest: bool = False,
) -> NodePattern:
    """A node with these sources in this order; `rest` allows more after them. No sources given: any."""
    ops = frozenset({op}) if isinstance(op, Ops) else frozenset(op)
    src = tuple(_pattern(s) for s in sources) if sources or rest else None
    return NodePattern(ops, src, name=name, arg=arg, kinds=kinds, rest=rest)


def where(condition: NodePattern, x: NodePattern | Number, y: NodePattern | Number) -> NodePattern:
    """WHERE(condition, x, y)."""
    return node(Ops.WHERE, condition, x, y)


def any_of(*alternatives: NodePattern, name: str | None = None) -> NodePattern:
    """The first alternative that matches. A name is for the whole; then its alternatives have none."""
    if name is not None and any(a.name is not None for a in alternatives):
        raise RewriteError(f"any_of named {name!r}: its alternatives cannot have names of their own")
    return NodePattern(alternatives=alternatives, name=name)


def _pattern(value: NodePattern | Number) -> NodePattern:
    return value if isinstance(value, NodePattern) else literal(value)


def binary(op: Ops, left: NodePattern, right: NodePattern | Number) -> NodePattern:
    other = _pattern(right)
    if op in COMMUTATIVE and left.is_constant and not other.is_constant:
        raise RewriteError(
            f"pattern {left} {_SYMBOLS.get(op, op.name)} {other}: a constant stands on the right",
            remedy="swap the operands, or use node(...) to match exactly this order",
        )
    same = left.is_leaf and other.is_leaf and left.name is not None and left.name == other.name
    ordered = op not in COMMUTATIVE or other.is_constant or same
    return NodePattern(frozenset({op}), (left, other), ordered=ordered)


def _text(pattern: NodePattern, top: bool = False) -> str:
    if pattern.alternatives:
        return "{" + ", ".join(map(_text, pattern.alternatives)) + "}"
    if pattern.sources is None:
        if pattern.arg is not ... and pattern.is_constant:
            return str(pattern.arg)
        if pattern.ops is None or pattern.is_constant:
            return pattern.name or "_"
    names = "|".join(op.name for op in sorted(pattern.ops)) if pattern.ops else "?"
    parts = [_text(s) for s in pattern.sources or ()]
    if pattern.ops is not None and len(pattern.ops) == 1 and len(parts) == 2:
        (op,) = pattern.ops
        symbol = _SYMBOLS.get(op)
        if symbol is not None:
            text = f"{parts[0]} {symbol} {parts[1]}"
            return text if top else f"({text})"
    if pattern.rest or pattern.sources is None:
        parts.append("…")
    arg = "" if pattern.arg is ... else f"[{arg_text(pattern.arg)}]"
    name = f"{pattern.name}:" if pattern.name else ""
    return f"{name}{names}{arg}({', '.join(parts)})"


def arg_text(arg: object) -> str:
    return arg.name if isinstance(arg, Ops) else str(arg)
