"""What instructions work on: buffers, registers, constants, and integers given at launch."""

from __future__ import annotations

import math
import struct
from dataclasses import field, replace
from typing import Final

from planish.dtypes import AddrSpace, DType, PtrDType
from planish.errors import InternalError
from planish.records import dataclass
from planish.uop.node import Number

PARAMETER: Final = "arg"
"""What the names of numbered parameters begin with."""
MIN_ALIGNMENT: Final = 64
"""Buffers we allocate start at a cache line, which is also the widest vector register."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory: a parameter of the kernel (GLOBAL) or its own (LOCAL: shared by a block; REG: of a thread).

    `size` counts elements of `dtype`, which may be a vector. `align` None is the natural alignment. `offset` is the place
    in the arena of its space, if one was planned: LOCAL buffers may overlap there.
    """

    name: str
    dtype: DType
    size: int
    space: AddrSpace
    align: int | None = None
    offset: int | None = None
    slot: int | None = field(default=None, compare=False)
    """Of a parameter that the scheduler numbered: which one it is. Its name is made of that."""

    @staticmethod
    def parameter(slot: int, dtype: DType, size: int, align: int | None = None) -> Buffer:
        """A parameter of that number."""
        return Buffer(f"{PARAMETER}{slot}", dtype, size, AddrSpace.GLOBAL, align, slot=slot)

    @property
    def number(self) -> int:
        """Which parameter of a kernel it is."""
        if self.slot is None:
            raise InternalError(f"{self} is no parameter that has a number")
        return self.slot

    def __post_init__(self) -> None:
        if self.align is not None and self.align == replace(self, align=None).alignment:
            object.__setattr__(self, "align", None)  # one way to say it

    @property
    def stride(self) -> int:
        """The bytes of one element."""
        return self.dtype.itemsize * self.dtype.lanes

    @property
    def elements(self) -> int:
        """Its size in scalars."""
        return self.size * self.dtype.lanes

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
        return self.size * self.stride

    @property
    def alignment(self) -> int:
        """Where it may start, in bytes. A parameter is only as aligned as its elements: callers bring what they have."""
        if self.align is not None:
            return self.align
        own = self.dtype.itemsize
        return own if self.space is AddrSpace.GLOBAL else max(own, MIN_ALIGNMENT)

    @property
    def pointer(self) -> PtrDType:
        """The dtype of an address in it."""
        return self.dtype.ptr(self.size, self.space)

    def __str__(self) -> str:
        return f"@{self.name}"


@dataclass(frozen=True, slots=True)
class Register:
    """A value. `bank` is empty before allocation, then s, v or p: scalar, vector or pointer registers."""

    number: int
    dtype: DType
    bank: str = ""

    def __hash__(self) -> int:
        return self.number  # hardly two registers of one kernel have the same

    @property
    def name(self) -> str:
        """What identifies it."""
        return f"{self.bank}{self.number}"

    def __str__(self) -> str:
        return f"%{self.bank}{self.number}"


@dataclass(frozen=True, slots=True, eq=False)
class Immediate:
    """A constant: in every lane of a vector dtype, or (a tuple) one per lane. -0.0 is not 0.0, NaN is NaN."""

    value: Number | tuple[Number, ...]
    dtype: DType

    @property
    def _key(self) -> object:
        values = self.value if isinstance(self.value, tuple) else (self.value,)
        return (self.dtype, isinstance(self.value, tuple), *map(_bits, values))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Immediate) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


def _bits(value: Number) -> object:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack("<d", value)
    if isinstance(value, complex):
        return _bits(value.real), _bits(value.imag)
    return type(value), value


Operand = Register | Immediate


@dataclass(frozen=True, slots=True)
class LaunchVariable:
    """An integer given at launch, within bounds (both included), and the register it arrives in."""

    result: Register
    name: str
    low: int
    high: int


__all__ = ["MIN_ALIGNMENT", "Buffer", "Immediate", "LaunchVariable", "Number", "Operand", "Register"]
