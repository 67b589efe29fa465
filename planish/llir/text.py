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

from collections.abc import Callable
from typing import Any, Final

from planish import dtypes
from planish.dtypes import DType
from planish.llir.parser import VERSION, Parser
from planish.llir.program import (
    COMPARISONS,
    Address,
    AnyLane,
    Barrier,
    Bitcast,
    Buffer,
    Build,
    Combine,
    Compute,
    Concat,
    Convert,
    EndIf,
    EndLoop,
    If,
    Immediate,
    Instruction,
    Lanes,
    Load,
    Lookup,
    Loop,
    Operand,
    Ops,
    Prefetch,
    Program,
    Reload,
    Special,
    Spill,
    Store,
    Tile,
)
from planish.llir.tiles import TileOp
from planish.uop.text import number_text

__all__ = ["VERSION", "instruction_line", "parse", "parse_programs", "print_program", "program_lines"]


def operand_text(operand: Operand, implied: DType | None = None) -> str:
    """A register or constant; `implied` is the dtype that a constant here has unless it says otherwise."""
    if not isinstance(operand, Immediate):
        return str(operand)
    if isinstance(operand.value, tuple):
        text = f"[{', '.join(number_text(v, operand.dtype) for v in operand.value)}]"
    else:
        text = number_text(operand.value, operand.dtype)
    return text if operand.dtype is implied else f"{text}:{operand.dtype}"


def _gate(gate: Operand | None) -> str:
    return "" if gate is None else f" if {operand_text(gate, dtypes.bool_)}"


def _hints(i: Load | Store) -> str:
    return (f" align={i.align}" if i.align else "") + (" nontemporal" if i.nontemporal else "")


def _address(i: Address) -> str:
    return f"{i.result} = address {i.base}[{operand_text(i.index, dtypes.int32)}] : {i.result.dtype}"


def _load(i: Load) -> str:
    dtype = i.result.dtype
    otherwise = "" if i.alternative is None else f" else {operand_text(i.alternative, dtype)}"
    return f"{i.result} = load {i.address}{_gate(i.gate)}{otherwise}{_hints(i)} : {dtype}"


def _store(i: Store) -> str:
    dtype = i.value.dtype
    return f"store {i.address}, {operand_text(i.value, dtype)}{_gate(i.gate)}{_hints(i)} : {dtype}"


def _prefetch(i: Prefetch) -> str:
    return f"prefetch {i.address}{' write' if i.write else ''} locality={i.locality}"


def _compute(i: Compute) -> str:
    dtype = i.result.dtype
    compares = i.op in COMPARISONS
    kinds = [i.inputs[0].dtype if compares and i.inputs else dtype] * len(i.inputs)
    if i.op is Ops.WHERE and kinds:
        kinds[0] = dtypes.bool_.vec(dtype.lanes)
    words = ", ".join(map(operand_text, i.inputs, kinds))
    return (
        f"{i.result} = {i.op.name.lower()} {words} : {f'{kinds[0]} -> ' if compares and kinds else ''}{dtype}"
    )


def _conversion(i: Convert | Bitcast) -> str:
    source = i.operand.dtype
    return f"{i.result} = {i.mnemonic} {operand_text(i.operand, source)} : {source} -> {i.result.dtype}"


def _lanes(i: Lanes) -> str:
    return f"{i.result} = lanes {operand_text(i.operand)}[{', '.join(map(str, i.lanes))}] : {i.result.dtype}"


def _build(i: Build) -> str:
    scalar = i.result.dtype.scalar
    return f"{i.result} = build {', '.join(operand_text(x, scalar) for x in i.inputs)} : {i.result.dtype}"


def _concat(i: Concat) -> str:
    return f"{i.result} = concat {', '.join(map(operand_text, i.inputs))} : {i.result.dtype}"


def _lookup(i: Lookup) -> str:
    return f"{i.result} = lookup {operand_text(i.table)}[{operand_text(i.index)}] : {i.result.dtype}"


def _any(i: AnyLane) -> str:
    return f"{i.result} = any {operand_text(i.operand)} : {i.result.dtype}"


def _tile(i: Tile) -> str:
    dtype = i.result.dtype
    words = f"{operand_text(i.a)}, {operand_text(i.b)}, {operand_text(i.c, dtype)}"
    return f"{i.result} = tile {i.tile.name} {words} : {dtype}"


def _combine(i: Combine) -> str:
    return f"{i.result} = combine {i.op.name.lower()} {operand_text(i.operand)} over {i.width} : {i.result.dtype}"


def _special(i: Special) -> str:
    return f"{i.result} = special {i.name} < {operand_text(i.bound, i.result.dtype)} : {i.result.dtype}"


def _loop(i: Loop) -> str:
    unroll = f" unroll={i.unroll}" if i.unroll else ""
    return f"loop {i.counter} < {operand_text(i.bound, i.counter.dtype)}{unroll} : {i.counter.dtype}"


def _end(i: EndLoop) -> str:
    return f"end {i.counter} < {operand_text(i.bound, i.counter.dtype)}"


_LINES: Final[dict[type[Instruction], Callable[[Any], str]]] = {
    Address: _address,
    Load: _load,
    Store: _store,
    Prefetch: _prefetch,
    Compute: _compute,
    Convert: _conversion,
    Bitcast: _conversion,
    Lanes: _lanes,
    Build: _build,
    Concat: _concat,
    Lookup: _lookup,
    AnyLane: _any,
    Tile: _tile,
    Combine: _combine,
    Special: _special,
    Loop: _loop,
    EndLoop: _end,
    If: lambda i: f"if {operand_text(i.condition, dtypes.bool_)}",
    EndIf: lambda i: "endif",
    Barrier: lambda i: "barrier",
    Spill: lambda i: f"spill {i.slot}, {i.value}",
    Reload: lambda i: f"{i.result} = reload {i.slot} : {i.result.dtype}",
}


def instruction_line(instruction: Instruction) -> str:
    """One instruction."""
    return _LINES[type(instruction)](instruction)


def _buffer(b: Buffer) -> str:
    offset = "" if b.offset is None else f" offset={b.offset}"
    return f"{b}: {b.space.value} {b.dtype}[{b.size}] bytes={b.nbytes} align={b.alignment}{offset}"


def _described(t: TileOp) -> str:
    layouts = "".join(f" {matrix}=({' '.join(bits)})" for matrix, (_, _, bits) in t.fragments.items() if bits)
    return f"tile {t.name}: {t.m}x{t.n}x{t.k} threads={t.threads}{layouts}"


def program_lines(program: Program) -> tuple[list[str], list[str]]:
    """The lines of the header, and one per instruction."""
    head = [f"llir {VERSION}", f"kernel {program.name}"]
    head += [f"  {_buffer(buffer)}" for buffer in program.buffers]
    head += [f"  {_described(tile)}" for tile in program.tiles]
    head += [
        f"  {v.result} = variable {v.name} in {v.low}..{v.high} : {v.result.dtype}" for v in program.variables
    ]
    body: list[str] = []
    opened: list[Instruction] = []
    for instruction in program.body:
        text = instruction_line(instruction)
        if isinstance(instruction, EndLoop | EndIf):
            start = opened.pop() if opened else None
            if isinstance(instruction, EndLoop) and isinstance(start, Loop):
                same = (start.counter, start.bound) == (instruction.counter, instruction.bound)
                text = "end" if same else text
        body.append("  " * (len(opened) + 1) + text)
        if isinstance(instruction, Loop | If):
            opened.append(instruction)
    return head, body


def print_program(program: Program) -> str:
    """The program, readable."""
    head, body = program_lines(program)
    return "\n".join([*head, *body]) + "\n"


def parse(text: str) -> Program:
    """The program that `text` holds."""
    return Parser(text).one_program()


def parse_programs(text: str) -> tuple[Program, ...]:
    """All programs of a text, each with its own header."""
    return Parser(text).programs()
