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


class ModelRecorder:
    """Makes the functions of a model."""

    def __init__(self, device: str = "cpu") -> None:
        self.device = device
        self.recorded: list[Recorded] = []

    def make(self, function: ptir.Function) -> Recorded:
        """A function that can be profiled."""
        self.recorded.append(Recorded(function, self.device))
        return self.recorded[-1]

    def ran(self) -> list[Recorded]:
        """Those that were called, and do something."""
        return [each for each in self.recorded if each.calls and each.executable.lowered.plan.steps]

    def profiles(self, repeat: int) -> list[tuple[int, Profile]]:
        """Of each function that ran, with how often it was called."""
        return [(each.calls, each.profile(repeat)) for each in self.ran()]


def tables(profiles: Sequence[tuple[int, Profile]]) -> str:
    """A table for each function that ran."""
    if not profiles:
        return "nothing of the model is compiled: its outputs are constants, or made on the host\n"
    count = len(profiles)
    return "\n".join(
        (f"function {number} of {count}, called {calls} times\n" if count > 1 else "") + profile.table()
        for number, (calls, profile) in enumerate(profiles, 1)
    )
