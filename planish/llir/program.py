"""LLIR: a kernel as a linear list of instructions on typed registers and explicit memory.

The whole language on one screen. Every buffer has a dtype, a size in bytes and an alignment; every access goes through an
address computed as base + index·itemsize; loops are counted and properly nested. Registers are assigned once.
"""

from __future__ import annotations

from dataclasses import dataclass

from planish.dtypes import AddrSpace, DType
from planish.uop.node import Number
from planish.uop.ops import COMPARISONS, Ops

__all__ = [
    "COMPARISONS",
    "Address",
    "Buffer",
    "Compute",
    "Convert",
    "EndLoop",
    "Immediate",
    "Instruction",
    "Load",
    "Loop",
    "Operand",
    "Ops",
    "Program",
    "Register",
    "Store",
]

MIN_ALIGNMENT = 64
"""Buffers we allocate start at a cache line, which is also the widest vector register."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory: a parameter of the kernel (GLOBAL) or its own (LOCAL, REG)."""

    name: str
    dtype: DType
    size: int
    space: AddrSpace

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
        return self.size * self.dtype.itemsize

    @property
    def alignment(self) -> int:
        """Where it may start, in bytes. A parameter is only as aligned as its elements: callers bring what they have."""
        return (
            self.dtype.itemsize if self.space is AddrSpace.GLOBAL else max(self.dtype.itemsize, MIN_ALIGNMENT)
        )

    def __str__(self) -> str:
        return f"@{self.name}"


@dataclass(frozen=True, slots=True)
class Register:
    """A value, assigned once. The dtype of an address is that of the element there."""

    number: int
    dtype: DType

    def __str__(self) -> str:
        return f"%{self.number}"


@dataclass(frozen=True, slots=True)
class Immediate:
    """A constant."""

    value: Number
    dtype: DType

    def __str__(self) -> str:
        return repr(self.value)


Operand = Register | Immediate


@dataclass(frozen=True, slots=True)
class Address:
    """result = buffer + index·itemsize."""

    result: Register
    buffer: Buffer
    index: Operand


@dataclass(frozen=True, slots=True)
class Load:
    """result = the element at the address."""

    result: Register
    address: Register


@dataclass(frozen=True, slots=True)
class Store:
    """The element at the address = value."""

    address: Register
    value: Operand


@dataclass(frozen=True, slots=True)
class Compute:
    """result = op(operands)."""

    result: Register
    op: Ops
    operands: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Convert:
    """result = the operand, cast to the dtype of the result."""

    result: Register
    operand: Operand


@dataclass(frozen=True, slots=True)
class Loop:
    """counter = 0, 1, … below bound, up to the matching EndLoop."""

    counter: Register
    bound: Operand


@dataclass(frozen=True, slots=True)
class EndLoop:
    """Closes the innermost open loop."""

    counter: Register


Instruction = Address | Load | Store | Compute | Convert | Loop | EndLoop


@dataclass(frozen=True, slots=True)
class Program:
    """One kernel."""

    name: str
    params: tuple[Buffer, ...]
    locals: tuple[Buffer, ...]
    body: tuple[Instruction, ...]
