"""Elementwise ops of two operands, comparisons, and `select`.

Operands have one dtype and one shape. Each line of the tables at the end is an op.
"""

from __future__ import annotations

import builtins
import operator
from functools import partial
from typing import Final

import numpy as np

from planish import dtypes
from planish.dtypes import DType
from planish.ptir.ops import checking, numerics
from planish.ptir.ops import definition as d
from planish.ptir.ops.checking import ALL, BITS, FLOATS, INEXACT, INTS, NUMBERS, ORDERED, REAL
from planish.ptir.ops.elementwise import Compute, boolean, elementwise, exact, function
from planish.ptir.ops.literal import Array
from planish.scalars import FUNCTIONS

_binary = partial(elementwise, arity=2)


def _multiply(x: Array, y: Array) -> Array:
    if not np.iscomplexobj(x):
        return np.asarray(np.multiply(x, y))
    # By parts, each op rounded: NumPy's own product is contracted in places, so x*y and y*x could differ.
    result = np.empty(np.broadcast_shapes(x.shape, y.shape), x.dtype)
    result.real = x.real * y.real - x.imag * y.imag
    result.imag = x.real * y.imag + x.imag * y.real
    return result


def _pow(x: Array, y: Array) -> Array:
    if not numerics.dtype_of(x).is_int:
        wide, exponent = numerics.as_float64(x), numerics.as_float64(y)
        power = np.asarray(np.power(wide, exponent))
        if np.iscomplexobj(power):
            return power
        # A lone exponent of 0.5 makes NumPy take the square root, which differs from a power at -0 and -inf.
        return np.where((exponent == 0.5) & ((wide == 0) | np.isinf(wide)), np.abs(wide), power)
    base, exponent = numerics.widen(x), numerics.widen(y)
    negative = exponent < 0
    power = np.power(base, np.where(negative, exponent.dtype.type(0), exponent))
    # The reciprocal of an integer, truncated: only 1 and -1 survive.
    odd = (exponent & exponent.dtype.type(1)) != 0
    inverse = np.where(base == 1, 1, np.where(base == -1, np.where(odd, -1, 1), 0))
    return np.where(negative, inverse.astype(base.dtype), power)


def _trunc_mod(x: Array, y: Array) -> Array:
    if numerics.dtype_of(x).is_signed:
        # MIN % -1 traps on some machines; any remainder by -1 is 0, as by 1.
        y = np.where(y == -1, y.dtype.type(1), y)
    return np.asarray(np.fmod(x, y))


def _trunc_div(x: Array, y: Array) -> Array:
    down = np.floor_divide(x, y)
    round_up = (np.remainder(x, y) != 0) & ((x < 0) != (y < 0))
    return np.asarray(down + round_up.astype(down.dtype))


def _shift_amount(x: Array, y: Array) -> tuple[Array, Array, Array, int]:
    """Bits of x, the amount within the width, where it lies within, and the width."""
    width = numerics.dtype_of(x).bits
    amount = numerics.widen(y)
    inside = (amount >= 0) & (amount < width)
    bits = numerics.bits_of(x)
    return bits, np.where(inside, amount, 0).astype(bits.dtype), inside, width


def _shl(x: Array, y: Array) -> Array:
    bits, amount, inside, _ = _shift_amount(x, y)
    return numerics.from_bits(np.where(inside, bits << amount, bits.dtype.type(0)), numerics.dtype_of(x))


def _shr_logical(x: Array, y: Array) -> Array:
    bits, amount, inside, _ = _shift_amount(x, y)
    return numerics.from_bits(np.where(inside, bits >> amount, bits.dtype.type(0)), numerics.dtype_of(x))


_SIGNED: Final = {d.bits: d for d in dtypes.ALL if d.is_signed}


def _shr_arithmetic(x: Array, y: Array) -> Array:
    bits, amount, inside, width = _shift_amount(x, y)
    signed = numerics.widen(numerics.from_bits(bits, _SIGNED[width]))
    shifted = signed >> np.where(inside, amount, width - 1).astype(signed.dtype)
    return numerics.from_bits(shifted.view(f"u{shifted.dtype.itemsize}"), numerics.dtype_of(x))


def _complex(real: Array, imag: Array) -> Array:
    result = np.empty(real.shape, np.result_type(real.dtype, np.complex64))
    result.real, result.imag = real, imag
    return result


def _complex_dtype(part: DType) -> DType:
    return dtypes.complex64 if part is dtypes.float32 else dtypes.complex128


# --- arithmetic -------------------------------------------------------------------------------------------
add: Final = _binary(
    "add", NUMBERS, exact(np.add), python_int=operator.add, commutative=True, doc="x + y; integers wrap."
)
sub: Final = _binary("sub", NUMBERS, exact(np.subtract), python_int=operator.sub, doc="x - y; integers wrap.")
mul: Final = _binary(
    "mul",
    NUMBERS,
    exact(_multiply),
    python_int=operator.mul,
    commutative=True,
    doc="x * y; integers wrap.",
)
div: Final = _binary("div", INEXACT, exact(np.divide), doc="x / y of floats and complex numbers.")
floor_div: Final = _binary(
    "floor_div", REAL, exact(np.floor_divide), doc="x / y toward minus infinity; integer x / 0 is 0."
)
trunc_div: Final = _binary("trunc_div", INTS, exact(_trunc_div), doc="x / y toward zero; x / 0 is 0.")
floor_mod: Final = _binary("floor_mod", REAL, exact(np.remainder), doc="The remainder with the sign of y.")
trunc_mod: Final = _binary("trunc_mod", REAL, exact(_trunc_mod), doc="The remainder with the sign of x.")
pow: Final = _binary("pow", NUMBERS, _pow, doc="x ** y.")
max: Final = _binary(
    "max",
    ORDERED,
    numerics.maximum,
    python_int=builtins.max,
    commutative=True,
    idempotent=True,
    doc="The larger; NaN wins, -0 < +0.",
)
min: Final = _binary(
    "min",
    ORDERED,
    numerics.minimum,
    python_int=builtins.min,
    commutative=True,
    idempotent=True,
    doc="The smaller; NaN wins, -0 < +0.",
)
globals().update({name: function(of) for name, of in FUNCTIONS.items() if of.arity == 2})
atan2, hypot = d.REGISTRY["atan2"], d.REGISTRY["hypot"]
copysign: Final = _binary(
    "copysign", FLOATS, exact(np.copysign), doc="The magnitude of x with the sign of y."
)
nextafter: Final = _binary("nextafter", FLOATS, numerics.next_after, doc="The next value from x toward y.")
complex: Final = _binary(
    "complex",
    frozenset({dtypes.float32, dtypes.float64}),
    _complex,
    result=_complex_dtype,
    key=d.OpKey.COMPLEX,
    way=d.Way.COMPOSITE,
    doc="The complex number x + iy.",
)

# --- bits -------------------------------------------------------------------------------------------------
and_: Final = _binary(
    "and",
    BITS,
    exact(np.bitwise_and),
    python_int=operator.and_,
    commutative=True,
    idempotent=True,
    doc="Bitwise, or logical on bools.",
)
or_: Final = _binary(
    "or",
    BITS,
    exact(np.bitwise_or),
    python_int=operator.or_,
    commutative=True,
    idempotent=True,
    doc="Bitwise, or logical on bools.",
)
xor: Final = _binary(
    "xor",
    BITS,
    exact(np.bitwise_xor),
    python_int=operator.xor,
    commutative=True,
    doc="Bitwise, or logical on bools.",
)
shl: Final = _binary("shl", INTS, _shl, doc="x << y; 0 once y reaches the width.")
shr_logical: Final = _binary("shr_logical", INTS, _shr_logical, doc="x >> y filling with zeros.")
shr_arithmetic: Final = _binary(
    "shr_arithmetic", INTS, _shr_arithmetic, doc="x >> y filling with the top bit."
)


def _compare(
    name: str, allowed: checking.DTypeSet, compute: Compute, *, doc: str, commutative: bool = False
) -> d.OpDef:
    return _binary(
        name, allowed, exact(compute), result=boolean, key=d.OpKey.COMPARE, commutative=commutative, doc=doc
    )


# --- comparisons ------------------------------------------------------------------------------------------
eq: Final = _compare("eq", ALL, np.equal, commutative=True, doc="x == y; False for NaN.")
ne: Final = _compare("ne", ALL, np.not_equal, commutative=True, doc="x != y; True for NaN.")
lt: Final = _compare("lt", ORDERED, np.less, doc="x < y.")
le: Final = _compare("le", ORDERED, np.less_equal, doc="x <= y.")
gt: Final = _compare("gt", ORDERED, np.greater, doc="x > y.")
ge: Final = _compare("ge", ORDERED, np.greater_equal, doc="x >= y.")


def _evaluate_select(arrays: d.Arrays, attrs: d.NoAttrs, types: d.Types, call: d.RegionCall) -> d.Results:
    return (np.where(arrays[0], arrays[1], arrays[2]),)


@d.op(
    d.OpKey.SELECT,
    d.NoAttrs,
    arity=3,
    evaluate=_evaluate_select,
    elementwise=True,
    doc="The second operand where the first is True, else the third.",
)
def select(types: d.Types, attrs: d.NoAttrs, regions: d.Regions) -> d.ResultTypes:
    predicate, chosen, other = types
    checking.need_dtype("select", predicate, checking.BOOL, "the predicate")
    checking.need_same_dtype("select", (chosen, other))
    checking.need_same_dims("select", types)
    return (chosen,)
