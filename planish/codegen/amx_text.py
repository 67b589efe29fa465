"""The steps of `planish.codegen.amx` as LLVM IR and as C.

LLVM has an intrinsic for each instruction, with the numbers of tile registers as they stand here. C has assembly: it needs an
assembler that knows the instructions, but no header and no compiler option.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from planish.codegen import symbols
from planish.codegen.amx import BUFFER, BYTES, CONFIGURATION, ROW, TileStep
from planish.codegen.llvm_table import immediate, llvm_type
from planish.codegen.llvm_values import LlvmValues
from planish.llir.program import Buffer, Operand, Register

_CONFIGURATION: Final = "tile_configuration"

C_MACROS: Final = f"""\
#define TILE_CONFIGURE(p) __asm__ volatile("ldtilecfg %0" :: "m"(*(const uint64_t (*)[8])(p)))
#define TILE_RELEASE() __asm__ volatile("tilerelease" ::: "memory")
#define TILE_ZERO(t) __asm__ volatile("tilezero %%tmm" #t ::)
#define TILE_LOAD(t, p) __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t :: "r"((const void *)(p)), "r"((int64_t){ROW}) : "memory")
#define TILE_STORE(t, p) __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" :: "r"((void *)(p)), "r"((int64_t){ROW}) : "memory")
#define TILE_DOT(op, c, a, b) __asm__ volatile(#op " %%tmm" #b ", %%tmm" #a ", %%tmm" #c ::)"""


def _llvm(operand: Operand) -> str:
    return f"%r{operand.number}" if isinstance(operand, Register) else immediate(operand)


def _llvm_place(place: Register | Buffer | None) -> str:
    if place is None:
        return f"%{BUFFER}"
    return f"%{symbols.memory(place)}" if isinstance(place, Buffer) else f"%r{place.number}"


def llvm_start(to: LlvmValues) -> None:
    """Memory to pass values through, and the configuration."""
    to.emit(f"%{BUFFER} = alloca [{BYTES} x i8], align {ROW}")
    to.emit(f"%{_CONFIGURATION} = alloca [{len(CONFIGURATION)} x i64], align {ROW}")
    for number, word in enumerate(CONFIGURATION):
        place = to.let(f"getelementptr inbounds i64, ptr %{_CONFIGURATION}, i64 {number}")
        to.emit(f"store i64 {word}, ptr {place}, align 8")
    to.emit(to.call("void", "llvm.x86.ldtilecfg", ("ptr", f"%{_CONFIGURATION}")))


def llvm_end(to: LlvmValues) -> None:
    """The tile registers, given back."""
    to.emit(to.call("void", "llvm.x86.tilerelease"))


def llvm_steps(to: LlvmValues, steps: Iterable[TileStep]) -> None:
    """Steps, one after another."""
    for step in steps:
        number = ("i8", str(step.tile))
        place = (("ptr", _llvm_place(step.place)), ("i64", str(ROW)))
        if step.verb == "zero":
            to.emit(to.call("void", "llvm.x86.tilezero", number))
        elif step.verb == "load":
            to.emit(to.call("void", "llvm.x86.tileloadd64", number, *place))
        elif step.verb == "store":
            to.emit(to.call("void", "llvm.x86.tilestored64", number, *place))
        elif step.dot is not None:
            a, b, name = step.dot
            to.emit(to.call("void", f"llvm.x86.{name}", number, ("i8", str(a)), ("i8", str(b))))
        elif step.value is not None and step.verb == "put":
            kind = llvm_type(step.value.dtype)
            to.emit(f"store {kind} {_llvm(step.value)}, ptr %{BUFFER}, align {ROW}")
        elif step.value is not None:
            to.let(f"load {llvm_type(step.value.dtype)}, ptr %{BUFFER}, align {ROW}", _llvm(step.value))


def c_start() -> list[str]:
    """The same in C; `C_MACROS` stands before it."""
    words = ", ".join(f"{word:#x}u" for word in CONFIGURATION)
    return [
        f"uint8_t {BUFFER}[{BYTES}] __attribute__((aligned({ROW})));",
        f"static const uint64_t {_CONFIGURATION}[{len(CONFIGURATION)}] = {{{words}}};",
        f"TILE_CONFIGURE({_CONFIGURATION});",
    ]


def c_end() -> list[str]:
    """The tile registers, given back."""
    return ["TILE_RELEASE();"]


def c_step(step: TileStep, kind: str, value: str) -> list[str]:
    """A step in C; `kind` and `value` are the type and the text of its value."""
    place = BUFFER if step.place is None else ""
    if isinstance(step.place, Register):
        place = f"r{step.place.number}"
    elif step.place is not None:
        place = symbols.memory(step.place)
    if step.verb == "zero":
        return [f"TILE_ZERO({step.tile});"]
    if step.verb in {"load", "store"}:
        return [f"TILE_{step.verb.upper()}({step.tile}, {place});"]
    if step.dot is not None:
        a, b, name = step.dot
        return [f"TILE_DOT({name}, {step.tile}, {a}, {b});"]
    if step.verb == "put":
        return [f"{{ {kind} whole = {value}; memcpy({BUFFER}, &whole, {BYTES}); }}"]
    return [f"{kind} {value};", f"memcpy(&{value}, {BUFFER}, {BYTES});"]
