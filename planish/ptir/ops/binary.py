"""Elementwise ops of two operands, comparisons, and `select`.

Operands have one dtype and one shape. Each line of the tables at the end is an op.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np

from planish import dtypes
from planish.dtypes import DType
from planish.ptir.ops import checking, numerics
from planish.ptir.ops import definition as d
from planish.ptir.ops.checking import ALL, BITS, FLOATS, INEXACT, INTS, NUMBERS, ORDERED, REAL
from planish.ptir.ops.elementwise import Compute, boolean, elementwise, exact, function, integer, smooth
from planish.ptir.ops.literal import Array
from planish.scalars import FUNCTIONS
from planish.scalars.meanings import float_power

_binary = partial(elementwise, arity=2)
_commutative = partial(_binary, commutative=True)
_lattice = partial(_commutative, idempotent=True)


def _multiply(x: Array, y: Array) -> Array:
    if not np.iscomplexobj(x):
        return np.asarray(np.multiply(x, y))
    # By parts, each op rounded: NumPy's own product is contracted in places, so x*y and y*x could differ.
    result = np.empty(np.broadcast_shapes(x.shape, y.shape), x.dtype)
    result.real = x.real * y.real - x.imag * y.imag
    result.imag = x.real * y.imag + x.imag * y.real
    return result


_INTEGER_POWER, _FLOAT_POWER = integer("pow"), smooth(float_power)
_INTEGER_REMAINDER, _FLOAT_REMAINDER = integer("truncmod"), exact(np.fmod)


def _pow(x: Array, y: Array) -> Array:
    return (_INTEGER_POWER if numerics.dtype_of(x).is_int else _FLOAT_POWER)(x, y)


def _trunc_mod(x: Array, y: Array) -> Array:
    return (_INTEGER_REMAINDER if numerics.dtype_of(x).is_int else _FLOAT_REMAINDER)(x, y)


def _shift_right(kinds: Sequence[DType]) -> Compute:
    """In the signedness that fills with what is wanted."""
    words, shift = {dtype.bits: dtype for dtype in kinds}, integer("shr")

    def compute(x: Array, y: Array) -> Array:
        own = numerics.dtype_of(x)
        shifted = shift(*(numerics.from_bits(numerics.bits_of(each), words[own.bits]) for each in (x, y)))
        return numerics.from_bits(numerics.bits_of(shifted), own)

    return compute


def _complex(real: Array, imag: Array) -> Array:
    result = np.empty(real.shape, np.result_type(real.dtype, np.complex64))
    result.real, result.imag = real, imag
    return result


# --- arithmetic -------------------------------------------------------------------------------------------
add: Final = _commutative("add", NUMBERS, exact(np.add), python_int=operator.add, doc="x + y; integers wrap.")
sub: Final = _binary("sub", NUMBERS, exact(np.subtract), python_int=operator.sub, doc="x - y; integers wrap.")
mul: Final = _commutative(
    "mul", NUMBERS, exact(_multiply), python_int=operator.mul, doc="x * y; integers wrap."
)
div: Final = _binary("div", INEXACT, exact(np.divide), doc="x / y of floats and complex numbers.")
floor_div: Final = _binary(
    "floor_div", REAL, exact(np.floor_divide), doc="x / y toward minus infinity; integer x / 0 is 0."
)
trunc_div: Final = _binary("trunc_div", INTS, integer("truncdiv"), doc="x / y toward zero; x / 0 is 0.")
floor_mod: Final = _binary("floor_mod", REAL, exact(np.remainder), doc="The remainder with the sign of y.")
trunc_mod: Final = _binary("trunc_mod", REAL, _trunc_mod, doc="The remainder with the sign of x.")
pow: Final = _binary("pow", NUMBERS, _pow, doc="x ** y.")
max: Final = _lattice(
    "max", ORDERED, numerics.maximum, python_int=builtins.max, doc="The larger; NaN wins, -0 < +0."
)
min: Final = _lattice(
    "min", ORDERED, numerics.minimum, python_int=builtins.min, doc="The smaller; NaN wins, -0 < +0."
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
    result=lambda part: dtypes.complex64 if part is dtypes.float32 else dtypes.complex128,
    key=d.OpKey.COMPLEX,
    way=d.Way.COMPOSITE,
    doc="The complex number x + iy.",
)

# --- bits -------------------------------------------------------------------------------------------------
and_: Final = _lattice(
    "and", BITS, exact(np.bitwise_and), python_int=operator.and_, doc="Bitwise, or logical on bools."
)
or_: Final = _lattice(
    "or", BITS, exact(np.bitwise_or), python_int=operator.or_, doc="Bitwise, or logical on bools."
)
xor: Final = _commutative(
    "xor", BITS, exact(np.bitwise_xor), python_int=operator.xor, doc="Bitwise, or logical on bools."
)
shl: Final = _binary("shl", INTS, integer("shl"), doc="x << y; 0 once y reaches the width.")
shr_logical: Final = _binary(
    "shr_logical", INTS, _shift_right(dtypes.UNSIGNED), doc="x >> y filling with zeros."
)
shr_arithmetic: Final = _binary(
    "shr_arithmetic", INTS, _shift_right(dtypes.SIGNED), doc="x >> y filling with the top bit."
)


# --- comparisons ------------------------------------------------------------------------------------------
_compare = partial(_binary, result=boolean, key=d.OpKey.COMPARE)
eq: Final = _compare("eq", ALL, exact(np.equal), commutative=True, doc="x == y; False for NaN.")
ne: Final = _compare("ne", ALL, exact(np.not_equal), commutative=True, doc="x != y; True for NaN.")
lt: Final = _compare("lt", ORDERED, exact(np.less), doc="x < y.")
le: Final = _compare("le", ORDERED, exact(np.less_equal), doc="x <= y.")
gt: Final = _compare("gt", ORDERED, exact(np.greater), doc="x > y.")
ge: Final = _compare("ge", ORDERED, exact(np.greater_equal), doc="x >= y.")


def _evaluate_select(arrays: d.Arrays, attrs: d.NoAttrs, types: d.Types) -> d.Results:
    return (np.where(arrays[0], arrays[1], arrays[2]),)


@d.op(d.OpKey.SELECT, arity=3, evaluate=_evaluate_select, elementwise=True)
def select(types: d.Types, attrs: d.NoAttrs, regions: d.Regions) -> d.ResultTypes:
    """The second operand where the first is True, else the third."""
    predicate, chosen, other = types
    checking.need_dtype("select", predicate, checking.BOOL, "the predicate")
    checking.need_same_dtype("select", (chosen, other))
    checking.need_same_dims("select", types)
    return (chosen,)
