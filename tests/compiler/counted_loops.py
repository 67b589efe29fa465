"""Random counted loops: carried values of several shapes, bodies that keep elements apart or mix them, slices in and out.

Turns are known or read from memory, loops run forwards and backwards, and stand in each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planish import ptir
from planish.ptir.graph_value import GraphValue

Array = NDArray[Any]


class Maker:
    """One random function with a loop."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.graph = ptir.Graph("loop")
        self.arrays: list[Array] = []
        self.integral = bool(self.rng.random() < 0.25)
        length = int(self.rng.choice([1, 2, 3, 5, 8, 16, 17, 24, 40]))
        self.shapes: list[tuple[int, ...]] = [(length,), (length,), (length,), (), (3, length)]

    def pick(self, values: Sequence[Any]) -> Any:
        return values[int(self.rng.integers(len(values)))]

    def input(self, shape: tuple[int, ...]) -> GraphValue:
        number = len(self.arrays)
        if self.integral:
            self.arrays.append(self.rng.integers(-9, 9, shape).astype(np.int32))
        else:
            self.arrays.append(self.rng.uniform(-1, 1, shape).astype(np.float32))
        return self.graph.input(f"x{number}", ptir.tensor("i32" if self.integral else "f32", shape))

    def number(self, like: GraphValue) -> GraphValue:
        value = int(self.rng.integers(-3, 4)) if self.integral else float(self.rng.uniform(-0.6, 0.6))
        return self.graph.constant(value, like.type.dtype).broadcast_to(like.dims)

    def fitted(self, x: GraphValue, like: GraphValue) -> GraphValue:
        """A value in the shape of another."""
        if x.dims == like.dims:
            return x
        while x.rank > like.rank or (x.rank == like.rank and x.rank):
            x = x.reduce_max([0])
        return x.broadcast_to(like.dims)

    def value(self, known: Sequence[GraphValue], counter: GraphValue | None, like: GraphValue) -> GraphValue:
        """Something of the shape of `like`, made of what is known."""
        found = self.fitted(self.pick(known), like)
        for _ in range(int(self.rng.integers(0, 4))):
            found = self.mixed(found, known, counter, like)
        if not self.integral and self.rng.random() < 0.7:
            found = (
                found.mul(self.number(like)).tanh()
                if self.rng.random() < 0.3
                else found.mul(self.number(like))
            )
        return found

    def mixed(
        self, x: GraphValue, known: Sequence[GraphValue], counter: GraphValue | None, like: GraphValue
    ) -> GraphValue:
        way = self.rng.integers(0, 9)
        if way <= 3:
            other = self.fitted(self.pick(known), like)
            op: Callable[[GraphValue], GraphValue] = self.pick([x.add, x.sub, x.max, x.min])
            return op(other)
        if way == 4 and counter is not None:
            turn = counter.cast(x.type.dtype)
            return x.add(self.fitted(turn, like))
        if way == 5 and x.dims:
            return x.reverse([x.rank - 1])
        if way == 6 and x.dims:
            return x.cumsum(x.rank - 1) if self.integral else x.cumsum(x.rank - 1).tanh()
        if way == 7 and x.dims and counter is not None:
            row = x if x.rank == 1 else x.reduce_max([0])
            return self.fitted(row.gather([counter], [0]), like)  # perhaps outside
        if way == 8:
            return x.lt(self.fitted(self.pick(known), like)).select(x, self.number(like))
        return x.add(self.number(like))

    def body(
        self,
        carried: Sequence[GraphValue],
        slices: Sequence[GraphValue],
        counter: GraphValue | None,
        outputs: int,
        depth: int,
    ) -> list[GraphValue]:
        known = [*carried, *slices, *self.outside]
        following = []
        for each in carried:
            chance = self.rng.random()
            same = [c for c in carried if c.dims == each.dims]
            following.append(
                each
                if chance < 0.08
                else self.pick(same)
                if chance < 0.25
                else self.value(known, counter, each)
            )
        if depth and self.rng.random() < 0.25:
            following = list(self.loop(following, (), depth - 1)[: len(following)])
        made = [*following, *carried, *slices]
        stacked = [
            self.pick(made) if self.rng.random() < 0.5 else self.value(known, counter, self.pick(carried))
            for _ in range(outputs)
        ]
        return [*following, *stacked]

    def loop(
        self, carried: Sequence[GraphValue], sequences: Sequence[GraphValue], depth: int, length: int = 0
    ) -> tuple[GraphValue, ...]:
        turns = length or int(self.rng.choice([0, 1, 2, 3, 4, 7]))
        if not sequences and self.rng.random() < 0.5:
            return self.counted(carried, turns, depth)
        start = self.graph.constant(int(self.rng.integers(-2, 3)), "i64")
        step = self.graph.constant(int(self.rng.integers(-2, 3)), "i64")
        outputs = int(self.rng.integers(0, 3))

        def turn(i: GraphValue, *values: GraphValue) -> tuple[GraphValue, ...]:
            made = self.body(values[: len(carried)], values[len(carried) :], i, outputs, depth)
            return (i.add(step), *made)

        found = self.graph.scan(
            turn, [start, *carried], sequences, turns, reverse=bool(self.rng.random() < 0.4)
        )
        return found[1:]

    def counted(self, carried: Sequence[GraphValue], turns: int, depth: int) -> tuple[GraphValue, ...]:
        """A while that counts, up or down, to an end that is known or not."""
        up = self.rng.random() < 0.6
        by = int(self.rng.integers(1, 4)) if self.rng.random() < 0.3 else 1
        first = int(self.rng.integers(-3, 4))
        last = (
            first
            + (turns * by if up else -turns * by)
            - (int(self.rng.integers(0, by)) * (1 if up else -1) if turns else 0)
        )
        start = self.graph.constant(first, "i64")
        end = self.graph.constant(last, "i64")
        if depth and self.rng.random() < 0.5:
            number = len(self.arrays)
            self.arrays.append(np.array(last, np.int64))
            end = self.graph.input(f"x{number}", ptir.tensor("i64", ()))
        step = self.graph.constant(by if up else -by, "i64")

        def goes_on(i: GraphValue, *values: GraphValue) -> GraphValue:
            return i.lt(end) if up else i.gt(end)

        def turn(i: GraphValue, *values: GraphValue) -> tuple[GraphValue, ...]:
            return (i.add(step), *self.body(values, (), i, 0, depth))

        found = self.graph.while_loop(goes_on, turn, start, *carried)
        return (*found[1:], found[0]) if not depth else found[1:]

    def function(self) -> ptir.Function:
        shapes = [self.shapes[0], *(self.pick(self.shapes) for _ in range(int(self.rng.integers(0, 3))))]
        if self.rng.random() < 0.3:
            shapes = [self.shapes[0]] * len(shapes)  # element by element, perhaps
        carried = [self.input(shape) for shape in shapes]
        self.outside = [self.input(self.pick(self.shapes)) for _ in range(int(self.rng.integers(0, 2)))]
        length = int(self.rng.choice([1, 2, 3, 5]))
        many = int(self.rng.integers(0, 3))
        sequences = [self.input((length, *self.pick(self.shapes))) for _ in range(many)]
        found = self.loop(carried, sequences, 1, length if many else 0)
        return self.graph.build(*found)


def random_loop(seed: int) -> tuple[ptir.Function, list[Array]]:
    """A function and what it is called with."""
    maker = Maker(seed)
    return maker.function(), maker.arrays
