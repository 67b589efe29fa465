"""LLIR into LLVM IR text: one method per instruction form, arithmetic by the tables of `llvm_table`.

* Floats are strict (no fast-math flags); max and min propagate NaN. float16 and bfloat16 are computed in float32 and rounded
  once, subnormals included; conversions from wider types do not round twice.
* A bool is i1 in registers and a byte in memory, a 4-bit integer likewise.
* Nothing traps and nothing is undefined: shifts beyond the width and divisions by zero have the values of the interpreter.
* A function takes a pointer per parameter, then an i64 per variable, then an i64 per special index (`signature`): whoever calls
  it supplies the grid. LOCAL and REG memory is on the stack, so a block is one thread: barriers have nothing to wait for, and
  a tile operation must belong to one thread. LOCAL memory that is too much for a stack is taken from a last pointer, `scratch`.
* Parameters do not overlap, except those that are said to be `aliased`.
* Transcendental functions are LLVM intrinsics, which call the C library.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

from planish import dtypes
from planish.codegen import amx, amx_text, dot_products, symbols, transposition
from planish.codegen.blocks import block_bytes, points, scratch_bytes
from planish.codegen.llvm_table import (
    constant,
    element_type,
    immediate,
    llvm_type,
    memory_type,
    suffix,
)
from planish.codegen.llvm_values import Values
from planish.codegen.questions import (
    may_stream,
    maybe_outside,
    no_neighbours,
    one_thread,
    refuse_threads,
    stored_together,
    streams,
    waits_for_roots,
)
from planish.codegen.spans import Span, spans_of
from planish.codegen.transposition import Transposition
from planish.codegen.wide import widened
from planish.dtypes import AddrSpace, DType
from planish.errors import LoweringError
from planish.llir import program as ir
from planish.llir.instruction import handlers
from planish.llir.layout import pack
from planish.llir.program import (
    COMPARISONS,
    MIN_ALIGNMENT,
    Buffer,
    Function,
    Immediate,
    Operand,
    Ops,
    Program,
    Register,
)

__all__ = ["Signature", "llvm_type", "render", "scratch_bytes", "signature"]

_EXACT: Final = {Ops.ADD: "add", Ops.SUB: "sub", Ops.MUL: "mul", Ops.SHL: "shl"}
"""What is told to LLVM if it does not wrap."""
_STACK: Final = 4 << 20
"""Memory of its own that a kernel may keep on the stack."""


@dataclass(frozen=True, slots=True)
class Signature:
    """What a rendered function takes: pointers, then integers of 64 bits."""

    buffers: tuple[str, ...]
    variables: tuple[str, ...]
    specials: tuple[str, ...]


def signature(program: Program) -> Signature:
    """The parameters of the function that `render` makes of a program, in order."""
    return Signature(
        tuple(b.name for b in program.params),
        tuple(v.name for v in program.variables),
        tuple(dict.fromkeys(s.name for s in program.specials)),
    )


class _Writer(Values):
    """Writes one function."""

    def __init__(
        self,
        program: Program,
        spans: dict[Register, Span],
        aliased: Collection[str],
        scratch: bool,
        avx512: bool,
    ) -> None:
        super().__init__(avx512=avx512)
        self.refines_roots = waits_for_roots(program)
        self.program = program
        self.aliased = aliased
        self.scratch = scratch
        self.opened: list[str] = []
        self.questions = {i.result for i in program.body if isinstance(i, ir.AnyLane)}
        """Whether any lane holds: hardly ever, or nobody would have asked."""
        self.tests: dict[Register, str] = {}
        """By the counter of a loop: whether it goes on."""
        self.loosely = maybe_outside(program)
        self.hinted = any(isinstance(i, ir.Loop) and i.unroll > 1 for i in program.body)
        self.spans = spans
        self.transposed = transposition.find(program)
        self.turned: dict[int, list[str]] = {}
        self.tiles = amx.plan(program)
        self.functions = {(each.op, each.dtype) for each in program.functions}

    # -- words -----------------------------------------------------------------------------------------------

    @staticmethod
    def value(operand: Operand) -> str:
        return f"%r{operand.number}" if isinstance(operand, Register) else immediate(operand)

    def typed(self, operand: Operand) -> str:
        return f"{llvm_type(operand.dtype)} {self.value(operand)}"

    # -- the function ----------------------------------------------------------------------------------------------

    def write(self) -> str:
        """The module: the kernel, and what it calls."""
        program = self.program
        if program.is_allocated:
            raise LoweringError(f"{program.name} is on physical registers; LLVM allocates them itself")
        self.instructions()
        self.emit("ret void")
        own = signature(program)
        params = [f"ptr{self.promise(b)} %{symbols.memory(b)}" for b in program.params]
        params += [f"i64 %{symbols.size(name)}" for name in own.variables]
        params += [f"i64 %{symbols.place(name)}" for name in own.specials]
        params += ["ptr noalias align 64 %scratch"] if self.scratch else []
        called = "".join(map(self.function, program.functions))
        declared = "".join(f"{line}\n" for line in sorted(self.declared.values()))
        metadata = "".join(f"{line}\n" for line in self.metadata)
        body = "\n".join(self.lines)
        head = f"define void @{symbols.kernel(program.name)}({', '.join(params)})"
        return f"{declared}{head} {{\nentry:\n{body}\n}}\n{called}{metadata}"

    def function(self, called: Function) -> str:
        """A function: its parameters are memory of its own, which LLVM then does without."""
        inner = _Writer(called.body, spans_of(called.body), (), False, self.avx512)
        inner.declared, inner.metadata = self.declared, self.metadata
        kind, (result, *operands) = llvm_type(called.dtype), called.body.params
        for buffer in called.body.params:
            inner.emit(f"%{symbols.memory(buffer)} = alloca {kind}, align {MIN_ALIGNMENT}")
        for n, buffer in enumerate(operands):
            inner.emit(f"store {kind} %x{n}, ptr %{symbols.memory(buffer)}, align {MIN_ALIGNMENT}")
        inner.instructions()
        inner.let(f"load {kind}, ptr %{symbols.memory(result)}, align {MIN_ALIGNMENT}", "%result")
        inner.emit(f"ret {kind} %result")
        params = ", ".join(f"{kind} %x{n}" for n in range(len(operands)))
        body = "\n".join(inner.lines)
        name = symbols.function(called.op, called.dtype)
        return f"define internal {kind} @{name}({params}) noinline nounwind {{\nentry:\n{body}\n}}\n"

    def instructions(self) -> None:
        """All lines of the body."""
        program = self.program
        self.memory()
        for variable in program.variables:
            self.integer_argument(variable.result, symbols.size(variable.name))
        if self.tiles is not None:
            amx_text.llvm_start(self)
        together = stored_together(program)
        for position, instruction in enumerate(program.body):
            if self.tiles is not None:
                amx_text.llvm_steps(self, self.tiles.before.get(position, ()))
                if position in self.tiles.replaced:
                    continue
            if position in together:
                self.store_together(together[position])
                continue
            _WRITE[type(instruction)](self, instruction)
        if self.tiles is not None:
            amx_text.llvm_end(self)
        if streams(program):
            self.emit("fence seq_cst")  # what went past the caches is seen by whoever hears that this is done

    def promise(self, buffer: Buffer) -> str:
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

    def integer_argument(self, result: Register, name: str) -> None:
        kind = llvm_type(result.dtype)
        text = f"add i64 %{name}, 0" if kind == "i64" else f"trunc i64 %{name} to {kind}"
        self.let(text, self.value(result))

    # -- memory ----------------------------------------------------------------------------------------------------

    def address(self, i: ir.Address) -> None:
        if isinstance(i.base, Buffer):
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
            found = self.load_memory(i, dtype, None, into)
            if small:
                self.from_memory(found, dtype, result)
        elif i.gate.dtype.lanes > 1 or i.address.dtype.lanes > 1:
            passed = self.to_memory(self.value(i.alternative), dtype)
            found = self.load_memory(
                i, dtype, (self.mask(i.gate, dtype.lanes), passed), None if small else result
            )
            if small:
                self.from_memory(found, dtype, result)
        else:
            before, name = self.block, f"load{i.result.number}"
            self.emit(f"br i1 {self.value(i.gate)}, label %{name}.then, label %{name}.join")
            self.label(f"{name}.then")
            found = self.load_memory(i, dtype, None, None)
            if small:
                found = self.from_memory(found, dtype, None)
            self.emit(f"br label %{name}.join")
            self.label(f"{name}.join")
            kind, otherwise = llvm_type(dtype), self.value(i.alternative)
            self.let(f"phi {kind} [ {found}, %{name}.then ], [ {otherwise}, %{before} ]", result)

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
                    ("ptr", self.value(i.address)),
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
                    (place, address),
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
        found: list[str] = []
        if i.align < size:
            number = self.let(f"ptrtoint ptr {self.value(i.address)} to i64")
            found.append(self.let(f"icmp eq i64 {self.let(f'and i64 {number}, {size - 1}')}, 0"))
        if i.gate is not None and i.gate.dtype.lanes > 1:
            bits = self.let(f"bitcast {self.typed(i.gate)} to i{lanes}")
            found.append(self.let(f"icmp eq i{lanes} {bits}, -1"))
        elif i.gate is not None:
            found.append(self.value(i.gate))
        if len(found) == 2:
            found = [self.let(f"and i1 {found[0]}, {found[1]}")]
        return found[0] if found else None

    def mask(self, gate: Operand | None, lanes: int) -> str:
        if gate is None:
            return constant(True, dtypes.bool_.vec(lanes))
        return self.value(gate) if gate.dtype.lanes > 1 else self.splat(self.value(gate), gate.dtype, lanes)

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

    # -- values ----------------------------------------------------------------------------------------------

    def compute(self, i: ir.Compute) -> None:
        dtype = i.inputs[0].dtype if i.op in COMPARISONS else i.result.dtype
        values = [self.value(x) for x in i.inputs]
        if i.op in _EXACT and i.result in self.spans:
            self.let(f"{_EXACT[i.op]} nsw {llvm_type(dtype)} {values[0]}, {values[1]}", self.value(i.result))
            return
        if i.op is Ops.MULACC and i.result in self.spans:
            product = self.let(f"mul nsw {llvm_type(dtype)} {values[0]}, {values[1]}")
            self.let(f"add nsw {llvm_type(dtype)} {product}, {values[2]}", self.value(i.result))
            return
        self.alu(i.op, dtype, values, self.value(i.result))

    def cast(self, i: ir.Convert) -> None:
        self.convert_value(self.value(i.operand), i.operand.dtype, i.result.dtype, self.value(i.result))

    def bitcast(self, i: ir.Bitcast) -> None:
        self.let(f"bitcast {self.typed(i.operand)} to {llvm_type(i.result.dtype)}", self.value(i.result))

    def lanes(self, i: ir.Lanes) -> None:
        self.select(self.value(i.operand), i.operand.dtype, i.lanes, self.value(i.result))

    def build(self, i: ir.Build) -> None:
        first, kind = i.inputs[0], llvm_type(i.result.dtype)
        whole_rows = self.transposed.get(i.result)
        if whole_rows is not None:
            start, width = whole_rows.pieces[i.result], whole_rows.lanes
            rows = self.transpose(whole_rows)
            at, count = start // width, len(i.inputs)
            if count == width:
                self.let(f"bitcast {kind} {rows[at]} to {kind}", self.value(i.result))
            elif count < width:
                chosen = range(start % width, start % width + count)
                self.select(rows[at], whole_rows.rows[0].dtype, chosen, self.value(i.result))
            else:
                parts = [(row, width) for row in rows[at : at + count // width]]
                self.join(parts, whole_rows.rows[0].dtype.scalar, self.value(i.result))
            return
        if all(x == first for x in i.inputs):
            self.select(self.value(first), first.dtype, [0] * len(i.inputs), self.value(i.result))
            return
        if first.dtype.is_bool and self.build_mask(i):
            return
        whole = "poison"
        for lane, x in enumerate(i.inputs):
            into = self.value(i.result) if lane + 1 == len(i.inputs) else None
            whole = self.let(f"insertelement {kind} {whole}, {self.typed(x)}, i32 {lane}", into)

    def build_mask(self, i: ir.Build) -> bool:
        """Lanes of a few bools, as bits of one integer: a lane at a time takes several instructions each."""
        count, kind = len(i.inputs), f"i{len(i.inputs)}"
        bits: dict[Operand, int] = {}
        for lane, x in enumerate(i.inputs):
            bits[x] = bits.get(x, 0) | 1 << lane
        if count < 8 or count & (count - 1) or len(bits) > count // 4 + 1:
            return False
        always = sum(mask for x, mask in bits.items() if not isinstance(x, Register) and x.value)
        word = str(always)
        for x, mask in bits.items():
            if isinstance(x, Register):
                chosen = self.let(f"select {self.typed(x)}, {kind} {mask}, {kind} 0")
                word = self.let(f"or {kind} {word}, {chosen}")
        self.let(f"bitcast {kind} {word} to {llvm_type(i.result.dtype)}", self.value(i.result))
        return True

    def transpose(self, wanted: Transposition) -> list[str]:
        """The rows of a transposition; made where the first is asked for, which is before all others."""
        found = self.turned.get(id(wanted))
        if found is None:
            kind = llvm_type(wanted.rows[0].dtype)
            found = [self.value(row) for row in wanted.rows]
            for round_ in transposition.rounds(len(found), wanted.lanes, wanted.rows[0].dtype.itemsize):
                found = [
                    self.let(
                        f"shufflevector {kind} {found[a]}, {kind} {found[b]}, "
                        f"<{wanted.lanes} x i32> <{', '.join(f'i32 {lane}' for lane in mask)}>"
                    )
                    for a, b, mask in round_
                ]
            self.turned[id(wanted)] = found
        return found

    def concat(self, i: ir.Concat) -> None:
        parts = [(self.value(x), x.dtype.lanes) for x in i.inputs]
        self.join(parts, i.result.dtype.scalar, self.value(i.result))

    def lookup(self, i: ir.Lookup) -> None:
        """Element by element: LLVM finds the permutation instruction where there is one; on AVX-512 we name it."""
        table, index = i.table, i.index
        if self.avx512 and _is_permutation(table.dtype, index.dtype):
            self.permute(i)
            return
        whole, scalar = "poison", llvm_type(table.dtype.scalar)
        inside = self.alu(
            Ops.AND, index.dtype, [self.value(index), constant(table.dtype.lanes - 1, index.dtype)]
        )
        for lane in range(index.dtype.lanes):
            place = inside
            if index.dtype.lanes > 1:
                place = self.let(f"extractelement {llvm_type(index.dtype)} {inside}, i32 {lane}")
            last = self.value(i.result) if lane + 1 == index.dtype.lanes else None
            single = last if index.dtype.lanes == 1 else None
            if table.dtype.lanes == 1:
                found = self.select(self.value(table), table.dtype, [0], single)
            else:
                found = self.let(
                    f"extractelement {self.typed(table)}, {llvm_type(index.dtype.scalar)} {place}", single
                )
            if index.dtype.lanes > 1:
                kind = llvm_type(i.result.dtype)
                whole = self.let(f"insertelement {kind} {whole}, {scalar} {found}, i32 {lane}", last)

    def permute(self, i: ir.Lookup) -> None:
        """A lookup in one register; an index of fewer lanes is the beginning of one."""
        table, lanes = i.table.dtype, i.index.dtype.lanes
        name = f"llvm.x86.avx512.permvar.{'sf' if table.bits == 32 else 'df'}.512"
        places = self.widen(self.value(i.index), lanes, table.lanes, i.index.dtype.scalar)
        kind, whole = llvm_type(table), llvm_type(i.index.dtype.scalar.vec(table.lanes))
        found = self.call(kind, name, (kind, self.value(i.table)), (whole, places))
        if lanes == table.lanes:
            self.let(found, self.value(i.result))
        else:
            self.select(self.let(found), table, range(lanes), self.value(i.result))

    def any(self, i: ir.AnyLane) -> None:
        lanes, value = i.operand.dtype.lanes, self.value(i.operand)
        if lanes == 1:
            self.select(value, dtypes.bool_, [0], self.value(i.result))
        else:
            kind = llvm_type(i.operand.dtype)
            self.let(
                self.call("i1", f"llvm.vector.reduce.or.v{lanes}i1", (kind, value)), self.value(i.result)
            )

    def tile(self, i: ir.Tile) -> None:
        tile, wide = i.tile, i.c.dtype.scalar
        one_thread(i)

        if dot_products.is_pairs(i):
            texts = [self.value(x) for x in (i.a, i.b, i.c, i.result)]
            dot_products.add_pairs(self, i, texts[0], texts[1], texts[2], texts[3])
            return

        if self.avx512 and dot_products.is_quads(i):
            texts = [self.value(x) for x in (i.a, i.b, i.c, i.result)]
            dot_products.add_quads(self, i, texts[0], texts[1], texts[2], texts[3])
            return

        def rows(matrix: str, operand: Operand, count: int) -> list[str]:
            """The rows of a matrix, in the dtype of the sum."""
            value, dtype = self.value(operand), operand.dtype
            if dtype.scalar is not wide:
                value, dtype = self.convert_value(value, dtype, wide.vec(dtype.lanes)), wide.vec(dtype.lanes)
            lane_of = {int(place): lane for lane, place in enumerate(tile.places(matrix)[0])}
            size = dtype.lanes // count
            return [
                self.select(value, dtype, [lane_of[row * size + column] for column in range(size)])
                for row in range(count)
            ]

        a, b, c = rows("a", i.a, tile.m), rows("b", i.b, tile.k), rows("c", i.c, tile.m)
        row, across = wide.vec(tile.n), wide.vec(tile.k)
        for k in range(tile.k):
            for m in range(tile.m):
                factor = self.select(a[m], across, [k]) if tile.k > 1 else a[m]
                spread = self.splat(factor, wide, tile.n) if tile.n > 1 else factor
                c[m] = self.alu(Ops.MULACC, row, [spread, b[k], c[m]])
        whole = self.join([(value, tile.n) for value in c], wide)
        order = [int(place) for place in tile.places("c")[0]]
        self.select(whole, i.c.dtype, order, self.value(i.result))

    # -- control ---------------------------------------------------------------------------------------------------

    def special(self, i: ir.Special) -> None:
        self.integer_argument(i.result, symbols.place(i.name))

    def loop(self, i: ir.Loop) -> None:
        counter, kind = self.value(i.counter), llvm_type(i.counter.dtype)
        label, before = f"loop{i.counter.number}", self.block
        # the test is at the end: what runs at least once is known not to wrap, and addresses fold
        less = f"icmp {'slt' if i.counter.dtype.is_signed else 'ult'} {kind}"
        self.tests[i.counter] = f"{less} {counter}.next, {self.value(i.bound)}"
        if isinstance(i.bound, Immediate) and cast("int", i.bound.value) > 0:
            self.emit(f"br label %{label}.body")
        else:
            self.emit(f"{counter}.any = {less} 0, {self.value(i.bound)}")
            self.emit(f"br i1 {counter}.any, label %{label}.body, label %{label}.exit")
        self.label(f"{label}.body")
        self.emit(f"{counter} = phi {kind} [ 0, %{before} ], [ {counter}.next, %{label}.latch ]")
        self.opened.append("")
        if i.unroll == 1 or (
            i.unroll == 0 and self.hinted
        ):  # a pass that unrolls is to leave the others alone
            self.opened[-1] = self.attach("distinct !{{!{0}, !{1}}}", '!{{!"llvm.loop.unroll.disable"}}')
        elif i.unroll:
            count = f'!{{{{!"llvm.loop.unroll.count", i32 {i.unroll}}}}}'
            self.opened[-1] = self.attach("distinct !{{!{0}, !{1}}}", count)

    def end(self, i: ir.EndLoop) -> None:
        label, kind, counter = f"loop{i.counter.number}", llvm_type(i.counter.dtype), self.value(i.counter)
        hint = self.opened.pop()
        self.emit(f"br label %{label}.latch")
        self.label(f"{label}.latch")
        self.emit(f"{counter}.next = add nsw {kind} {counter}, 1")
        again = f"br i1 {counter}.more, label %{label}.body, label %{label}.exit"
        self.emit(f"{counter}.more = {self.tests[i.counter]}")
        self.emit(f"{again}{f', !llvm.loop {hint}' if hint else ''}")
        self.label(f"{label}.exit")

    def if_(self, i: ir.If) -> None:
        name = f"if{len(self.lines)}"
        self.opened.append(name)
        rare = ""
        if i.condition in self.questions:
            weights = '!{{!"branch_weights", i32 1, i32 1000}}'
            rare = f", !prof {self.attach(weights)}"
        self.emit(f"br i1 {self.value(i.condition)}, label %{name}.then, label %{name}.end{rare}")
        self.label(f"{name}.then")

    def endif(self, i: ir.EndIf) -> None:
        name = self.opened.pop()
        self.emit(f"br label %{name}.end")
        self.label(f"{name}.end")

    def barrier(self, i: ir.Barrier) -> None:
        refuse_threads(self.program)

    def combine(self, i: ir.Combine) -> None:
        no_neighbours(i)


def _is_permutation(table: DType, index: DType) -> bool:
    """Whether a lookup is one of floats in a whole register of AVX-512."""
    whole = table.is_float and table.bits * table.lanes == 512 and table.bits >= 32
    return whole and index.bits == table.bits and index.lanes <= table.lanes


def _in_memory(dtype: DType) -> DType:
    return dtypes.uint8.vec(dtype.lanes) if dtype.bits < 8 else dtype


_WRITE: Final = handlers(_Writer)


def render(
    program: Program, *, aliased: Collection[str] = (), scratch: bool = False, avx512: bool = False
) -> str:
    """The LLVM IR of one kernel, with the declarations it needs.

    `aliased` names parameters whose memory may be that of another one. With `scratch`, LOCAL memory is not on the stack but
    where a last parameter points. With `avx512`, instructions that only such processors have may be named; without, the text is
    good for any.
    """
    return _Writer(*widened(program), aliased, scratch, avx512).write()
