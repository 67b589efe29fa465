"""LLIR as text: a header, one instruction a line, loops indented; `parse(print_program(p)) == p`.

    llir 1
    kernel add
      @x: global f32[16] bytes=64 align=4
      @y: global f32[16] bytes=64 align=4
      loop %0 < 16 unroll=4 : i32
        %1 = address @x[%0] : *f32[16]
        %2 = load %1 : f32
        %3 = add %2, 1.0 : f32
        %4 = address @y[%0] : *f32[16]
        store %4, %3 : f32
      end

A constant whose dtype does not follow from its place carries it, as in `1.0:f32` or `[0, 1]:i32x2`. `#` starts a comment.
"""

from __future__ import annotations

from typing import Final

from planish import dtypes
from planish.llir import program as ir
from planish.llir.parser import VERSION, LlirParser
from planish.llir.syntax import line, operand_text
from planish.llir.tiles import TileOp

__all__ = ["VERSION", "instruction_line", "parse", "parse_programs", "print_program", "program_lines"]


_MNEMONICS: Final = {op: op.name.lower() for op in ir.Ops}


def _compute(i: ir.Compute) -> str:
    result, inputs, op = i.result, i.inputs, i.op
    dtype = result.dtype
    compares = op in ir.COMPARISONS and len(inputs) > 0
    kind = inputs[0].dtype if compares else dtype
    words = [f"%{x.bank}{x.number}" if type(x) is ir.Register else operand_text(x, kind) for x in inputs]
    if op is ir.Ops.WHERE and words:
        words[0] = operand_text(inputs[0], dtypes.bool_.vec(dtype.lanes))
    said = f"{kind.short} -> {dtype.short}" if compares else dtype.short
    return f"%{result.bank}{result.number} = {_MNEMONICS[op]} {', '.join(words)} : {said}"


def instruction_line(instruction: ir.Instruction) -> str:
    """One instruction."""
    return _compute(instruction) if isinstance(instruction, ir.Compute) else line(instruction)


def _buffer(b: ir.Buffer) -> str:
    offset = "" if b.offset is None else f" offset={b.offset}"
    return f"{b}: {b.space.value} {b.dtype}[{b.size}] bytes={b.nbytes} align={b.alignment}{offset}"


def _described(t: TileOp) -> str:
    layouts = "".join(f" {matrix}=({' '.join(bits)})" for matrix, (_, _, bits) in t.fragments.items() if bits)
    return f"tile {t.name}: {t.m}x{t.n}x{t.k} threads={t.threads}{layouts}"


def program_lines(program: ir.Program) -> tuple[list[str], list[str]]:
    """The lines of the header, and one per instruction."""
    head = [f"llir {VERSION}", f"kernel {program.name}"]
    head += [f"  {_buffer(buffer)}" for buffer in program.buffers]
    head += [f"  {_described(tile)}" for tile in program.tiles]
    head += [
        f"  {v.result} = variable {v.name} in {v.low}..{v.high} : {v.result.dtype}" for v in program.variables
    ]
    body: list[str] = []
    opened: list[ir.Instruction] = []
    for instruction in program.body:
        text = instruction_line(instruction)
        if isinstance(instruction, ir.EndLoop | ir.EndIf):
            start = opened.pop() if opened else None
            if isinstance(instruction, ir.EndLoop) and isinstance(start, ir.Loop):
                same = (start.counter, start.bound) == (instruction.counter, instruction.bound)
                text = "end" if same else text
        body.append("  " * (len(opened) + 1) + text)
        if isinstance(instruction, ir.Loop | ir.If):
            opened.append(instruction)
    return head, body


def print_program(program: ir.Program) -> str:
    """The program, readable."""
    head, body = program_lines(program)
    return "\n".join([*head, *body]) + "\n"


def parse(text: str) -> ir.Program:
    """The program that `text` holds."""
    return LlirParser(text).one_program()


def parse_programs(text: str) -> tuple[ir.Program, ...]:
    """All programs of a text, each with its own header."""
    return LlirParser(text).programs()
