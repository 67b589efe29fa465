"""Random functions of elementwise, reduce, broadcast, movement, scan and gather ops, for tests of the scheduler.

Integers, so that any order of a sum gives the same bits; some of the ops count as costly, so that rows are kept.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planish import ptir
from planish.ptir.graph_value import GraphValue

Array = NDArray[Any]
SIZES = (1, 2, 3, 4, 5)


def _dims(value: GraphValue) -> tuple[int, ...]:
    return tuple(dim for dim in value.type.dims if isinstance(dim, int))


class Generator:
    """One random function."""

    def __init__(self, seed: int, steps: int = 14) -> None:
        self.rng = random.Random(seed)
        self.graph = ptir.Graph("f")
        self.arrays: list[Array] = []
        self.pool: list[GraphValue] = []
        for _ in range(self.rng.randint(1, 3)):
            self._input()
        for _ in range(steps):
            self._step()
        fresh = self.pool[len(self.arrays) :]
        results = self.rng.sample(fresh, min(len(fresh), self.rng.randint(1, 3)))
        self.function = self.graph.build(*results, self.pool[-1])

    def _input(self) -> None:
        dims = tuple(self.rng.choice(SIZES) for _ in range(self.rng.randint(1, 3)))
        seed = self.rng.randrange(1 << 30)
        self.arrays.append(np.random.default_rng(seed).integers(-9, 9, dims).astype(np.int32))
        self.pool.append(self.graph.input(f"x{len(self.arrays)}", ptir.tensor("i32", dims)))

    def _pick(self) -> GraphValue:
        # recent values more often: programs are deep rather than wide
        return self.pool[-1] if self.rng.random() < 0.5 else self.rng.choice(self.pool)

    def _step(self) -> None:
        makers = [
            self._unary, self._binary, self._binary, self._binary, self._reduced, self._reduced, self._moved,
            self._moved, self._scan, self._taken, self._normal,
        ]  # fmt: skip
        made = self.rng.choice(makers)(self._pick())
        if made is not None and np.prod(_dims(made), initial=1) <= 400:
            self.pool.append(made)

    def _unary(self, x: GraphValue) -> GraphValue:
        return self.rng.choice(
            (lambda: x.neg(), lambda: x.abs(), lambda: x.floor_div(3), lambda: x.floor_mod(7))
        )()

    def _join(self, x: GraphValue, y: GraphValue) -> GraphValue:
        kinds = (x.add, x.sub, x.mul, x.max, x.min)
        return self.rng.choice(kinds)(y)

    def _binary(self, x: GraphValue) -> GraphValue | None:
        y = self._pick()
        mine, theirs = _dims(x), _dims(y)
        rank = max(len(mine), len(theirs))
        mine, theirs = (1,) * (rank - len(mine)) + mine, (1,) * (rank - len(theirs)) + theirs
        if any(a != b and 1 not in (a, b) for a, b in zip(mine, theirs, strict=True)):
            return None
        dims = tuple(map(max, mine, theirs))
        if any(n == 0 for n in dims):
            return None
        return self._join(x.reshape(mine).broadcast_to(dims), y.reshape(theirs).broadcast_to(dims))

    def _reduced(self, x: GraphValue) -> GraphValue | None:
        rank = len(_dims(x))
        if not rank:
            return None
        axes = sorted(self.rng.sample(range(rank), self.rng.randint(1, rank)))
        kind = self.rng.choice((x.reduce_sum, x.reduce_max, x.reduce_min))
        return kind(axes, keepdims=self.rng.random() < 0.7)

    def _normal(self, x: GraphValue) -> GraphValue | None:
        """A row against something reduced from it: the form that wants to be one kernel."""
        rank = len(_dims(x))
        if not rank:
            return None
        axis = self.rng.randrange(rank)
        centred = x.sub(x.reduce_max([axis], keepdims=True).broadcast_like(x)).floor_div(2)
        return self._join(centred, centred.reduce_sum([axis], keepdims=True).broadcast_like(x))

    def _moved(self, x: GraphValue) -> GraphValue | None:
        dims = _dims(x)
        if not dims:
            return None
        axis = self.rng.randrange(len(dims))
        match self.rng.randrange(7):
            case 0:
                return x.transpose(self.rng.sample(range(len(dims)), len(dims)))
            case 1:
                return x.reshape((int(np.prod(dims)),))
            case 2:
                return x.reverse([axis])
            case 3:
                low = [self.rng.randint(0, 2) for _ in dims]
                return x.pad(low, [self.rng.randint(0, 2) for _ in dims])
            case 4:
                return x.concat([self._unary(x)], axis)
            case 5:
                starts = [self.rng.randint(0, n - 1) for n in dims]
                return x.slice(starts, list(dims))
            case _:
                return x.slice([0] * len(dims), list(dims), [self.rng.randint(1, 2) for _ in dims])

    def _scan(self, x: GraphValue) -> GraphValue | None:
        rank = len(_dims(x))
        if not rank:
            return None
        kind = self.rng.choice((x.cumsum, x.cummax))
        return kind(
            self.rng.randrange(rank), reverse=self.rng.random() < 0.3, exclusive=self.rng.random() < 0.2
        )

    def _taken(self, x: GraphValue) -> GraphValue | None:
        rank = len(_dims(x))
        index = self._pick()
        if not rank or len(_dims(index)) > 1 or rank > 2:
            return None
        return x.take(index.floor_mod(5), self.rng.randrange(rank))
