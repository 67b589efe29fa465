"""Which loops are worth unrolling, read off the instructions alone.

A loop of a few iterations whose body is short costs more in counting and jumping than in its work, and as straight code its
addresses become constants. All others are left to the back end, which knows its machine: it sees the hint 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from planish.llir import program as ir
from planish.llir.nests import is_register

_ITERATIONS: Final = 8
_INSTRUCTIONS: Final = 240
"""What a loop may become at most; what is nothing but a name (an accumulator, an address, a lane of a vector) is not counted."""
_FEW: Final = 4
"""Registers of which a vector is selected as one; of more it is built lane by lane."""
_PIPELINED: Final = (32, 1600)
"""Iterations and instructions of a loop that only adds to sums what asynchronous copies have brought: as straight code it reads for the
next terms while it adds up these (a tile of 8 by 8 sums and 16 terms is 1200)."""
_SUMS: Final = 320
"""The same for a loop that only adds to sums: a tile that fills the registers, for as many taps of a window (eight pixels, two vectors and
their indices are 38). Its iterations share what they read, and what is counted for their indices goes away."""


_PASSED: Final = 8
"""Copies of a loop whose iterations the threads of a GPU mostly pass by: what decides that is read for all of them at once."""


_BOUNDARIES: Final = frozenset({ir.Loop, ir.EndLoop, ir.Barrier})


def with_unroll_hints(body: Sequence[ir.Instruction]) -> list[ir.Instruction]:
    """The same instructions, innermost short loops with a hint to unroll them wholly; hints that are there stay.

    So have loops, of any length, whose counters number registers: those have no numbers when the code runs.
    """
    result = [_numbering(i, numbered) for i in body] if (numbered := _counters(body)) else list(body)
    kinds = {*map(type, result)}
    is_pipelined = ir.CopyAsync in kinds
    has_threads = ir.Special in kinds and any(isinstance(i, ir.Special) and i.is_thread for i in result)
    start: int | None = None
    for place, instruction in enumerate(result):
        if type(instruction) not in _BOUNDARIES:
            continue
        if isinstance(instruction, ir.Loop):
            start = place
        elif isinstance(instruction, ir.Barrier):
            start = None
        elif isinstance(instruction, ir.EndLoop) and start is not None:
            loop = result[start]
            if isinstance(loop, ir.Loop) and loop.unroll == 0:
                inside = result[start + 1 : place]
                sums = _only_sums(inside)
                most = (_ITERATIONS, _SUMS if sums else _INSTRUCTIONS)
                if sums and is_pipelined:
                    most = _PIPELINED
                elif any(isinstance(i, ir.Address) and i.peer for i in inside):
                    most = (_ITERATIONS, _PIPELINED[1])  # what is far away is read for all iterations at once
                passed = has_threads and any(isinstance(i, ir.If) for i in inside) and not sums
                copies = _copies(loop, sum(map(_work, inside)), most)
                result[start] = replace(loop, unroll=copies or _PASSED * passed)
            start = None  # what is around it is not innermost
    return result


def _counters(body: Sequence[ir.Instruction]) -> set[ir.Register]:
    """The registers that places in registers are computed from."""
    wanted = {
        i.index
        for i in body
        if isinstance(i, ir.Address) and is_register(i.result) and isinstance(i.index, ir.Register)
    }
    for instruction in reversed(body) if wanted else ():
        if instruction.target in wanted:
            wanted.update(instruction.registers)
    return wanted


def _numbering(instruction: ir.Instruction, numbered: set[ir.Register]) -> ir.Instruction:
    if not isinstance(instruction, ir.Loop) or instruction.unroll or instruction.counter not in numbered:
        return instruction
    bound = instruction.bound
    count = bound.value if isinstance(bound, ir.Immediate) and isinstance(bound.value, int) else 0
    return replace(instruction, unroll=count)


def _work(instruction: ir.Instruction) -> int:
    """How many machine instructions come of it: addresses are parts of others, accumulators are registers, a broadcast is a load."""
    if isinstance(instruction, ir.Build):
        return 0 if len(set(instruction.inputs)) == 1 else len(instruction.inputs)
    if isinstance(instruction, ir.Address):
        return 0
    if isinstance(instruction, ir.SelectLanes):
        count = len(instruction.lanes)
        return count if count >= _FEW < instruction.operand.dtype.lanes // count else 0
    return int(not (isinstance(instruction, ir.ACCESSES) and is_register(instruction.address)))


def _only_sums(body: Sequence[ir.Instruction]) -> bool:
    """Whether all that is stored is kept in registers, and all that is read is there."""
    accesses = [i for i in body if isinstance(i, ir.ACCESSES)]
    return all(i.gate is None and (isinstance(i, ir.Load) or is_register(i.address)) for i in accesses)


def _copies(loop: ir.Loop, instructions: int, most: tuple[int, int]) -> int:
    bound = loop.bound
    if not isinstance(bound, ir.Immediate) or not isinstance(bound.value, int):
        return 0
    count = bound.value
    return count if 1 < count <= most[0] and count * instructions <= most[1] else 0
