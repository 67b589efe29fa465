"""LOCAL memory that is used again: what is touched only when something else is done with lies in the same place.

A tile of results is put down after the last operand has been read. Seen along the linear program, each buffer has a stretch from its
first access to its last, whole loops included; buffers whose stretches do not meet may overlap, if between them all threads have come
to a barrier and what was copied there in the background has arrived.

Before → after::

    loop … @a … end                             loop … @a … end
    store @c …                                  wait_copies 0; barrier; store @c …          @a, @c: offset=0
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from planish.dtypes import AddrSpace
from planish.llir import program as ir
from planish.llir.makers import owners_of

_Stretch = tuple[int, int]
_OPENING: Final = (*ir.OPENING, ir.Fetcher)
_CLOSING: Final = (*ir.CLOSING, ir.EndFetcher)
_READING: Final = (*ir.ACCESSES, ir.CopyAsync, ir.CopyBox, ir.Tile)


def _outermost(body: Sequence[ir.Instruction]) -> list[_Stretch]:
    """For each instruction, the first and last of the outermost loop or branch around it, or itself."""
    stretches: list[_Stretch] = []
    begun, depth = 0, 0
    for position, i in enumerate(body):
        if isinstance(i, _OPENING):
            begun = begun if depth else position
            depth += 1
        stretches.append((begun, position) if depth else (position, position))
        if isinstance(i, _CLOSING):
            depth -= 1
            if not depth:
                stretches[begun:] = [(begun, position)] * (position + 1 - begun)
    return stretches


def _stretches(program: ir.Program) -> dict[ir.Buffer, _Stretch]:
    """Where each LOCAL buffer is accessed first and last."""
    around = _outermost(program.body)
    held = owners_of(program, AddrSpace.LOCAL)
    stretches: dict[ir.Buffer, _Stretch] = {}
    for position, i in enumerate(program.body):
        if isinstance(i, _READING):
            for register in i.registers:
                if register in held:
                    first, last = around[position]
                    before = stretches.get(held[register], (first, last))
                    stretches[held[register]] = min(before[0], first), max(before[1], last)
    return stretches


def _placed(stretches: dict[ir.Buffer, _Stretch]) -> dict[ir.Buffer, int]:
    """An offset for each buffer, the lowest at which it meets none that is in use at the same time."""
    offsets: dict[ir.Buffer, int] = {}
    for buffer, (first, last) in sorted(stretches.items(), key=lambda item: item[1]):
        taken = sorted(
            (offsets[other], offsets[other] + other.nbytes)
            for other in offsets
            if stretches[other][0] <= last and first <= stretches[other][1]
        )
        offset = 0
        for begin, end in taken:
            if offset + buffer.nbytes > begin and offset < end:
                offset = -(-end // buffer.alignment) * buffer.alignment
        offsets[buffer] = offset
    return offsets


def reused(program: ir.Program) -> ir.Program:
    """The program with its LOCAL buffers in as little memory as their stretches allow."""
    own = [b for b in program.locals if b.space is AddrSpace.LOCAL]
    stretches = _stretches(program)
    if len(own) < 2 or len(stretches) != len(own) or any(b.offset is not None for b in own):
        return program
    offsets = _placed(stretches)
    starts = sorted(
        {
            stretches[late][0]
            for late in own
            for early in own
            if stretches[early][1] < stretches[late][0]
            and offsets[late] < offsets[early] + early.nbytes
            and offsets[early] < offsets[late] + late.nbytes
        }
    )
    if not starts:
        return program
    moved = {b: replace(b, offset=offsets[b]) for b in own}
    copies = any(isinstance(i, ir.CopyAsync) for i in program.body)
    body: list[ir.Instruction] = []
    for position, i in enumerate(program.body):
        if position in starts:
            body += [ir.WaitCopies(0), ir.Barrier()] if copies else [ir.Barrier()]
        body.append(
            replace(i, base=moved.get(i.base, i.base))
            if isinstance(i, ir.Address) and isinstance(i.base, ir.Buffer)
            else i
        )
    return replace(program, locals=tuple(moved.get(b, b) for b in program.locals), body=tuple(body))
