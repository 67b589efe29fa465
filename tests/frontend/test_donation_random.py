"""Random programs that donate: whatever shares memory with whatever, no tensor ever shows elements that are not its own."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

import planish as pn
from planish.errors import GraphError
from planish.frontend.storage import Array

STEP = pn.jit(lambda x: x + 1, donate_argnums=0)
BOTH = pn.jit(lambda x, y: (x + y, y * 2), donate_argnums=(0, 1))
TREE = pn.jit(lambda t: {"a": t["a"] - 1, "b": t["b"]}, donate_argnums=0)


@dataclass
class Program:
    """Tensors with what they have to show, arrays that got out, and donated tensors, which must show nothing."""

    random: random.Random
    known: list[tuple[pn.Tensor, Array]] = field(default_factory=list)
    outside: list[tuple[Array, Array]] = field(default_factory=list)
    gone: list[pn.Tensor] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def new(self) -> None:
        array = np.arange(6, dtype=np.float32) + self.random.randrange(100)
        way = self.random.randrange(4)
        if way == 0:
            self.known.append((pn.asarray(array), array.copy()))
        elif way == 1:
            self.known.append((pn.asarray(array, copy=False), array.copy()))
            self.outside.append((array, array.copy()))
        elif way == 2:
            self.known.append((pn.full(6, 3.0), np.full(6, 3, np.float32)))
        else:
            self.known.append((pn.from_dlpack(array), array.copy()))
            self.outside.append((array, array.copy()))

    def pick(self) -> tuple[pn.Tensor, Array]:
        return self.random.choice(self.known)

    def view(self) -> None:
        x, shown = self.pick()
        turn: Callable[[pn.Tensor], pn.Tensor] = self.random.choice(
            [lambda v: v.reshape(2, 3).reshape(6), lambda v: v[::-1][::-1], lambda v: v[0:6], lambda v: v[:]]
        )
        self.known.append((turn(x), shown.copy()))

    def rename(self) -> None:
        x, shown = self.pick()
        self.known.append((x.snapshot(), shown.copy()))

    def compute(self) -> None:
        (x, a), (y, b) = self.pick(), self.pick()
        z = x * 0.5 + y
        if self.random.random() < 0.5:
            z.realize()
        self.known.append((z, a * np.float32(0.5) + b))

    def assign(self) -> None:
        place = self.random.randrange(len(self.known))
        x, shown = self.known[place]
        if self.random.random() < 0.5:
            x[2:4] = 7.0
            shown = shown.copy()
            shown[2:4] = 7
        else:
            y, other = self.pick()
            x[:] = y
            shown = other.copy()
        self.known[place] = (x, shown)

    def look(self) -> None:
        x, shown = self.pick()
        self.outside.append((np.asarray(x), shown.copy()))

    def donate(self) -> None:
        x, shown = self.known.pop(self.random.randrange(len(self.known)))
        way = self.random.randrange(3)
        if way == 0 or not self.known:
            self.known.append((STEP(x), shown + 1))
            self.gone.append(x)
        elif way == 1:
            y, other = self.known.pop(self.random.randrange(len(self.known)))
            first, second = BOTH(x, y)
            self.known += [(first, shown + other), (second, other * 2)]
            self.gone += [x, y]
        else:
            y, other = self.pick()
            results = TREE({"a": x, "b": y})
            self.known = [pair for pair in self.known if pair[0] is not y]
            self.known += [(results["a"], shown - 1), (results["b"], other.copy())]
            self.gone += [x, y]

    def check(self) -> None:
        for x, shown in self.known:
            np.testing.assert_allclose(x.numpy(), shown, rtol=1e-5, err_msg=" ".join(self.said))
        for array, shown in self.outside:
            np.testing.assert_allclose(array, shown, rtol=1e-5, err_msg=" ".join(self.said))
        for x in self.gone[-3:]:
            with pytest.raises(GraphError, match="was donated"):
                x.numpy()

    def run(self, steps: int) -> None:
        self.new()
        for _ in range(steps):
            if not self.known:
                self.new()
            what = self.random.choice(
                ["new", "view", "rename", "compute", "assign", "look", "donate", "donate"]
            )
            self.said.append(what)
            getattr(self, what)()
            if self.random.random() < 0.3:
                self.check()
        self.check()


@pytest.mark.parametrize("seed", range(12))
def test_no_tensor_shows_what_is_not_its_own(seed):
    Program(random.Random(seed)).run(25)


@pytest.mark.fuzz
def test_no_tensor_shows_what_is_not_its_own_at_length():
    for seed in range(100, 400):
        Program(random.Random(seed)).run(60)
