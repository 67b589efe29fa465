"""A whole code as one native function: the same as walking it in Python, for loops, branches, slices, grids and host calls."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from planish.errors import ShapeError
from planish.runtime import cpu, elf, entry, plan, pool
from planish.runtime import native as support
from planish.runtime.entry import HEAD, FrameLayout, NativeKernel

Array = NDArray[Any]

_KERNELS = """
; b[g] = a[g] + n
define void @add(ptr %a, ptr %b, i64 %n, i64 %g) {
  %p = getelementptr i64, ptr %a, i64 %g
  %q = getelementptr i64, ptr %b, i64 %g
  %x = load i64, ptr %p
  %y = add i64 %x, %n
  store i64 %y, ptr %q
  ret void
}
; flag = a[0] < b[0]
define void @less(ptr %a, ptr %b, ptr %flag) {
  %x = load i64, ptr %a
  %y = load i64, ptr %b
  %c = icmp slt i64 %x, %y
  %z = zext i1 %c to i8
  store i8 %z, ptr %flag
  ret void
}
"""
SIZE = 4
ADD, LESS = NativeKernel("add", 2, 1, (SIZE,)), NativeKernel("less", 3, 0)
KERNELS = (ADD, LESS)


def _add(arrays: Sequence[Array], values: Sequence[int], scratch: Array | None) -> None:
    arrays[1][:SIZE] = arrays[0][:SIZE] + values[0]


def _less(arrays: Sequence[Array], values: Sequence[int], scratch: Array | None) -> None:
    arrays[2][0] = arrays[0][0] < arrays[1][0]


@cache
def _support() -> elf.Loaded:
    return elf.Loaded(cpu.emit_object(support.source()))


@cache
def _pool() -> pool.WorkerPool:
    made = pool.WorkerPool(_support())
    made.prepare()
    return made


def native(code: plan.Code, memory: Sequence[Array], ready: Callable[[], None] = lambda: None) -> None:
    """Run it as machine code; host instructions as Python does them. `ready` is called when all is compiled."""
    kernels = elf.Loaded(cpu.emit_object(_KERNELS))
    symbols = {name: kernels.address(name) for name in kernels.names}
    symbols |= {name: _support().address(name) for name in support.LINKED}
    loaded = elf.Loaded(cpu.emit_object(entry.render(code, KERNELS, [a.itemsize for a in memory])), symbols)
    layout = FrameLayout(len(code.slots), len(memory), len(code.sites))
    frame = np.zeros(layout.size, np.int64)
    _pool()
    frame[HEAD : HEAD + len(code.slots)] = code.slots
    for number, array in enumerate(memory):
        frame[layout.buffer(number)] = array.ctypes.data
    call = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(
        _support().address("slow_call")
    )
    ready()
    while status := call(loaded.address("run"), frame.ctypes.data):
        if status >= entry.BAD_SIZE:
            raise ShapeError(f"instruction {status - entry.BAD_SIZE}")
        assert status >= entry.HOST
        state = plan.PlanState(list(memory), frame[HEAD : HEAD + len(code.slots)].tolist(), (), ())
        code.instructions[status - entry.HOST].step(state)
        frame[HEAD : HEAD + len(code.slots)] = state.slots


def walked(code: plan.Code, memory: Sequence[Array]) -> None:
    state = plan.PlanState(list(memory), list(code.slots), (_add, _less), [None] * len(code.sites))
    plan.run(code, state)


def call(kernel: int, buffers: tuple[int, ...], variables: tuple[int, ...], site: int) -> plan.Call:
    return plan.Call(kernel, buffers, variables, site)


def agrees(code: plan.Code, memory: Sequence[Array]) -> list[Array]:
    expected, found = ([a.copy() for a in memory] for _ in range(2))
    walked(code, expected)
    native(code, found)
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_array_equal(a, b)
    return found


def buffers(count: int, size: int = SIZE) -> list[Array]:
    return [np.arange(size, dtype=np.int64) * (n + 1) for n in range(count)]


def test_calls_copies_and_swaps() -> None:
    code = plan.Code(
        (
            call(0, (0, 1), (0,), 0),
            plan.SwapBuffers(0, 1),
            call(0, (0, 2), (1,), 1),
            plan.CopyBuffer(2, 3, 2),
        ),
        (10, -3, 2),
        (0, 0),
    )
    found = agrees(code, buffers(4))
    assert found[3].tolist() == [7, 8, 8, 12]


@pytest.mark.parametrize("op", ["+", "-", "*", "//"])
@pytest.mark.parametrize(("x", "y"), [(7, 2), (-7, 2), (7, -2), (-8, -2), (6, 3)])
def test_sizes_are_computed_as_python_does(op: str, x: int, y: int) -> None:
    code = plan.Code((plan.Calculate(2, op, 0, 1), call(0, (0, 1), (2,), 0)), (x, y, 0), (0,))
    agrees(code, buffers(2))


def test_a_counted_loop_over_slices() -> None:
    # for i below 3: slice = xs[i]; total = slice + i (into ys[i])
    code = plan.Code(
        (
            plan.Below(0, 1, 6),
            plan.Slice(2, 0, 0, 3),
            plan.Slice(3, 1, 0, 3),
            call(0, (2, 3), (0,), 0),
            plan.Calculate(0, "+", 0, 2),
            plan.Jump(0),
        ),
        (0, 3, 1, SIZE),
        (0,),
    )
    xs = np.arange(12, dtype=np.int64)
    found = agrees(code, [xs, np.zeros(12, np.int64), xs, xs])
    np.testing.assert_array_equal(found[1], xs + np.repeat([0, 1, 2], SIZE))


@pytest.mark.parametrize("end", [0, 1, 50])
def test_a_while_loop(end: int) -> None:
    # while a[0] < b[0]: c = a + 7; swap a, c
    code = plan.Code(
        (
            call(1, (0, 1, 3), (), 0),
            plan.Unless(3, 5),
            call(0, (0, 2), (0,), 1),
            plan.SwapBuffers(0, 2),
            plan.Jump(0),
            plan.CopyBuffer(0, 4, 1),
        ),
        (7, SIZE),
        (1, 0),
    )
    memory = [*buffers(3), np.zeros(1, np.bool_), np.zeros(SIZE, np.int64)]
    memory[1][0] = end
    found = agrees(code, memory)
    assert found[4][0] == -(-end // 7) * 7


def test_a_size_from_data_is_checked() -> None:
    code = plan.Code((plan.Read(0, 0, 1, 5), call(0, (0, 1), (0,), 0)), (0,), (0,))
    memory = buffers(2)
    memory[0][0] = 5
    agrees(code, memory)
    memory[0][0] = 6
    with pytest.raises(ShapeError):
        native(code, memory)


def test_a_host_instruction_returns_to_python() -> None:
    def host(arrays: Sequence[Array], sizes: Sequence[int]) -> tuple[Sequence[Array], Sequence[int]]:
        return [arrays[0][::-1] * sizes[0]], [sizes[0] + 1]

    step = plan.CallHost(host, (1,), ((1,),), (1,), (0,), (0,))
    code = plan.Code((call(0, (0, 1), (0,), 0), step, call(0, (1, 2), (0,), 1)), (3, SIZE), (0, 0))
    found = agrees(code, buffers(3))
    assert found[2].tolist() == [(n + 3) * 3 + 4 for n in (3, 2, 1, 0)]


def test_a_long_plan_looks_for_signals_between_kernels() -> None:
    steps = tuple(call(0, (0, 1), (0,), site) for site in range(10))
    code = plan.Code(steps, (1,), (0,) * 10)
    slow = [replace(kernel, work=500_000) for kernel in KERNELS]
    asked = {
        w: entry.render(code, k, [8, 8]).count("call i32 @interrupted") for w, k in ((0, KERNELS), (5, slow))
    }
    assert asked == {0: 0, 5: 4}  # after every second one, not after the last
    agrees(code, buffers(2))


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """An interrupt is an exception, even where the tests run in the background and would ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_ends_an_endless_loop() -> None:
    code = plan.Code((call(0, (0, 1), (0,), 0), plan.Jump(0)), (1,), (0,))
    timer = threading.Timer(0.15, os.kill, (os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        native(
            code, buffers(2), timer.start
        )  # while something is compiled, an interrupt may get lost in a finaliser
    timer.join()
    agrees(plan.Code((call(0, (0, 1), (0,), 0),), (1,), (0,)), buffers(2))  # and life goes on
