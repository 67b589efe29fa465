"""Element types in the words of onnxruntime: `tensor(float)`, the number that ONNX has for it, the dtype of NumPy."""

from __future__ import annotations

from typing import Any, Final

import ml_dtypes
import numpy as np

_ROWS: Final = (
    (1, "float", np.float32), (2, "uint8", np.uint8), (3, "int8", np.int8), (4, "uint16", np.uint16),
    (5, "int16", np.int16), (6, "int32", np.int32), (7, "int64", np.int64), (8, "string", np.object_),
    (9, "bool", np.bool_), (10, "float16", np.float16), (11, "double", np.float64), (12, "uint32", np.uint32),
    (13, "uint64", np.uint64), (14, "complex64", np.complex64), (15, "complex128", np.complex128),
    (16, "bfloat16", ml_dtypes.bfloat16), (17, "float8e4m3fn", ml_dtypes.float8_e4m3fn),
    (18, "float8e4m3fnuz", ml_dtypes.float8_e4m3fnuz), (19, "float8e5m2", ml_dtypes.float8_e5m2),
    (20, "float8e5m2fnuz", ml_dtypes.float8_e5m2fnuz), (21, "uint4", ml_dtypes.uint4), (22, "int4", ml_dtypes.int4),
)  # fmt: skip
_BY_NUMBER: Final = {number: np.dtype(kind) for number, _, kind in _ROWS}
_NUMBERS: Final = {np.dtype(kind): number for number, _, kind in _ROWS}
_NAMES: Final = {np.dtype(kind).name: name for _, name, kind in _ROWS}


def dtype_of(kind: Any) -> np.dtype[Any]:
    """The dtype that a number of ONNX, or a dtype, stands for."""
    return _BY_NUMBER[kind] if isinstance(kind, int) else np.dtype(kind)


def number_of(dtype: np.dtype[Any]) -> int:
    """The number that ONNX has for a dtype; 0 for none."""
    return 8 if dtype.kind in "OUS" else _NUMBERS.get(dtype.newbyteorder("="), 0)


def word_of(dtype: str) -> str:
    """The word that onnxruntime has for the name of a dtype."""
    return _NAMES.get(dtype, dtype)


__all__ = ["dtype_of", "number_of", "word_of"]
