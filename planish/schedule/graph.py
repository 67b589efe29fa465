"""What is known of the tensors of a program before it is cut: who uses what, how deep, and how much is read again.

None of it changes while kernels are made, so it is computed once per cut, and only as far as somebody asks.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Sequence
from typing import Final, cast

from planish.schedule.elements import COMPUTED
from planish.schedule.tensors import COUNTING, most
from planish.uop.node import UOp
from planish.uop.ops import MOVEMENT, Ops, ReduceAxes
from planish.uop.shape import same_dim, shape

REUSE: Final = 4
"""How often a reduction uses what it reads, to count as a product."""
THROUGH: Final = COMPUTED | MOVEMENT | {Ops.CONTIGUOUS, Ops.INDEX}
"""What passes elements on."""

_SAME_ELEMENTS: Final = frozenset({Ops.RESHAPE, Ops.PERMUTE, Ops.FLIP})


class TensorGraph:
    """The tensors below some results, down to those that are in memory already."""

    def __init__(self, roots: Sequence[UOp], realised: Collection[UOp]) -> None:
        self.users: dict[UOp, list[UOp]] = {}
        self.level: dict[UOp, int] = {}
        """How many reductions, one after another, a tensor depends on."""
        self._products: dict[UOp, bool] = {}
        self._done: set[UOp] = set()
        """What only kernels need that are made already."""
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

    def operands(self, node: UOp, memory: Container[UOp]) -> frozenset[UOp]:
        """The tensors that one is computed from element by element: those in memory, and results of reductions."""
        operands: set[UOp] = set()
        stack, seen = [node], {node}
        while stack:
            each = stack.pop()
            passes = each.op in THROUGH and not (each.op is Ops.INDEX and len(each.src) == 1)
            if not passes or (each is not node and each in memory):
                if each.op not in {Ops.CONST, Ops.DEFINE_VAR}:
                    operands.add(each)
                continue
            new = [source for source in _read_by(each) if source not in seen]
            seen.update(new)
            stack.extend(new)
        return frozenset(operands)

    def is_product(self, reduction: UOp) -> bool:
        """Whether a reduction uses its operands again and again, as a product of matrices does."""
        reuses = self._products.get(reduction)
        if reuses is None:
            (source,) = reduction.src
            size = most(shape(source))
            used = sum(most(shape(each)) for each in _spread(source, size))
            reuses = size >= REUSE * max(1, used)
            axes = frozenset(cast("ReduceAxes", reduction.arg).axes)
            self._products[reduction] = reuses = reuses and _reads_along(source, axes)
        return reuses

    def products_of(self, node: UOp, memory: Container[UOp]) -> frozenset[UOp]:
        """The products of matrices that a tensor is made of element by element, as far as they are not in memory."""
        return frozenset(
            each
            for each in self.operands(node, memory)
            if each.op is Ops.REDUCE_AXIS and each not in memory and self.is_product(each)
        )

    def reductions(self, node: UOp, memory: Container[UOp]) -> Iterator[UOp]:
        """Those that are not in memory and that a tensor is made of directly, itself included."""
        stack, seen = [node], {node}
        while stack:
            each = stack.pop()
            if each in memory:
                continue
            if each.op is Ops.REDUCE_AXIS:
                yield each
                continue
            new = [source for source in each.src if source not in seen and self.level.get(source, 0)]
            seen.update(new)
            stack.extend(new)

    def memory_of(
        self, node: UOp, realised: Container[UOp], pending: Container[UOp]
    ) -> frozenset[UOp] | None:
        """The memory that a tensor is computed from, that to be made included; None if there is a product of matrices on the way.

        A product below what is to be made counts if that may be made on the way, too.
        """
        if node.op is Ops.REDUCE_AXIS and self.is_product(node):
            return None
        memory: set[UOp] = set()
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
                        memory.add(each)
                        if each in pending and most(shape(each)) <= size:
                            stack.append((each, False))
                elif each.op is Ops.REDUCE_AXIS and self.is_product(each):
                    return None
                else:
                    stack.append((each, is_mine))
        return frozenset(memory)

    def is_used_by(
        self, node: UOp, roots: Container[UOp], realised: Container[UOp], pending: Container[UOp]
    ) -> bool:
        """Whether a tensor would be computed for one of these results, there being nothing in memory in between.

        What leads to nothing that is `pending` never will, since kernels are made from the last result down: it is not walked
        through again.
        """
        alive: set[UOp] = set()
        seen = {node}
        stack = [(node, iter(self.users.get(node, ())))]
        while stack:
            each, users = stack[-1]
            for user in users:
                if user in roots:
                    return True
                if user in realised:
                    if user in pending:
                        alive.add(each)
                elif user in alive:
                    alive.add(each)
                elif user not in seen and user not in self._done:
                    seen.add(user)
                    stack.append((user, iter(self.users.get(user, ()))))
                    break
            else:
                stack.pop()
                if each not in alive:
                    self._done.add(each)
                elif stack:
                    alive.add(stack[-1][0])
        return False


def depends(node: UOp, other: UOp) -> bool:
    """Whether a tensor is computed from another one."""
    stack, seen = [node], {node}
    while stack:
        for source in stack.pop().src:
            if source is other:
                return True
            # sources are older than what is made of them
            if source.serial > other.serial and source not in seen:
                seen.add(source)
                stack.append(source)
    return False


def _spread(source: UOp, size: int) -> set[UOp]:
    """The tensors that are spread over as many elements as a tensor has, and those of that many that it is made of."""
    tensors: set[UOp] = set()
    stack, seen = [source], {source}
    while stack:
        each = stack.pop()
        whole = most(shape(each)) >= size
        while not whole and each.op in _SAME_ELEMENTS:
            each = each.src[0]
        passes = whole and each.op in THROUGH and not (each.op is Ops.INDEX and len(each.src) == 1)
        if not passes:
            if each.op not in {Ops.CONST, Ops.DEFINE_VAR}:
                tensors.add(each)
            continue
        new = [s for s in _read_by(each) if s not in seen]
        seen.update(new)
        stack.extend(new)
    return tensors


def _reads_along(source: UOp, axes: frozenset[int]) -> bool:
    """Whether anything in memory is read along some axes: what is spread over them, and positions, are not."""
    stack, seen = [(source, axes)], {(source, axes)}
    while stack:
        node, along = stack.pop()
        if node.op is Ops.EXPAND:
            below = shape(node.src[0])
            new = [(node.src[0], frozenset(axis for axis in along if not same_dim(below[axis], 1)))]
        elif node.op in COMPUTED:
            new = [(each, along) for each in node.src if shape(each)]
        elif node.op is Ops.PERMUTE:
            order = cast("tuple[int, ...]", node.arg)
            new = [(node.src[0], frozenset(order[axis] for axis in along))]
        elif _is_counted(node):
            continue
        else:
            return True
        stack += [each for each in new if each[1] and each not in seen]
        seen.update(new)
    return False


def _is_counted(node: UOp) -> bool:
    """Whether a tensor is positions, and nothing that is read."""
    while node.op in MOVEMENT:
        node = node.src[0]
    return node.op is Ops.CONST or (
        node.op is Ops.INDEX and node.src[0].op is Ops.BUFFER and node.src[0].arg == COUNTING
    )


def _read_by(node: UOp) -> tuple[UOp, ...]:
    """The operands of a node; what positions are computed from is not what is read there."""
    return node.src[:1] if node.op is Ops.INDEX else node.src


def slides(reduction: UOp, realised: Container[UOp]) -> bool:
    """Whether a sum takes its operands by positions that overlap: a convolution, a pool."""
    stack, seen = [reduction.src[0]], {reduction.src[0]}
    while stack:
        each = stack.pop()
        if each in realised or each.op not in THROUGH or len(each.src) == 0:
            continue
        if each.op is Ops.INDEX and len(each.src) > 1:
            if most(shape(each)) >= 2 * most(shape(each.src[0])):
                return True
            new = [each.src[0]]
        elif each.op is Ops.INDEX:
            continue
        else:
            new = list(each.src)
        fresh = [source for source in new if source not in seen]
        seen.update(fresh)
        stack.extend(fresh)
    return False
