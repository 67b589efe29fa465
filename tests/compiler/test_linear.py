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
from planish.schedule import kernels


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


def sines(ops: int) -> Callable[[Any], Any]:
    """Functions that are long: they are called."""

    def run(x: Any) -> Any:
        for n in range(ops // 3):
            x = pn.sin(x) * (1.0 + n) + 1.0
        return x

    return run


def rows_and_columns(ops: int) -> Callable[[Any], Any]:
    """Rows are centred and columns scaled in turn: what one asks for lies across what the other does."""

    def run(x: Any) -> Any:
        for _ in range(ops // 7):
            x = x - pn.mean(x, axis=-1, keepdims=True)
            x = x / (1 + pn.max(pn.abs(x), axis=0, keepdims=True))
        return x

    return run


def layers(ops: int) -> Callable[[Any], Any]:
    """Products of matrices: a kernel each, most of them equal."""

    def run(x: Any) -> Any:
        w = x
        for _ in range(ops // 3):
            x = pn.tanh(x @ w + 0.1)
        return x

    return run


def calls(make: Callable[[int], Callable[[Any], Any]], ops: int, shape: tuple[int, ...] = (8,)) -> int:
    """Calls of Python functions, from PTIR to LLIR."""
    function = ptir.Program([pn.jit(make(ops)).lower(np.ones(shape, np.float32))._lowered.function.clone()])
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


@pytest.mark.parametrize("make", [chain, loops, long_loop, sines, rows_and_columns, layers])
def test_twice_the_ops_take_twice_the_calls(make):
    shape = (64, 64) if make in {rows_and_columns, layers} else (8,)
    calls(make, 40, shape)  # what is made once
    few, many = calls(make, 160, shape), calls(make, 320, shape)
    assert many < 2.3 * few


def test_rows_and_columns_in_turn_are_two_kernels():
    """Whatever their number, nothing is computed again from the first: the kernels are equal, and compiled once."""
    lowered = pn.jit(rows_and_columns(140)).lower(np.ones((64, 64), np.float32))
    assert len(lowered.programs) <= 3
    assert lowered.as_text("plan").count("launch") <= 41


def test_the_walk_down_to_memory_ends_where_nothing_waits(monkeypatch: pytest.MonkeyPatch):
    """A kernel after another, from the last to the first: none looks at all that is still to be cut."""
    looked = 0
    walk = kernels._Cut._memory_below

    def counted(self: Any, nodes: Any, oldest: int = 0) -> Any:
        nonlocal looked
        looked += 1
        return walk(self, nodes, oldest)

    monkeypatch.setattr(kernels._Cut, "_memory_below", counted)
    pn.jit(layers(90)).lower(np.ones((64, 64), np.float32))
    assert looked <= 5
