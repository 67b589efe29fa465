"""What compiling takes grows with the number of ops and no faster, counted in calls of Python functions."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import compiler, ptir


def chain(ops: int) -> Callable[[Any], Any]:
    """Each of the last: one kernel."""

    def run(x: Any) -> Any:
        for n in range(ops // 2):
            x = x * (1.0 + n) + 1.0
        return x

    return run


def loops(ops: int) -> Callable[[Any], Any]:
    """A loop of a few ops after another: a kernel each."""

    def scaled(by: float) -> Callable[[Any, Any], Any]:
        return lambda i, c: c * by

    def run(x: Any) -> Any:
        for n in range(ops // 4):
            x = pn.fori_loop(0, 3, scaled(0.5 + n), x)
        return x

    return run


def long_loop(ops: int) -> Callable[[Any], Any]:
    """One loop of many ops."""

    def step(i: Any, c: Any) -> Any:
        for n in range(ops // 2):
            c = c * (1.0 + n) + 1.0
        return c

    return lambda x: pn.fori_loop(0, 3, step, x)


def calls(make: Callable[[int], Callable[[Any], Any]], ops: int) -> int:
    """Calls of Python functions, from PTIR to LLIR."""
    function = ptir.Program([pn.jit(make(ops)).lower(np.ones(8, np.float32))._lowered.function.clone()])
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        with pn.settings(threads=1):
            compiler.lower(function)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("make", [chain, loops, long_loop])
def test_twice_the_ops_take_twice_the_calls(make):
    calls(make, 40)  # what is made once
    few, many = calls(make, 160), calls(make, 320)
    assert many < 2.3 * few
