"""What is known of the tensors of a program before it is cut: who uses what, how deep, and how much is read again.

None of it changes while kernels are made, so it is computed once per cut, and only as far as somebody asks.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from typing import Final

from planish.schedule.elements import COMPUTED
from planish.schedule.nest import most
from planish.uop.node import UOp
from planish.uop.ops import MOVEMENT, Ops
from planish.uop.shape import shape

_REUSE: Final = 4
"""How often a reduction uses what it reads, to count as a product."""
THROUGH: Final = COMPUTED | MOVEMENT | {Ops.CONTIGUOUS, Ops.INDEX}
"""What passes elements on."""


class Graph:
    """The tensors below some results, down to those that are in memory already."""

    def __init__(self, roots: Sequence[UOp], realised: Collection[UOp]) -> None:
        self.users: dict[UOp, list[UOp]] = {}
        self.level: dict[UOp, int] = {}
        """How many reductions, one after another, a tensor depends on."""
        self._products: dict[UOp, bool] = {}
        self._operands: dict[UOp, frozenset[UOp]] = {}
        self.add(roots, realised)

    def add(self, roots: Sequence[UOp], realised: Collection[UOp] = ()) -> None:
        """Take in more results."""
        if not roots:
            return
        known = frozenset(self.level)
        order = roots[0].table.sink(*roots).toposort(lambda n: n not in realised and n not in known)
        for node in order[:-1]:
            if node in known:
                continue
            below = 0
            if node not in realised:
                for source in dict.fromkeys(node.src):
                    self.users.setdefault(source, []).append(node)
                    below = max(below, self.level[source])
            self.level[node] = below + (node.op is Ops.REDUCE_AXIS)

    def operands(self, node: UOp) -> frozenset[UOp]:
        """The tensors that one is computed from element by element: memory, and results of reductions."""
        if node not in self._operands:
            found: set[UOp] = set()
            seen = {node}
            stack = [node]
            while stack:
                each = stack.pop()
                passes = each.op in THROUGH and not (each.op is Ops.INDEX and len(each.src) == 1)
                if not passes:
                    if each.op not in {Ops.CONST, Ops.DEFINE_VAR}:
                        found.add(each)
                    continue
                # what positions are computed from is not what is read there
                sources = each.src[:1] if each.op is Ops.INDEX else each.src
                new = [source for source in sources if source not in seen]
                seen.update(new)
                stack.extend(new)
            self._operands[node] = frozenset(found)
        return self._operands[node]

    def is_product(self, reduction: UOp) -> bool:
        """Whether a reduction uses its operands again and again, as a product of matrices does."""
        found = self._products.get(reduction)
        if found is None:
            (source,) = reduction.src
            memory = sum(most(shape(each)) for each in self.operands(source))
            found = self._products[reduction] = most(shape(source)) >= _REUSE * max(1, memory)
        return found

    def memory_of(
        self, node: UOp, realised: Container[UOp], pending: Container[UOp]
    ) -> frozenset[UOp] | None:
        """The memory that a tensor is computed from, that to be made included; None if there is a product of matrices on the way.

        A product below what is to be made counts if that may be made on the way, too.
        """
        found: set[UOp] = set()
        size = most(shape(node))
        seen = {node}
        stack = [(node, True)]
        while stack:
            at, is_mine = stack.pop()
            for each in at.src:
                if each in seen:
                    continue
                seen.add(each)
                if each in realised or (each.op is Ops.INDEX and len(each.src) == 1):
                    if is_mine:
                        found.add(each)
                        if each in pending and most(shape(each)) <= size:
                            stack.append((each, False))
                elif each.op is Ops.REDUCE_AXIS and self.is_product(each):
                    return None
                else:
                    stack.append((each, is_mine))
        return frozenset(found)

    def is_used_by(self, node: UOp, roots: Collection[UOp], realised: Mapping[UOp, UOp]) -> bool:
        """Whether a tensor would be computed for one of these results, there being nothing in memory in between."""
        seen = {node}
        stack = [node]
        while stack:
            for user in self.users.get(stack.pop(), ()):
                if user in roots:
                    return True
                if user not in seen and user not in realised:
                    seen.add(user)
                    stack.append(user)
        return False
