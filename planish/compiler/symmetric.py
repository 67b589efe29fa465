"""Factorisations of symmetric matrices that are not positive definite (L·D·Lᵀ with pivots), by the LAPACK that NumPy came with.

PTIR has no such op: these are functions outside of it, called a matrix at a time.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from planish.dtypes import DType
from planish.ptir.ops.control import CustomCallAttrs, register_custom_call
from planish.runtime.libraries import PREFIX, addresses, wide_integers

Array = NDArray[Any]

FACTOR: Final = "planish.linalg.ldl_factor"
SOLVE: Final = "planish.linalg.ldl_solve"
_LETTERS: Final = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}
_BLOCK: Final = 64
"""Columns that LAPACK takes at once: the workspace has so many."""


def has_ldl(dtype: DType) -> bool:
    """Whether NumPy's LAPACK factorises symmetric matrices of a dtype."""
    letter = _LETTERS.get(np.dtype(dtype.numpy).name)
    return letter is not None and addresses([f"{PREFIX}{letter}sytrf", f"{PREFIX}{letter}sytrs"]) is not None


def _call(name: str, x: Array, hermitian: bool, *given: Any) -> None:
    """A function of LAPACK on lower triangles: arrays by address, integers by the address of one as wide as it has them."""
    kind = "he" if hermitian and x.dtype.kind == "c" else "sy"
    whole = f"{PREFIX}{_LETTERS[x.dtype.name]}{kind}{name}"
    symbols = addresses([whole])
    if symbols is None:
        raise RuntimeError(f"NumPy's LAPACK has no {whole}")
    integer = ctypes.c_int64 if wide_integers() else ctypes.c_int32
    ready = [each.ctypes.data_as(ctypes.c_void_p) if isinstance(each, np.ndarray) else ctypes.byref(integer(each))
             for each in given]  # fmt: skip
    ctypes.CFUNCTYPE(None)(symbols[whole])(ctypes.byref(ctypes.c_char(b"L")), *ready, ctypes.c_size_t(1))


def _factor(arrays: Sequence[Array], attrs: CustomCallAttrs) -> tuple[Array, ...]:
    x = arrays[0]
    packed, pivots, info = (np.zeros(type.shape, type.dtype.numpy) for type in attrs.results)
    count = x.shape[-1]
    whole = np.int64 if wide_integers() else np.int32
    for index in np.ndindex(*x.shape[:-2]):
        own = np.asfortranarray(np.tril(x[index]))
        places, told = np.zeros(count, whole), np.zeros(1, whole)
        work = np.zeros(max(1, count * _BLOCK), x.dtype)
        hermitian = bool(dict(attrs.config)["hermitian"])
        _call("trf", x, hermitian, count, own, max(1, count), places, work, work.size, told)
        packed[index], pivots[index], info[index] = own, places, told[0]
    return packed, pivots, info


def _solve(arrays: Sequence[Array], attrs: CustomCallAttrs) -> tuple[Array, ...]:
    packed, pivots, rhs = arrays
    solution = np.zeros(rhs.shape, rhs.dtype)
    count, columns = rhs.shape[-2:]
    whole = np.int64 if wide_integers() else np.int32
    for index in np.ndindex(*rhs.shape[:-2]):
        own, mine = np.asfortranarray(packed[index]), np.asfortranarray(rhs[index]).copy(order="F")
        places, told = np.ascontiguousarray(pivots[index], whole), np.zeros(1, whole)
        hermitian = bool(dict(attrs.config)["hermitian"])
        _call("trs", packed, hermitian, count, columns, own, max(1, count), places, mine, max(1, count), told)
        solution[index] = mine
    return (solution,)


register_custom_call(FACTOR, _factor)
register_custom_call(SOLVE, _solve)
