"""Instructions of control: loops, conditions, the indices that hardware supplies, barriers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from planish import dtypes
from planish.llir.instruction import Complaint, Instruction, form, is_integer
from planish.llir.values import Operand, Register
from planish.uop.hardware_index import HardwareIndex

if TYPE_CHECKING:
    from planish.llir.program import Program


def _counted(register: Register, bound: Operand) -> Iterator[Complaint]:
    if not is_integer(register.dtype) or register.dtype.lanes != 1:
        yield "bounds", f"{register} counts in i32 or i64, not in {register.dtype}"
    if bound.dtype is not register.dtype:
        yield "bounds", f"the bound is {register.dtype}, not {bound.dtype}"


@form
class Special(Instruction):
    """result = an index that the hardware (or the thread pool) supplies: lidx… of a thread in its block, cidx0 of a block in its cluster, others of a block."""

    mnemonic, reads, writes = "special", ("bound",), "result"
    syntax = "index < bound:result : result"
    result: Register
    index: HardwareIndex
    bound: Operand

    @property
    def name(self) -> str:
        """What generated code calls it."""
        return self.index.name

    @property
    def is_thread(self) -> bool:
        """Whether it tells the threads of one block apart."""
        return self.index.is_thread

    @property
    def is_rank(self) -> bool:
        """Whether it is the number of a block in its cluster."""
        return self.index.is_rank

    def problems(self, program: Program) -> Iterator[Complaint]:
        return _counted(self.result, self.bound)


@form
class Loop(Instruction):
    """counter = 0, 1, … below bound, up to the matching EndLoop.

    `unroll`: 0 leaves it to the back end, 1 asks to keep the loop, n for n copies of the body.
    """

    mnemonic, reads, writes = "loop", ("bound",), "counter"
    syntax = "counter < bound:counter( unroll=unroll) : counter"
    counter: Register
    bound: Operand
    unroll: int = 0

    def problems(self, program: Program) -> Iterator[Complaint]:
        yield from _counted(self.counter, self.bound)
        if self.unroll < 0:
            yield "hint", f"unroll count {self.unroll} is negative"


@form
class EndLoop(Instruction):
    """Closes the innermost open loop: its counter and bound, once more."""

    mnemonic, reads, syntax = "end", ("counter", "bound"), "counter < bound:counter"
    counter: Register
    bound: Operand


@form
class If(Instruction):
    """What follows, up to the matching EndIf, happens where the condition holds."""

    mnemonic, reads, syntax = "if", ("condition",), "condition:bool"
    condition: Operand

    def problems(self, program: Program) -> Iterator[Complaint]:
        if self.condition.dtype is not dtypes.bool_:
            yield "gate", f"the condition is bool, not {self.condition.dtype}"


@form
class EndIf(Instruction):
    """Closes the innermost open If."""

    mnemonic = "endif"


@form
class Barrier(Instruction):
    """Every thread of the block, or of all blocks of the cluster, waits for the others; memory written before is seen after."""

    mnemonic, syntax = "barrier", "(cluster)"
    cluster: bool = False


OPENING: Final = (Loop, If)
CLOSING: Final = (EndLoop, EndIf)
CONTROL: Final = (*OPENING, *CLOSING)
"""Tuples, for who asks of every instruction: a union of types is made anew whenever it is asked for, which takes ten times as long."""


__all__ = ["CLOSING", "CONTROL", "OPENING", "Barrier", "EndIf", "EndLoop", "If", "Loop", "Special"]
