"""The meaning of every ALU op and conversion, on NumPy arrays: what docs/semantics.md says, obviously.

Values travel in carriers (`planish.scalars.conversion`). Floats below 32 bits are computed in float32 and rounded once; integers
wrap after every op. No value traps or warns.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from planish.dtypes import DType
from planish.scalars.conversion import carrier, compact, convert, load, settle, store, wide
from planish.scalars.meanings import INTEGER, float_power, multiply_add, plain
from planish.uop.functions import FUNCTION_OPS
from planish.uop.ops import Ops

Array = np.ndarray[Any, np.dtype[Any]]
Function = Callable[..., Array]

# -- exact integers: Python's, for index values beyond 64 bits -------------------------------------------------


def _floordiv(x: int, y: int) -> int:
    return x // y if y else 0


def _floormod(x: int, y: int) -> int:
    return x % y if y else 0


def _truncdiv(x: int, y: int) -> int:
    if not y:
        return 0
    return x // y if (x < 0) == (y < 0) else -(-x // y)


def _truncmod(x: int, y: int) -> int:
    return x - y * _truncdiv(x, y) if y else 0


def _pow(x: int, y: int) -> int:
    if y >= 0:
        return int(x**y)
    return int(x ** (y & 1)) if abs(x) == 1 else 0


def _shl(x: int, y: int) -> int:
    return x << y if 0 <= y < 64 else 0


def _shr(x: int, y: int) -> int:
    return x >> y if 0 <= y < 64 else -(x < 0)


_EXACT: Final[dict[Ops, Callable[..., int]]] = {
    Ops.NEG: operator.neg, Ops.NOT: operator.invert, Ops.ABS: abs,
    Ops.POPCOUNT: lambda x: (x % (1 << 64)).bit_count(), Ops.CLZ: lambda x: 64 - (x % (1 << 64)).bit_length(),
    Ops.ADD: operator.add, Ops.SUB: operator.sub, Ops.MUL: operator.mul, Ops.MULACC: lambda x, y, z: x * y + z,
    Ops.FLOORDIV: _floordiv, Ops.FLOORMOD: _floormod, Ops.TRUNCDIV: _truncdiv, Ops.TRUNCMOD: _truncmod,
    Ops.POW: _pow, Ops.MAX: max, Ops.MIN: min, Ops.AND: operator.and_, Ops.OR: operator.or_, Ops.XOR: operator.xor,
    Ops.SHL: _shl, Ops.SHR: _shr,
}  # fmt: skip
_EXACT_ARRAYS: Final[dict[Ops, Function]] = {
    op: np.frompyfunc(function, op.min_sources, 1) for op, function in _EXACT.items()
}


# -- integers and bools -----------------------------------------------------------------------------------------

_INTEGER: Final[dict[Ops, Function]] = {Ops[name.upper()]: meaning for name, meaning in INTEGER.items()}
_BOOL: Final[dict[Ops, Function]] = {
    Ops.NOT: plain(np.logical_not), Ops.AND: plain(np.logical_and), Ops.OR: plain(np.logical_or),
    Ops.XOR: plain(np.logical_xor), Ops.MAX: plain(np.logical_or), Ops.MIN: plain(np.logical_and),
    # Arithmetic needs a cast in programs; in the algebra a product is a conjunction and a sum a disjunction.
    Ops.MUL: plain(np.logical_and), Ops.ADD: plain(np.logical_or),
}  # fmt: skip


# -- floats ----------------------------------------------------------------------------------------------------


def _exact(function: Callable[..., Any]) -> Function:
    """Correctly rounded by NumPy in the carrier, so the carrier's result is the float32 or float64 one."""
    return lambda d, *x: np.asarray(function(*x))


def _smooth(function: Callable[..., Any]) -> Function:
    """Computed in float64 (complex128) and rounded to the dtype once."""

    def compute(d: DType, *x: Array) -> Array:
        return np.asarray(function(*(v.astype(np.complex128 if d.is_complex else np.float64) for v in x)))

    return compute


def _float_max(d: DType, x: Array, y: Array) -> Array:
    zero = np.where(np.signbit(x) & np.signbit(y), x.dtype.type(-0.0), x.dtype.type(0))
    return np.asarray(np.where((x == 0) & (y == 0), zero, np.maximum(x, y)))


def _float_min(d: DType, x: Array, y: Array) -> Array:
    zero = np.where(np.signbit(x) | np.signbit(y), x.dtype.type(-0.0), x.dtype.type(0))
    return np.asarray(np.where((x == 0) & (y == 0), zero, np.minimum(x, y)))


def _fused(x: float, y: float, z: float) -> float:
    """x * y + z in float64, rounded once."""
    if not (math.isfinite(x) and math.isfinite(y) and math.isfinite(z)):
        return x * y + z
    from fractions import Fraction  # rarely wanted, and it brings `decimal`

    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact == 0:
        return x * y + z  # the sign of zero: as the unfused sum of an exact product has it
    try:
        return exact.numerator / exact.denominator  # Python divides integers with one rounding
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _float_mulacc(d: DType, x: Array, y: Array, z: Array) -> Array:
    if d.is_complex:
        return multiply_add(x, y, z)
    if d.bits == 64:
        return np.asarray(np.frompyfunc(_fused, 3, 1)(x, y, z)).astype(np.float64)
    # The product is exact in float64. The error of the sum decides whether its last bit has to be made odd, so
    # that rounding to the shorter format comes out as if from the exact value.
    product, addend = x.astype(np.float64) * y.astype(np.float64), z.astype(np.float64)
    total = product + addend
    virtual = total - product
    error = (product - (total - virtual)) + (addend - virtual)
    pattern = np.asarray(total).view(np.int64)
    toward_zero = np.where(error * np.sign(total) < 0, pattern - 1, pattern)
    odd = np.where((error != 0) & np.isfinite(total), toward_zero | 1, pattern).view(np.float64)
    return np.asarray(odd.astype(np.float32) if d.bits == 32 else odd)


def _scale(d: DType, x: Array, y: Array) -> Array:
    """2**inf is inf, 2**-inf is 0; they hide a NaN, as in the instruction that there is for it."""
    whole = np.floor(np.clip(np.nan_to_num(y, nan=0.0), -1e5, 1e5)).astype(np.int32)
    scaled = np.ldexp(x, whole)
    lost = np.isnan(y) | ((x == 0) & (y == np.inf)) | (np.isinf(x) & (y == -np.inf))
    scaled = np.where(lost, x.dtype.type(np.nan), scaled)
    return np.asarray(np.where(np.isnan(x) & np.isinf(y), np.maximum(y, 0), scaled))


_FLOAT: Final[dict[Ops, Function]] = {
    Ops.NEG: _exact(np.negative), Ops.ABS: _exact(np.abs), Ops.ADD: _exact(np.add), Ops.SUB: _exact(np.subtract),
    Ops.MUL: _exact(np.multiply), Ops.FDIV: _exact(np.divide), Ops.FMOD: _exact(np.fmod), Ops.MAX: _float_max,
    Ops.MIN: _float_min, Ops.MULACC: _float_mulacc, Ops.SCALE: _scale, Ops.POW: _smooth(float_power),
    Ops.EXP2_ESTIMATE: _smooth(np.exp2), Ops.EXP_ESTIMATE: _smooth(np.exp), Ops.RECIP_ESTIMATE: _smooth(np.reciprocal), Ops.TANH_ESTIMATE: _smooth(np.tanh),
    **{op: (_exact if of.exact else _smooth)(of.compute) for op, of in FUNCTION_OPS.items()},
}  # fmt: skip

_COMPARE: Final[dict[Ops, Callable[..., Any]]] = {
    Ops.CMPLT: np.less, Ops.CMPLE: np.less_equal, Ops.CMPEQ: np.equal, Ops.CMPNE: np.not_equal
}  # fmt: skip


def apply(op: Ops, dtype: DType, *sources: Array, exact: bool = False) -> Array:
    """An ALU op on carriers. `dtype` is the operands'; `exact` computes an index in Python integers."""
    if op is Ops.WHERE:
        condition, x, y = sources
        return np.asarray(np.where(condition, x, y))
    if op in _COMPARE:
        return np.asarray(_COMPARE[op](*(wide(dtype, s) for s in sources))).astype(np.bool_)
    if dtype.is_index and (exact or any(s.dtype == object for s in sources)):
        whole = [s.astype(object) for s in sources]
        return compact(np.asarray(_EXACT_ARRAYS[op](*whole), dtype=object))
    table = _BOOL if dtype.is_bool else _FLOAT if dtype.is_float or dtype.is_complex else _INTEGER
    function = table.get(op)
    if function is None:
        raise KeyError(f"{op.name} has no meaning on {dtype}")
    return settle(dtype, function(dtype, *(wide(dtype, s) for s in sources)))


__all__ = ["Array", "apply", "carrier", "convert", "load", "settle", "store"]
