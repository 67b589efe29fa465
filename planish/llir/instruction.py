"""What an instruction is: one record, from which it is printed, read, verified, executed and lowered to.

Renderers add what it is on their machine: a method called like the instruction (`handlers`).
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar, cast, dataclass_transform

from numpy.typing import NDArray

from planish.dtypes import DType
from planish.llir.values import Immediate, Operand, Register
from planish.records import dataclass
from planish.uop.ops import Ops

if TYPE_CHECKING:
    from planish.llir.program import Program

Array = NDArray[Any]
Complaint = tuple[str, str]
_OPERANDS: Final = (Register, Immediate)
"""The invariant that is broken (`planish.llir.verify` lists them), and how."""


class Instruction:
    """One line. `reads` names the fields that are operands, `writes` the one that is the register assigned.

    A subclass made by `form` is the whole of an instruction as far as LLIR goes: its fields, how it is written (`syntax`, see
    `planish.llir.syntax`), what is wrong with it (`problems`), and, where a result is computed from operands alone, its meaning
    (`evaluate`) and the ops of the kernel IR that become it (`lowers`).
    """

    __slots__ = ()

    mnemonic: ClassVar[str]
    reads: ClassVar[tuple[str, ...]] = ()
    writes: ClassVar[str | None] = None
    syntax: ClassVar[str] = ""
    on_numbers: ClassVar[bool] = False
    """Whether its operands are numbers, never addresses."""
    lowers: ClassVar[tuple[Ops, ...]] = ()
    """Ops whose sources (and argument, if there is one) are its fields behind the result."""

    def problems(self, program: Program) -> Iterator[Complaint]:
        """What is wrong with it, whatever stands around it."""
        return iter(())

    def evaluate(self, *operands: Array) -> Array:
        """The result, on carriers (`planish.uop.arithmetic`)."""
        raise NotImplementedError(self.mnemonic)

    @property
    def operands(self) -> tuple[Operand, ...]:
        """What it reads, in order."""
        operands: list[Operand] = []
        for name in self.reads:
            value = getattr(self, name)
            if isinstance(value, tuple):
                operands += value
            elif isinstance(value, _OPERANDS):
                operands.append(value)
        return tuple(operands)

    @property
    def registers(self) -> tuple[Register, ...]:
        """The registers it reads, in order."""
        return tuple([operand for operand in self.operands if isinstance(operand, Register)])

    @property
    def target(self) -> Register | None:
        """The register it assigns."""
        writes = self.writes
        return None if writes is None else getattr(self, writes)

    def renamed(
        self, read: Callable[[Register], Register], write: Callable[[Register], Register]
    ) -> Instruction:
        """The same instruction on other registers."""

        def each(value: object) -> object:
            if isinstance(value, tuple):
                return tuple(map(each, value))
            return read(value) if isinstance(value, Register) else value

        changed = {name: each(getattr(self, name)) for name in self.reads}
        if self.writes is not None:
            changed[self.writes] = write(getattr(self, self.writes))
        return cast("Instruction", replace(cast("Any", self), **changed))  # every form is a dataclass


T = TypeVar("T", bound=type[Instruction])
W = TypeVar("W")
FORMS: Final[list[type[Instruction]]] = []
"""Every instruction there is."""


@dataclass_transform(frozen_default=True)
def form(cls: T) -> T:
    """Make a class of fields an instruction."""
    record = cast("T", dataclass(frozen=True, slots=True)(cls))
    FORMS.append(record)
    return record


def method_name(instruction: type[Instruction]) -> str:
    """What a method about an instruction is called: its mnemonic."""
    word = instruction.mnemonic or instruction.__name__.lower()
    return f"{word}_" if keyword.iskeyword(word) else word


def handlers(of: type[W]) -> dict[type[Instruction], Callable[[W, Any], Any]]:
    """The methods of a class that are about instructions, by the instruction."""
    return {f: getattr(of, method_name(f)) for f in FORMS if hasattr(of, method_name(f))}


def is_integer(dtype: DType) -> bool:
    """Whether a dtype can index and count."""
    return dtype.is_int and dtype.bits in {32, 64} and not dtype.is_pointer


def is_power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0
