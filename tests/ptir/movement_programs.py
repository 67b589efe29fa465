"""Random programs that are mostly data movement: what the movement rules have to keep the meaning of."""

from __future__ import annotations

import numpy as np

from planish.errors import PlanishError
from planish.ptir.builder import Graph
from planish.ptir.dims import Dim, DimLike, bounds
from planish.ptir.function import Program
from planish.ptir.graph_value import GraphValue
from planish.ptir.types import TensorType, tensor

DTYPES = ("f32", "i32", "u8", "bf16", "bool", "c64")
NAMED = (Dim.named("B", 1, 6), Dim.named("N", 2, 5), Dim.named("Z", 0, 3))


class MovementPrograms:
    """Builds one program from one seed."""

    def __init__(self, seed: int, *, steps: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.graph = Graph("f")
        self.pool: list[GraphValue] = []
        self.dtype = DTYPES[self.rng.integers(len(DTYPES))]
        self.dynamic = bool(self.rng.random() < 0.4)
        self.steps = steps

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def number(self, low: int, high: int) -> int:
        """low <= n <= high."""
        return int(self.rng.integers(low, high + 1))

    def pick(self) -> GraphValue:
        # Recent values more often, so that chains form.
        back = min(int(self.rng.exponential(1.5)), len(self.pool) - 1)
        return self.pool[-1 - back]

    def dims(self, rank: int) -> tuple[DimLike, ...]:
        sizes: list[DimLike] = []
        for _ in range(rank):
            if self.dynamic and self.chance(0.4):
                sizes.append(NAMED[self.number(0, 2)])
            else:
                sizes.append(int(self.rng.choice([1, 1, 2, 3, 4, 6])))
        return tuple(sizes)

    def build(self) -> Program:
        for index in range(self.number(1, 3)):
            type = tensor(self.dtype, self.dims(self.number(1, 3)))
            self.pool.append(self.graph.input(f"x{index}", type))
        if self.dynamic:
            self.graph.input("sizes", tensor("bool", NAMED))  # so that every name has a value
        # A scalar, and an index that is mostly in range.
        self.scalar = self.graph.input("s", TensorType(self.pool[0].dtype, ()))
        self.index = self.graph.input("i", tensor("i32", ()))
        self.lines = self.graph.input("j", tensor("i32", (3,)))
        makers = [
            self.transpose, self.reshape, self.broadcast, self.slice, self.reverse, self.pad, self.concat,
            self.unary, self.binary, self.gather, self.dynamic_slice, self.update, self.uniform, self.scatter,
            self.cast, self.sort,
        ]  # fmt: skip
        weights = np.array([3, 3, 3, 4, 2, 2, 2, 2, 3, 1, 1, 1, 1, 0.5, 0.5, 0.3])
        for _ in range(self.steps):
            maker = makers[int(self.rng.choice(len(makers), p=weights / weights.sum()))]
            x = self.pick()
            if x.rank == 0:
                maker = self.broadcast
            try:
                made = maker(x)
            except PlanishError:
                continue
            if bounds(made.type.size)[1] <= 4096 and made.rank <= 5:
                self.pool.append(made)
        count = self.number(1, min(3, len(self.pool)))
        return self.graph.build_program(self.pool[-count:])

    def transpose(self, x: GraphValue) -> GraphValue:
        return x.transpose([int(a) for a in self.rng.permutation(x.rank)])

    def reshape(self, x: GraphValue) -> GraphValue:
        dims = list(x.dims)
        for _ in range(self.number(1, 2)):
            kind = self.number(0, 3)
            if kind == 0:
                dims.insert(self.number(0, len(dims)), 1)
            elif kind == 1 and 1 in dims:
                dims.remove(1)
            elif kind == 2 and len(dims) > 1:
                at = self.number(0, len(dims) - 2)
                dims[at : at + 2] = [dims[at] * dims[at + 1]]
            elif dims:
                at = self.number(0, len(dims) - 1)
                size = dims[at]
                if isinstance(size, int) and size > 1:
                    factors = [f for f in (2, 3) if size % f == 0]
                    if factors:
                        dims[at : at + 1] = [factors[0], size // factors[0]]
        return x.reshape(dims)

    def broadcast(self, x: GraphValue) -> GraphValue:
        dims = [d if d != 1 or self.chance(0.4) else self.dims(1)[0] for d in x.dims]
        lead = self.dims(self.number(0, 1))
        return x.broadcast_to((*lead, *dims))

    def slice(self, x: GraphValue) -> GraphValue:
        starts: list[DimLike] = []
        limits: list[DimLike] = []
        strides: list[int] = []
        for size in x.dims:
            low = max(0, bounds(size)[0])
            if self.chance(0.4):
                starts.append(0)
                limits.append(size)
            elif isinstance(size, int) or self.chance(0.5):
                start = self.number(0, low)
                starts.append(start)
                limits.append(self.number(start, low))
            else:
                starts.append(self.number(0, low))
                limits.append(size)
            strides.append(1 if self.chance(0.7) else self.number(2, 3))
        return x.slice(starts, limits, strides)

    def axes(self, x: GraphValue) -> list[int]:
        return [axis for axis in range(x.rank) if self.chance(0.5)]

    def reverse(self, x: GraphValue) -> GraphValue:
        return x.reverse(self.axes(x))

    def filler(self) -> GraphValue:
        return self.scalar if self.chance(0.3) else self.graph.full((), self.number(0, 1), self.pool[0].dtype)

    def pad(self, x: GraphValue) -> GraphValue:
        low = [self.number(-1, 2) if self.chance(0.5) else 0 for _ in x.dims]
        high = [self.number(-1, 2) if self.chance(0.5) else 0 for _ in x.dims]
        interior = [self.number(1, 2) if self.chance(0.15) else 0 for _ in x.dims]
        return x.pad(low, high, interior, self.filler())

    def concat(self, x: GraphValue) -> GraphValue:
        axis = self.number(0, x.rank - 1)
        parts = [x]
        for other in self.pool:
            same = other.rank == x.rank and all(
                a == b for n, (a, b) in enumerate(zip(other.dims, x.dims, strict=True)) if n != axis
            )
            if same and self.chance(0.5):
                parts.append(other)
        if self.chance(0.3):
            dims = list(x.dims)
            dims[axis] = self.number(0, 2)
            parts.insert(self.number(0, len(parts)), self.filler().broadcast_to(dims))
        return self.graph.concat(parts, axis)

    def unary(self, x: GraphValue) -> GraphValue:
        return x.not_() if x.dtype.is_bool else x.neg()

    def binary(self, x: GraphValue) -> GraphValue:
        others = [y for y in self.pool if y.dims == x.dims]
        y = others[self.number(0, len(others) - 1)]
        if self.chance(0.3):
            y = self.filler().broadcast_to(x.dims)
        if x.dtype.is_bool:
            return x.xor(y)
        return x.sub(y) if self.chance(0.5) else x.eq(y).select(x, y)

    def gather(self, x: GraphValue) -> GraphValue:
        axis = self.number(0, x.rank - 1)
        kind = self.number(0, 4)
        index = self.lines
        if kind == 0:
            index = self.graph.constant(np.arange(self.number(0, 2), 7, self.number(1, 3)).astype(np.int32))
        elif kind == 1:
            index = self.graph.constant(np.int32(self.number(-1, 5)).reshape(()))
        elif kind == 2:
            index = self.graph.iota((self.number(1, 4),), 0, "i32")
        elif kind == 3:
            index = self.lines.reshape(3, 1).broadcast_to(3, 2).transpose()
        return x.gather([index], axis)

    def starts(self, x: GraphValue) -> list[GraphValue]:
        return [
            self.index if self.chance(0.5) else self.graph.constant(np.int32(self.number(-1, 4)).reshape(()))
            for _ in x.dims
        ]

    def dynamic_slice(self, x: GraphValue) -> GraphValue:
        sizes = [size if self.chance(0.5) else self.number(0, max(0, bounds(size)[0])) for size in x.dims]
        return x.dynamic_slice(self.starts(x), sizes)

    def update(self, x: GraphValue) -> GraphValue:
        starts = self.starts(x)
        window = x.dynamic_slice(starts, [self.number(0, max(0, bounds(size)[0])) for size in x.dims])
        update = window if self.chance(0.3) else self.unary(window)
        return x.dynamic_update_slice(update, starts if self.chance(0.7) else self.starts(x))

    def uniform(self, x: GraphValue) -> GraphValue:
        if not self.chance(0.5) or x.dtype.is_bool:
            return self.filler().broadcast_to(x.dims)
        return self.graph.iota(x.dims, self.number(0, x.rank - 1), x.dtype)

    def scatter(self, x: GraphValue) -> GraphValue:
        axis = self.number(0, x.rank - 1)
        index = self.lines
        if self.chance(0.5):
            index = self.graph.constant(self.rng.integers(-1, 5, self.number(0, 3)).astype(np.int32))
        shape = (*index.dims, *[d for n, d in enumerate(x.dims) if n != axis])
        kind = (
            "replace"
            if x.dtype.is_bool or x.dtype.is_complex
            else ("replace", "add", "max")[self.number(0, 2)]
        )
        return x.scatter(self.filler().broadcast_to(shape), [index], axis, kind)

    def cast(self, x: GraphValue) -> GraphValue:
        # There and back, so that everything in the pool keeps one dtype.
        if x.dtype.is_complex or x.dtype.is_bool:
            return self.unary(x)
        return x.cast("f64" if self.chance(0.5) else "i16").cast(x.dtype)

    def sort(self, x: GraphValue) -> GraphValue:
        return x.sort(self.number(0, x.rank - 1))
