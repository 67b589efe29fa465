"""Which kernels of a model take the time: its functions are compiled as ever, and remember what they were called with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planish import compiler, ptir
from planish.compiler.profile import Profile

Array = NDArray[Any]
REPEAT = 20
"""Repetitions, if nothing else is said."""


class Recorded:
    """A compiled function, and the arrays of its last call."""

    def __init__(self, function: ptir.Function, device: str) -> None:
        self.function = function
        self.executable = compiler.compile(function, device=device)
        self.arrays: tuple[Any, ...] = ()
        self.calls = 0

    def __call__(self, *arrays: Any) -> Sequence[Array]:
        self.arrays = arrays
        self.calls += 1
        return [np.asarray(result) for result in self.executable(*arrays)]

    def profile(self, repeat: int) -> Profile:
        """Of a call like the last one."""
        prepared = compiler.prepare(self.function, compiler.PIPELINE)
        return self.executable.profile(*self.arrays, repeat=repeat, function=prepared)


class Recorder:
    """Makes the functions of a model."""

    def __init__(self, device: str = "cpu") -> None:
        self.device = device
        self.made: list[Recorded] = []

    def make(self, function: ptir.Function) -> Recorded:
        """A function that can be profiled."""
        self.made.append(Recorded(function, self.device))
        return self.made[-1]

    def report(self, repeat: int) -> str:
        """A table for each function that ran."""
        ran = [each for each in self.made if each.calls and each.executable.lowered.plan.steps]
        if not ran:
            return "nothing of the model is compiled: its outputs are constants, or made on the host\n"
        tables = []
        for number, each in enumerate(ran, 1):
            table = each.profile(repeat).table()
            title = f"function {number} of {len(ran)}, called {each.calls} times\n" if len(ran) > 1 else ""
            tables.append(title + table)
        return "\n".join(tables)
