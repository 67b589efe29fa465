"""Operators on nodes: Python's, and those that Python has no sign for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from planish.errors import GraphError
from planish.uop.ops import Ops

if TYPE_CHECKING:
    from planish.uop.node import UOp

Number = bool | int | float | complex
Operator = Callable[[Any, "UOp | Number"], "UOp"]


def _first(op: Ops, meaning: str = "") -> Operator:
    """A method: `op` of this node and another value."""

    def method(self: Operators, other: UOp | Number) -> UOp:
        return self.alu(op, other)

    method.__doc__ = meaning or op.meaning
    return method


def _second(op: Ops) -> Operator:
    """A method: `op` of another value and this node."""

    def method(self: Operators, other: UOp | Number) -> UOp:
        return self._reflected(op, other)

    return method


class Operators:
    """What a node gets from `alu`: an operator, and its reflection for a number on the left."""

    __slots__ = ()

    if TYPE_CHECKING:
        op: Ops

        def alu(self, op: Ops, *others: UOp | Number) -> UOp:
            """`op` of this node and the others."""

        def _reflected(self, op: Ops, other: UOp | Number) -> UOp:
            """`op` of the other and this node."""

    eq = _first(Ops.CMPEQ, "self == other, as a node (Python's == is identity).")
    ne = _first(Ops.CMPNE, "self != other, as a node.")
    max = _first(Ops.MAX, "The greater of the two.")
    min = _first(Ops.MIN, "The smaller of the two.")

    def logical_not(self) -> UOp:
        """not self, on bools."""
        return self.alu(Ops.NOT)

    __add__ = _first(Ops.ADD)
    __sub__ = _first(Ops.SUB)
    __mul__ = _first(Ops.MUL)
    __truediv__ = _first(Ops.FDIV)
    __floordiv__ = _first(Ops.FLOORDIV)
    __mod__ = _first(Ops.FLOORMOD)
    __pow__ = _first(Ops.POW)
    __and__ = _first(Ops.AND)
    __or__ = _first(Ops.OR)
    __xor__ = _first(Ops.XOR)
    __lshift__ = _first(Ops.SHL)
    __rshift__ = _first(Ops.SHR)
    __lt__ = _first(Ops.CMPLT)
    __le__ = _first(Ops.CMPLE)

    __radd__ = _second(Ops.ADD)
    __rsub__ = _second(Ops.SUB)
    __rmul__ = _second(Ops.MUL)
    __rtruediv__ = _second(Ops.FDIV)
    __rfloordiv__ = _second(Ops.FLOORDIV)
    __rmod__ = _second(Ops.FLOORMOD)
    __gt__ = _second(Ops.CMPLT)
    __ge__ = _second(Ops.CMPLE)

    def __neg__(self) -> UOp:
        return self.alu(Ops.NEG)

    def __invert__(self) -> UOp:
        return self.alu(Ops.NOT)

    def __bool__(self) -> bool:
        raise GraphError(
            f"a {self.op.name} node has no truth value while the program is being built",
            remedy="use .where(x, y) to choose, .eq() or `is` to compare",
        )
