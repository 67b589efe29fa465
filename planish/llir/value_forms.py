"""Instructions that compute: arithmetic, conversions, lanes, matrix tiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from planish import dtypes
from planish.dtypes import AddrSpace, DType, PtrDType
from planish.llir.instruction import Array, Complaint, Instruction, form, is_integer, is_power_of_two
from planish.llir.tiles import TileOp
from planish.llir.values import Number, Operand, Register
from planish.uop import arithmetic
from planish.uop.ops import COMPARISONS, REDUCIBLE, DTypeLaw, Ops
from planish.uop.symbolic.reduce import identity_of
from planish.uop.tensor_cores import ROW

if TYPE_CHECKING:
    from planish.llir.program import Program

_KINDS: Final[dict[DTypeLaw, tuple[Callable[[DType], bool], str]]] = {
    DTypeLaw.FLOAT: (lambda d: d.is_float or d.is_complex, "floats"),
    DTypeLaw.INTEGRAL: (lambda d: d.is_int, "integers"),
    DTypeLaw.BITS: (lambda d: d.is_int or d.is_bool, "integers and bools"),
}


@form
class Compute(Instruction):
    """result = op(operands), lane by lane, with the meaning that the op has in the kernel IR."""

    mnemonic, reads, writes, on_numbers = "", ("inputs",), "result", True
    result: Register
    op: Ops
    inputs: tuple[Operand, ...]

    def problems(self, program: Program) -> Iterator[Complaint]:
        name = self.op.name.lower()
        if not self.op.min_sources or len(self.inputs) != self.op.min_sources:
            yield "types", f"{name}({self.op.sources}) given {len(self.inputs)} operands"
            return
        dtype, operands = self.result.dtype, [operand.dtype for operand in self.inputs]
        if self.op in COMPARISONS:
            expected = [operands[0]] * 2
            if dtype is not dtypes.bool_.vec(operands[0].lanes):
                yield "types", f"a comparison gives {dtypes.bool_.vec(operands[0].lanes)}, not {dtype}"
        else:
            expected = [dtype] * len(operands)
            if self.op is Ops.WHERE:
                expected[0] = dtypes.bool_.vec(dtype.lanes)
        if operands != expected:
            given, wanted = (", ".join(map(str, kinds)) for kinds in (operands, expected))
            yield "types", f"operands {given} where {wanted} are expected"
        works, kinds = _KINDS.get(self.op.law, (None, ""))
        if works is not None and not works(dtype):
            yield "types", f"{name} works on {kinds}, not on {dtype}"

    def evaluate(self, *operands: Array) -> Array:
        # the meaning of a comparison is that of its operands' dtype
        dtype = self.inputs[0].dtype if self.op in COMPARISONS else self.result.dtype
        return arithmetic.apply(self.op, dtype, *operands)


@form
class Convert(Instruction):
    """result = the operand, cast to the dtype of the result."""

    mnemonic, reads, writes, on_numbers = "cast", ("operand",), "result", True
    syntax = "operand:operand : operand -> result"
    result: Register
    operand: Operand

    def problems(self, program: Program) -> Iterator[Complaint]:
        if self.operand.dtype.lanes != self.result.dtype.lanes:
            yield ("types", f"a cast keeps the number of lanes: {self.operand.dtype} to {self.result.dtype}")

    def evaluate(self, *operands: Array) -> Array:
        return arithmetic.convert(operands[0], self.operand.dtype, self.result.dtype)


@form
class Bitcast(Instruction):
    """result = the bits of the operand; lane 0 holds the least significant ones."""

    mnemonic, reads, writes, on_numbers = "bitcast", ("operand",), "result", True
    syntax, lowers = "operand:operand : operand -> result", (Ops.BITCAST,)
    result: Register
    operand: Operand

    def problems(self, program: Program) -> Iterator[Complaint]:
        source, target = self.operand.dtype, self.result.dtype
        if source.bits * source.lanes != target.bits * target.lanes:
            yield "types", f"{source} and {target} differ in size"
        if source.is_bool or target.is_bool:
            yield "types", "a bool has no bits to reinterpret"

    def evaluate(self, *operands: Array) -> Array:
        return _reinterpret(operands[0], self.operand.dtype, self.result.dtype)


# -- lanes -----------------------------------------------------------------------------------------------------


@form
class SelectLanes(Instruction):
    """result = the selected lanes of the operand (lane 0 of a scalar is itself)."""

    mnemonic, reads, writes = "lanes", ("operand",), "result"
    syntax, lowers = "operand[lanes] : result", (Ops.GEP,)
    result: Register
    operand: Operand
    lanes: tuple[int, ...]

    def problems(self, program: Program) -> Iterator[Complaint]:
        source = self.operand.dtype
        outside = [lane for lane in self.lanes if not 0 <= lane < source.lanes]
        if outside or not self.lanes:
            yield "lanes", f"{source} has no lanes {', '.join(map(str, outside or self.lanes)) or '(none)'}"
        elif self.result.dtype is not source.scalar.vec(len(self.lanes)):
            yield "types", f"{len(self.lanes)} lanes of {source} do not make {self.result.dtype}"

    def evaluate(self, *operands: Array) -> Array:
        return _shaped(np.atleast_1d(operands[0])[list(self.lanes)], self.result)


def _joined(i: Build | Concat) -> Iterator[Complaint]:
    dtype = i.result.dtype
    if any(operand.dtype.scalar is not dtype.scalar for operand in i.inputs):
        yield "types", f"{', '.join(str(x.dtype) for x in i.inputs)} do not join to {dtype}"
    total = sum(operand.dtype.lanes for operand in i.inputs)
    if total != dtype.lanes:
        yield "lanes", f"{total} lanes do not make {dtype}"


def _join(operands: tuple[Array, ...], result: Register) -> Array:
    return _shaped(np.concatenate([np.atleast_1d(x) for x in operands]), result)


def _shaped(lanes: Array, result: Register) -> Array:
    """A scalar has no axis."""
    return lanes.reshape(()) if result.dtype.lanes == 1 else lanes


@form
class Build(Instruction):
    """result = scalars as the lanes of a vector."""

    mnemonic, reads, writes, syntax = "build", ("inputs",), "result", "inputs:result.scalar : result"
    result: Register
    inputs: tuple[Operand, ...]

    def problems(self, program: Program) -> Iterator[Complaint]:
        yield from _joined(self)
        if any(operand.dtype.lanes != 1 for operand in self.inputs):
            yield "lanes", "build takes scalars; concat joins vectors"

    def evaluate(self, *operands: Array) -> Array:
        return _join(operands, self.result)


@form
class Concat(Instruction):
    """result = the lanes of the operands, one after another."""

    mnemonic, reads, writes, syntax = "concat", ("inputs",), "result", "inputs : result"
    result: Register
    inputs: tuple[Operand, ...]

    def problems(self, program: Program) -> Iterator[Complaint]:
        return _joined(self)

    def evaluate(self, *operands: Array) -> Array:
        return _join(operands, self.result)


@form
class Lookup(Instruction):
    """result[i] = table[index[i] mod entries]: a table of constants or values that stays in a register.

    It has a power of two of entries: machines look at as many of the last bits of the index as they need.
    """

    mnemonic, reads, writes, on_numbers = "lookup", ("table", "index"), "result", True
    syntax, lowers = "table[index] : result", (Ops.LOOKUP,)
    result: Register
    table: Operand
    index: Operand

    def problems(self, program: Program) -> Iterator[Complaint]:
        if not is_integer(self.index.dtype):
            yield "types", f"the index is an i32 or i64, not {self.index.dtype}"
        if not is_power_of_two(self.table.dtype.lanes):
            yield "lanes", f"a table has a power of two of entries, not those of {self.table.dtype}"
        expected = self.table.dtype.scalar.vec(self.index.dtype.lanes)
        if self.result.dtype is not expected:
            yield "types", f"the result is {expected}, not {self.result.dtype}"

    def evaluate(self, *operands: Array) -> Array:
        table, index = operands
        return np.asarray(np.atleast_1d(table)[index & (self.table.dtype.lanes - 1)])


@form
class AnyLane(Instruction):
    """result = whether the operand, of bools, holds in any lane."""

    mnemonic, reads, writes = "any", ("operand",), "result"
    syntax, lowers = "operand : result", (Ops.ANY,)
    result: Register
    operand: Operand

    def problems(self, program: Program) -> Iterator[Complaint]:
        if not self.operand.dtype.is_bool or self.result.dtype is not dtypes.bool_:
            yield ("types", f"any makes one bool of bools, not {self.result.dtype} of {self.operand.dtype}")

    def evaluate(self, *operands: Array) -> Array:
        return np.asarray(np.any(operands[0]))


@form
class Tile(Instruction):
    """result = a @ b + c, all threads of the tile's group together."""

    mnemonic, reads, writes = "tile", ("a", "b", "c"), "result"
    syntax = "tile a, b, c:result( pending=pending) : result"
    result: Register
    a: Operand
    b: Operand
    c: Operand
    tile: TileOp
    pending: int = 0
    """How many such products may be under way when the thread goes on."""

    def problems(self, program: Program) -> Iterator[Complaint]:
        if self.tile.problems():
            return  # told once, in the header
        for matrix, operand in zip("abc", (self.a, self.b, self.c), strict=True):
            if operand.dtype.lanes != self.tile.lanes(matrix):
                lanes = self.tile.lanes(matrix)
                yield "tile", f"a thread holds {lanes} elements of {matrix}, not {operand.dtype}"
        if self.result.dtype is not self.c.dtype:
            yield "types", f"the result is {self.c.dtype}, not {self.result.dtype}"
        a, b = self.a.dtype.scalar, self.b.dtype.scalar
        for matrix, dtype in (("a", a), ("b", b)):
            local = isinstance(dtype, PtrDType) and dtype.space is AddrSpace.LOCAL
            if self.tile.in_memory(matrix) != dtype.is_pointer or (dtype.is_pointer and not local):
                yield (
                    "tile",
                    f"{matrix} is {'a place in LOCAL memory' if self.tile.in_memory(matrix) else 'held in registers'}, not {dtype}",
                )
                return
        a, b = (d.base.scalar if isinstance(d, PtrDType) else d for d in (a, b))
        if a is not b and not (a.is_int and b.is_int and a.bits == b.bits):
            yield "types", f"matrices of {a} and {b} are not multiplied"


@form
class Finish(Instruction):
    """result = the operand, once every product that the thread has begun is done, but for so many of the last."""

    mnemonic, reads, writes, on_numbers = "finish", ("operand",), "result", True
    syntax, lowers = "operand:result( pending=pending) : result", (Ops.FINISH,)
    result: Register
    operand: Operand
    pending: int = 0

    def problems(self, program: Program) -> Iterator[Complaint]:
        if self.result.dtype is not self.operand.dtype:
            yield "types", f"the result is {self.operand.dtype}, not {self.result.dtype}"


@form
class CombineThreads(Instruction):
    """result = the operands of `width` neighbouring threads combined by an op, pairwise; each of them gets it.

    `before`: each gets those of the threads before it, the first the identity.
    """

    mnemonic, reads, writes, on_numbers = "combine", ("operand",), "result", True
    syntax = "by operand:result over width( before) : result"
    result: Register
    by: str
    operand: Operand
    width: int
    before: bool = False

    @property
    def op(self) -> Ops:
        return Ops[self.by.upper()]

    @property
    def nothing(self) -> Number:
        """What changes nothing when the op combines it."""
        return cast("Number", identity_of(self.op, self.result.dtype.scalar))

    def problems(self, program: Program) -> Iterator[Complaint]:
        if self.by not in {op.name.lower() for op in REDUCIBLE}:
            yield "combine", f"{self.by} is no op that may be done in any order"
        if not is_power_of_two(self.width):
            yield "combine", f"{self.width} threads are no power of two"
        if self.result.dtype is not self.operand.dtype:
            yield "types", f"the result is {self.operand.dtype}, not {self.result.dtype}"


@form
class Deal(Instruction):
    """result = words of the 16-byte rows that the threads of a warp have, dealt out as tensor cores hold matrices (`Exchange`)."""

    mnemonic, reads, writes, on_numbers = "deal", ("operand",), "result", True
    syntax = "operand matrices=matrices( transposed) : operand -> result"
    result: Register
    operand: Register
    matrices: int
    transposed: bool = False

    def problems(self, program: Program) -> Iterator[Complaint]:
        given, result = self.operand.dtype, self.result.dtype
        if self.matrices not in {1, 2, 4}:
            yield "lanes", f"a warp has rows of 1, 2 or 4 matrices, not {self.matrices}"
        elif (
            given.itemsize * given.lanes != ROW
            or given.scalar.vec(result.lanes) is not result
            or result.lanes * 4 != given.lanes * self.matrices
        ):
            yield "types", f"{self.matrices} matrices of rows {given} do not make {result}"


def _reinterpret(values: Array, source: DType, target: DType) -> Array:
    lanes = np.atleast_1d(arithmetic.store(values, source))
    if 4 in {source.bits, target.bits}:
        octets = (
            np.ascontiguousarray(lanes).view(np.uint8)
            if source.bits != 4
            else lanes.astype(np.int8).view(np.uint8)
        )
        nibbles = octets & 15 if source.bits == 4 else np.stack([octets & 15, octets >> 4], -1).reshape(-1)
        if target.bits == 4:
            result = arithmetic.settle(target, nibbles)
        else:
            pairs = nibbles.reshape(-1, 2)
            result = np.ascontiguousarray(pairs[:, 0] | pairs[:, 1] << 4).view(target.numpy)
    else:
        result = np.ascontiguousarray(lanes).view(target.numpy)
    return arithmetic.load(result if target.lanes > 1 else result.reshape(()), target)


__all__ = [
    "AnyLane", "Bitcast", "Build", "CombineThreads", "Compute", "Concat", "Convert", "Deal", "Finish",
    "Lookup", "SelectLanes", "Tile",
]  # fmt: skip
