"""Names that NumPy has for what the standard calls otherwise, and names of types."""

from __future__ import annotations

import numpy as np

from planish import dtypes
from planish.frontend.tensor import functions as api
from planish.frontend.tensor.array import Tensor
from planish.frontend.tensor.operands import as_dtype

absolute = api.abs
amax = api.max
amin = api.min
arccos = api.acos
arccosh = api.acosh
arcsin = api.asin
arcsinh = api.asinh
arctan = api.atan
arctan2 = api.atan2
arctanh = api.atanh
around = api.round
bitwise_not = api.bitwise_invert
concatenate = api.concat
conjugate = api.conj
degrees = api.rad2deg
fix = api.trunc
invert = api.bitwise_invert
left_shift = api.bitwise_left_shift
mod = api.remainder
power = api.pow
radians = api.deg2rad
right_shift = api.bitwise_right_shift
true_divide = api.divide

bool_ = dtypes.bool_
cdouble = dtypes.complex128
csingle = dtypes.complex64
double = dtypes.float64
int_ = dtypes.int64
single = dtypes.float32
uint = dtypes.uint64
ndarray = Tensor
dtype = as_dtype
euler_gamma = 0.5772156649015329

# families of element types, for `issubdtype`: NumPy's own classes
character = np.character
complexfloating = np.complexfloating
flexible = np.flexible
floating = np.floating
generic = np.generic
inexact = np.inexact
integer = np.integer
number = np.number
object_ = np.object_
signedinteger = np.signedinteger
unsignedinteger = np.unsignedinteger

__all__ = [
    "absolute", "amax", "amin", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh",
    "around", "bitwise_not", "bool_", "cdouble", "character", "complexfloating", "concatenate",
    "conjugate", "csingle", "degrees", "double", "dtype", "euler_gamma", "fix", "flexible", "floating", "generic",
    "inexact", "int_", "integer", "invert", "left_shift", "mod", "ndarray", "number", "object_", "power",
    "radians", "right_shift", "signedinteger", "single", "true_divide", "uint", "unsignedinteger",
]  # fmt: skip
