"""LLIR into LLVM IR text, by table: one template per op and kind of dtype.

Floats are strict (no fast-math flags); max and min propagate NaN; a bool is i1 in registers and a byte in memory.
Transcendental functions are LLVM intrinsics, which call the C library. Integer division is only emitted in its truncating
form; the stages have proved that neither a zero divisor nor MIN / -1 occurs.
"""

from __future__ import annotations

import struct
from typing import Final

import ml_dtypes
import numpy as np

from planish.dtypes import AddrSpace, DType
from planish.errors import LoweringError
from planish.llir.program import (
    COMPARISONS,
    Address,
    Compute,
    Convert,
    EndLoop,
    Immediate,
    Load,
    Loop,
    Operand,
    Ops,
    Program,
    Register,
    Store,
)

_FLOATS: Final = {"float16": "half", "bfloat16": "bfloat", "float32": "float", "float64": "double"}

_INTEGER: Final = {
    Ops.ADD: "add {t} {0}, {1}", Ops.SUB: "sub {t} {0}, {1}", Ops.MUL: "mul {t} {0}, {1}", Ops.NEG: "sub {t} 0, {0}",
    Ops.AND: "and {t} {0}, {1}", Ops.OR: "or {t} {0}, {1}", Ops.XOR: "xor {t} {0}, {1}", Ops.NOT: "xor {t} {0}, -1",
    Ops.CMPEQ: "icmp eq {t} {0}, {1}", Ops.CMPNE: "icmp ne {t} {0}, {1}",
}  # fmt: skip
_SIGNED: Final = {
    Ops.TRUNCDIV: "sdiv {t} {0}, {1}", Ops.TRUNCMOD: "srem {t} {0}, {1}", Ops.CMPLT: "icmp slt {t} {0}, {1}",
    Ops.CMPLE: "icmp sle {t} {0}, {1}", Ops.MAX: "call {t} @llvm.smax.{s}({t} {0}, {t} {1})",
    Ops.MIN: "call {t} @llvm.smin.{s}({t} {0}, {t} {1})", Ops.ABS: "call {t} @llvm.abs.{s}({t} {0}, i1 false)",
}  # fmt: skip
_UNSIGNED: Final = {
    Ops.TRUNCDIV: "udiv {t} {0}, {1}", Ops.TRUNCMOD: "urem {t} {0}, {1}", Ops.CMPLT: "icmp ult {t} {0}, {1}",
    Ops.CMPLE: "icmp ule {t} {0}, {1}", Ops.MAX: "call {t} @llvm.umax.{s}({t} {0}, {t} {1})",
    Ops.MIN: "call {t} @llvm.umin.{s}({t} {0}, {t} {1})",
}  # fmt: skip
_FLOAT: Final = {
    Ops.ADD: "fadd {t} {0}, {1}", Ops.SUB: "fsub {t} {0}, {1}", Ops.MUL: "fmul {t} {0}, {1}",
    Ops.FDIV: "fdiv {t} {0}, {1}", Ops.NEG: "fneg {t} {0}", Ops.RECIP: "fdiv {t} 1.0, {0}",
    Ops.CMPLT: "fcmp olt {t} {0}, {1}", Ops.CMPLE: "fcmp ole {t} {0}, {1}", Ops.CMPEQ: "fcmp oeq {t} {0}, {1}",
    Ops.CMPNE: "fcmp une {t} {0}, {1}", Ops.MAX: "call {t} @llvm.maximum.{s}({t} {0}, {t} {1})",
    Ops.MIN: "call {t} @llvm.minimum.{s}({t} {0}, {t} {1})",
    **{op: f"call {{t}} @llvm.{name}.{{s}}({{t}} {{0}})" for op, name in {
        Ops.ABS: "fabs", Ops.SQRT: "sqrt", Ops.EXP: "exp", Ops.EXP2: "exp2", Ops.LOG: "log", Ops.LOG2: "log2",
        Ops.SIN: "sin", Ops.COS: "cos", Ops.TAN: "tan", Ops.TANH: "tanh", Ops.SINH: "sinh", Ops.COSH: "cosh",
        Ops.ASIN: "asin", Ops.ACOS: "acos", Ops.ATAN: "atan",
        Ops.FLOOR: "floor", Ops.CEIL: "ceil", Ops.TRUNC: "trunc", Ops.ROUND: "roundeven"}.items()},
}  # fmt: skip


def llvm_type(dtype: DType) -> str:
    """The type of a register."""
    if dtype.is_bool:
        return "i1"
    if dtype.is_int and dtype.bits >= 8:
        return f"i{dtype.bits}"
    found = _FLOATS.get(dtype.name)
    if found is None:
        raise LoweringError(f"{dtype} has no LLVM form yet", remedy="cast to a wider type first")
    return found


def _suffix(dtype: DType) -> str:
    return {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}.get(
        llvm_type(dtype), llvm_type(dtype)
    )


def _immediate(operand: Immediate) -> str:
    dtype, value = operand.dtype, operand.value
    if isinstance(value, bool | int):
        return str(value).lower() if dtype.is_bool else str(int(value))
    if isinstance(value, complex):
        raise LoweringError(f"{dtype} constants have no LLVM form yet")
    if dtype.name == "float16":
        return f"0xH{np.float16(value).view(np.uint16):04X}"
    if dtype.name == "bfloat16":
        return f"0xR{np.asarray(value, ml_dtypes.bfloat16).view(np.uint16):04X}"
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def _name(operand: Operand) -> str:
    return f"%r{operand.number}" if isinstance(operand, Register) else _immediate(operand)


class _Writer:
    """Writes one function."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.lines: list[str] = []
        self.intrinsics: set[str] = set()
        self.block = "entry"
        self.loops: list[str] = []

    def emit(self, line: str) -> None:
        self.lines.append("  " + line)
        if "@llvm." in line:
            call = line.split("call ", 1)[1]
            result, rest = call.split(" ", 1)
            name, arguments = rest.split("(", 1)
            types = ", ".join(part.split()[0] for part in arguments.rstrip(")").split(", "))
            self.intrinsics.add(f"declare {result} {name}({types})")

    def write(self) -> str:
        for buffer in self.program.locals:
            if buffer.space is AddrSpace.REG:
                kind = "i8" if buffer.dtype.is_bool else llvm_type(buffer.dtype)
                self.emit(f"%{buffer.name} = alloca [{buffer.size} x {kind}], align {buffer.alignment}")
        for instruction in self.program.body:
            match instruction:
                case Address(result, buffer, index):
                    self.address(result, buffer.name, buffer.dtype, index)
                case Load():
                    self.load(instruction)
                case Store():
                    self.store(instruction)
                case Compute():
                    self.compute(instruction)
                case Convert():
                    self.convert(instruction)
                case Loop():
                    self.open(instruction)
                case EndLoop(counter):
                    self.close(counter)
        params = ", ".join(f"ptr noalias %{buffer.name}" for buffer in self.program.params)
        body = "\n".join(self.lines)
        declared = "".join(f"{line}\n" for line in sorted(self.intrinsics))
        return f"{declared}define void @{self.program.name}({params}) {{\nentry:\n{body}\n  ret void\n}}\n"

    def address(self, result: Register, buffer: str, dtype: DType, index: Operand) -> None:
        kind = "i8" if dtype.is_bool else llvm_type(dtype)
        self.emit(
            f"{_name(result)} = getelementptr inbounds {kind}, ptr %{buffer}, {llvm_type(index.dtype)} {_name(index)}"
        )

    def load(self, i: Load) -> None:
        dtype, result = i.result.dtype, _name(i.result)
        if dtype.is_bool:
            self.emit(f"{result}.byte = load i8, ptr {_name(i.address)}, align 1")
            self.emit(f"{result} = icmp ne i8 {result}.byte, 0")
        else:
            self.emit(f"{result} = load {llvm_type(dtype)}, ptr {_name(i.address)}, align {dtype.itemsize}")

    def store(self, i: Store) -> None:
        dtype, value = i.value.dtype, _name(i.value)
        if dtype.is_bool:
            byte = f"%b{len(self.lines)}"
            self.emit(f"{byte} = zext i1 {value} to i8")
            self.emit(f"store i8 {byte}, ptr {_name(i.address)}, align 1")
        else:
            self.emit(f"store {llvm_type(dtype)} {value}, ptr {_name(i.address)}, align {dtype.itemsize}")

    def compute(self, i: Compute) -> None:
        operands = [_name(operand) for operand in i.operands]
        if i.op is Ops.WHERE:
            kind = llvm_type(i.result.dtype)
            condition, x, y = operands
            self.emit(f"{_name(i.result)} = select i1 {condition}, {kind} {x}, {kind} {y}")
            return
        dtype = i.operands[0].dtype if i.op in COMPARISONS else i.result.dtype
        signs = _SIGNED if dtype.is_signed else _UNSIGNED
        template = _FLOAT.get(i.op) if dtype.is_float else _INTEGER.get(i.op, signs.get(i.op))
        if template is None:
            raise LoweringError(f"{i.op.name} on {dtype} has no LLVM form yet", op=i.op.name)
        text = template.format(*operands, t=llvm_type(dtype), s=_suffix(dtype))
        self.emit(f"{_name(i.result)} = {text}")

    def convert(self, i: Convert) -> None:
        source, target = i.operand.dtype, i.result.dtype
        a, b, value, result = llvm_type(source), llvm_type(target), _name(i.operand), _name(i.result)
        if target.is_bool:
            compare = f"fcmp une {a} {value}, 0.0" if source.is_float else f"icmp ne {a} {value}, 0"
            self.emit(f"{result} = {compare}")
        elif a == b:
            self.emit(f"{result} = bitcast {a} {value} to {b}")
        elif source.is_float and target.is_float:
            self.emit(f"{result} = {'fpext' if target.bits > source.bits else 'fptrunc'} {a} {value} to {b}")
        elif source.is_float:
            sign = "s" if target.is_signed else "u"
            self.emit(f"{result} = call {b} @llvm.fpto{sign}i.sat.{b}.{_suffix(source)}({a} {value})")
        elif target.is_float:
            self.emit(f"{result} = {'sitofp' if source.is_signed else 'uitofp'} {a} {value} to {b}")
        elif target.bits < source.bits and not source.is_bool:
            self.emit(f"{result} = trunc {a} {value} to {b}")
        else:
            self.emit(f"{result} = {'sext' if source.is_signed else 'zext'} {a} {value} to {b}")

    def open(self, i: Loop) -> None:
        counter, kind = _name(i.counter), llvm_type(i.counter.dtype)
        label = f"loop{i.counter.number}"
        self.emit(f"br label %{label}.head")
        self.lines.append(f"{label}.head:")
        self.emit(f"{counter} = phi {kind} [ 0, %{self.block} ], [ {counter}.next, %{label}.latch ]")
        self.emit(f"{counter}.more = icmp slt {kind} {counter}, {_name(i.bound)}")
        self.emit(f"br i1 {counter}.more, label %{label}.body, label %{label}.exit")
        self.lines.append(f"{label}.body:")
        self.block = f"{label}.body"

    def close(self, counter: Register) -> None:
        label, kind = f"loop{counter.number}", llvm_type(counter.dtype)
        self.emit(f"br label %{label}.latch")
        self.lines.append(f"{label}.latch:")
        self.emit(f"{_name(counter)}.next = add nsw {kind} {_name(counter)}, 1")
        self.emit(f"br label %{label}.head")
        self.lines.append(f"{label}.exit:")
        self.block = f"{label}.exit"


def render(program: Program) -> str:
    """The LLVM IR of one kernel, with the declarations it needs."""
    return _Writer(program).write()
