"""The letters that rules are written in: `x y z` stand for any node, `p q` for bools, `a b c` for constants."""

from __future__ import annotations

from typing import Final, cast

from planish.algebra import kinds
from planish.uop.node import UOp
from planish.uop.ops import CONSTANTS, Ops
from planish.uop.pattern import BOOL, NodePattern, anything, constant, node

x: Final[NodePattern] = anything("x")
y: Final[NodePattern] = anything("y")
z: Final[NodePattern] = anything("z")
p: Final[NodePattern] = anything("p", BOOL)
q: Final[NodePattern] = anything("q", BOOL)
a: Final[NodePattern] = constant("a")
b: Final[NodePattern] = constant("b")
c: Final[NodePattern] = constant("c")

SIGNED: Final = kinds.SIGNED
UNSIGNED: Final = kinds.UNSIGNED


def integer(node: UOp) -> int:
    """The number of an integer constant."""
    return cast("int", node.arg)


def known(name: str) -> NodePattern:
    """A constant, the same in every lane or not."""
    return node(CONSTANTS, name=name)


def absolute(of: NodePattern) -> NodePattern:
    """|of|."""
    return node(Ops.ABS, of)
