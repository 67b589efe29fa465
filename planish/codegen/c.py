"""LLIR into GNU C11 with vector extensions: to be read, and to be compiled by gcc or clang.

* One file per kernel, with the types and helper functions it uses. Compiled with the flags of `planish.runtime.cc` it means what the interpreter
  means: integers wrap, floats are not contracted or reordered, nothing is undefined and nothing traps.
* Vectors are vector types where C has the operation; else a loop over the lanes. A vector of bools is a mask of bytes, each 0
  or -1. Floats that C lacks are held as their bits; vectors of a number of lanes that is no power of two have spare ones.
* A function takes a pointer per parameter, then an int64_t per variable and per special index, as the LLVM back end's does.
  A block is one thread: barriers have nothing to wait for.
"""

from __future__ import annotations

from typing import Final

from planish.codegen import amx, amx_text, symbols
from planish.codegen.blocks import block_bytes, points
from planish.codegen.c_table import lanes_in_c, memory_type, scalar_type
from planish.codegen.c_values import CValues, is_wide
from planish.codegen.questions import Kinds, OneThread, may_stream, maybe_outside
from planish.dtypes import AddrSpace
from planish.errors import LoweringError
from planish.llir import program as ir
from planish.llir.instruction import handlers
from planish.llir.layout import pack
from planish.llir.program import MIN_ALIGNMENT, Buffer, OpFunction, Program, Register

_QUIET: Final = "\n".join(
    f'#pragma GCC diagnostic ignored "-W{word}"'
    for word in ("tautological-compare", "unused-variable", "unused-but-set-variable", "unused-parameter")
)
"""What a compiler may wonder at in code that people write; here it folds and drops such things."""
_UNROLL: Final = """#if defined(__clang__)
#define UNROLL(n) _Pragma(TEXT(clang loop unroll_count(n)))
#else
#define UNROLL(n) _Pragma(TEXT(GCC unroll n))
#endif
#define TEXT(x) #x"""


class _CWriter(OneThread, CValues):
    """Writes one file."""

    def __init__(self, program: Program, scratch: bool) -> None:
        super().__init__()
        self.program = program
        self.scratch = scratch
        self.unrolls = False
        self.loosely = maybe_outside(Kinds(program.body))
        self.functions = {(each.op, each.dtype) for each in program.functions}

    # -- the file --------------------------------------------------------------------------------------------------

    def write(self) -> str:
        program = self.program
        if program.is_allocated:
            raise LoweringError(
                f"{program.name} is on physical registers; the C compiler allocates them itself"
            )
        self.memory()
        for variable in program.variables:
            self.let(variable.result, f"({scalar_type(variable.result.dtype)}){symbols.size(variable.name)}")
        tiles = amx.plan(program)
        for line in [] if tiles is None else amx_text.c_start():
            self.emit(line)
        for position, instruction in enumerate(program.body):
            if tiles is not None:
                self.tile_steps(tiles.before.get(position, ()))
                if position in tiles.replaced:
                    continue
            _WRITE[type(instruction)](self, instruction)
        for line in [] if tiles is None else amx_text.c_end():
            self.emit(line)
        if "store_past" in self.helpers:
            self.emit("__atomic_thread_fence(__ATOMIC_SEQ_CST);")
        called = [*map(self.function, program.functions)]
        integers = [symbols.size(v.name) for v in program.variables]
        integers += dict.fromkeys(symbols.place(s.name) for s in program.specials)
        params = [f"{self.pointer(b.pointer)}{symbols.memory(b)}" for b in program.params]
        params += [f"int64_t {name}" for name in integers]
        params += ["uint8_t *scratch"] if self.scratch else []
        parts = [
            _QUIET + "\n#include <math.h>\n#include <stdbool.h>\n#include <stdint.h>\n#include <string.h>"
        ]
        if self.unrolls:
            parts.append(_UNROLL)
        parts += ["\n".join(self.types[name] for name in sorted(self.types))] if self.types else []
        parts += [] if tiles is None else [amx_text.C_MACROS]
        parts += [*self.helpers.values(), *called]
        body = "\n".join(self.lines)
        parts.append(f"void {symbols.kernel(program.name)}({', '.join(params) or 'void'}) {{\n{body}\n}}")
        return "\n\n".join(parts) + "\n"

    def function(self, called: OpFunction) -> str:
        """A function: its parameters are memory of its own."""
        inner = _CWriter(called.body, False)
        inner.types, inner.helpers = self.types, self.helpers
        kind, (result, *operands) = self.type(called.dtype), called.body.params
        for buffer in called.body.params:
            own = f"{memory_type(buffer.dtype)} {symbols.memory(buffer)}[{lanes_in_c(called.dtype.lanes)}]"
            inner.emit(f"{own} __attribute__((aligned({MIN_ALIGNMENT})));")
        for n, buffer in enumerate(operands):
            inner.emit(f"memcpy({symbols.memory(buffer)}, &x{n}, sizeof x{n});")
        inner.memory()
        for instruction in called.body.body:
            _WRITE[type(instruction)](inner, instruction)
        inner.emit(f"{kind} result;")
        inner.emit(f"memcpy(&result, {symbols.memory(result)}, sizeof result);")
        inner.emit("return result;")
        params = ", ".join(f"{kind} x{n}" for n in range(len(operands)))
        body = "\n".join(inner.lines)
        return f"static {kind} {symbols.function(called.op, called.dtype)}({params}) {{\n{body}\n}}"

    def memory(self) -> None:
        """What the kernel keeps for itself. Memory with planned offsets is one block, so that it may overlap."""
        shared = [b for b in self.program.locals if b.space is AddrSpace.LOCAL]
        planned = shared if self.scratch else [b for b in shared if b.offset is not None]
        arena = pack(planned)
        if self.scratch:
            self.emit(f"uint8_t *arena = scratch + ({self.block_number()}) * {block_bytes(self.program)};")
        elif planned:
            self.emit(f"uint8_t arena[{arena.nbytes}] __attribute__((aligned({arena.alignment})));")
        places = {buffer: placed.offset for buffer, placed in zip(planned, arena.buffers, strict=True)}
        for buffer in self.program.locals:
            kind, name = memory_type(buffer.dtype), symbols.memory(buffer)
            if buffer in places:
                self.emit(f"{kind} *{name} = ({kind} *)(void *)(arena + {places[buffer]});")
            else:
                self.emit(
                    f"{kind} {name}[{max(buffer.elements, 1)}] __attribute__((aligned({buffer.alignment})));"
                )

    def block_number(self) -> str:
        """Which of all blocks this is."""
        number = "0"
        for special in {special.name: special for special in self.program.specials}.values():
            number = f"({number} * {points(special)} + {symbols.place(special.name)})"
        return number

    # -- memory ----------------------------------------------------------------------------------------------------

    def address(self, i: ir.Address) -> None:
        base = symbols.memory(i.base) if isinstance(i.base, Buffer) else self.value(i.base)
        pointer = i.base.pointer if isinstance(i.base, Buffer) else i.base.dtype
        element = getattr(pointer.scalar, "base", pointer.scalar)
        index, step = self.value(i.index), element.lanes
        if is_wide(i.result.dtype):
            wide = self.type(i.result.dtype)
            indices = (
                f"__builtin_convertvector({index}, {wide})"
                if is_wide(i.index.dtype)
                else f"(uint64_t){index}"
            )
            start = (
                base
                if not isinstance(i.base, Buffer) and is_wide(i.base.dtype)
                else f"(uint64_t)(uintptr_t){base}"
            )
            whole = start if start == base else f"(({wide}){{0}} + {start})"
            self.let(i.result, f"{whole} + {indices} * {element.itemsize * step}")
        elif i.result in self.loosely:
            bytes_on = f"(uintptr_t){index} * {element.itemsize * step}"
            self.let(i.result, f"({self.type(i.result.dtype)})((uintptr_t){base} + {bytes_on})")
        else:
            self.let(i.result, f"{base} + {index}" + (f" * {step}" if step > 1 else ""))

    def place(self, i: ir.Load | ir.Store, lane: str) -> str:
        """One lane of the memory an access touches."""
        if is_wide(i.address.dtype):
            return f"*({self.pointer(i.address.dtype)})(uintptr_t){self.value(i.address)}[{lane}]"
        return f"{self.value(i.address)}[{lane}]"

    def load(self, i: ir.Load) -> None:
        dtype, register = i.result.dtype, i.result
        plain = dtype.bits >= 8 and not dtype.is_bool
        gate = None if i.gate is None or i.alternative is None else i.gate
        if not is_wide(dtype):
            text = self.loaded(f"*{self.value(i.address)}", dtype)
            if gate is not None and i.alternative is not None:
                text = f"{self.lane(gate, '0')} ? {text} : {self.value(i.alternative)}"
            self.let(register, text)
        elif plain and gate is None and not is_wide(i.address.dtype):
            wide = self.type(dtype)
            if lanes_in_c(dtype.lanes) == dtype.lanes:
                self.let(register, f"*({wide}_at *){self.value(i.address)}")
            else:
                self.emit(f"{wide} r{register.number} = {{0}};")
                self.emit(
                    f"memcpy(&r{register.number}, {self.value(i.address)}, {dtype.itemsize * dtype.lanes});"
                )
        else:
            text = self.loaded(self.place(i, "l"), dtype)
            if gate is not None and i.alternative is not None:
                text = f"{self.lane(gate, 'l')} ? {text} : {self.lane(i.alternative, 'l')}"
            self.each_lane(register, text)

    def store(self, i: ir.Store) -> None:
        dtype, value = i.value.dtype, i.value
        if may_stream(i) and (i.gate is None or not is_wide(i.gate.dtype)) and isinstance(value, Register):
            size = dtype.lanes * dtype.itemsize
            whole = [] if i.align >= size else [f"((uintptr_t){self.value(i.address)} & {size - 1}) == 0"]
            whole += [] if i.gate is None else [self.lane(i.gate, "0")]
            stored = f"{self.helper('store_past')}({self.value(i.address)}, &{self.value(value)}, {size});"
            self.emit(f"if ({' && '.join(whole) or '1'}) {stored}\n{'  ' * self.depth}else")
        condition = "" if i.gate is None else f"if ({self.lane(i.gate, 'l' if is_wide(dtype) else '0')}) "
        if not is_wide(dtype):
            self.emit(f"{condition}*{self.value(i.address)} = {self.value(value)};")
        elif dtype.is_bool or is_wide(i.address.dtype) or (i.gate is not None and is_wide(i.gate.dtype)):
            self.emit(
                f"for (int l = 0; l < {dtype.lanes}; l++) {condition}{self.place(i, 'l')} = {self.lane(value, 'l')};"
            )
        elif lanes_in_c(dtype.lanes) == dtype.lanes:
            self.emit(f"{condition}*({self.type(dtype)}_at *){self.value(i.address)} = {self.value(value)};")
        else:
            size = dtype.itemsize * dtype.lanes
            self.emit(f"{condition}memcpy({self.value(i.address)}, &{self.value(value)}, {size});")

    def prefetch(self, i: ir.Prefetch) -> None:
        self.emit(f"__builtin_prefetch({self.value(i.address)}, {int(i.write)}, {i.locality});")

    # -- control ---------------------------------------------------------------------------------------------------

    def special(self, i: ir.Special) -> None:
        self.let(i.result, f"({scalar_type(i.result.dtype)}){symbols.place(i.name)}")

    def loop(self, i: ir.Loop) -> None:
        if i.unroll:
            self.unrolls = True
            self.emit(f"UNROLL({i.unroll})")
        self.open_loop(i)


_WRITE: Final = handlers(_CWriter)


def render(program: Program, *, scratch: bool = False) -> str:
    """The C of one kernel, with the types and helpers it needs.

    With `scratch`, LOCAL memory is not on the stack but where a last parameter points.
    """
    return _CWriter(program, scratch).write()
