"""Elementwise ops: most are one ALU op, the rest short formulas with the meaning of docs/semantics.md 2 and 3."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, cast

from planish import dtypes
from planish.dtypes import DType
from planish.ptir.function import Inst
from planish.scalars import FUNCTIONS
from planish.schedule.lowering.rules import Lowering, is_narrow, is_tiny, operands, widened
from planish.schedule.lowering.special import digamma, erfinv, lgamma
from planish.schedule.tensors import Tensors
from planish.uop.functions import OPS
from planish.uop.node import UOp
from planish.uop.ops import Ops

Compute = Callable[..., UOp]
UNSIGNED: Final = {dtype.bits: dtype for dtype in dtypes.UNSIGNED}
SIGNED: Final = {dtype.bits: dtype for dtype in dtypes.SIGNED}


def _each(compute: Compute, wide: Callable[[DType], bool]) -> Lowering:
    def lower(tensors: Tensors, inst: Inst) -> UOp:
        return widened(compute, operands(tensors, inst), wide)

    return lower


def _never(dtype: DType) -> bool:
    return False


def _single(op: Ops) -> Compute:
    return lambda x, *rest: x.alu(op, *rest)


# -- signs and classes -----------------------------------------------------------------------------------------------


def _sign(x: UOp) -> UOp:
    """1, 0 or -1; NaN stays, and both zeros give +0."""
    zero, one = x.const_like(0), x.const_like(1)
    if x.dtype.is_unsigned:
        return x.ne(0).where(one, zero)
    rest = x.eq(0.0).where(zero, x) if x.dtype.is_float else zero
    return (x > zero).where(one, (x < zero).where(x.const_like(-1), rest))


def _is_nan(x: UOp) -> UOp:
    return x.ne(x)


def _is_inf(x: UOp) -> UOp:
    return x.alu(Ops.ABS).eq(math.inf)


def _is_finite(x: UOp) -> UOp:
    return x.alu(Ops.ABS) < math.inf


def _copysign(x: UOp, y: UOp) -> UOp:
    word = UNSIGNED[x.dtype.bits]
    top = 1 << (word.bits - 1)
    return ((x.bitcast(word) & (top - 1)) | (y.bitcast(word) & top)).bitcast(x.dtype)


def _nextafter(x: UOp, y: UOp) -> UOp:
    """One step of the bits, up in magnitude if y lies that way; from a zero to the least number of the sign of y."""
    dtype = x.dtype
    word = UNSIGNED[dtype.bits]
    a, b = (v.cast(dtypes.float32) if is_narrow(dtype) else v for v in (x, y))
    bits = x.bitcast(word)
    away = (b > a).alu(Ops.XOR, a < 0.0)  # x is not 0 here
    least = (b < 0.0).where(bits.const_like(1 | 1 << (word.bits - 1)), bits.const_like(1))
    stepped = a.eq(0.0).where(least, away.where(bits + 1, bits - 1)).bitcast(dtype)
    nan = x.const_like(math.nan)
    return (a.ne(a) | b.ne(b)).where(nan, a.eq(b).where(y, stepped))


def _hypot(x: UOp, y: UOp) -> UOp:
    """In twice the precision, where squares of all numbers fit; else scaled by the larger of the two."""
    infinite = _is_inf(x) | _is_inf(y)
    if x.dtype.bits < 64:
        a, b = (v.cast(dtypes.float64) for v in (x, y))
        root = (a * a + b * b).alu(Ops.SQRT).cast(x.dtype)
    else:
        a, b = x.alu(Ops.ABS), y.alu(Ops.ABS)
        large, small = a.max(b), a.min(b)
        ratio = small / large
        root = large.eq(0.0).where(large, large * (ratio * ratio + 1.0).alu(Ops.SQRT))
    return infinite.where(x.const_like(math.inf), root)


# -- divisions of floats ---------------------------------------------------------------------------------------------


def _adjusted(x: UOp, y: UOp) -> tuple[UOp, UOp]:
    """C's remainder, and where its sign is not that of y."""
    rest = x.alu(Ops.FMOD, y)
    return rest, rest.ne(0.0) & (rest < 0.0).alu(Ops.XOR, y < 0.0)


def _floor_mod(x: UOp, y: UOp) -> UOp:
    if not x.dtype.is_float:
        return x.alu(Ops.FLOORMOD, y)
    rest, wrong = _adjusted(x, y)
    return rest.eq(0.0).where(_copysign(rest, y), wrong.where(rest + y, rest))


def _floor_div(x: UOp, y: UOp) -> UOp:
    """(x - floor_mod(x, y)) / y snapped to an integer; x / y where y is 0."""
    if not x.dtype.is_float:
        return x.alu(Ops.FLOORDIV, y)
    rest, wrong = _adjusted(x, y)
    quotient = (x - rest) / y
    quotient = wrong.where(quotient - 1.0, quotient)
    down = quotient.alu(Ops.FLOOR)
    snapped = (quotient - down > 0.5).where(down + 1.0, down)
    plain = x / y
    return y.eq(0.0).where(plain, quotient.eq(0.0).where(_copysign(quotient, plain), snapped))


def _trunc_mod(x: UOp, y: UOp) -> UOp:
    return x.alu(Ops.FMOD if x.dtype.is_float else Ops.TRUNCMOD, y)


# -- shifts ----------------------------------------------------------------------------------------------------------


def _shift_right(kinds: dict[int, DType]) -> Compute:
    """In the signedness that fills with what is wanted. An amount is beyond the width either way, or the same."""

    def compute(x: UOp, y: UOp) -> UOp:
        word = kinds[x.dtype.bits]
        return (x.bitcast(word) >> y.bitcast(word)).bitcast(x.dtype)

    return compute


_ONE_OP: Final = {
    "add": Ops.ADD, "sub": Ops.SUB, "mul": Ops.MUL, "div": Ops.FDIV, "trunc_div": Ops.TRUNCDIV, "pow": Ops.POW,
    "max": Ops.MAX, "min": Ops.MIN, "and": Ops.AND, "or": Ops.OR, "xor": Ops.XOR, "shl": Ops.SHL,
    "eq": Ops.CMPEQ, "ne": Ops.CMPNE, "lt": Ops.CMPLT, "le": Ops.CMPLE,
    "neg": Ops.NEG, "abs": Ops.ABS, "not": Ops.NOT, "popcount": Ops.POPCOUNT, "clz": Ops.CLZ, **OPS,
}  # fmt: skip
_FORMULA: Final[dict[str, Compute]] = {
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
    "sign": _sign,
    "is_nan": _is_nan,
    "is_inf": _is_inf,
    "is_finite": _is_finite,
    "hypot": _hypot,
    "floor_div": _floor_div,
    "floor_mod": _floor_mod,
    "trunc_mod": _trunc_mod,
    "erfinv": erfinv,
    "lgamma": lgamma,
    "digamma": digamma,
    **{name: cast("Compute", of.formula) for name, of in FUNCTIONS.items() if of.formula is not None},
}
_BITS: Final[dict[str, Compute]] = {
    "select": lambda condition, x, y: condition.where(x, y),
    "copysign": _copysign,
    "nextafter": _nextafter,
    "shr_logical": _shift_right(UNSIGNED),
    "shr_arithmetic": _shift_right(SIGNED),
}
"""What keeps or handles bits: nothing is widened around it."""

ELEMENTWISE: Final[dict[str, Lowering]] = {
    **{name: _each(_single(op), is_tiny) for name, op in _ONE_OP.items()},
    **{name: _each(compute, is_narrow) for name, compute in _FORMULA.items()},
    **{name: _each(compute, _never) for name, compute in _BITS.items()},
}
