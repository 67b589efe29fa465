"""How GNU C spells types, constants and arithmetic: tables, one entry per op and kind of dtype.

A template is filled with the operands `{0}`, `{1}` …, the type `{t}` of the result and the unsigned type `{u}` in which
integers wrap. What stands in `VECTOR` works on whole vectors; everything else is applied lane by lane.
"""

from __future__ import annotations

import math
from typing import Final

from planish.dtypes import DType, float_format
from planish.errors import LoweringError
from planish.llir.program import Number, Ops

NARROW: Final = {
    "f16": (10, 5, 1),
    "bf16": (7, 8, 1),
    "f8e4m3fn": (3, 4, 0),
    "f8e5m2": (2, 5, 1),
    "tf32": (10, 8, 1),
}
"""Floats that C lacks, held as their bits: bits of the mantissa, bits of the exponent, whether there are infinities."""

_SIGNED_WRAP: Final[dict[Ops, str]] = {
    Ops.ADD: "({t})(({u}){0} + ({u}){1})", Ops.SUB: "({t})(({u}){0} - ({u}){1})", Ops.MUL: "({t})(({u}){0} * ({u}){1})",
    Ops.NEG: "({t})-({u}){0}", Ops.MULACC: "({t})(({u}){0} * ({u}){1} + ({u}){2})",
}  # fmt: skip
_BITS: Final[dict[Ops, str]] = {
    Ops.AND: "({t})({0} & {1})", Ops.OR: "({t})({0} | {1})", Ops.XOR: "({t})({0} ^ {1})", Ops.NOT: "({t})~{0}",
}  # fmt: skip
_COMPARE: Final[dict[Ops, str]] = {
    Ops.CMPLT: "({0} < {1})", Ops.CMPLE: "({0} <= {1})", Ops.CMPEQ: "({0} == {1})", Ops.CMPNE: "({0} != {1})",
}  # fmt: skip
_CHOOSE: Final[dict[Ops, str]] = {Ops.MAX: "({0} > {1} ? {0} : {1})", Ops.MIN: "({0} < {1} ? {0} : {1})"}

INTEGER: Final[dict[Ops, str]] = _SIGNED_WRAP | _BITS | _COMPARE | _CHOOSE
FLOAT: Final[dict[Ops, str]] = _COMPARE | {
    Ops.ADD: "({0} + {1})", Ops.SUB: "({0} - {1})", Ops.MUL: "({0} * {1})", Ops.FDIV: "({0} / {1})", Ops.NEG: "(-{0})",
    Ops.RECIP: "(1 / {0})",
}  # fmt: skip
BOOL: Final[dict[Ops, str]] = _COMPARE | {
    # in the algebra of bools a product is a conjunction, a sum a disjunction
    Ops.AND: "({0} && {1})", Ops.MUL: "({0} && {1})", Ops.MIN: "({0} && {1})",
    Ops.OR: "({0} || {1})", Ops.ADD: "({0} || {1})", Ops.MAX: "({0} || {1})",
    Ops.XOR: "({0} != {1})", Ops.NOT: "(!{0})",
}  # fmt: skip
MATH: Final[dict[Ops, str]] = {
    Ops.ABS: "fabs", Ops.SQRT: "sqrt", Ops.FLOOR: "floor", Ops.CEIL: "ceil", Ops.TRUNC: "trunc", Ops.ROUND: "rint",
    Ops.FMOD: "fmod", Ops.MULACC: "fma", Ops.EXP: "exp", Ops.EXP2: "exp2", Ops.LOG: "log", Ops.LOG2: "log2",
    Ops.SIN: "sin", Ops.COS: "cos", Ops.TAN: "tan", Ops.TANH: "tanh", Ops.SINH: "sinh", Ops.COSH: "cosh",
    Ops.ASIN: "asin", Ops.ACOS: "acos", Ops.ATAN: "atan", Ops.POW: "pow",
}  # fmt: skip
"""Functions of the C library, on double; `f` at the end makes them those on float."""

VECTOR_INTEGER: Final[dict[Ops, str]] = _SIGNED_WRAP | _BITS
VECTOR_FLOAT: Final[dict[Ops, str]] = {
    op: text for op, text in FLOAT.items() if op not in _COMPARE and op is not Ops.RECIP
}
VECTOR_BOOL: Final[dict[Ops, str]] = {
    Ops.AND: "({0} & {1})", Ops.MUL: "({0} & {1})", Ops.MIN: "({0} & {1})",
    Ops.OR: "({0} | {1})", Ops.ADD: "({0} | {1})", Ops.MAX: "({0} | {1})", Ops.XOR: "({0} ^ {1})", Ops.NOT: "(~{0})",
    Ops.CMPLT: "(~{0} & {1})", Ops.CMPLE: "(~{0} | {1})", Ops.CMPEQ: "(~({0} ^ {1}))", Ops.CMPNE: "({0} ^ {1})",
}  # fmt: skip
"""On masks: every lane is 0 or -1."""


def is_narrow(dtype: DType) -> bool:
    """Whether it is a float that is held as its bits."""
    return dtype.scalar.short in NARROW


def unused_bits(dtype: DType) -> int:
    """Bits of a narrow float's word below those that it has."""
    mantissa, exponent, _ = NARROW[dtype.short]
    return 8 * dtype.itemsize - 1 - mantissa - exponent


def scalar_type(dtype: DType) -> str:
    """The type of one lane in a register."""
    scalar = dtype.scalar
    if scalar.is_bool:
        return "bool"
    if scalar.is_int:
        return f"{'' if scalar.is_signed else 'u'}int{max(scalar.bits, 8)}_t"
    if is_narrow(scalar):
        return f"uint{8 * scalar.itemsize}_t"
    if scalar.short in {"f32", "f64"}:
        return "float" if scalar.bits == 32 else "double"
    raise LoweringError(f"{dtype} has no C form", remedy="cast to a wider type first")


def memory_type(dtype: DType) -> str:
    """The type of one lane in memory: a bool is a byte there."""
    return "uint8_t" if dtype.is_bool else scalar_type(dtype)


def wrap_type(dtype: DType) -> str:
    """The unsigned type in which integers wrap; what is narrower than int would be promoted to it."""
    return f"uint{max(dtype.bits, 32)}_t"


def stem(dtype: DType) -> str:
    """A lane type in the name of a vector type: f32, i16, mask."""
    scalar = dtype.scalar
    if scalar.is_bool:
        return "mask"
    if is_narrow(scalar):
        return f"u{8 * scalar.itemsize}"
    if scalar.is_int and scalar.bits < 8:
        return "i8" if scalar.is_signed else "u8"
    return scalar.short


def lanes_in_c(count: int) -> int:
    """Vectors in C have a power of two of lanes; those beyond the count hold nothing."""
    return 1 << (count - 1).bit_length()


def literal(value: Number, dtype: DType) -> str:
    """One constant."""
    if isinstance(value, complex):
        raise LoweringError(f"{dtype} constants have no C form")
    scalar = dtype.scalar
    if scalar.is_bool:
        return "1" if value else "0"
    if scalar.is_int:
        return _integer(int(value), scalar)
    if is_narrow(scalar):
        return _narrow_bits(float(value), scalar)
    short = scalar.bits == 32
    number = float(value)
    if math.isnan(number):
        return 'nanf("")' if short else 'nan("")'
    if math.isinf(number):
        return f"{'-' if number < 0 else ''}(({'float' if short else 'double'})INFINITY)"
    if number == int(number) and abs(number) < 1e6 and not (number == 0 and math.copysign(1, number) < 0):
        return f"{int(number)}.0{'f' if short else ''}"
    return number.hex() + ("f" if short else "")


def _integer(value: int, dtype: DType) -> str:
    if dtype.bits < 64:
        return str(value) if value != -(2**31) else "(-2147483647 - 1)"
    if value == -(2**63):
        return "(-9223372036854775807 - 1)"
    return f"{value}u" if not dtype.is_signed else str(value)


def _narrow_bits(value: float, dtype: DType) -> str:
    return f"{_pattern(value, dtype) << unused_bits(dtype):#x}"


def _pattern(value: float, dtype: DType) -> int:
    mantissa, exponent, infinite = NARROW[dtype.short]
    rounded = float_format(dtype).round(value)
    sign = (1 if math.copysign(1.0, rounded) < 0 else 0) << (mantissa + exponent)
    top = (1 << exponent) - 1
    if math.isnan(rounded):
        return (top << mantissa) | ((1 << mantissa - 1) if infinite else (1 << mantissa) - 1)
    if math.isinf(rounded):
        return sign | top << mantissa
    if rounded == 0:
        return sign
    bias = (1 << exponent - 1) - 1
    power = max(math.frexp(abs(rounded))[1] - 1, 1 - bias)
    units = int(math.ldexp(abs(rounded), mantissa - power))
    return sign | units + (power + bias - 1 << mantissa)


def template_of(op: Ops, dtype: DType) -> str | None:
    """The expression for an op on one lane, if it is one."""
    return (BOOL if dtype.is_bool else FLOAT if dtype.is_float else INTEGER).get(op)


def vector_template_of(op: Ops, dtype: DType) -> str | None:
    """The expression for an op on whole vectors, if it is one."""
    if dtype.is_bool:
        return VECTOR_BOOL.get(op)
    if is_narrow(dtype) or dtype.bits < 8:
        return None
    return (VECTOR_FLOAT if dtype.is_float else VECTOR_INTEGER).get(op)
