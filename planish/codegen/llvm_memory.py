"""Memory in LLVM IR: what a kernel keeps for itself, addresses, loads and stores, masked, gathered or past the caches."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from planish import dtypes
from planish.codegen import symbols
from planish.codegen.blocks import block_bytes, points
from planish.codegen.llvm_table import constant, element_type, immediate, llvm_type, memory_type, suffix
from planish.codegen.llvm_values import LlvmValues
from planish.codegen.questions import may_stream
from planish.dtypes import AddrSpace, DType
from planish.errors import LoweringError
from planish.llir import program as ir
from planish.llir.layout import pack

_STACK: Final = 4 << 20
"""Memory of its own that a kernel may keep on the stack."""


class MemoryAccesses(LlvmValues):
    """Writes memory and its accesses."""

    program: ir.Program
    aliased: Collection[str]
    scratch: bool
    loosely: Collection[ir.Register]
    maybe_empty: Mapping[ir.Register, tuple[ir.Register, ...]]
    strays: Mapping[ir.Register, ir.Buffer]

    @staticmethod
    def value(operand: ir.Operand) -> str:
        return f"%r{operand.number}" if isinstance(operand, ir.Register) else immediate(operand)

    def typed(self, operand: ir.Operand) -> str:
        return f"{llvm_type(operand.dtype)} {self.value(operand)}"

    def promise(self, buffer: ir.Buffer) -> str:
        alone = "" if buffer.name in self.aliased else " noalias"
        return alone + ("" if buffer.align is None else f" align {buffer.align}")

    def memory(self) -> None:
        """What the kernel keeps for itself. Memory with planned offsets is one block, so that it may overlap."""
        own = self.program.locals
        shared = [b for b in own if b.space is AddrSpace.LOCAL]
        stacked = [b for b in own if not (self.scratch and b in shared)]
        if sum(buffer.nbytes for buffer in stacked) > _STACK:
            raise LoweringError(
                f"{self.program.name} needs {sum(b.nbytes for b in own)} bytes of its own, more than {_STACK} on the stack"
            )
        planned = shared if self.scratch else [b for b in shared if b.offset is not None]
        arena = pack(planned)
        if planned and not self.scratch:
            self.emit(f"%arena = alloca [{arena.nbytes} x i8], align {arena.alignment}")
        places = {buffer: placed.offset for buffer, placed in zip(planned, arena.buffers, strict=True)}
        block = self.own_scratch() if self.scratch else "%arena"
        for buffer in own:
            name = symbols.memory(buffer)
            if buffer in places:
                self.emit(f"%{name} = getelementptr inbounds i8, ptr {block}, i64 {places[buffer]}")
            else:
                kind = f"[{buffer.size} x {element_type(buffer.dtype)}]"
                self.emit(f"%{name} = alloca {kind}, align {buffer.alignment}")

    def own_scratch(self) -> str:
        """Where the scratch memory of this block begins: blocks have one piece each, by their number."""
        number = "0"
        for special in {special.name: special for special in self.program.specials}.values():
            longer = self.let(f"mul i64 {number}, {points(special)}")
            number = self.let(f"add i64 {longer}, %{symbols.place(special.name)}")
        offset = self.let(f"mul i64 {number}, {block_bytes(self.program)}")
        return self.let(f"getelementptr inbounds i8, ptr %scratch, i64 {offset}")

    def address(self, i: ir.Address) -> None:
        if isinstance(i.base, ir.Buffer):
            base, element = f"ptr %{symbols.memory(i.base)}", i.base.dtype
        else:
            pointer = i.base.dtype.scalar
            base, element = self.typed(i.base), getattr(pointer, "base", pointer)
        inside = "" if i.result in self.loosely else "inbounds "
        self.let(
            f"getelementptr {inside}{element_type(element)}, {base}, {self.typed(i.index)}",
            self.value(i.result),
        )

    def load(self, i: ir.Load) -> None:
        dtype, result = i.result.dtype, self.value(i.result)
        small = dtype.bits < 8
        into = None if small or i.gate is not None else result
        if i.gate is None or i.alternative is None:
            loaded = self.load_memory(i, dtype, None, into)
            if small:
                self.from_memory(loaded, dtype, result)
        elif i.gate.dtype.lanes > 1 or i.address.dtype.lanes > 1:
            passed = self.to_memory(self.value(i.alternative), dtype)
            loaded = self.load_memory(
                i, dtype, (self.mask(i.gate, dtype.lanes), passed), None if small else result
            )
            if small:
                self.from_memory(loaded, dtype, result)
        else:
            before, name = self.block, f"load{i.result.number}"
            self.emit(f"br i1 {self.value(i.gate)}, label %{name}.then, label %{name}.join")
            self.label(f"{name}.then")
            loaded = self.load_memory(i, dtype, None, None)
            if small:
                loaded = self.from_memory(loaded, dtype, None)
            self.emit(f"br label %{name}.join")
            self.label(f"{name}.join")
            kind, otherwise = llvm_type(dtype), self.value(i.alternative)
            self.let(f"phi {kind} [ {loaded}, %{name}.then ], [ {otherwise}, %{before} ]", result)

    def load_memory(self, i: ir.Load, dtype: DType, masked: tuple[str, str] | None, into: str | None) -> str:
        kind, align = memory_type(dtype), i.align or dtype.itemsize
        lanes, word = dtype.lanes, suffix(_in_memory(dtype))
        if i.address.dtype.lanes > 1:
            mask, otherwise = masked or (constant(True, dtypes.bool_.vec(lanes)), "poison")
            return self.let(
                self.call(
                    kind,
                    f"llvm.masked.gather.{word}.v{lanes}p0",
                    (f"<{lanes} x ptr>", self.value(i.address)),
                    ("i32", str(align)),
                    (f"<{lanes} x i1>", mask),
                    (kind, otherwise),
                ),
                into,
            )
        if masked is not None:
            return self.let(
                self.call(
                    kind,
                    f"llvm.masked.load.{word}.p0",
                    ("ptr", self.there(i)),
                    ("i32", str(align)),
                    (f"<{lanes} x i1>", masked[0]),
                    (kind, masked[1]),
                ),
                into,
            )
        hint = self.temporality(i)
        return self.let(f"load {kind}, ptr {self.value(i.address)}, align {align}{hint}", into)

    def store(self, i: ir.Store) -> None:
        dtype = i.value.dtype
        kind, align = memory_type(dtype), i.align or dtype.itemsize
        lanes, word = dtype.lanes, suffix(_in_memory(dtype))
        value = self.to_memory(self.value(i.value), dtype)
        address = self.value(i.address)
        if may_stream(i):
            whole = self.whole(i)
            if whole is None:
                self.emit(f"store {kind} {value}, ptr {address}, align {align}{self.temporality(i)}")
                return
            place = f"stream{len(self.lines)}"
            likely = self.attach('!{{!"branch_weights", i32 1000, i32 1}}')
            self.emit(f"br i1 {whole}, label %{place}.past, label %{place}.plain, !prof {likely}")
            self.label(f"{place}.past")
            size = lanes * dtype.itemsize
            self.emit(f"store {kind} {value}, ptr {address}, align {size}{self.temporality(i)}")
            self.emit(f"br label %{place}.done")
            self.label(f"{place}.plain")
            self.store(replace(i, nontemporal=False))
            self.emit(f"br label %{place}.done")
            self.label(f"{place}.done")
            return
        if i.address.dtype.lanes > 1 or (i.gate is not None and i.gate.dtype.lanes > 1):
            mask = self.mask(i.gate, lanes)
            wide = i.address.dtype.lanes > 1
            name = f"llvm.masked.scatter.{word}.v{lanes}p0" if wide else f"llvm.masked.store.{word}.p0"
            place = f"<{lanes} x ptr>" if wide else "ptr"
            self.emit(
                self.call(
                    "void",
                    name,
                    (kind, value),
                    (place, address if wide else self.there(i)),
                    ("i32", str(align)),
                    (f"<{lanes} x i1>", mask),
                )
            )
            return
        name = f"store{len(self.lines)}"
        if i.gate is not None:
            self.emit(f"br i1 {self.value(i.gate)}, label %{name}.then, label %{name}.join")
            self.label(f"{name}.then")
        self.emit(f"store {kind} {value}, ptr {address}, align {align}")
        if i.gate is not None:
            self.emit(f"br label %{name}.join")
            self.label(f"{name}.join")

    def store_together(self, stores: Sequence[ir.Store]) -> None:
        """Vectors past the caches: one question for all, whether their addresses are aligned."""
        if not stores:
            return
        size = stores[0].value.dtype.lanes * stores[0].value.dtype.itemsize
        bits = "0"
        for i in stores:
            bits = self.let(f"or i64 {bits}, {self.let(f'ptrtoint ptr {self.value(i.address)} to i64')}")
        whole = self.let(f"icmp eq i64 {self.let(f'and i64 {bits}, {size - 1}')}, 0")
        place = f"stream{len(self.lines)}"
        likely = self.attach('!{{!"branch_weights", i32 1000, i32 1}}')
        self.emit(f"br i1 {whole}, label %{place}.past, label %{place}.plain, !prof {likely}")
        self.label(f"{place}.past")
        for i in stores:
            self.store(replace(i, align=size))
        self.emit(f"br label %{place}.done")
        self.label(f"{place}.plain")
        for i in stores:
            self.store(replace(i, nontemporal=False))
        self.emit(f"br label %{place}.done")
        self.label(f"{place}.done")

    def whole(self, i: ir.Store) -> str | None:
        """Whether a store may go past the caches: its address aligned, all of its lanes written. None: it may."""
        lanes, size = i.value.dtype.lanes, i.value.dtype.lanes * i.value.dtype.itemsize
        conditions: list[str] = []
        if i.align < size:
            number = self.let(f"ptrtoint ptr {self.value(i.address)} to i64")
            conditions.append(self.let(f"icmp eq i64 {self.let(f'and i64 {number}, {size - 1}')}, 0"))
        if i.gate is not None and i.gate.dtype.lanes > 1:
            bits = self.let(f"bitcast {self.typed(i.gate)} to i{lanes}")
            conditions.append(self.let(f"icmp eq i{lanes} {bits}, -1"))
        elif i.gate is not None:
            conditions.append(self.value(i.gate))
        if len(conditions) == 2:
            conditions = [self.let(f"and i1 {conditions[0]}, {conditions[1]}")]
        return conditions[0] if conditions else None

    def mask(self, gate: ir.Operand | None, lanes: int) -> str:
        if gate is None:
            return constant(True, dtypes.bool_.vec(lanes))
        return self.value(gate) if gate.dtype.lanes > 1 else self.splat(self.value(gate), gate.dtype, lanes)

    def there(self, i: ir.Load | ir.Store) -> str:
        """The address of a masked access; where all lanes may be off, the beginning of its memory if they are."""
        address = self.value(i.address)
        base = self.strays.get(i.address)
        gates = self.maybe_empty.get(i.gate) if isinstance(i.gate, ir.Register) else None
        if base is None or gates is None:
            return address
        some = self.value(gates[0])
        for gate in gates[1:]:
            some = self.let(f"or i1 {some}, {self.value(gate)}")
        return self.let(f"select i1 {some}, ptr {address}, ptr %{symbols.memory(base)}")

    def temporality(self, i: ir.Load | ir.Store) -> str:
        return f", !nontemporal {self.attach('!{{i32 1}}')}" if i.nontemporal else ""

    def to_memory(self, value: str, dtype: DType) -> str:
        """A value as it is stored."""
        if dtype.bits >= 8:
            return value
        return self.let(f"zext {llvm_type(dtype)} {value} to {memory_type(dtype)}")

    def from_memory(self, value: str, dtype: DType, into: str | None) -> str:
        kind = memory_type(dtype)
        if dtype.is_bool:
            return self.let(f"icmp ne {kind} {value}, {constant(0, dtypes.int8.vec(dtype.lanes))}", into)
        return self.let(f"trunc {kind} {value} to {llvm_type(dtype)}", into)

    def prefetch(self, i: ir.Prefetch) -> None:
        hints = (("i32", str(int(i.write))), ("i32", str(i.locality)), ("i32", "1"))
        self.emit(self.call("void", "llvm.prefetch.p0", ("ptr", self.value(i.address)), *hints))


def _in_memory(dtype: DType) -> DType:
    return dtypes.uint8.vec(dtype.lanes) if dtype.bits < 8 else dtype
