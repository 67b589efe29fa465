"""What graphs are asked again and again, without recursion: what some nodes lead to, and what an associative op joins."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

from planish.uop.node import UOp
from planish.uop.ops import Ops

Node = TypeVar("Node", bound=Hashable)


def reached(start: Iterable[Node], below: Callable[[Node], Iterable[Node]]) -> Iterator[Node]:
    """Some nodes and all that `below` leads to from there, each once, depth first."""
    stack = list(dict.fromkeys(start))
    seen = set(stack)
    while stack:
        node = stack.pop()
        yield node
        for each in below(node):
            if each not in seen:
                seen.add(each)
                stack.append(each)


def joined_by(op: Ops, *nodes: UOp) -> Iterator[UOp]:
    """The terms of sums, the conditions of conjunctions: what an op joins, however often, the last first."""
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if node.op is op:
            stack.extend(node.src)
        else:
            yield node
