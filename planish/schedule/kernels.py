"""What shares a kernel: the choice of values that get memory, and one UOp graph per kernel.

Given memory are the results of the function, and every reduction whose value is seen repeatedly (through an EXPAND) or by
another reduction. Everything else is computed where it is used. A kernel runs over ranges, one per dim of what it stores;
indices are pushed from there through elementwise ops and reductions. An INDEX over movement ops of memory stays as it is:
stage 1 resolves it. Below a padding of something computed, the condition of the padding goes along and becomes the gate of
what is read there: beyond the edge the indices mean nothing. A counting tensor (iota) is its own index.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import cast

from planish import dtypes
from planish.ptir.function import Function
from planish.schedule.tensors import Buffer, Dims, Tensors, expand, reshape, to_tensors
from planish.uop.movement import resolve, source_indices
from planish.uop.node import Table, UOp
from planish.uop.ops import ALU, MOVEMENT, AxisType, Ops, ReduceAxes
from planish.uop.rewrite import substitute
from planish.uop.shape import shape
from planish.uop.symbolic import simplify

Key = tuple[UOp, tuple[UOp, ...], UOp | None]
"""A tensor, the indices of one of its elements, and where there is such an element (None: everywhere)."""
_COMPUTED = ALU | {Ops.CAST, Ops.BITCAST}


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel: its graph, and which buffer each parameter slot is (the first is written)."""

    name: str
    sink: UOp
    buffers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Schedule:
    """All kernels of a function in order, the memory they share, and which buffers are its results."""

    kernels: tuple[Kernel, ...]
    buffers: tuple[Buffer, ...]
    results: tuple[tuple[int, Dims], ...]


def _seen_repeatedly(roots: Sequence[UOp]) -> list[UOp]:
    """Reductions below an EXPAND or another reduction, sources first."""
    order = roots[0].table.sink(*roots).toposort()
    repeated: set[UOp] = set()
    for node in reversed(order):
        hides = node.op is Ops.REDUCE_AXIS or (node.op is Ops.EXPAND and shape(node) != shape(node.src[0]))
        for source in node.src:
            if hides or (node in repeated and node.op is not Ops.REDUCE_AXIS):
                repeated.add(source)
    return [node for node in order if node.op is Ops.REDUCE_AXIS and node in repeated]


class _Kernel:
    """Pushes the indices of one kernel down to memory. Iterative: depth is the user's, not Python's."""

    def __init__(self, tensors: Tensors, realised: dict[UOp, UOp]) -> None:
        self.table = tensors.table
        self.counting = tensors.counting
        self.realised = realised
        self.axes = 0
        self.done: dict[Key, UOp] = {}

    def range(self, size: int, kind: AxisType) -> UOp:
        self.axes += 1
        return self.table.range(size, self.axes - 1, kind)

    def value(self, node: UOp, indices: tuple[UOp, ...]) -> UOp:
        """The element of a tensor at the indices."""
        plans: dict[Key, tuple[list[Key], Callable[[list[UOp]], UOp]]] = {}
        stack: list[Key] = [(node, indices, None)]
        while stack:
            key = stack[-1]
            if key in self.done:
                stack.pop()
                continue
            if key not in plans:
                plans[key] = self.plan(*key)
            needs, combine = plans[key]
            missing = [need for need in needs if need not in self.done]
            if missing:
                stack.extend(missing)
            else:
                self.done[key] = combine([self.done[need] for need in needs])
                stack.pop()
        return self.done[node, indices, None]

    def plan(
        self, node: UOp, indices: tuple[UOp, ...], valid: UOp | None
    ) -> tuple[list[Key], Callable[[list[UOp]], UOp]]:
        """Which elements an element is made of, and how."""
        zero = self.table.const(False if node.dtype.is_bool else 0, node.dtype)
        if 0 in shape(node):  # it has no elements, and none will be asked for
            return [], lambda _: zero
        memory = self.realised.get(node)
        if memory is not None:
            return [], lambda _: self.read(memory, indices, valid)
        if node.op is Ops.CONST:
            return [], lambda _: node
        if node.op in _COMPUTED:
            # a scalar source (a constant) has no axes to index
            keys = [(source, indices if shape(source) else (), valid) for source in node.src]
            return keys, lambda sources: node.replace(src=tuple(sources))
        if node.op is Ops.REDUCE_AXIS:
            return self.plan_reduce(node, indices, valid)
        base = self.base(node)
        if base in self.counting:
            return [], lambda _: self.count(node, indices)
        if base is not None:
            return [], lambda _: self.read(node, indices, valid)
        source = node.src[0]
        inner, inside = source_indices(node.op, node.arg, shape(source), indices, table=self.table)
        if inside is None:
            return [(source, inner, valid)], lambda found: found[0]
        if inside.op is Ops.CONST:  # nothing but padding
            return [], lambda _: zero
        both = inside if valid is None else simplify(valid & inside)
        return [(source, inner, both)], lambda found: inside.where(found[0], zero)

    def read(self, memory: UOp, indices: tuple[UOp, ...], valid: UOp | None) -> UOp:
        """The element of a view of memory, read where it is one."""
        gate: tuple[UOp, ...] = ()
        # indices that the condition does not concern are in memory whether it holds or not
        if valid is not None and any(not index.ranges.isdisjoint(valid.ranges) for index in indices):
            gate = (valid,)
        return self.table.make(Ops.INDEX, memory.dtype, (memory, *indices, *gate))

    def count(self, node: UOp, indices: tuple[UOp, ...]) -> UOp:
        """The element of a view of a counting tensor: its number; 0 where there is none."""
        view = node
        while view.op in MOVEMENT:
            view = view.src[0]
            if 0 in shape(view):
                return node.const_like(0)
        place = resolve(node, indices)
        (number,) = place.indices
        return (number if place.valid is None else place.valid.where(number, 0)).cast(node.dtype)

    def plan_reduce(
        self, node: UOp, indices: tuple[UOp, ...], valid: UOp | None
    ) -> tuple[list[Key], Callable[[list[UOp]], UOp]]:
        op, axes = cast("ReduceAxes", node.arg)
        dims = cast("Dims", shape(node.src[0]))
        ranges = {axis: self.range(dims[axis], AxisType.REDUCE) for axis in axes}
        inner = tuple(ranges.get(axis, index) for axis, index in enumerate(indices))
        return [(node.src[0], inner, valid)], lambda found: found[0].reduce(op, *ranges.values())

    def base(self, node: UOp) -> UOp | None:
        """The memory that a node views, if only movement ops lie between."""
        while node.op in MOVEMENT and node not in self.realised:
            node = node.src[0]
        return node.src[0] if node.op is Ops.INDEX else None


def _make_kernel(number: int, node: UOp, out: int, tensors: Tensors, realised: dict[UOp, UOp]) -> Kernel:
    table, dims = tensors.table, cast("Dims", shape(node))
    kernel = _Kernel(tensors, realised)
    ranges = tuple(kernel.range(dim, AxisType.LOOP) for dim in dims)
    value = kernel.value(node, ranges)
    target = table.make(Ops.BUFFER, tensors.buffers[out].dtype.ptr(tensors.buffers[out].size), (), out)
    view = reshape(table.make(Ops.INDEX, node.dtype, (target,)), dims)
    store = table.make(Ops.STORE, dtypes.void, (table.make(Ops.INDEX, node.dtype, (view, *ranges)), value))
    sink = table.sink(store.end(*ranges) if ranges else store)
    used = [out, *sorted({cast("int", n.arg) for n in sink.toposort() if n.op is Ops.BUFFER} - {out})]
    slots = {
        table.make(Ops.BUFFER, tensors.buffers[b].dtype.ptr(tensors.buffers[b].size), (), b): table.param(
            slot, tensors.buffers[b].dtype, tensors.buffers[b].size
        )
        for slot, b in enumerate(used)
    }
    kind = "reduce" if any(n.op is Ops.REDUCE for n in sink.toposort()) else "map"
    return Kernel(
        f"{kind}_{number}_" + "x".join(map(str, dims or (1,))), substitute(sink, slots), tuple(used)
    )


def schedule(function: Function, table: Table) -> Schedule:
    """The kernels that compute a function."""
    tensors = to_tensors(function, table)
    roots = []
    for result in function.results:
        value, dims = tensors.values[result], cast("Dims", result.type.dims)
        if value.op is Ops.CONST:
            value = expand(reshape(value, (1,) * len(dims)), dims)
        roots.append(value)
    realised: dict[UOp, UOp] = {}
    kernels: list[Kernel] = []

    def realise(node: UOp) -> int:
        dims = cast("Dims", shape(node))
        memory = tensors.memory(Buffer(node.dtype, prod(dims)), dims)
        number = len(tensors.buffers) - 1
        kernels.append(_make_kernel(len(kernels), node, number, tensors, realised))
        realised[node] = memory
        return number

    for node in _seen_repeatedly(roots) if roots else []:
        realise(node)
    results = tuple(
        (realise(node), cast("Dims", result.type.dims))
        for node, result in zip(roots, function.results, strict=True)
    )
    return Schedule(tuple(kernels), tuple(tensors.buffers), results)
