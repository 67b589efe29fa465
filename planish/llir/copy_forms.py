"""Instructions of asynchronous copies: from the memory of a parameter to that of a block, in the background.

A thread begins copies, makes groups of them and waits for all groups but the last few. What a copy writes is seen by the thread itself
after such a wait, and by others when a barrier has followed; reading it before is a fault that the interpreter reports.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from planish import dtypes
from planish.dtypes import AddrSpace, DType, PtrDType
from planish.llir.instruction import Complaint, Instruction, form
from planish.llir.values import Operand, Register

if TYPE_CHECKING:
    from planish.llir.program import Program

COPIED: Final = (4, 8, 16)
"""Bytes that one asynchronous copy moves."""


@form
class CopyAsync(Instruction):
    """What is at the address = so many elements from the source on; zeros where the gate does not hold.

    Both are aligned to the bytes that are copied.
    """

    mnemonic, reads = "copy_async", ("address", "source", "gate")
    syntax = "address, source( if gate:bool) count=count"
    address: Register
    source: Register
    gate: Operand | None = None
    count: int = 1

    @property
    def element(self) -> DType:
        """What is copied."""
        pointer = self.address.dtype.scalar
        return pointer.base.scalar if isinstance(pointer, PtrDType) else pointer

    @property
    def nbytes(self) -> int:
        """How much of it."""
        return self.element.itemsize * self.count

    def problems(self, program: Program) -> Iterator[Complaint]:
        kinds = set()
        for register, space in ((self.address, AddrSpace.LOCAL), (self.source, AddrSpace.GLOBAL)):
            pointer = register.dtype
            if not isinstance(pointer, PtrDType):
                yield "address", f"{register} is {register.dtype}, not one address"
                return
            kinds.add(pointer.base.scalar)
            if pointer.space is not space:
                yield "address", f"{register} is in {pointer.space.name} memory, not in {space.name}"
        if len(kinds) > 1:
            yield "types", f"{self.source.dtype} is not copied to {self.address.dtype}"
        elif self.nbytes not in COPIED:
            yield "types", f"{self.nbytes} bytes are not copied at once"
        if self.gate is not None and self.gate.dtype is not dtypes.bool_:
            yield "gate", f"the gate is bool, not {self.gate.dtype}"


@form
class CommitCopies(Instruction):
    """The copies that the thread has begun since the last one become a group."""

    mnemonic = "commit_copies"


@form
class WaitCopies(Instruction):
    """The thread goes on when all its groups of copies but the last few are done."""

    mnemonic, syntax = "wait_copies", "groups"
    groups: int


__all__ = ["COPIED", "CommitCopies", "CopyAsync", "WaitCopies"]
