"""Who makes which register of a program: what passes that add instructions ask, and where they get new registers."""

from __future__ import annotations

from planish.dtypes import DType
from planish.llir.program import Address, Buffer, Instruction, Program, Register


class Makers:
    """The registers of one program."""

    def __init__(self, program: Program) -> None:
        self.body = program.body
        self.places = {i.target: place for place, i in enumerate(program.body) if i.target is not None}
        """Where each register is made. (Variables are made by nobody.)"""
        numbers = [r.number for r in self.places] + [v.result.number for v in program.variables]
        self._next = 1 + max(numbers, default=-1)

    def maker(self, register: Register) -> Instruction | None:
        """The instruction that makes a register."""
        place = self.places.get(register)
        return None if place is None else self.body[place]

    def buffer(self, address: Register) -> Buffer | None:
        """The buffer that an address leads into."""
        made = self.maker(address)
        while isinstance(made, Address) and isinstance(made.base, Register):
            made = self.maker(made.base)
        return made.base if isinstance(made, Address) and isinstance(made.base, Buffer) else None

    def fresh(self, dtype: DType) -> Register:
        """A register that the program does not have."""
        self._next += 1
        return Register(self._next - 1, dtype)
