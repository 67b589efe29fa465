"""Rounds through a ring: the loop over its steps as one over rounds and one over buffers, which is written out.

Which buffer a step uses, and where it lies, are then constants of straight code. As a remainder they are a dozen instructions, each of which waits
for the one before; a group of threads that multiplies small tiles, and who has them fetched, did little else.

Before → after, of six buffers::

    loop r < 42:                                 loop q < 7: loop s < 6 unroll=6:
      await_boxes r                                r = q·6 + s; await_boxes r
      b = r % 6; p = address @local0[b·8192]       p = address @local0[s·8192]
      tile …; release r - 1                        tile …; release r - 1
    end                                          end; end

The number of steps has to be a multiple of that of buffers; fewer than two rounds of others are written out as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, cast

from planish.llir import program as ir

_MOST: Final = 8
"""Buffers whose steps are written out."""
_NUMBERS: Final[Mapping[ir.Ops, Callable[..., int]]] = {
    ir.Ops.ADD: lambda x, y: x + y,
    ir.Ops.SUB: lambda x, y: x - y,
    ir.Ops.MUL: lambda x, y: x * y,
    ir.Ops.MULACC: lambda x, y, z: x * y + z,
    ir.Ops.SHL: lambda x, y: x << y,
    ir.Ops.SHR: lambda x, y: x >> y,
    ir.Ops.AND: lambda x, y: x & y,
    ir.Ops.TRUNCDIV: lambda x, y: x // y,
    ir.Ops.TRUNCMOD: lambda x, y: x % y,
}
"""What a place in a ring is computed by, of numbers that are not negative."""


def in_rounds(program: ir.Program) -> ir.Program:
    """The program, its loops over the steps of a ring in rounds."""
    body = list(program.body)
    fresh = 1 + max((i.target.number for i in body if i.target is not None), default=0)
    at = 0
    while at < len(body):
        header = body[at]
        ring = _ring(body, at) if isinstance(header, ir.Loop) else None
        if isinstance(header, ir.Loop) and ring is not None:
            end, buffers, steps = ring
            if steps % buffers == 0:
                kind = header.counter.dtype
                turn, slot = ir.Register(fresh, kind), ir.Register(fresh + 1, kind)
                fresh += 2
                body[at : end + 1] = _nested(header, body[at + 1 : end], turn, slot, steps, buffers)
            elif steps < 2 * buffers:
                body[at] = replace(header, unroll=steps)
        at += 1
    return replace(program, body=tuple(body))


def _ring(body: Sequence[ir.Instruction], at: int) -> tuple[int, int, int] | None:
    """Of a loop that does nothing but fetch or multiply the steps of a ring: where it ends, the buffers, and the steps."""
    header = cast("ir.Loop", body[at])
    end = next((k for k in range(at + 1, len(body)) if isinstance(body[k], ir.Loop | ir.EndLoop)), at)
    inside = body[at + 1 : end]
    steps = header.bound.value if isinstance(header.bound, ir.Immediate) else 0
    rings = [i for i in inside if isinstance(i, ir.Acquire | ir.AwaitBoxes)]
    tiles = sum(isinstance(i, ir.Tile) for i in inside)
    if not isinstance(body[end], ir.EndLoop) or len(rings) != 1 or tiles > 1 or not isinstance(steps, int):
        return None
    awaits = isinstance(rings[0], ir.AwaitBoxes)
    if header.unroll > 1 or tiles != awaits or not 1 < rings[0].buffers <= _MOST or steps < rings[0].buffers:
        return None
    return end, rings[0].buffers, steps


def _nested(
    header: ir.Loop,
    inside: Sequence[ir.Instruction],
    turn: ir.Register,
    slot: ir.Register,
    steps: int,
    buffers: int,
) -> list[ir.Instruction]:
    """Rounds, and in each of them the steps of all buffers."""
    kind = header.counter.dtype
    slots = dict.fromkeys(_remainders(header.counter, inside, steps, buffers), slot)
    outer, inner = ir.Immediate(steps // buffers, kind), ir.Immediate(buffers, kind)
    kept = [i.renamed(lambda r: slots.get(r, r), lambda r: r) for i in inside if i.target not in slots]
    return [
        ir.Loop(turn, outer, 1),
        ir.Loop(slot, inner, buffers),
        ir.Compute(header.counter, ir.Ops.MULACC, (turn, inner, slot)),
        *kept,
        ir.EndLoop(slot, inner),
        ir.EndLoop(turn, outer),
    ]


def _remainders(
    counter: ir.Register, inside: Sequence[ir.Instruction], steps: int, buffers: int
) -> list[ir.Register]:
    """What is the number of the buffer, however that is computed: it is in every step."""
    known: dict[ir.Operand, list[int]] = {counter: list(range(steps))}
    remainders: list[ir.Register] = []
    for i in inside:
        if not isinstance(i, ir.Compute) or i.op not in _NUMBERS:
            continue
        given = [_values(x, known, steps) for x in i.inputs]
        if any(each is None for each in given) or all(isinstance(x, ir.Immediate) for x in i.inputs):
            continue
        values = [_NUMBERS[i.op](*each) for each in zip(*cast("list[list[int]]", given), strict=True)]
        if min(values) < 0:
            continue
        known[i.result] = values
        if values == [step % buffers for step in range(steps)]:
            remainders.append(i.result)
    return remainders


def _values(operand: ir.Operand, known: Mapping[ir.Operand, list[int]], steps: int) -> list[int] | None:
    if isinstance(operand, ir.Immediate):
        return [operand.value] * steps if type(operand.value) is int else None
    return known.get(operand)
