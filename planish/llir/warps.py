"""What the threads of a warp do alike, and where they may part: what votes and leads of loops are found by."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Final

from planish.dtypes import AddrSpace
from planish.llir.makers import owners_of
from planish.llir.program import (
    Address,
    AnyLane,
    Bitcast,
    Build,
    Compute,
    Concat,
    Convert,
    EndIf,
    EndLoop,
    If,
    Instruction,
    Load,
    Loop,
    Ops,
    Program,
    Register,
    SelectLanes,
    Special,
    Store,
)

PURE: Final = (Address, AnyLane, Bitcast, Build, Compute, Concat, Convert, SelectLanes, Load)
"""What may be left out where nobody needs it."""


def inner_loops(program: Program, apart: Container[Register]) -> Iterator[tuple[int, int]]:
    """The innermost loops that all threads of a warp go through together: the places of their Loop and EndLoop.

    `apart`: registers that may differ between threads. Branches, and loops that count by such registers, only some threads may be in.
    """
    alone, begun = 0, -1
    for at, i in enumerate(program.body):
        alone += isinstance(i, If) - isinstance(i, EndIf)
        if isinstance(i, Loop):
            alone += i.counter in apart
            begun = -1 if alone else at
        elif isinstance(i, EndLoop):
            if begun >= 0:
                yield begun, at
            alone -= i.counter in apart
            begun = -1


def terms_of(gate: object, makers: Mapping[Register, Instruction]) -> frozenset[Register]:
    """A gate, and all that has to hold for it to hold."""
    if not isinstance(gate, Register) or gate.dtype.lanes > 1:
        return frozenset()
    maker = makers.get(gate)
    if isinstance(maker, Compute) and maker.op is Ops.AND:
        return frozenset({gate}).union(*(terms_of(each, makers) for each in maker.inputs))
    return frozenset({gate})


def unlike(program: Program, aliased: Container[str]) -> frozenset[Register]:
    """Registers that may differ between the threads of a warp: what follows from their numbers, or from memory that the kernel writes."""
    owners = owners_of(program)
    written = {owners.get(i.address) for i in program.body if isinstance(i, Store)}
    differing: set[Register] = set()
    for i in program.body:
        if i.target is None:
            continue
        is_same = isinstance(i, (*PURE, Loop)) or (isinstance(i, Special) and not i.is_thread)
        if isinstance(i, Load):
            memory = owners.get(i.address)
            is_same = (
                memory is not None
                and memory.space is AddrSpace.GLOBAL
                and memory not in written
                and memory.name not in aliased
            )
        if not is_same or not differing.isdisjoint(i.registers):
            differing.add(i.target)
    return frozenset(differing)
