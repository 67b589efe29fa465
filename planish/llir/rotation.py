"""Loop rotation: what a step reads for a tensor core is read before the step before it computes.

A core waits for its operands, and reads wait for memory; a thread that reads for the next step first has both under way at once. The
loop over the few steps of a tile becomes straight code, in this order (L: what step k reads and all that it needs for that, C: the
rest)::

    for k < 4: L(k); C(k)            L(0); L(1); C(0); L(2); C(1); L(3); C(2); C(3)

That is right if what is computed writes nothing but registers, which is asked before: then no read can see it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, cast

from planish.dtypes import AddrSpace, PtrDType
from planish.llir.control_forms import Barrier, EndLoop, If, Loop
from planish.llir.copy_forms import CommitCopies, CopyAsync, WaitCopies
from planish.llir.instruction import Instruction
from planish.llir.memory_forms import Load, Store
from planish.llir.value_forms import Combine, Deal
from planish.llir.values import Immediate, Operand, Register

_MOST: Final = 8
"""Steps of a loop that becomes straight code."""
_ORDERED: Final = (Barrier, CopyAsync, CommitCopies, WaitCopies, Loop, If, Combine)
"""What must stay where it is."""


def rotated(body: Sequence[Instruction]) -> list[Instruction]:
    """The same instructions, innermost loops that read operands of tensor cores as straight code, reads first."""
    if not any(isinstance(i, Deal) for i in body):
        return list(body)
    result: list[Instruction] = []
    fresh = max((i.target.number for i in body if i.target is not None), default=0) + 1
    opened: list[int] = []
    for instruction in body:
        result.append(instruction)
        if isinstance(instruction, Loop):
            opened.append(len(result) - 1)
        elif isinstance(instruction, EndLoop):
            start = opened.pop()
            loop, inside = cast("Loop", result[start]), result[start + 1 : -1]
            steps = _steps(loop, inside)
            if steps is not None:
                straight = _Straight(loop, *steps, fresh)
                result[start:] = straight.lines()
                fresh = straight.fresh
    return result


def _in_registers(address: Register) -> bool:
    return isinstance(address.dtype.scalar, PtrDType) and address.dtype.scalar.space is AddrSpace.REG


def _steps(loop: Loop, inside: Sequence[Instruction]) -> tuple[list[Instruction], list[Instruction]] | None:
    """What a step of a loop reads and what it computes of that; None if it is not to be rotated."""
    bound = loop.bound.value if isinstance(loop.bound, Immediate) else 0
    if not isinstance(bound, int) or not 1 < bound <= _MOST or not any(isinstance(i, Deal) for i in inside):
        return None
    if any(
        isinstance(i, _ORDERED) or (isinstance(i, Store) and not _in_registers(i.address)) for i in inside
    ):
        return None
    made = {i.target: i for i in inside if i.target is not None}
    reads: set[int] = set()
    stack: list[Instruction] = [i for i in inside if isinstance(i, Deal)]
    while stack:
        instruction = stack.pop()
        if id(instruction) in reads:
            continue
        if isinstance(instruction, Load) and _in_registers(instruction.address):
            return None  # what is read depends on what was computed
        reads.add(id(instruction))
        stack += [made[register] for register in instruction.registers if register in made]
    return [i for i in inside if id(i) in reads], [i for i in inside if id(i) not in reads]


class _Straight:
    """A loop without its counter."""

    def __init__(self, loop: Loop, reads: list[Instruction], computes: list[Instruction], fresh: int) -> None:
        self.loop, self.reads, self.computes, self.fresh = loop, reads, computes, fresh

    def lines(self) -> list[Instruction]:
        count = cast("int", cast("Immediate", self.loop.bound).value)
        names: list[dict[Register, Operand]] = [
            {self.loop.counter: Immediate(step, self.loop.counter.dtype)} for step in range(count)
        ]
        result = self.copied(self.reads, names[0])
        for step in range(count):
            if step + 1 < count:
                result += self.copied(self.reads, names[step + 1])
            result += self.copied(self.computes, names[step])
        return result

    def copied(self, lines: Sequence[Instruction], names: dict[Register, Operand]) -> list[Instruction]:
        """Instructions on registers of their own."""
        result = []
        for line in lines:
            changed: dict[str, object] = {name: _renamed(getattr(line, name), names) for name in line.reads}
            if line.writes is not None and line.target is not None:
                names[line.target] = changed[line.writes] = replace(line.target, number=self.fresh)
                self.fresh += 1
            result.append(cast("Instruction", replace(cast("Any", line), **changed)))
        return result


def _renamed(value: object, names: dict[Register, Operand]) -> object:
    if isinstance(value, tuple):
        return tuple(_renamed(each, names) for each in value)
    return names.get(value, value) if isinstance(value, Register) else value
