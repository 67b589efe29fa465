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

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final, cast

from planish.codegen import amx, amx_text, symbols, transposition
from planish.codegen.blocks import scratch_bytes
from planish.codegen.llvm_lanes import LaneMoves
from planish.codegen.llvm_table import llvm_type
from planish.codegen.outlining import outlined
from planish.codegen.questions import (
    Kinds,
    OneThread,
    maybe_empty,
    maybe_outside,
    stored_together,
    strays,
    streams,
    waiting_roots,
)
from planish.codegen.spans import Span, spans_of
from planish.codegen.wide import widened
from planish.errors import LoweringError
from planish.llir import program as ir
from planish.llir.instruction import handlers
from planish.llir.program import COMPARISONS, MIN_ALIGNMENT, Ops
from planish.records import dataclass

__all__ = ["KernelSignature", "llvm_type", "render", "scratch_bytes", "signature"]

_EXACT: Final = {Ops.ADD: "add", Ops.SUB: "sub", Ops.MUL: "mul", Ops.SHL: "shl"}
"""What is told to LLVM if it does not wrap."""
_NO_PARTS: Final[Mapping[int, ir.Program]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class KernelSignature:
    """What a rendered function takes: pointers, then integers of 64 bits."""

    buffers: tuple[str, ...]
    variables: tuple[str, ...]
    specials: tuple[str, ...]


def signature(program: ir.Program) -> KernelSignature:
    """The parameters of the function that `render` makes of a program, in order."""
    return KernelSignature(
        tuple(b.name for b in program.params),
        tuple(v.name for v in program.variables),
        tuple(dict.fromkeys(s.name for s in program.specials)),
    )


class _LlvmWriter(OneThread, LaneMoves):
    """Writes one function."""

    def __init__(
        self,
        program: ir.Program,
        spans: dict[ir.Register, Span],
        aliased: Collection[str],
        scratch: bool,
        avx512: bool,
        parts: Mapping[int, ir.Program] = _NO_PARTS,
    ) -> None:
        super().__init__(avx512=avx512)
        self.parts = parts
        """By position: what is a function of its own (`outlining`)."""
        self.kinds = kinds = Kinds(program.body)
        self.waiting_roots = waiting_roots(program, kinds)
        self.program = program
        self.aliased = aliased
        self.scratch = scratch
        self.opened: list[str] = []
        self.questions = {i.result for i in kinds[ir.AnyLane]}
        """Whether any lane holds: hardly ever, or nobody would have asked."""
        self.tests: dict[ir.Register, str] = {}
        """By the counter of a loop: whether it goes on."""
        self.loosely = maybe_outside(kinds)
        self.maybe_empty = maybe_empty(kinds)
        self.strays = strays(kinds, spans)
        self.hinted = any(i.unroll > 1 for i in kinds[ir.Loop]) or any(
            isinstance(i, ir.Loop) and i.unroll > 1 for each in parts.values() for i in each.body
        )
        self.spans = spans
        self.many = transposition.find(program) if kinds[ir.SelectLanes] else transposition.NONE
        self.turned: dict[int, list[str]] = {}
        self.taken = {i.result: i for i in kinds[ir.SelectLanes]}
        self.picked: dict[ir.Register, tuple[ir.Register, int]] = {}
        self.longer: dict[ir.Register, tuple[ir.Register, int]] = {}
        self.tiles = amx.plan(program) if kinds[ir.Tile] else None
        self.functions = {(each.op, each.dtype) for each in program.functions}

    # -- the function ----------------------------------------------------------------------------------------------

    def write(self) -> str:
        """The module: the kernel, and what it calls."""
        program = self.program
        if program.is_allocated:
            raise LoweringError(f"{program.name} is on physical registers; LLVM allocates them itself")
        self.instructions()
        self.emit("ret void")
        called = "".join(map(self.part, self.parts.values())) + "".join(map(self.function, program.functions))
        declared = "".join(f"{line}\n" for line in sorted(self.declared.values()))
        metadata = "".join(f"{line}\n" for line in self.metadata)
        body = "\n".join(self.lines)
        head = f"define void @{symbols.kernel(program.name)}({', '.join(self.parameters())})"
        return f"{declared}{head} {{\nentry:\n{body}\n}}\n{called}{metadata}"

    def parameters(self) -> list[str]:
        """What the function takes."""
        own = signature(self.program)
        params = [f"ptr{self.promise(b)} %{symbols.memory(b)}" for b in self.program.params]
        params += [f"i64 %{symbols.size(name)}" for name in own.variables]
        params += [f"i64 %{symbols.place(name)}" for name in own.specials]
        return [*params, "ptr noalias align 64 %scratch"] if self.scratch else params

    def part(self, part: ir.Program) -> str:
        """A branch as a function, which takes what the kernel takes."""
        inner = _LlvmWriter(part, self.spans, self.aliased, self.scratch, self.avx512)
        inner.declared, inner.metadata, inner.hinted = self.declared, self.metadata, self.hinted
        inner.instructions()
        inner.emit("ret void")
        head = f"define internal void @{symbols.kernel(part.name)}({', '.join(inner.parameters())}) noinline nounwind"
        body = "\n".join(inner.lines)
        return f"{head} {{\nentry:\n{body}\n}}\n"

    def function(self, called: ir.OpFunction) -> str:
        """A function: its parameters are memory of its own, which LLVM then does without."""
        inner = _LlvmWriter(called.body, spans_of(called.body), (), False, self.avx512)
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
        together = stored_together(program, self.kinds)
        for position, instruction in enumerate(program.body):
            if position in self.parts:
                self.emit(
                    f"call void @{symbols.kernel(self.parts[position].name)}({', '.join(self.parameters())})"
                )
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
        if streams(self.kinds):
            self.emit("fence seq_cst")  # what went past the caches is seen by whoever hears that this is done

    def integer_argument(self, result: ir.Register, name: str) -> None:
        kind = llvm_type(result.dtype)
        text = f"add i64 %{name}, 0" if kind == "i64" else f"trunc i64 %{name} to {kind}"
        self.let(text, self.value(result))

    # -- values ----------------------------------------------------------------------------------------------

    def compute(self, i: ir.Compute) -> None:
        op, result = i.op, i.result
        dtype = i.inputs[0].dtype if op in COMPARISONS else result.dtype
        values, into = [self.value(x) for x in i.inputs], f"%r{result.number}"
        if dtype.lanes == 1 and result in self.spans:  # none of the others has a span
            if op in _EXACT:
                self.let(f"{_EXACT[op]} nsw {llvm_type(dtype)} {values[0]}, {values[1]}", into)
                return
            if op is Ops.MULACC:
                product = self.let(f"mul nsw {llvm_type(dtype)} {values[0]}, {values[1]}")
                self.let(f"add nsw {llvm_type(dtype)} {product}, {values[2]}", into)
                return
        self.refines_roots = result in self.waiting_roots
        self.alu(op, dtype, values, into)

    def cast(self, i: ir.Convert) -> None:
        self.convert_value(self.value(i.operand), i.operand.dtype, i.result.dtype, self.value(i.result))

    def bitcast(self, i: ir.Bitcast) -> None:
        self.let(f"bitcast {self.typed(i.operand)} to {llvm_type(i.result.dtype)}", self.value(i.result))

    # -- control ---------------------------------------------------------------------------------------------------

    def special(self, i: ir.Special) -> None:
        self.integer_argument(i.result, symbols.place(i.name))

    def loop(self, i: ir.Loop) -> None:
        counter, kind = self.value(i.counter), llvm_type(i.counter.dtype)
        label, before = f"loop{i.counter.number}", self.block
        # the test is at the end: what runs at least once is known not to wrap, and addresses fold
        less = f"icmp {'slt' if i.counter.dtype.is_signed else 'ult'} {kind}"
        self.tests[i.counter] = f"{less} {counter}.next, {self.value(i.bound)}"
        if isinstance(i.bound, ir.Immediate) and cast("int", i.bound.value) > 0:
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


_WRITE: Final = handlers(_LlvmWriter)


def render(
    program: ir.Program, *, aliased: Collection[str] = (), scratch: bool = False, avx512: bool = False
) -> str:
    """The LLVM IR of one kernel, with the declarations it needs.

    `aliased` names parameters whose memory may be that of another one. With `scratch`, LOCAL memory is not on the stack but
    where a last parameter points. With `avx512`, instructions that only such processors have may be named; without, the text is
    good for any.
    """
    whole, spans = widened(program)
    shell, parts = outlined(whole)
    return _LlvmWriter(shell, spans, aliased, scratch, avx512, parts).write()
