"""What a launch of a kernel takes: its grid, about how long it lasts, and memory of its own."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Final

from planish.codegen.blocks import block_bytes, scratch_bytes
from planish.errors import InternalError
from planish.llir.makers import Makers
from planish.llir.program import (
    ACCESSES,
    CONTROL,
    AnyLane,
    Compute,
    If,
    Immediate,
    Instruction,
    Load,
    Loop,
    Operand,
    Ops,
    Program,
    Register,
)
from planish.runtime.entry import NativeKernel
from planish.schedule.plan import ReadyKernel

_STACK: Final = 320 << 10
"""LOCAL memory of a block up to this many bytes is on the stack of whoever runs it; more is in the arena."""


def scratch_of(program: Program) -> int:
    """The bytes that a kernel takes from the arena for itself."""
    return scratch_bytes(program) if block_bytes(program) > _STACK else 0


def native_kernel(name: str, program: Program, scratch: int) -> NativeKernel:
    """A kernel as the way through a plan calls it."""
    if any(special.is_thread or not isinstance(special.bound, Immediate) for special in program.specials):
        # of a GPU, whose driver is told the grid
        return NativeKernel(name, len(program.params), len(program.variables), (), False, 0)
    grid = grid_of(program)
    points = 1
    for size in grid:
        points *= size
    work = work_of(program, points)
    return NativeKernel(name, len(program.params), len(program.variables), grid, bool(scratch), work)


def ready_call(name: str, ready: ReadyKernel | None) -> NativeKernel:
    """The same of a kernel that ready-made code runs."""
    if ready is None:
        raise InternalError(f"{name} has neither code nor a program")
    return NativeKernel(name, len(ready.slots), len(ready.numbers), (ready.pieces,), False, ready.work)


_CONTROL: Final = frozenset(CONTROL)


def grid_of(program: Program) -> tuple[int, ...]:
    grid: dict[str, int] = {}
    for special in program.specials:
        if not isinstance(special.bound, Immediate) or not isinstance(special.bound.value, int):
            raise InternalError(
                f"{program.name}: the bound of {special.name} is not known when it is compiled"
            )
        grid[special.name] = special.bound.value
    return tuple(grid.values())


def runs(program: Program, points: int) -> Iterator[tuple[Instruction, int]]:
    """Every instruction but those of control, and how often it runs at the largest sizes; a call, as what is computed in it.

    Both sides of a condition count, but what is for smaller sizes alone; what is under an `if any` hardly ever runs.
    """
    called = {
        (each.op, each.dtype): [i for i, often in runs(each.body, 1) if often and not isinstance(i, ACCESSES)]
        for each in program.functions
    }
    for stretch, times in _stretches(program, points):
        for instruction in stretch:
            if (
                called
                and isinstance(instruction, Compute)
                and (instruction.op, instruction.result.dtype) in called
            ):
                for inner in called[instruction.op, instruction.result.dtype]:
                    yield inner, times
            else:
                yield instruction, times


def _stretches(program: Program, points: int) -> Iterator[tuple[Sequence[Instruction], int]]:
    """What stands between two instructions of control, and how often it runs."""
    body = program.body
    edges = [place for place, kind in enumerate(map(type, body)) if kind in _CONTROL]
    most = {variable.result: variable.high for variable in program.variables}
    has_branches = any(isinstance(body[place], If) for place in edges)
    rare = {i.result for i in body if isinstance(i, AnyLane)} | _never(program) if has_branches else set()
    times, start = [points], 0
    for place in edges:
        yield body[start:place], times[-1]
        instruction, start = body[place], place + 1
        if isinstance(instruction, Loop):
            bound = instruction.bound
            count = bound.value if isinstance(bound, Immediate) else most.get(bound, 1)
            times.append(times[-1] * (count if isinstance(count, int) else 1))
        elif isinstance(instruction, If):
            times.append(0 if instruction.condition in rare else times[-1])
        else:
            times.pop()
    yield body[start:], times[-1]


def _never(program: Program) -> set[Register]:
    """Conditions on sizes that do not hold at the largest of them."""
    known: dict[Operand, int] = {variable.result: variable.high for variable in program.variables}
    for i in program.body:
        if not isinstance(i, Compute) or not i.result.dtype.is_bool or i.result.dtype.lanes > 1:
            continue
        given = [each.value if isinstance(each, Immediate) else known.get(each) for each in i.inputs]
        if i.op is Ops.AND and 0 in given:
            known[i.result] = 0
        elif i.op in _ON_SIZES and all(isinstance(each, int) for each in given):
            known[i.result] = int(_ON_SIZES[i.op](*given))
    return {each for each, value in known.items() if value == 0 and isinstance(each, Register)}


_ON_SIZES: Final[Mapping[Ops, Callable[..., int]]] = {
    Ops.CMPLT: operator.lt,
    Ops.AND: operator.and_,
    Ops.XOR: operator.xor,
}


def work_of(program: Program, points: int) -> int:
    """About how many nanoseconds a kernel takes on one thread, at the largest sizes: two instructions in each."""
    if program.functions:
        work = sum(times for _, times in runs(program, points))
    else:
        work = sum(len(stretch) * times for stretch, times in _stretches(program, points))
    return min(work // 2, 1 << 62)


def touched_bytes(program: Program) -> int:
    """The bytes of its parameters that a kernel accesses at most: of no buffer more than it has, however often."""
    makers = Makers(program)
    points = prod(grid_of(program))
    spent: dict[str, int] = {}
    for instruction, times in runs(program, points):
        if isinstance(instruction, ACCESSES):
            buffer = makers.buffer(instruction.address)
            if buffer is not None:
                dtype = instruction.result.dtype if isinstance(instruction, Load) else instruction.value.dtype
                spent[buffer.name] = spent.get(buffer.name, 0) + times * dtype.itemsize * dtype.lanes
    return sum(min(buffer.nbytes, spent.get(buffer.name, buffer.nbytes)) for buffer in program.params)


def float_work(program: Program) -> dict[int, int] | None:
    """Operations on floats by their bits; None where instructions of another kind do them (tiles)."""
    if program.tiles:
        return None
    by_bits: dict[int, int] = {}
    for instruction, times in runs(program, prod(grid_of(program))):
        if isinstance(instruction, Compute) and instruction.result.dtype.is_float:
            dtype = instruction.result.dtype
            bits = dtype.scalar.itemsize * 8
            count = times * dtype.lanes * (2 if instruction.op is Ops.MULACC else 1)
            by_bits[bits] = by_bits.get(bits, 0) + count
    return by_bits
