"""Memory of a plan in the making: buffers, what became of them, and the kernels that fill them.

Memory that a kernel made for a value becomes the memory where the value belongs, by name, as long as nothing else in the block has used either.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import cast

from planish.ptir.function import Function, Value
from planish.ptir.types import TensorType
from planish.schedule import counted
from planish.schedule.kernels import cut
from planish.schedule.plan import (
    Copy,
    Kernel,
    Launch,
    PlanBuffer,
    Role,
    Step,
)
from planish.schedule.reason import Reason
from planish.schedule.reasons import TAKEN
from planish.schedule.tensor_sizes import size_of
from planish.schedule.tensors import SharedBuffer, Tensors, check_size, full
from planish.target import Target
from planish.uop.node import Table, UOp
from planish.uop.ops import MOVEMENT, Ops
from planish.uop.shape import shape


class PlannedMemory:
    """The steps of a plan in the making, and which buffer holds what."""

    def __init__(self, function: Function, table: Table, donate: frozenset[int], target: Target) -> None:
        self.function = function
        self.tensors = Tensors(table, target=target)
        self.donate = donate
        self.block: list[Step] = []
        self.buffers: dict[int, PlanBuffer] = {}
        """What is known of the buffers of `tensors`; those that a cut made are in the arena."""
        self.alias: dict[int, int] = {}
        """Buffers that became others."""
        self.own: set[int] = set()
        """Buffers of the arena that this block has made, and may still make into something else."""
        self.kernels: dict[UOp, int] = {}
        self.distinct: list[Kernel] = []
        self.counters = 0
        self.sizes = counted.names_of_sizes(function)
        """Sizes that have a name."""

    # -- memory ----------------------------------------------------------------------------------------------------

    def memory(
        self, type: TensorType, role: Role, position: int = 0, *, donated: bool = False
    ) -> tuple[int, UOp]:
        """A new buffer for a value of a type: its number, and the value that it holds."""
        check_size(type, role.name.lower(), None)
        number = len(self.tensors.buffers)
        parameter = position if role is Role.PARAMETER else None
        own = SharedBuffer(type.dtype, prod(type.max_shape), parameter=parameter)
        node = self.tensors.memory(own, self.tensors.dims(type.dims))
        self.buffers[number] = PlanBuffer(type.dtype, type.size, role, position, donated=donated)
        if role is Role.ARENA:
            self.own.add(number)
        return number, node

    def resolve(self, number: int) -> int:
        """The buffer that a buffer has become."""
        while number in self.alias:
            number = self.alias[number]
        return number

    def describe(self, number: int) -> PlanBuffer:
        known = self.buffers.get(number)
        if known is None:
            buffer = self.tensors.buffers[number]
            role = Role.ARENA if buffer.constant is None else Role.CONSTANT
            known = self.buffers[number] = PlanBuffer(
                buffer.dtype, buffer.size, role, constant=buffer.constant
            )
        return known

    def whole(self, node: UOp) -> int | None:
        """The buffer that holds a value from its start, row by row; None if there is none."""
        node = self.tensors.realised.get(node, node)
        while node.op is Ops.RESHAPE:
            node = node.src[0]
        if node.op is Ops.SHRINK and len(cast("tuple[object, ...]", node.arg)) == 1:
            ((begin, _),) = cast("tuple[tuple[object, object]]", node.arg)
            if begin != 0:
                return None
            node = node.src[0]
        if node.op is not Ops.INDEX or len(node.src) != 1 or node.src[0] in self.tensors.counting:
            return None
        return self.resolve(cast("int", node.src[0].arg))

    def is_cheap(self, node: UOp) -> bool:
        """Whether nothing is computed where a value is seen: a constant, a view of memory, a counting tensor."""
        while (node.op in MOVEMENT or node.op is Ops.CAST) and node not in self.tensors.realised:
            node = node.src[0]
        if node in self.tensors.realised or (node.op is Ops.INDEX and len(node.src) == 1):
            return True
        return node.op in {Ops.CONST, Ops.DEFINE_VAR}

    def node(self, value: Value) -> UOp:
        """The tensor-level node of a value, with all its axes."""
        return full(self.tensors.values[value], self.tensors.dims_of(value))

    # -- kernels ---------------------------------------------------------------------------------------------------

    def cut(self, nodes: Sequence[UOp], reason: Reason = TAKEN) -> None:
        """Kernels for what has no memory yet."""
        first = len(self.tensors.buffers)
        known = len(self.tensors.realised)
        wanted = [node for node in dict.fromkeys(nodes) if self.whole(node) is None]
        if not wanted:
            return
        for kernel in cut(self.tensors, wanted, reason):
            number = self.kernels.setdefault(kernel.sink, len(self.distinct))
            if number == len(self.distinct):
                self.distinct.append(kernel)
            self.block.append(Launch(number, kernel.buffers))
            if self.tensors.origins is not None:
                self.tensors.origins.launched(kernel)
        self.own.update(range(first, len(self.tensors.buffers)))
        for node, memory in list(self.tensors.realised.items())[known:]:
            number = cast("int", self.whole(memory))
            if number >= first:
                buffer = self.tensors.buffers[number]
                self.buffers[number] = PlanBuffer(buffer.dtype, size_of(shape(node)), Role.ARENA)

    def realise(self, values: Sequence[Value]) -> list[int]:
        """Buffers that hold the values."""
        nodes = [self.node(value) for value in values]
        self.cut(nodes)
        return [cast("int", self.whole(node)) for node in nodes]

    def realise_into(self, nodes: Sequence[UOp], targets: Sequence[int], reason: Reason = TAKEN) -> None:
        """The values, in buffers of our choice, which nothing in this block has used. Memory made for a value becomes it."""
        self.cut(nodes, reason)
        copies: list[Step] = []
        for node, target in zip(nodes, targets, strict=True):
            source = cast("int", self.whole(node))
            if source in self.own and self.describe(source).size == self.buffers[target].size:
                self.own.discard(source)
                self.alias[source] = target
            elif source != target:
                copies.append(Copy(source, target))
        self.block += copies

    @contextmanager
    def nested(self) -> Iterator[list[Step]]:
        """A block of its own. What is realised in it is known only there."""
        outer, self.block = self.block, []
        own, self.own = self.own, set()
        realised = len(self.tensors.realised)
        try:
            yield self.block
        finally:
            for node in list(self.tensors.realised)[realised:]:
                del self.tensors.realised[node]
            self.block, self.own = outer, own
