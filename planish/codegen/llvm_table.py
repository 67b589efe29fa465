"""How LLVM spells types, constants and arithmetic: tables, one entry per op and kind of dtype.

A template is filled with the type of the operands `{t}` and the constants `{zero}`, `{one}` and `{ones}` (all bits) of that type, once,
and then with the operands `{0}`, `{1}` … of each instruction. A function is called as `@llvm.<name>.<type>` on the operands and, where it asks for one, a flag.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Final

import numpy as np

from planish.dtypes import DType
from planish.errors import LoweringError
from planish.llir.program import Immediate, Number, Ops

# Narrow floats are held as their bits: LLVM moves `bfloat` values by way of float, with calls that are nowhere to be found.
_FLOATS: Final = {
    "f8e4m3fn": "i8",
    "f8e5m2": "i8",
    "f16": "i16",
    "bf16": "i16",
    "tf32": "i32",
    "f32": "float",
    "f64": "double",
}
_SUFFIXES: Final = {"float": "f32", "double": "f64"}

INTEGER: Final = {
    Ops.ADD: "add {t} {0}, {1}", Ops.SUB: "sub {t} {0}, {1}", Ops.MUL: "mul {t} {0}, {1}", Ops.NEG: "sub {t} {zero}, {0}",
    Ops.AND: "and {t} {0}, {1}", Ops.OR: "or {t} {0}, {1}", Ops.XOR: "xor {t} {0}, {1}", Ops.NOT: "xor {t} {0}, {ones}",
    Ops.CMPEQ: "icmp eq {t} {0}, {1}", Ops.CMPNE: "icmp ne {t} {0}, {1}",
}  # fmt: skip
SIGNED: Final = INTEGER | {Ops.CMPLT: "icmp slt {t} {0}, {1}", Ops.CMPLE: "icmp sle {t} {0}, {1}"}
UNSIGNED: Final = INTEGER | {
    Ops.CMPLT: "icmp ult {t} {0}, {1}", Ops.CMPLE: "icmp ule {t} {0}, {1}", Ops.ABS: "or {t} {0}, {zero}"
}  # fmt: skip
BOOL: Final = {
    # in the algebra of bools a product is a conjunction, a sum a disjunction
    Ops.AND: "and {t} {0}, {1}", Ops.MUL: "and {t} {0}, {1}", Ops.MIN: "and {t} {0}, {1}",
    Ops.OR: "or {t} {0}, {1}", Ops.ADD: "or {t} {0}, {1}", Ops.MAX: "or {t} {0}, {1}",
    Ops.XOR: "xor {t} {0}, {1}", Ops.NOT: "xor {t} {0}, {ones}", Ops.CMPEQ: "icmp eq {t} {0}, {1}",
    Ops.CMPNE: "icmp ne {t} {0}, {1}", Ops.CMPLT: "icmp ult {t} {0}, {1}", Ops.CMPLE: "icmp ule {t} {0}, {1}",
}  # fmt: skip
FLOAT: Final = {
    Ops.ADD: "fadd {t} {0}, {1}", Ops.SUB: "fsub {t} {0}, {1}", Ops.MUL: "fmul {t} {0}, {1}",
    Ops.FDIV: "fdiv {t} {0}, {1}", Ops.FMOD: "frem {t} {0}, {1}", Ops.NEG: "fneg {t} {0}",
    Ops.RECIP: "fdiv {t} {one}, {0}", Ops.CMPLT: "fcmp olt {t} {0}, {1}", Ops.CMPLE: "fcmp ole {t} {0}, {1}",
    Ops.CMPEQ: "fcmp oeq {t} {0}, {1}", Ops.CMPNE: "fcmp une {t} {0}, {1}",
}  # fmt: skip

SIGNED_CALLS: Final = {
    Ops.MAX: "smax",
    Ops.MIN: "smin",
    Ops.ABS: "abs",
    Ops.POPCOUNT: "ctpop",
    Ops.CLZ: "ctlz",
}
UNSIGNED_CALLS: Final = {Ops.MAX: "umax", Ops.MIN: "umin", Ops.POPCOUNT: "ctpop", Ops.CLZ: "ctlz"}
FLOAT_CALLS: Final = {
    Ops.ABS: "fabs", Ops.SQRT: "sqrt", Ops.EXP: "exp", Ops.EXP2: "exp2", Ops.LOG: "log", Ops.LOG2: "log2",
    Ops.SIN: "sin", Ops.COS: "cos", Ops.TAN: "tan", Ops.TANH: "tanh", Ops.SINH: "sinh", Ops.COSH: "cosh", Ops.ASIN: "asin",
    Ops.ACOS: "acos", Ops.ATAN: "atan", Ops.FLOOR: "floor", Ops.CEIL: "ceil", Ops.TRUNC: "trunc", Ops.ROUND: "roundeven",
    Ops.POW: "pow", Ops.MAX: "maximum", Ops.MIN: "minimum", Ops.MULACC: "fma",
}  # fmt: skip
FLAGGED: Final = frozenset({"abs", "ctlz"})
"""Functions that take a flag: what must not happen is poison. It may happen here, so the flag is false."""


def vector_of(kind: str, lanes: int) -> str:
    """The type of as many lanes."""
    return kind if lanes == 1 else f"<{lanes} x {kind}>"


def llvm_type(dtype: DType) -> str:
    """The type of a register."""
    if dtype.is_pointer:  # of ever other sizes: these are not kept
        return vector_of("ptr", dtype.lanes)
    return _number_type(dtype)


@cache
def _number_type(dtype: DType) -> str:
    if dtype.is_bool:
        return vector_of("i1", dtype.lanes)
    if dtype.is_int:
        return vector_of(f"i{dtype.bits}", dtype.lanes)
    kind = _FLOATS.get(dtype.scalar.short)
    if kind is None:
        raise LoweringError(f"{dtype} has no LLVM form", remedy="cast to a wider type first")
    return vector_of(kind, dtype.lanes)


def memory_type(dtype: DType) -> str:
    """The type of the same value in memory: what has less than eight bits takes a byte."""
    return vector_of("i8", dtype.lanes) if dtype.bits < 8 else llvm_type(dtype)


def element_type(dtype: DType) -> str:
    """The type that addresses count in. An array, since LLVM pads vectors of three lanes to four."""
    return memory_type(dtype) if dtype.lanes == 1 else f"[{dtype.lanes} x {memory_type(dtype.scalar)}]"


@cache
def suffix(dtype: DType) -> str:
    """How a type is spelt in the name of an intrinsic."""
    kind = llvm_type(dtype.scalar)
    word = "p0" if kind == "ptr" else _SUFFIXES.get(kind, kind)
    return word if dtype.lanes == 1 else f"v{dtype.lanes}{word}"


def constant(value: Number, dtype: DType) -> str:
    """A constant, in every lane of a vector."""
    if dtype.lanes == 1:
        return _scalar(value, dtype)
    scalar = dtype.scalar
    return f"splat ({llvm_type(scalar)} {_scalar(value, scalar)})"


def _scalar(value: Number, dtype: DType) -> str:
    if type(value) is int and dtype.is_int:  # mostly a place
        return str(value)
    if isinstance(value, complex):
        raise LoweringError(f"{dtype} constants have no LLVM form")
    if dtype.is_bool:
        return "true" if value else "false"
    if not dtype.is_float:
        return str(int(value))
    if dtype.bits < 32:
        return str(np.asarray(value, dtype.numpy).view(f"i{dtype.itemsize}"))
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def immediate(operand: Immediate) -> str:
    """An operand that is a constant."""
    if not isinstance(operand.value, tuple):
        return constant(operand.value, operand.dtype)
    scalar = operand.dtype.scalar
    return f"<{', '.join(f'{llvm_type(scalar)} {_scalar(v, scalar)}' for v in operand.value)}>"


@cache
def template_of(op: Ops, dtype: DType) -> str | None:
    """The instruction for an op, if it is one: with places for its operands, types and constants written out."""
    table = BOOL if dtype.is_bool else FLOAT if dtype.is_float else SIGNED if dtype.is_signed else UNSIGNED
    template = table.get(op)
    if template is None:
        return None
    constants = {} if dtype.is_bool else {"zero": constant(0, dtype), "one": constant(1, dtype)}
    constants["ones"] = "" if dtype.is_float else constant(True if dtype.is_bool else -1, dtype)
    return template.format("{0}", "{1}", t=llvm_type(dtype), **constants)


def function_of(op: Ops, dtype: DType) -> str | None:
    """The intrinsic for an op, if it is one."""
    if dtype.is_bool:
        return None
    return (FLOAT_CALLS if dtype.is_float else SIGNED_CALLS if dtype.is_signed else UNSIGNED_CALLS).get(op)
