"""Programs written by hand: numbers the registers, types the constants, and computes N-d addresses.

    b = Builder("add")
    x, y = b.param("x", float32, 16), b.param("y", float32, 16)
    with b.loop(16) as i:
        b.store(b.address(y, i), b.add(b.load(b.address(x, i)), 1.0))
    program = b.program()

A plain number is a constant of the dtype its place asks for (an index or bound: int32). Nothing is checked here; `verify`
says what is wrong with the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from planish import dtypes
from planish.dtypes import AddrSpace, DType, PtrDType
from planish.llir import program as ir
from planish.llir.tiles import TileOp
from planish.uop.hardware_index import HardwareIndex
from planish.uop.node import Number

Value = ir.Operand | Number
"""An operand, or a number whose dtype its place decides."""


def immediate(value: Value, dtype: DType) -> ir.Operand:
    """The operand; a number as the constant of this dtype."""
    if isinstance(value, ir.Register | ir.Immediate):
        return value
    return ir.Immediate(dtype.const(value), dtype)


class Builder:
    """Writes one program, instruction by instruction."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.body: list[ir.Instruction] = []
        self._params: list[ir.Buffer] = []
        self._locals: list[ir.Buffer] = []
        self._variables: list[ir.LaunchVariable] = []
        self.functions: dict[ir.OpFunction, None] = {}
        """Of kernels that were written into this one."""
        self._count = 0

    def program(self) -> ir.Program:
        """What has been written so far."""
        own = (tuple(self._params), tuple(self._locals), tuple(self.body), tuple(self._variables))
        return ir.Program(self.name, *own, tuple(self.functions))

    @property
    def buffers(self) -> tuple[ir.Buffer, ...]:
        """What has been declared so far, parameters first."""
        return (*self._params, *self._locals)

    def fresh(self, dtype: DType) -> ir.Register:
        """A register that nothing has assigned yet."""
        self._count += 1
        return ir.Register(self._count - 1, dtype)

    def _assigned(self, form: Callable[..., ir.Instruction], dtype: DType, *fields: object) -> ir.Register:
        """The fresh register that an instruction assigns."""
        result = self.fresh(dtype)
        self.body.append(form(result, *fields))
        return result

    # -- declarations ----------------------------------------------------------------------------------------------

    def param(self, name: str, dtype: DType, size: int, align: int | None = None) -> ir.Buffer:
        """A buffer that the kernel is called with."""
        self._params.append(ir.Buffer(name, dtype, size, AddrSpace.GLOBAL, align))
        return self._params[-1]

    def parameter(self, slot: int, dtype: DType, size: int, align: int | None = None) -> ir.Buffer:
        """A buffer that the kernel is called with, known by its number."""
        self._params.append(ir.Buffer.parameter(slot, dtype, size, align))
        return self._params[-1]

    def memory(
        self,
        name: str,
        dtype: DType,
        size: int,
        space: AddrSpace = AddrSpace.REG,
        offset: int | None = None,
        align: int | None = None,
    ) -> ir.Buffer:
        """A buffer of the kernel's own."""
        self._locals.append(ir.Buffer(name, dtype, size, space, align, offset))
        return self._locals[-1]

    def variable(self, name: str, low: int, high: int, dtype: DType = dtypes.int32) -> ir.Register:
        """An integer given at launch."""
        self._variables.append(ir.LaunchVariable(self.fresh(dtype), name, low, high))
        return self._variables[-1].result

    # -- memory ----------------------------------------------------------------------------------------------------

    def address(self, base: ir.Buffer | ir.Register, index: Value) -> ir.Register:
        """base + index·itemsize."""
        position = immediate(index, dtypes.int32)
        pointer = base.pointer if isinstance(base, ir.Buffer) else base.dtype
        return self._assigned(
            ir.Address, pointer.scalar.vec(max(position.dtype.lanes, pointer.lanes)), base, position
        )

    def address_nd(
        self,
        base: ir.Buffer | ir.Register,
        indices: Sequence[Value],
        steps: Sequence[int],
        dtype: DType = dtypes.int32,
    ) -> ir.Register:
        """base + (Σ indexᵢ·stepᵢ)·itemsize, computed in `dtype`, every term of the sum."""
        total: ir.Operand | None = None
        for index, step in zip(indices, steps, strict=True):
            term = immediate(index, dtype)
            if step != 1:
                term = self.compute(ir.Ops.MUL, term, step)
            total = term if total is None else self.compute(ir.Ops.ADD, total, term)
        return self.address(base, immediate(0, dtype) if total is None else total)

    def load(
        self,
        address: ir.Register,
        dtype: DType | None = None,
        *,
        gate: Value | None = None,
        alternative: Value | None = None,
        align: int = 0,
        nontemporal: bool = False,
    ) -> ir.Register:
        """What is at the address: one element, or as much as `dtype` holds."""
        base = address.dtype.scalar
        element = base.base if isinstance(base, PtrDType) else base
        kind = element.scalar.vec(element.lanes * address.dtype.lanes) if dtype is None else dtype
        condition = None if gate is None else immediate(gate, dtypes.bool_)
        otherwise = None if gate is None else immediate(0 if alternative is None else alternative, kind)
        return self._assigned(ir.Load, kind, address, condition, otherwise, align, nontemporal)

    def store(
        self,
        address: ir.Register,
        value: Value,
        *,
        gate: Value | None = None,
        align: int = 0,
        nontemporal: bool = False,
    ) -> None:
        """What is at the address becomes the value."""
        base = address.dtype.scalar
        element = base.base if isinstance(base, PtrDType) else base
        condition = None if gate is None else immediate(gate, dtypes.bool_)
        self.body.append(ir.Store(address, immediate(value, element), condition, align, nontemporal))

    def prefetch(self, address: ir.Register, *, write: bool = False, locality: int = 3) -> None:
        """A promise to use what is at the address."""
        self.body.append(ir.Prefetch(address, write, locality))

    # -- values ----------------------------------------------------------------------------------------------------

    def compute(self, op: ir.Ops, *inputs: Value) -> ir.Register:
        """op(inputs); the dtype is that of the first operand that is not a number."""
        typed = inputs[1:] if op is ir.Ops.WHERE else inputs
        dtype = next(v.dtype for v in typed if isinstance(v, ir.Register | ir.Immediate))
        operands = tuple(immediate(v, dtype) for v in inputs)
        return self._assigned(
            ir.Compute, dtypes.bool_.vec(dtype.lanes) if op in ir.COMPARISONS else dtype, op, operands
        )

    def add(self, x: Value, y: Value) -> ir.Register:
        """x + y."""
        return self.compute(ir.Ops.ADD, x, y)

    def mul(self, x: Value, y: Value) -> ir.Register:
        """x * y."""
        return self.compute(ir.Ops.MUL, x, y)

    def fma(self, x: Value, y: Value, z: Value) -> ir.Register:
        """x * y + z, rounded once."""
        return self.compute(ir.Ops.MULACC, x, y, z)

    def less(self, x: Value, y: Value) -> ir.Register:
        """x < y."""
        return self.compute(ir.Ops.CMPLT, x, y)

    def select(self, condition: ir.Operand, x: Value, y: Value) -> ir.Register:
        """x where the condition holds, else y."""
        return self.compute(ir.Ops.WHERE, condition, x, y)

    def cast(self, operand: ir.Operand, dtype: DType) -> ir.Register:
        """The value converted to the scalar type, lane by lane."""
        return self._assigned(ir.Convert, dtype.scalar.vec(operand.dtype.lanes), operand)

    def bitcast(self, operand: ir.Operand, dtype: DType) -> ir.Register:
        """The bits reinterpreted."""
        return self._assigned(ir.Bitcast, dtype, operand)

    def lanes(self, operand: ir.Operand, *lanes: int) -> ir.Register:
        """The selected lanes."""
        return self._assigned(ir.SelectLanes, operand.dtype.scalar.vec(len(lanes)), operand, lanes)

    def build(self, *inputs: ir.Operand) -> ir.Register:
        """Scalars as a vector."""
        return self._assigned(ir.Build, inputs[0].dtype.vec(len(inputs)), inputs)

    def splat(self, operand: ir.Operand, lanes: int) -> ir.Register:
        """A scalar in every lane."""
        return self.build(*(operand,) * lanes)

    def concat(self, *inputs: ir.Operand) -> ir.Register:
        """Vectors joined."""
        return self._assigned(
            ir.Concat, inputs[0].dtype.scalar.vec(sum(v.dtype.lanes for v in inputs)), inputs
        )

    def lookup(self, table: ir.Operand, index: ir.Operand) -> ir.Register:
        """table[index modulo its entries], lane by lane."""
        return self._assigned(ir.Lookup, table.dtype.scalar.vec(index.dtype.lanes), table, index)

    def any(self, operand: ir.Operand) -> ir.Register:
        """Whether a bool holds in any lane."""
        return self._assigned(ir.AnyLane, dtypes.bool_, operand)

    def tile(self, tile: TileOp, a: ir.Operand, b: ir.Operand, c: ir.Operand) -> ir.Register:
        """a @ b + c."""
        return self._assigned(ir.Tile, c.dtype, a, b, c, tile)

    # -- control ---------------------------------------------------------------------------------------------------

    def special(self, index: HardwareIndex, bound: Value, dtype: DType = dtypes.int32) -> ir.Register:
        """The index of this block, thread or core."""
        return self._assigned(ir.Special, dtype, index, immediate(bound, dtype))

    @contextmanager
    def loop(self, bound: Value, unroll: int = 0, dtype: DType = dtypes.int32) -> Iterator[ir.Register]:
        """The instructions of the `with` block, for every value of the counter."""
        end = immediate(bound, dtype)
        counter = self.fresh(end.dtype)
        self.body.append(ir.Loop(counter, end, unroll))
        yield counter
        self.body.append(ir.EndLoop(counter, end))

    @contextmanager
    def when(self, condition: ir.Operand) -> Iterator[None]:
        """The instructions of the `with` block, where the condition holds."""
        self.body.append(ir.If(condition))
        yield
        self.body.append(ir.EndIf())

    def barrier(self) -> None:
        """All threads of the block have come here."""
        self.body.append(ir.Barrier())
