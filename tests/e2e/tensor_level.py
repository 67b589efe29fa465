"""Tensor-level UOps executed on whole NumPy arrays: what a lowering means, whatever scheduling makes of it.

Every INDEX is checked to stay inside what it reads wherever its gate holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from planish import ptir
from planish.schedule.lowering import to_tensors
from planish.schedule.lowering.reduce import identity
from planish.schedule.tensors import Tensors
from planish.uop import arithmetic
from planish.uop.node import Table, UOp
from planish.uop.ops import ALU, COMPARISONS, MOVEMENT, Ops, ReduceAxes, Variable
from planish.uop.shape import shape

Array = NDArray[Any]


class Run:
    """One evaluation of a graph."""

    def __init__(self, tensors: Tensors, memory: Mapping[int, Array], variables: Mapping[str, int]) -> None:
        self.tensors = tensors
        self.memory = memory
        self.variables = variables
        self.values: dict[UOp, Array] = {}

    def number(self, dim: object) -> int:
        if not isinstance(dim, UOp):
            return int(cast("int", dim))
        return int(self.value(dim))

    def value(self, root: UOp) -> Array:
        for node in root.toposort():
            if node not in self.values and node.op is not Ops.BUFFER and node.op is not Ops.STORE:
                with np.errstate(all="ignore"):
                    self.values[node] = np.asarray(self.visit(node))
        return self.values[root]

    def visit(self, node: UOp) -> Array:
        sources = [self.values.get(source, np.zeros(())) for source in node.src]
        if node.op is Ops.CONST:
            return arithmetic.load(
                np.asarray(node.arg, object if node.dtype.is_integral else None), node.dtype
            )
        if node.op is Ops.DEFINE_VAR:
            return np.asarray(self.variables[cast("Variable", node.arg).name])
        if node.op in ALU:
            wide = self.broadcast(node.src, sources)
            dtype = node.src[0].dtype if node.op in COMPARISONS else node.dtype
            return arithmetic.apply(node.op, dtype, *wide)
        if node.op is Ops.CAST:
            return arithmetic.convert(sources[0], node.src[0].dtype, node.dtype)
        if node.op is Ops.BITCAST:
            return self.bitcast(node, sources[0])
        if node.op in MOVEMENT:
            return self.move(node, sources[0])
        if node.op in (Ops.REDUCE_AXIS, Ops.SCAN_AXIS):
            return self.combine(node, sources[0])
        if node.op is Ops.CONTIGUOUS:
            return sources[0]
        if node.op is Ops.AFTER:
            return self.written(sources[0].copy(), node.src[1])
        assert node.op is Ops.INDEX, node
        return self.take(node, sources)

    def broadcast(self, nodes: Sequence[UOp], values: list[Array]) -> list[Array]:
        dims = next((shape(node) for node in nodes if shape(node)), ())
        size = tuple(map(self.number, dims))
        for node, value in zip(nodes, values, strict=True):
            assert value.shape in ((), size), f"{node} has {value.shape}, not {size}"
        return [np.broadcast_to(value, size) for value in values]

    def bitcast(self, node: UOp, x: Array) -> Array:
        if node.dtype.bits == 4:
            low = x.astype(np.int16) & 15
            return (low - ((low & 8) << 1) if node.dtype.is_signed else low).astype(
                arithmetic.carrier(node.dtype)
            )
        stored = np.ascontiguousarray(arithmetic.store(x, node.src[0].dtype))
        return arithmetic.load(stored.view(node.dtype.numpy).reshape(x.shape), node.dtype)

    def move(self, node: UOp, x: Array) -> Array:
        arg = cast("tuple[Any, ...]", node.arg)
        assert x.shape == tuple(map(self.number, shape(node.src[0]))), node
        if node.op is Ops.RESHAPE:
            return x.reshape(tuple(map(self.number, arg)))
        if node.op is Ops.EXPAND:
            return np.broadcast_to(x, tuple(map(self.number, arg)))
        if node.op is Ops.PERMUTE:
            return np.transpose(x, arg)
        if node.op is Ops.FLIP:
            return np.asarray(np.flip(x, tuple(axis for axis, turned in enumerate(arg) if turned)))
        pairs = [(self.number(a), self.number(b)) for a, b in arg]
        if node.op is Ops.SHRINK:
            assert all(0 <= a <= b <= n for (a, b), n in zip(pairs, x.shape, strict=True)), node
            return x[tuple(slice(a, b) for a, b in pairs)]
        assert all(a >= 0 and b >= 0 for a, b in pairs), node
        result = np.zeros([a + n + b for (a, b), n in zip(pairs, x.shape, strict=True)], x.dtype)
        result[tuple(slice(a, a + n) for (a, _), n in zip(pairs, x.shape, strict=True))] = x
        return result

    def combine(self, node: UOp, x: Array) -> Array:
        op, axes = cast("ReduceAxes", node.arg)
        for axis in axes:
            first = np.full_like(x.take([0], axis) if x.shape[axis] else np.zeros([1 if a == axis else n for a, n in enumerate(x.shape)], x.dtype), identity(op, node.dtype))  # fmt: skip
            running = [first]
            for k in range(x.shape[axis]):
                running.append(arithmetic.apply(op, node.dtype, running[-1], x.take([k], axis)))
            if node.op is Ops.REDUCE_AXIS:
                x = running[-1]
            elif len(running) > 1:  # a scan of nothing is that
                x = np.concatenate(running[1:], axis)
        return x

    def places(self, node: UOp, sources: list[Array]) -> tuple[tuple[Array, ...], Array]:
        indices = list(node.src[1:])
        values = self.broadcast(indices, sources[1:])
        gate = values.pop() if indices[-1].dtype.is_bool else np.ones(values[0].shape, bool)
        for value, size in zip(values, sources[0].shape, strict=True):
            assert ((value >= 0) & (value < size) | ~gate).all(), f"INDEX outside {sources[0].shape}"
        return tuple(np.where(gate, value, 0).astype(np.int64) for value in values), gate

    def take(self, node: UOp, sources: list[Array]) -> Array:
        if len(node.src) == 1:
            place = node.src[0]
            if place in self.tensors.counting:
                return np.arange(place.dtype.size)  # type: ignore[attr-defined]
            return arithmetic.load(self.memory[cast("int", place.arg)], node.dtype)
        places, gate = self.places(node, sources)
        if not gate.any():
            return np.zeros(gate.shape, sources[0].dtype)
        return np.where(gate, sources[0][places], np.zeros((), sources[0].dtype))

    def written(self, memory: Array, store: UOp) -> Array:
        """In row-major order, each value seeing what was written before it."""
        place, value = store.src
        places, gate = self.places(place, [self.values[source] for source in place.src])
        again = place in value.src
        self.value(value)
        other = value.src[1] if again else value
        new = np.broadcast_to(self.values[other], gate.shape)
        for k in np.ndindex(gate.shape):
            if gate[k]:
                at = tuple(p[k] for p in places)
                memory[at] = arithmetic.apply(value.op, value.dtype, memory[at], new[k]) if again else new[k]
        return memory


def run(function: ptir.Function, arrays: Sequence[Array]) -> list[Array]:
    """The results of a function, by its lowering alone."""
    variables: dict[str, int] = {}
    for param, array in zip(function.params, arrays, strict=True):
        for dim, size in zip(param.type.dims, array.shape, strict=True):
            if not isinstance(dim, int) and dim.name is not None:
                variables[dim.name] = size
    with Table() as table:
        tensors = to_tensors(function, table)
        memory: dict[int, Array] = {}
        for number, buffer in enumerate(tensors.buffers):
            if buffer.parameter is not None:
                flat = np.ravel(arrays[buffer.parameter])
                memory[number] = np.concatenate([flat, np.zeros(buffer.size - flat.size, flat.dtype)])
            elif buffer.constant is not None:
                memory[number] = buffer.constant
        state = Run(tensors, memory, variables)
        results = []
        for result in function.results:
            value = state.value(tensors.values[result])
            dims = tuple(dim if isinstance(dim, int) else dim.evaluate(variables) for dim in result.type.dims)
            results.append(arithmetic.store(np.broadcast_to(value, dims), result.type.dtype))
        return results


__all__ = ["Run", "run"]
