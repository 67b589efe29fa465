"""The letters that rules are written in: `x y z` stand for any node, `p q` for bools, `a b c` for constants."""

from __future__ import annotations

from typing import Final, cast

from planish.algebra import kinds
from planish.uop.node import UOp
from planish.uop.ops import CONSTANTS, Ops
from planish.uop.pattern import BOOL, Pattern, anything, constant, node

x: Final[Pattern] = anything("x")
y: Final[Pattern] = anything("y")
z: Final[Pattern] = anything("z")
p: Final[Pattern] = anything("p", BOOL)
q: Final[Pattern] = anything("q", BOOL)
a: Final[Pattern] = constant("a")
b: Final[Pattern] = constant("b")
c: Final[Pattern] = constant("c")

SIGNED: Final = kinds.SIGNED
UNSIGNED: Final = kinds.UNSIGNED


def integer(node: UOp) -> int:
    """The number of an integer constant."""
    return cast("int", node.arg)


def known(name: str) -> Pattern:
    """A constant, the same in every lane or not."""
    return node(CONSTANTS, name=name)


def absolute(of: Pattern) -> Pattern:
    """|of|."""
    return node(Ops.ABS, of)
