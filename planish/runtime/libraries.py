"""Libraries that routines call: their functions by name, and how many threads they take.

BLAS and LAPACK are those that NumPy came with: whatever its extension module for linear algebra is linked to, found through that
module. Builds differ in the names they give (`spotrf_`, `spotrf_64_`, `scipy_spotrf_64_`) and in the width of integers; a
width of 64 bits goes with a name that says so. What is not found is not called: the routine is then not there.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from functools import cache
from typing import Final

PREFIX: Final = "lapack_"
"""How routines name what they call there: `lapack_spotrf`."""
_FORMS: Final = ("scipy_{}_64_", "{}_64_", "scipy_{}_", "{}_")
_THREADS: Final = ("scipy_openblas_{}64_", "openblas_{}64_", "scipy_openblas_{}", "openblas_{}")


@cache
def _numpy() -> ctypes.CDLL | None:
    try:
        from numpy.linalg import _umath_linalg
    except ImportError:
        return None
    file: str | None = getattr(_umath_linalg, "__file__", None)
    try:
        return None if file is None else ctypes.CDLL(file)
    except OSError:
        return None


def _address(name: str) -> int:
    library = _numpy()
    if library is None:
        return 0
    try:
        return ctypes.cast(library[name], ctypes.c_void_p).value or 0
    except AttributeError:
        return 0


@cache
def _form() -> str | None:
    """How this build writes names."""
    return next((form for form in _FORMS if _address(form.format("spotrf"))), None)


def wide_integers() -> bool:
    """Whether LAPACK's integers have 64 bits."""
    form = _form()
    return form is not None and "64" in form


@cache
def _function(name: str) -> int:
    """Of LAPACK, or what asks or tells OpenBLAS about its threads; 0 if there is none."""
    plain = name.removeprefix(PREFIX)
    if plain in {"get_num_threads", "set_num_threads"}:
        return next(filter(None, (_address(form.format(plain)) for form in _THREADS)), 0)
    form = _form()
    return 0 if form is None else _address(form.format(plain))


def addresses(names: Iterable[str]) -> dict[str, int] | None:
    """Where the functions of libraries among these are; None if one of them is missing."""
    known = {name: _function(name) for name in names if name.startswith(PREFIX)}
    return known if all(known.values()) else None
