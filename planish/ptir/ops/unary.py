"""Elementwise ops of one operand.

Each line of the tables at the end is an op: which dtypes it takes, what it returns, how NumPy computes it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from planish import dtypes
from planish.dtypes import DType
from planish.ptir.ops import checking, numerics
from planish.ptir.ops.checking import BITS, COMPLEX, FLOATS, INEXACT, INTS, NUMBERS
from planish.ptir.ops.definition import NoAttrs, OpDef, OpKey, RegionCall, define
from planish.ptir.ops.literal import Array
from planish.ptir.types import TensorType

if TYPE_CHECKING:
    from planish.ptir.function import Region

ArrayFn = Callable[[Array], Array]
ResultDType = Callable[[DType], DType]


def _same(dtype: DType) -> DType:
    return dtype


def _bool(dtype: DType) -> DType:
    return dtypes.bool_


def _unary(
    name: str,
    allowed: checking.DTypeSet,
    compute: ArrayFn,
    *,
    doc: str,
    result: ResultDType = _same,
    key: OpKey = OpKey.ELEMENTWISE_UNARY,
    python_int: Callable[[int], int] | None = None,
    idempotent: bool = False,
    involution: bool = False,
) -> OpDef:
    def infer(
        types: Sequence[TensorType], attrs: NoAttrs, regions: Sequence[Region]
    ) -> tuple[TensorType, ...]:
        operand = types[0]
        checking.need_dtype(name, operand, allowed)
        dtype = result(operand.dtype)
        return (operand,) if dtype is operand.dtype else (TensorType(dtype, operand.dims),)

    @numerics.quiet
    def evaluate(
        arrays: Sequence[Array], attrs: NoAttrs, types: Sequence[TensorType], call: RegionCall
    ) -> tuple[Array, ...]:
        return (numerics.convert(np.asarray(compute(arrays[0])), types[0].dtype),)

    return define(
        name,
        key,
        NoAttrs,
        arity=1,
        infer=infer,
        evaluate=evaluate,
        python_int=python_int,
        elementwise=True,
        idempotent=idempotent,
        involution=involution,
        doc=doc,
    )


def _exact(function: ArrayFn) -> ArrayFn:
    """Computed in the type itself (float32 for narrow floats): one rounding by construction."""
    return lambda x: function(numerics.widen(x))


def _smooth(function: ArrayFn) -> ArrayFn:
    """Computed in float64, so that float32 and narrower results are rounded once from a much better one."""
    return lambda x: function(numerics.as_float64(x))


def _popcount(x: Array) -> Array:
    return np.bitwise_count(numerics.bits_of(x))


def _clz(x: Array) -> Array:
    width = numerics.dtype_of(x).bits
    bits = numerics.bits_of(x)
    for distance in (1, 2, 4, 8, 16, 32):
        if distance < width:
            bits = bits | (bits >> bits.dtype.type(distance))
    return np.asarray(width - np.bitwise_count(bits).astype(np.int64))


def _not(x: Array) -> Array:
    return np.logical_not(x) if x.dtype == np.bool_ else np.invert(numerics.widen(x))


# --- arithmetic -------------------------------------------------------------------------------------------
neg: Final = _unary(
    "neg", NUMBERS, _exact(np.negative), python_int=operator.neg, involution=True, doc="-x; integers wrap."
)
abs: Final = _unary(
    "abs",
    NUMBERS,
    _exact(np.abs),
    result=numerics.part_dtype,
    python_int=operator.abs,
    doc="|x|; |MIN| wraps to MIN.",
)
sign: Final = _unary("sign", NUMBERS, _exact(np.sign), doc="-1, 0 or 1; z/|z| for complex numbers.")
reciprocal: Final = _unary("reciprocal", INEXACT, _exact(np.reciprocal), doc="1/x.")
sqrt: Final = _unary("sqrt", INEXACT, _exact(np.sqrt), doc="Square root.")
rsqrt: Final = _unary("rsqrt", INEXACT, _smooth(lambda x: 1 / np.sqrt(x)), doc="1/sqrt(x).")
cbrt: Final = _unary("cbrt", FLOATS, _smooth(np.cbrt), doc="Cube root, also of negative numbers.")

# --- rounding ---------------------------------------------------------------------------------------------
floor: Final = _unary("floor", FLOATS, _exact(np.floor), idempotent=True, doc="Toward minus infinity.")
ceil: Final = _unary("ceil", FLOATS, _exact(np.ceil), idempotent=True, doc="Toward plus infinity.")
round: Final = _unary("round", FLOATS, _exact(np.rint), idempotent=True, doc="To nearest, ties to even.")
trunc: Final = _unary("trunc", FLOATS, _exact(np.trunc), idempotent=True, doc="Toward zero.")

# --- exponentials and logarithms --------------------------------------------------------------------------
exp: Final = _unary("exp", INEXACT, _smooth(np.exp), doc="e**x.")
exp2: Final = _unary("exp2", FLOATS, _smooth(np.exp2), doc="2**x.")
expm1: Final = _unary("expm1", INEXACT, _smooth(np.expm1), doc="e**x - 1, accurate near 0.")
log: Final = _unary("log", INEXACT, _smooth(np.log), doc="Natural logarithm.")
log2: Final = _unary("log2", INEXACT, _smooth(np.log2), doc="Logarithm to base 2.")
log1p: Final = _unary("log1p", INEXACT, _smooth(np.log1p), doc="log(1 + x), accurate near 0.")

# --- trigonometry -----------------------------------------------------------------------------------------
sin: Final = _unary("sin", INEXACT, _smooth(np.sin), doc="Sine.")
cos: Final = _unary("cos", INEXACT, _smooth(np.cos), doc="Cosine.")
tan: Final = _unary("tan", INEXACT, _smooth(np.tan), doc="Tangent.")
asin: Final = _unary("asin", INEXACT, _smooth(np.arcsin), doc="Inverse sine.")
acos: Final = _unary("acos", INEXACT, _smooth(np.arccos), doc="Inverse cosine.")
atan: Final = _unary("atan", INEXACT, _smooth(np.arctan), doc="Inverse tangent.")
sinh: Final = _unary("sinh", INEXACT, _smooth(np.sinh), doc="Hyperbolic sine.")
cosh: Final = _unary("cosh", INEXACT, _smooth(np.cosh), doc="Hyperbolic cosine.")
tanh: Final = _unary("tanh", INEXACT, _smooth(np.tanh), doc="Hyperbolic tangent.")
asinh: Final = _unary("asinh", INEXACT, _smooth(np.arcsinh), doc="Inverse hyperbolic sine.")
acosh: Final = _unary("acosh", INEXACT, _smooth(np.arccosh), doc="Inverse hyperbolic cosine.")
atanh: Final = _unary("atanh", INEXACT, _smooth(np.arctanh), doc="Inverse hyperbolic tangent.")

# --- special functions ------------------------------------------------------------------------------------
erf: Final = _unary("erf", FLOATS, _smooth(numerics.erf), doc="Error function.")
erfc: Final = _unary("erfc", FLOATS, _smooth(numerics.erfc), doc="1 - erf(x), accurate in the tail.")
erfinv: Final = _unary("erfinv", FLOATS, _smooth(numerics.erfinv), doc="Inverse of erf.")
lgamma: Final = _unary("lgamma", FLOATS, _smooth(numerics.lgamma), doc="log |gamma(x)|.")
digamma: Final = _unary("digamma", FLOATS, _smooth(numerics.digamma), doc="Derivative of log gamma.")

# --- bits -------------------------------------------------------------------------------------------------
not_: Final = _unary("not", BITS, _not, involution=True, doc="Logical not of bools, every bit of integers.")
popcount: Final = _unary("popcount", INTS, _popcount, doc="The number of one bits.")
clz: Final = _unary("clz", INTS, _clz, doc="The number of leading zero bits; the width for 0.")

# --- predicates and complex parts -------------------------------------------------------------------------
is_nan: Final = _unary("is_nan", INEXACT, _exact(np.isnan), result=_bool, doc="NaN in any part.")
is_inf: Final = _unary("is_inf", INEXACT, _exact(np.isinf), result=_bool, doc="An infinity in any part.")
is_finite: Final = _unary(
    "is_finite", INEXACT, _exact(np.isfinite), result=_bool, doc="Neither NaN nor infinite."
)
conj: Final = _unary("conj", COMPLEX, np.conj, involution=True, doc="Complex conjugate.")
real: Final = _unary(
    "real", COMPLEX, np.real, result=numerics.part_dtype, key=OpKey.COMPLEX, doc="The real part."
)
imag: Final = _unary(
    "imag", COMPLEX, np.imag, result=numerics.part_dtype, key=OpKey.COMPLEX, doc="The imaginary part."
)
