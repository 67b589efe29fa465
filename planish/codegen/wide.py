"""Index arithmetic in 64 bits, as addresses are: what does not wrap in 32 is the same number, and LLVM need not prove that again.

An index of 32 bits is extended where it meets an address. LLVM then has to find out for every address whether the extension of a
sum is the sum of the extensions, which takes longer than all else that it does about loops; and what it cannot prove
costs an instruction in the loop. So sums and products that only make indices are computed in 64 bits from loop counters on.
Whoever else needs such a number gets it cut back.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from planish import dtypes
from planish.codegen.spans import Span, spans_of
from planish.llir import program as ir

_LOOPS: Final = (ir.Loop, ir.EndLoop)
_WIDENED: Final = frozenset({ir.Ops.ADD, ir.Ops.SUB, ir.Ops.MUL, ir.Ops.SHL, ir.Ops.MULACC})


def widened(program: ir.Program) -> tuple[ir.Program, dict[ir.Register, Span]]:
    """The same kernel with the arithmetic of its scalar addresses in 64 bits, and what is known of its integers."""
    spans = spans_of(program)
    wanted = _indices(program, spans)
    if not wanted:
        return program, spans
    numbers = [getattr(i, i.writes).number for i in program.body if i.writes is not None]
    number = max([*numbers, *[v.result.number for v in program.variables]])
    wide = {r: ir.Register(number + 1 + place, dtypes.int64) for place, r in enumerate(wanted)}
    asked = _asked(program, wide)
    body: list[ir.Instruction] = [
        ir.Convert(wide[v.result], v.result) for v in program.variables if v.result in wide
    ]
    for i in program.body:
        if i.writes is None and not isinstance(i, ir.EndLoop):
            body.append(i)
        else:
            body += _instruction(i, wide, asked)
    return replace(program, body=tuple(body)), spans | {wide[r]: spans[r] for r in wanted}


def _indices(program: ir.Program, spans: dict[ir.Register, Span]) -> dict[ir.Register, None]:
    """Registers of 32 bits that addresses are computed from, none of which wraps."""
    indices: dict[ir.Register, None] = {}
    for i in reversed(program.body):
        if isinstance(i, ir.Address):
            if isinstance(i.index, ir.Register) and i.index.dtype is dtypes.int32 and i.index in spans:
                indices[i.index] = None
        elif isinstance(i, ir.Compute) and i.op in _WIDENED and i.result in indices:
            indices.update(dict.fromkeys(x for x in i.inputs if isinstance(x, ir.Register)))
    return indices


def _is_widened(i: ir.Instruction, wide: dict[ir.Register, ir.Register]) -> bool:
    """Whether an instruction is made anew in 64 bits."""
    if isinstance(i, _LOOPS):
        return i.counter in wide and isinstance(i.bound, ir.Immediate)
    return isinstance(i, ir.Compute) and i.op in _WIDENED and i.result in wide


def _asked(program: ir.Program, wide: dict[ir.Register, ir.Register]) -> set[ir.Register]:
    """Which of them are also read as they are."""
    asked: set[ir.Register] = set()
    for i in program.body:
        kind = type(i)
        if kind is ir.Address or (isinstance(i, ir.ACCESSES) and i.gate is None and _is_no_index(i)):
            continue  # an index that is widened, a base that is no integer
        if isinstance(i, ir.Compute) and i.inputs[0].dtype.lanes > 1:
            continue  # vectors
        if not _is_widened(i, wide):
            asked.update([r for r in i.registers if r.dtype is dtypes.int32 and r in wide])
    return asked


def _is_no_index(i: ir.Load | ir.Store) -> bool:
    """Whether what an access reads besides its address is no integer of 32 bits."""
    return isinstance(i, ir.Load) or i.value.dtype is not dtypes.int32


def _of(operand: ir.Operand, wide: dict[ir.Register, ir.Register]) -> ir.Operand:
    if isinstance(operand, ir.Immediate):
        return ir.Immediate(operand.value, dtypes.int64)
    return wide[operand]


def _instruction(
    i: ir.Instruction, wide: dict[ir.Register, ir.Register], asked: set[ir.Register]
) -> list[ir.Instruction]:
    """What stands for an instruction."""
    if isinstance(i, ir.Address):
        index = i.index
        return (
            [ir.Address(i.result, i.base, wide[index])]
            if isinstance(index, ir.Register) and index in wide
            else [i]
        )
    result = i.target
    if isinstance(i, ir.EndLoop):
        return [ir.EndLoop(wide[i.counter], _of(i.bound, wide))] if _is_widened(i, wide) else [i]
    if result is None or result.dtype is not dtypes.int32 or result not in wide:
        return [i]
    if isinstance(i, ir.Loop) and _is_widened(i, wide):
        widened: ir.Instruction = replace(i, counter=wide[result], bound=_of(i.bound, wide))
    elif isinstance(i, ir.Compute) and _is_widened(i, wide):
        widened = ir.Compute(wide[result], i.op, tuple([_of(operand, wide) for operand in i.inputs]))
    else:
        return [i, ir.Convert(wide[result], result)]
    return [widened, ir.Convert(result, wide[result])] if result in asked else [widened]
