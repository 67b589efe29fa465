"""Elementwise ops of one operand: the scalar functions, and what works on bits, signs and complex parts.

Each line of the tables is an op: which dtypes it takes, what it returns, how NumPy computes it.
"""

from __future__ import annotations

import operator
from functools import partial
from typing import Final

import numpy as np

from planish.ptir.ops import numerics
from planish.ptir.ops.checking import BITS, COMPLEX, INEXACT, INTS, NUMBERS
from planish.ptir.ops.definition import REGISTRY, OpKey, Way
from planish.ptir.ops.elementwise import boolean, elementwise, exact, function, integer
from planish.ptir.ops.literal import Array
from planish.scalars import FUNCTIONS


def _not(x: Array) -> Array:
    return np.logical_not(x) if x.dtype == np.bool_ else np.invert(numerics.widen(x))


# --- arithmetic -------------------------------------------------------------------------------------------
neg: Final = elementwise(
    "neg", NUMBERS, exact(np.negative), python_int=operator.neg, involution=True, doc="-x; integers wrap."
)
abs: Final = elementwise(
    "abs",
    NUMBERS,
    exact(np.abs),
    result=numerics.part_dtype,
    python_int=operator.abs,
    doc="|x|; |MIN| wraps to MIN.",
)
sign: Final = elementwise("sign", NUMBERS, exact(np.sign), doc="-1, 0 or 1; z/|z| for complex numbers.")

# --- functions --------------------------------------------------------------------------------------------
globals().update({name: function(of) for name, of in FUNCTIONS.items() if of.arity == 1})
# Every function is an attribute here; these are the ones that other modules mention.
(
    acos, acosh, asin, asinh, atan, atanh, cbrt, ceil, cos, cosh, digamma, erf, erfc, erfinv, exp, exp2, expm1, floor,
    lgamma, log, log1p, log2, reciprocal, round, rsqrt, sin, sinh, sqrt, tan, tanh, trunc,
) = map(REGISTRY.__getitem__, ["acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "ceil", "cos", "cosh", "digamma", "erf", "erfc", "erfinv", "exp", "exp2", "expm1", "floor", "lgamma", "log", "log1p", "log2", "reciprocal", "round", "rsqrt", "sin", "sinh", "sqrt", "tan", "tanh", "trunc"])  # fmt: skip

# --- bits -------------------------------------------------------------------------------------------------
not_: Final = elementwise(
    "not", BITS, _not, involution=True, doc="Logical not of bools, every bit of integers."
)
popcount: Final = elementwise("popcount", INTS, integer("popcount"), doc="The number of one bits.")
clz: Final = elementwise("clz", INTS, integer("clz"), doc="The number of leading zero bits; the width for 0.")

# --- predicates and complex parts -------------------------------------------------------------------------
is_nan: Final = elementwise("is_nan", INEXACT, exact(np.isnan), result=boolean, doc="NaN in any part.")
is_inf: Final = elementwise(
    "is_inf", INEXACT, exact(np.isinf), result=boolean, doc="An infinity in any part."
)
is_finite: Final = elementwise(
    "is_finite", INEXACT, exact(np.isfinite), result=boolean, doc="Neither NaN nor infinite."
)
_part = partial(elementwise, way=Way.COMPOSITE)
conj: Final = _part("conj", COMPLEX, np.conj, involution=True, doc="Complex conjugate.")
real: Final = _part(
    "real", COMPLEX, np.real, result=numerics.part_dtype, key=OpKey.COMPLEX, doc="The real part."
)
imag: Final = _part(
    "imag", COMPLEX, np.imag, result=numerics.part_dtype, key=OpKey.COMPLEX, doc="The imaginary part."
)
