"""Operators on nodes: Python's, and those that Python has no sign for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planish.errors import GraphError
from planish.uop.ops import Ops

if TYPE_CHECKING:
    from planish.uop.node import UOp

Number = bool | int | float | complex


class Operators:
    """What a node gets from `alu`: an operator, and its reflection for a number on the left."""

    __slots__ = ()

    if TYPE_CHECKING:
        op: Ops

        def alu(self, op: Ops, *others: UOp | Number) -> UOp:
            """`op` of this node and the others."""

        def _reflected(self, op: Ops, other: UOp | Number) -> UOp:
            """`op` of the other and this node."""

    def eq(self, other: UOp | Number) -> UOp:
        """self == other, as a node (Python's == is identity)."""
        return self.alu(Ops.CMPEQ, other)

    def ne(self, other: UOp | Number) -> UOp:
        """self != other, as a node."""
        return self.alu(Ops.CMPNE, other)

    def max(self, other: UOp | Number) -> UOp:
        """The greater of the two."""
        return self.alu(Ops.MAX, other)

    def min(self, other: UOp | Number) -> UOp:
        """The smaller of the two."""
        return self.alu(Ops.MIN, other)

    def logical_not(self) -> UOp:
        """not self, on bools."""
        return self.alu(Ops.NOT)

    def __add__(self, other: UOp | Number) -> UOp:
        return self.alu(Ops.ADD, other)

    def __sub__(self, other: UOp | Number) -> UOp:
        return self.alu(Ops.SUB, other)

    def __mul__(self, other: UOp | Number) -> UOp:
        return self.alu(Ops.MUL, other)

    def __floordiv__(self, other: UOp | Number) -> UOp:
        return self.alu(Ops.FLOORDIV, other)

    def __mod__(self, other: UOp | Number) -> UOp:
        return self.alu(Ops.FLOORMOD, other)

    def __truediv__(self, other: UOp | Number) -> UOp:
        return self.alu(Ops.FDIV, other)

    def __pow__(self, other: UOp | Number) -> UOp:
        return self.alu(Ops.POW, other)

    def __and__(self, other: UOp | Number) -> UOp:
        return self.alu(Ops.AND, other)

    def __or__(self, other: UOp | Number) -> UOp:
        return self.alu(Ops.OR, other)

    def __xor__(self, other: UOp | Number) -> UOp:
        return self.alu(Ops.XOR, other)

    def __lshift__(self, other: UOp | Number) -> UOp:
        return self.alu(Ops.SHL, other)

    def __rshift__(self, other: UOp | Number) -> UOp:
        return self.alu(Ops.SHR, other)

    def __radd__(self, other: Number) -> UOp:
        return self._reflected(Ops.ADD, other)

    def __rsub__(self, other: Number) -> UOp:
        return self._reflected(Ops.SUB, other)

    def __rmul__(self, other: Number) -> UOp:
        return self._reflected(Ops.MUL, other)

    def __rfloordiv__(self, other: Number) -> UOp:
        return self._reflected(Ops.FLOORDIV, other)

    def __rmod__(self, other: Number) -> UOp:
        return self._reflected(Ops.FLOORMOD, other)

    def __rtruediv__(self, other: Number) -> UOp:
        return self._reflected(Ops.FDIV, other)

    def __lt__(self, other: UOp | Number) -> UOp:
        return self.alu(Ops.CMPLT, other)

    def __le__(self, other: UOp | Number) -> UOp:
        return self.alu(Ops.CMPLE, other)

    def __gt__(self, other: UOp | Number) -> UOp:
        return self._reflected(Ops.CMPLT, other)

    def __ge__(self, other: UOp | Number) -> UOp:
        return self._reflected(Ops.CMPLE, other)

    def __neg__(self) -> UOp:
        return self.alu(Ops.NEG)

    def __invert__(self) -> UOp:
        return self.alu(Ops.NOT)

    def __bool__(self) -> bool:
        raise GraphError(
            f"a {self.op.name} node has no truth value while the program is being built",
            remedy="use .where(x, y) to choose, .eq() or `is` to compare",
        )
