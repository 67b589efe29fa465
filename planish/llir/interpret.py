"""LLIR, executed instruction by instruction on NumPy buffers: slow, obvious, the oracle for generated code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planish.errors import InternalError
from planish.llir.program import (
    Address,
    Buffer,
    Compute,
    Convert,
    EndLoop,
    Immediate,
    Load,
    Loop,
    Operand,
    Program,
    Register,
    Store,
)
from planish.uop import arithmetic
from planish.uop.ops import COMPARISONS, Ops

Array = NDArray[Any]


def _matching_ends(program: Program) -> dict[int, int]:
    """The position of each loop's end, and back."""
    pairs: dict[int, int] = {}
    stack: list[int] = []
    for position, instruction in enumerate(program.body):
        if isinstance(instruction, Loop):
            stack.append(position)
        elif isinstance(instruction, EndLoop):
            start = stack.pop()
            pairs[start], pairs[position] = position, start
    return pairs


def interpret(program: Program, arguments: Sequence[Array]) -> None:
    """Run a kernel on flat arrays, one per parameter, writing results into them."""
    memory: dict[Buffer, Array] = dict(zip(program.params, arguments, strict=True))
    memory |= {buffer: np.zeros(buffer.size, buffer.dtype.numpy) for buffer in program.locals}
    registers: dict[Register, Any] = {}
    places: dict[Register, tuple[Array, int]] = {}
    ends = _matching_ends(program)

    def value(operand: Operand) -> Any:
        if isinstance(operand, Immediate):
            return arithmetic.load(operand.value, operand.dtype)
        return registers[operand]

    position = 0
    with np.errstate(all="ignore"):
        while position < len(program.body):
            match program.body[position]:
                case Address(result, buffer, index):
                    place = int(value(index))
                    if not 0 <= place < buffer.size:
                        raise InternalError(
                            f"{program.name}: {buffer}[{place}] is outside its {buffer.size} elements"
                        )
                    places[result] = (memory[buffer], place)
                case Load(result, address):
                    array, place = places[address]
                    registers[result] = arithmetic.load(array[place], result.dtype)
                case Store(address, operand):
                    array, place = places[address]
                    array[place] = arithmetic.store(value(operand), operand.dtype)
                case Compute(result, op, operands):
                    # the meaning of a comparison is that of its operands' dtype
                    dtype = operands[0].dtype if op in COMPARISONS else result.dtype
                    if op is Ops.WHERE:
                        condition, x, y = map(value, operands)
                        registers[result] = np.where(condition, x, y)
                    else:
                        registers[result] = arithmetic.apply(op, dtype, *map(value, operands))
                case Convert(result, operand):
                    registers[result] = arithmetic.convert(value(operand), operand.dtype, result.dtype)
                case Loop(counter, bound):
                    registers[counter] = arithmetic.load(0, counter.dtype)
                    if int(value(bound)) <= 0:
                        position = ends[position]
                case EndLoop(counter):
                    start = program.body[ends[position]]
                    following = int(registers[counter]) + 1
                    if isinstance(start, Loop) and following < int(value(start.bound)):
                        registers[counter] = arithmetic.load(following, counter.dtype)
                        position = ends[position]
            position += 1
