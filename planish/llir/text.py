"""LLIR as text: one instruction a line, loops indented."""

from __future__ import annotations

from planish.llir.program import (
    Address,
    Buffer,
    Compute,
    Convert,
    EndLoop,
    Instruction,
    Load,
    Loop,
    Program,
    Store,
)

VERSION = 1


def _line(i: Instruction) -> str:
    match i:
        case Address(result, buffer, index):
            return f"{result} = address {buffer}[{index}] : *{result.dtype}"
        case Load(result, address):
            return f"{result} = load {address} : {result.dtype}"
        case Store(address, value):
            return f"store {address}, {value} : {value.dtype}"
        case Compute(result, op, operands):
            return f"{result} = {op.name.lower()} {', '.join(map(str, operands))} : {result.dtype}"
        case Convert(result, operand):
            return f"{result} = cast {operand} : {operand.dtype} -> {result.dtype}"
        case Loop(counter, bound):
            return f"loop {counter} < {bound} : {counter.dtype}"
        case EndLoop():
            return "end"


def _buffer(b: Buffer) -> str:
    return f"{b}: {b.space.name.lower()} {b.dtype}[{b.size}] bytes={b.nbytes} align={b.alignment}"


def print_program(program: Program) -> str:
    """The program, readable."""
    lines = [f"llir {VERSION}", f"kernel {program.name}"]
    lines += [f"  {_buffer(buffer)}" for buffer in (*program.params, *program.locals)]
    depth = 1
    for instruction in program.body:
        if isinstance(instruction, EndLoop):
            depth -= 1
        lines.append("  " * depth + _line(instruction))
        if isinstance(instruction, Loop):
            depth += 1
    return "\n".join(lines) + "\n"
