"""LLIR: a kernel as a linear list of instructions on typed registers and explicit memory.

The whole language on one screen (`x`, `y` …: a register or an immediate; `f(x)?`: may be left out):

    %r = address buffer[i]  address %p[i]            base + i·itemsize; a vector of indices gives a vector of addresses
    %r = load %p (if g else x)? hints                lanes of %r, one after another from %p; or one from each address
         store %p, x (if g)? hints                   likewise; the gate is one bool, or one per lane
         prefetch %p                                 a promise to read (or write) soon; never fails
    %r = <op> x, y …        cast x        bitcast x  arithmetic, comparison, select, fma (`mulacc`); conversions
    %r = lanes x[i, j …]  build x, y …  concat x, y … select, make and join lanes
    %r = lookup t[i]                                 lanes of the register t, selected by the values of i modulo their number
    %r = any x                                       whether a bool holds in any lane
    %r = tile a, b, c                                a @ b + c on matrix tiles spread over registers and threads
    %r = combine op x over n                         x of n neighbouring threads, combined; each of them gets it
    %r = special name < n                            the index of this block, thread or core
         loop %r < n … end        if x … endif       counted from 0; properly nested
         barrier                                     all threads of the block have come here
    %r = reload s           spill s, %r              a register's place in memory; written by register allocation alone

Every buffer has a dtype, a size in bytes, an alignment and perhaps an offset in an arena. A register is assigned once
(after allocation a physical one: many times) and has a scalar, vector or pointer dtype. No dtype is `index`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, cast

from planish.dtypes import AddrSpace, DType, PtrDType
from planish.llir.tiles import TileOp
from planish.uop.node import Number
from planish.uop.ops import COMPARISONS, Ops

__all__ = [
    "COMPARISONS",
    "FORMS",
    "MIN_ALIGNMENT",
    "Address",
    "AnyLane",
    "Barrier",
    "Bitcast",
    "Buffer",
    "Build",
    "Combine",
    "Compute",
    "Concat",
    "Convert",
    "EndIf",
    "EndLoop",
    "Function",
    "If",
    "Immediate",
    "Instruction",
    "Lanes",
    "Load",
    "Lookup",
    "Loop",
    "Number",
    "Operand",
    "Ops",
    "Prefetch",
    "Program",
    "Register",
    "Reload",
    "Special",
    "Spill",
    "Store",
    "Tile",
    "Variable",
]

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
class Variable:
    """An integer given at launch, within bounds (both included), and the register it arrives in."""

    result: Register
    name: str
    low: int
    high: int


class Instruction:
    """One line. `reads` names the fields that are operands, `writes` the one that is the register assigned."""

    __slots__ = ()

    mnemonic: ClassVar[str]
    reads: ClassVar[tuple[str, ...]] = ()
    writes: ClassVar[str | None] = None

    @property
    def operands(self) -> tuple[Operand, ...]:
        """What it reads, in order."""
        found: list[Operand] = []
        for name in self.reads:
            value = getattr(self, name)
            if isinstance(value, tuple):
                found += value
            elif isinstance(value, Register | Immediate):
                found.append(value)
        return tuple(found)

    @property
    def registers(self) -> tuple[Register, ...]:
        """The registers it reads, in order."""
        return tuple(operand for operand in self.operands if isinstance(operand, Register))

    @property
    def target(self) -> Register | None:
        """The register it assigns."""
        return None if self.writes is None else cast("Register", getattr(self, self.writes))

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


# -- memory ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Address(Instruction):
    """result = base + index·(bytes of an element). The base is a buffer or an address."""

    mnemonic, reads, writes = "address", ("base", "index"), "result"
    result: Register
    base: Buffer | Register
    index: Operand


@dataclass(frozen=True, slots=True)
class Load(Instruction):
    """result = what is at the address, where the gate holds; the alternative elsewhere.

    `align` promises the alignment of the address in bytes; 0 promises that of an element.
    """

    mnemonic, reads, writes = "load", ("address", "gate", "alternative"), "result"
    result: Register
    address: Register
    gate: Operand | None = None
    alternative: Operand | None = None
    align: int = 0
    nontemporal: bool = False


@dataclass(frozen=True, slots=True)
class Store(Instruction):
    """What is at the address = value, where the gate holds."""

    mnemonic, reads = "store", ("address", "value", "gate")
    address: Register
    value: Operand
    gate: Operand | None = None
    align: int = 0
    nontemporal: bool = False


@dataclass(frozen=True, slots=True)
class Prefetch(Instruction):
    """What is at the address will be read (or written) soon. `locality`: from 0, use once, to 3, keep in all caches."""

    mnemonic, reads = "prefetch", ("address",)
    address: Register
    write: bool = False
    locality: int = 3


# -- arithmetic ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Compute(Instruction):
    """result = op(operands), lane by lane, with the meaning that the op has in the kernel IR."""

    mnemonic, reads, writes = "", ("inputs",), "result"
    result: Register
    op: Ops
    inputs: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Convert(Instruction):
    """result = the operand, cast to the dtype of the result."""

    mnemonic, reads, writes = "cast", ("operand",), "result"
    result: Register
    operand: Operand


@dataclass(frozen=True, slots=True)
class Bitcast(Instruction):
    """result = the bits of the operand; lane 0 holds the least significant ones."""

    mnemonic, reads, writes = "bitcast", ("operand",), "result"
    result: Register
    operand: Operand


# -- lanes -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Lanes(Instruction):
    """result = the selected lanes of the operand (lane 0 of a scalar is itself)."""

    mnemonic, reads, writes = "lanes", ("operand",), "result"
    result: Register
    operand: Operand
    lanes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Build(Instruction):
    """result = scalars as the lanes of a vector."""

    mnemonic, reads, writes = "build", ("inputs",), "result"
    result: Register
    inputs: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Concat(Instruction):
    """result = the lanes of the operands, one after another."""

    mnemonic, reads, writes = "concat", ("inputs",), "result"
    result: Register
    inputs: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Lookup(Instruction):
    """result[i] = table[index[i] mod entries]: a table of constants or values that stays in a register.

    It has a power of two of entries: machines look at as many of the last bits of the index as they need.
    """

    mnemonic, reads, writes = "lookup", ("table", "index"), "result"
    result: Register
    table: Operand
    index: Operand


@dataclass(frozen=True, slots=True)
class AnyLane(Instruction):
    """result = whether the operand, of bools, holds in any lane."""

    mnemonic, reads, writes = "any", ("operand",), "result"
    result: Register
    operand: Operand


@dataclass(frozen=True, slots=True)
class Tile(Instruction):
    """result = a @ b + c, all threads of the tile's group together."""

    mnemonic, reads, writes = "tile", ("a", "b", "c"), "result"
    result: Register
    a: Operand
    b: Operand
    c: Operand
    tile: TileOp


@dataclass(frozen=True, slots=True)
class Combine(Instruction):
    """result = the operands of `width` neighbouring threads combined by an op, pairwise; each of them gets it."""

    mnemonic, reads, writes = "combine", ("operand",), "result"
    result: Register
    op: Ops
    operand: Operand
    width: int


# -- control ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Special(Instruction):
    """result = an index that the hardware (or the thread pool) supplies: lidx… of a thread in its block, others of a block."""

    mnemonic, reads, writes = "special", ("bound",), "result"
    result: Register
    name: str
    bound: Operand

    @property
    def is_thread(self) -> bool:
        """Whether it tells the threads of one block apart."""
        return self.name.startswith("lidx")


@dataclass(frozen=True, slots=True)
class Loop(Instruction):
    """counter = 0, 1, … below bound, up to the matching EndLoop.

    `unroll`: 0 leaves it to the back end, 1 asks to keep the loop, n for n copies of the body.
    """

    mnemonic, reads, writes = "loop", ("bound",), "counter"
    counter: Register
    bound: Operand
    unroll: int = 0


@dataclass(frozen=True, slots=True)
class EndLoop(Instruction):
    """Closes the innermost open loop: its counter and bound, once more."""

    mnemonic, reads = "end", ("counter", "bound")
    counter: Register
    bound: Operand


@dataclass(frozen=True, slots=True)
class If(Instruction):
    """What follows, up to the matching EndIf, happens where the condition holds."""

    mnemonic, reads = "if", ("condition",)
    condition: Operand


@dataclass(frozen=True, slots=True)
class EndIf(Instruction):
    """Closes the innermost open If."""

    mnemonic = "endif"


@dataclass(frozen=True, slots=True)
class Barrier(Instruction):
    """Every thread of the block waits for the others; memory written before is seen after."""

    mnemonic = "barrier"


# -- after register allocation ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Spill(Instruction):
    """slot = the register."""

    mnemonic, reads = "spill", ("value",)
    slot: int
    value: Register


@dataclass(frozen=True, slots=True)
class Reload(Instruction):
    """result = what was spilled to the slot."""

    mnemonic, writes = "reload", "result"
    result: Register
    slot: int


FORMS: Final[tuple[type[Instruction], ...]] = (
    Address, Load, Store, Prefetch, Compute, Convert, Bitcast, Lanes, Build, Concat, Lookup, AnyLane, Tile, Combine, Special, Loop,
    EndLoop, If, EndIf, Barrier, Spill, Reload,
)  # fmt: skip
"""Every instruction there is. Tables keyed by these decide what is printed, parsed, verified, executed and rendered."""


@dataclass(frozen=True, slots=True)
class Function:
    """How an op on values of a dtype is computed, said once for all instructions of a kernel that are such.

    The body is a kernel of its own: it stores its result in its first parameter and reads its operands from the others.
    """

    op: Ops
    dtype: DType
    body: Program


@dataclass(frozen=True, slots=True)
class Program:
    """One kernel."""

    name: str
    params: tuple[Buffer, ...]
    locals: tuple[Buffer, ...]
    body: tuple[Instruction, ...]
    variables: tuple[Variable, ...] = ()
    functions: tuple[Function, ...] = field(default=(), compare=False)
    """What code generation calls. The op says what it means, so that neither text nor interpreter need them."""

    def __repr__(self) -> str:
        return f"<LLIR {self.name}: {len(self.params)} parameters, {len(self.body)} instructions>"

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """Parameters first."""
        return (*self.params, *self.locals)

    @property
    def tiles(self) -> tuple[TileOp, ...]:
        """The tile operations it uses, each once."""
        return tuple(dict.fromkeys(i.tile for i in self.body if isinstance(i, Tile)))

    @property
    def specials(self) -> tuple[Special, ...]:
        """Its hardware indices, in order of appearance."""
        return tuple(i for i in self.body if isinstance(i, Special))

    @property
    def is_allocated(self) -> bool:
        """Whether it works on physical registers."""
        return any(i.target is not None and i.target.bank != "" for i in self.body)
