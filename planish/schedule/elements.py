"""One element of a tensor: what it is made of, and how, if its indices are given.

A *place* is the indices of an element and where there is such an element (None: everywhere): below a padding of something
computed, the condition of the padding goes along and becomes the gate of what is read there, since beyond the edge the
indices mean nothing. `Elements` answers for ops that need no decision: memory, constants, counting tensors, elementwise and
movement ops. An INDEX over movement ops of memory stays as it is: stage 1 resolves it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping
from typing import Final, NamedTuple

from planish.errors import LoweringError
from planish.schedule.tensors import Tensors, is_empty
from planish.uop.movement import resolve, source_indices
from planish.uop.node import UOp
from planish.uop.ops import ALU, MOVEMENT, Ops
from planish.uop.shape import shape
from planish.uop.symbolic import simplify

COMPUTED: Final = ALU | {Ops.CAST, Ops.BITCAST, Ops.NOOP}
"""Ops that work element by element."""
LEAVES: Final = frozenset({Ops.CONST, Ops.DEFINE_VAR})
"""Values that are the same everywhere."""


_NOTHING: Final[frozenset[UOp]] = frozenset()


class ElementPlace(NamedTuple):
    """The indices of an element, and where there is such an element (None: everywhere)."""

    indices: tuple[UOp, ...]
    valid: UOp | None = None

    @property
    def ranges(self) -> frozenset[UOp]:
        """What the indices depend on."""
        ranges = _NOTHING
        for index in self.indices:
            more = index.ranges
            if more and more is not ranges:
                ranges = ranges | more if ranges else more
        return ranges


class Key(NamedTuple):
    """An element: of which tensor, and where."""

    node: UOp
    place: ElementPlace


class Recipe(NamedTuple):
    """The elements that an element is made of, and how."""

    needs: tuple[Key, ...]
    make: Callable[[list[UOp]], UOp]


def both(x: UOp | None, y: UOp | None) -> UOp | None:
    """Where two conditions hold; None: everywhere."""
    if x is None or y is None:
        return x if y is None else y
    return simplify(x & y)


def element(memory: UOp, indices: tuple[UOp, ...]) -> tuple[UOp, ...]:
    """A view of memory and the indices of one of its elements: a scalar is the one element of a vector."""
    if indices:
        return memory, *indices
    return memory.table.make(Ops.RESHAPE, memory.dtype, (memory,), (1,)), memory.table.const(0)


def _may_concern(valid: UOp, index: UOp) -> bool:
    """Whether a condition may be about an index: both depend on a range, or the index on something that is not one."""
    if not index.ranges.isdisjoint(valid.ranges):
        return True
    return any(node.op in {Ops.INDEX, Ops.DEFINE_VAR} for node in index.toposort())


class InMemory:
    """Which tensors are in memory when a kernel runs: what is realised, except what the kernel itself makes."""

    __slots__ = ("made_here", "own", "realised")

    def __init__(
        self,
        realised: Mapping[UOp, UOp],
        made_here: Collection[UOp] = (),
        own: Mapping[UOp, UOp] | None = None,
    ) -> None:
        self.realised = realised
        self.made_here = made_here
        self.own: Mapping[UOp, UOp] = {} if own is None else own
        """Memory that a tensor has for this kernel alone."""

    def get(self, node: UOp) -> UOp | None:
        """The memory of a tensor."""
        if node in self.own:
            return self.own[node]
        return None if node in self.made_here else self.realised.get(node)

    def __contains__(self, node: object) -> bool:
        return node in self.own or (node in self.realised and node not in self.made_here)


def only_counts(node: UOp, counting: Container[UOp]) -> bool:
    """Whether a node is a view of a counting tensor, that is of one whose buffer is among these."""
    while node.op in MOVEMENT:
        node = node.src[0]
    return node.op is Ops.INDEX and len(node.src) == 1 and node.src[0] in counting


class Elements:
    """Elements of tensors of which some are in memory."""

    def __init__(self, tensors: Tensors, realised: InMemory) -> None:
        self.table = tensors.table
        self.counting = tensors.counting
        self.realised = realised
        self.views: dict[UOp, UOp | None] = {}
        self.pure: dict[UOp, bool] = {}
        self.known: dict[Key, UOp] = {}

    # -- what a node is ---------------------------------------------------------------------------------------------

    def view(self, node: UOp) -> UOp | None:
        """The node as movement ops over memory, if it is nothing else."""
        chain: list[UOp] = []
        while node not in self.views and node not in self.realised and node.op in MOVEMENT:
            chain.append(node)
            node = node.src[0]
        view = self.views[node] if node in self.views else self._whole(node)
        self.views[node] = view
        for each in reversed(chain):
            view = None if view is None else each.replace(src=(view,))
            self.views[each] = view
        return view

    def _whole(self, node: UOp) -> UOp | None:
        memory = self.realised.get(node)
        if memory is not None:
            return memory
        is_memory = node.op is Ops.INDEX and len(node.src) == 1 and node.src[0].op is Ops.BUFFER
        return node if is_memory and node.src[0] not in self.counting else None

    def counts(self, node: UOp) -> bool:
        """Whether a node is a view of a counting tensor."""
        return only_counts(node, self.counting)

    def is_pure(self, node: UOp) -> bool:
        """Whether a node is arithmetic on positions alone, with no memory in it."""
        for each in node.toposort(lambda n: n not in self.pure and not self._ends(n)):
            if each in self.pure:
                continue
            if self._ends(each):
                self.pure[each] = each not in self.realised and self.counts(each)
            else:
                fits = each.op in LEAVES or each.op in COMPUTED or each.op in MOVEMENT
                self.pure[each] = fits and all(self.pure[source] for source in each.src)
        return self.pure[node]

    def _ends(self, node: UOp) -> bool:
        return node.op is Ops.INDEX or node in self.realised

    def now(self, node: UOp, indices: tuple[UOp, ...]) -> UOp:
        """The element of a pure tensor, simplified."""
        start = Key(node, ElementPlace(indices if shape(node) else ()))
        recipes: dict[Key, Recipe] = {}
        stack = [start]
        while stack:
            key = stack[-1]
            if key in self.known:
                stack.pop()
                continue
            if key not in recipes:
                recipes[key] = self.recipe(key)
            needs, make = recipes[key]
            missing = [need for need in needs if need not in self.known]
            if missing:
                stack.extend(missing)
            else:
                self.known[key] = make([self.known[need] for need in needs])
                stack.pop()
        return simplify(self.known[start])

    # -- what an element is made of ---------------------------------------------------------------------------------

    def zero(self, node: UOp) -> UOp:
        """0 of a node's dtype."""
        return self.table.const(False if node.dtype.is_bool else 0, node.dtype)

    def recipe(self, key: Key) -> Recipe:
        """How an element is made, for the ops that leave no choice."""
        node, (indices, valid) = key
        if is_empty(shape(node)):  # it has no elements, and none will be asked for
            zero = self.zero(node)
            return Recipe((), lambda _: zero)
        if node.op in LEAVES:
            return Recipe((), lambda _: node)
        view = self.view(node)
        if view is not None:
            read = self.read(view, indices, valid)
            return Recipe((), lambda _: read)
        if node.op in COMPUTED:
            return Recipe(
                tuple(self.part(source, key.place) for source in node.src),
                lambda sources: node.replace(src=tuple(sources)),
            )
        if self.counts(node):
            number = self.count(node, indices)
            return Recipe((), lambda _: number)
        if node.op in MOVEMENT:
            return self._moved(node, indices, valid)
        raise LoweringError(f"{node.op.name} has no element", op=node.op.name)

    def part(self, source: UOp, place: ElementPlace) -> Key:
        """The element of an operand: a scalar has no axes to index."""
        return Key(source, place if shape(source) else ElementPlace((), place.valid))

    def _moved(self, node: UOp, indices: tuple[UOp, ...], valid: UOp | None) -> Recipe:
        source = node.src[0]
        inner, inside = source_indices(node.op, node.arg, shape(source), indices, table=self.table)
        if inside is None:
            return Recipe((Key(source, ElementPlace(inner, valid)),), lambda sources: sources[0])
        zero = self.zero(node)
        if inside.op is Ops.CONST:  # nothing but padding
            return Recipe((), lambda _: zero)
        here = Key(source, ElementPlace(inner, both(valid, inside)))
        return Recipe((here,), lambda sources: inside.where(sources[0], zero))

    def read(self, memory: UOp, indices: tuple[UOp, ...], valid: UOp | None) -> UOp:
        """The element of a view of memory, read where it is one."""
        gate: tuple[UOp, ...] = ()
        # indices that the condition does not concern are in memory whether it holds or not
        if valid is not None and any(_may_concern(valid, index) for index in indices):
            gate = (valid,)
        return self.table.make(Ops.INDEX, memory.dtype, (*element(memory, indices), *gate))

    def count(self, node: UOp, indices: tuple[UOp, ...]) -> UOp:
        """The element of a view of a counting tensor: its number; 0 where there is none."""
        view = node
        while view.op in MOVEMENT:
            view = view.src[0]
            if is_empty(shape(view)):
                return node.const_like(0)
        place = resolve(node, indices)
        (number,) = place.indices
        return (number if place.valid is None else place.valid.where(number, 0)).cast(node.dtype)
