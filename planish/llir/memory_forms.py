"""Instructions of memory: addresses, loads, stores, prefetches, and the places of registers that do not fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from planish import dtypes
from planish.dtypes import AddrSpace, DType, PtrDType
from planish.llir.instruction import Complaint, Instruction, form, is_integer, is_power_of_two
from planish.llir.values import Buffer, Operand, Register

if TYPE_CHECKING:
    from planish.llir.program import Program


@form
class Address(Instruction):
    """result = base + index·(bytes of an element). The base is a buffer or an address; LOCAL memory may be that of another block of the cluster."""

    mnemonic, reads, writes = "address", ("base", "index"), "result"
    syntax = "base( of=peer)[index:i32] : result"
    result: Register
    base: Buffer | Register
    index: Operand
    peer: int = 0
    """Which block of the cluster has the memory, counted from 1; 0: this one."""

    def problems(self, program: Program) -> Iterator[Complaint]:
        if isinstance(self.base, Buffer):
            if self.base not in program.buffers:
                yield "address", f"{self.base} is not a buffer of this kernel"
            base: DType = self.base.pointer
        else:
            base = self.base.dtype
            if not base.is_pointer:
                yield "address", f"the base {self.base} is {base}, not an address"
                return
        if self.peer and not (isinstance(self.base, Buffer) and self.base.space is AddrSpace.LOCAL):
            yield "address", f"a block of the cluster has LOCAL memory, not {self.base}"
        if not is_integer(self.index.dtype):
            yield "address", f"the index is an i32 or i64, not {self.index.dtype}"
        lanes = {self.index.dtype.lanes, base.lanes} - {1}
        expected = base.scalar.vec(max(lanes, default=1))
        if len(lanes) > 1:
            yield "lanes", f"{self.index.dtype.lanes} indices do not go with {base.lanes} addresses"
        elif self.result.dtype is not expected:
            yield "types", f"the result is {expected}, not {self.result.dtype}"


def _element(address: Register) -> tuple[DType, int] | None:
    """The scalar dtype at an address, and how many addresses there are."""
    scalar = address.dtype.scalar
    if not isinstance(scalar, PtrDType):
        return None
    return scalar.base.scalar, address.dtype.lanes


def _access(i: Load | Store, value: DType, program: Program) -> Iterator[Complaint]:
    element = _element(i.address)
    if element is None:
        yield "address", f"{i.address} is {i.address.dtype}, not an address"
    else:
        scalar, addresses = element
        if value.scalar is not scalar:
            yield "types", f"memory of {scalar} does not hold {value}"
        if addresses > 1 and value.lanes != addresses:
            yield "lanes", f"{addresses} addresses do not go with {value}"
        pointer = i.address.dtype.scalar
        if isinstance(pointer, PtrDType) and all(b.pointer is not pointer for b in program.buffers):
            yield "address", f"no buffer of this kernel is {pointer}"
    if i.gate is not None and i.gate.dtype not in {dtypes.bool_, dtypes.bool_.vec(value.lanes)}:
        yield "gate", f"the gate is bool or {dtypes.bool_.vec(value.lanes)}, not {i.gate.dtype}"
    if i.align < 0 or (i.align and not is_power_of_two(i.align)):
        yield "hint", f"alignment {i.align} is not a power of two"


@form
class Load(Instruction):
    """result = what is at the address, where the gate holds; the alternative elsewhere.

    `align` promises the alignment of the address in bytes; 0 promises that of an element.
    """

    mnemonic, reads, writes = "load", ("address", "gate", "alternative"), "result"
    syntax = "address( if gate:bool)( else alternative:result)( align=align)( nontemporal) : result"
    result: Register
    address: Register
    gate: Operand | None = None
    alternative: Operand | None = None
    align: int = 0
    nontemporal: bool = False

    def problems(self, program: Program) -> Iterator[Complaint]:
        yield from _access(self, self.result.dtype, program)
        if (self.gate is None) is not (self.alternative is None):
            yield "gate", "a gate and an alternative go together"
        elif self.alternative is not None and self.alternative.dtype is not self.result.dtype:
            yield "gate", f"the alternative is {self.result.dtype}, not {self.alternative.dtype}"


@form
class Store(Instruction):
    """What is at the address = value, where the gate holds."""

    mnemonic, reads = "store", ("address", "value", "gate")
    syntax = "address, value:value( if gate:bool)( align=align)( nontemporal) : value"
    address: Register
    value: Operand
    gate: Operand | None = None
    align: int = 0
    nontemporal: bool = False

    def problems(self, program: Program) -> Iterator[Complaint]:
        return _access(self, self.value.dtype, program)


@form
class Prefetch(Instruction):
    """What is at the address will be read (or written) soon. `locality`: from 0, use once, to 3, keep in all caches."""

    mnemonic, reads = "prefetch", ("address",)
    syntax = "address( write) locality=locality"
    address: Register
    write: bool = False
    locality: int = 3

    def problems(self, program: Program) -> Iterator[Complaint]:
        if _element(self.address) is None or self.address.dtype.lanes != 1:
            yield "address", f"{self.address} is {self.address.dtype}, not one address"
        if not 0 <= self.locality <= 3:
            yield "hint", f"locality {self.locality} is not 0, 1, 2 or 3"


# -- after register allocation ---------------------------------------------------------------------------------


@form
class Spill(Instruction):
    """slot = the register."""

    mnemonic, reads, syntax = "spill", ("value",), "slot, value"
    slot: int
    value: Register


@form
class Reload(Instruction):
    """result = what was spilled to the slot."""

    mnemonic, writes, syntax = "reload", "result", "slot : result"
    result: Register
    slot: int


ACCESSES: Final = (Load, Store)
"""A tuple, as in `control_forms`."""

__all__ = ["ACCESSES", "Address", "Load", "Prefetch", "Reload", "Spill", "Store"]
