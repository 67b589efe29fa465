"""The element types of planish: scalars, short vectors of them, and pointers.

Each type is one immutable object for the life of the process. Equality and hash are identity; pickling and
copying give back the same object; `parse(str(t)) is t` for every type. Promotion follows the Array API
standard where the standard speaks, and docs/dtypes.md where it does not.

`types` has the types, `constants` what a constant of each is, `promotion` which type several meet in.
"""

from __future__ import annotations

from planish.dtypes.constants import float_format
from planish.dtypes.float_formats import FloatFormat
from planish.dtypes.kinds import AddrSpace, Kind
from planish.dtypes.promotion import promote, result_type, value_preserving
from planish.dtypes.types import (
    ALL,
    COMPLEXES,
    DEFAULT_COMPLEX,
    DEFAULT_FLOAT,
    DEFAULT_INT,
    FLOATS,
    SIGNED,
    UNSIGNED,
    DType,
    PtrDType,
    bfloat16,
    bool_,
    complex64,
    complex128,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    from_numpy,
    index,
    int4,
    int8,
    int16,
    int32,
    int64,
    parse,
    tfloat32,
    uint4,
    uint8,
    uint16,
    uint32,
    uint64,
    void,
)

__all__ = [
    "ALL", "COMPLEXES", "DEFAULT_COMPLEX", "DEFAULT_FLOAT", "DEFAULT_INT", "FLOATS", "SIGNED", "UNSIGNED",
    "AddrSpace", "DType", "FloatFormat", "Kind", "PtrDType", "bfloat16", "bool_", "complex64", "complex128",
    "float8_e4m3fn", "float8_e5m2", "float16", "float32", "float64", "float_format", "from_numpy", "index",
    "int4", "int8", "int16", "int32", "int64", "parse", "promote", "result_type", "tfloat32", "uint4",
    "uint8", "uint16", "uint32", "uint64", "value_preserving", "void",
]  # fmt: skip
