"""Native support: the worker pool, the memory pool, the way in from Python and 16-bit floats, written in C.

The C beside this is compiled by `make native`, not at run time: the package reads `support.ll`, which LLVM makes machine code of
like any kernel. What it makes for any x86-64 lies beside it (`support.o`): a process that starts with an empty cache does not wait for
that. What it believes about NumPy's array object is probed once per process (`reads_arrays`).
"""

from __future__ import annotations

import ctypes
import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

HALF_CONVERSIONS: Final = ("__extendhfsf2", "__truncsfhf2")
"""What code for processors without 16-bit floats calls."""
LINKED: Final = ("pool_run", "interrupted")
"""What the way through a plan calls."""


class Functions(Protocol):
    """A loaded module."""

    def address(self, name: str) -> int:
        """Where a function is."""


@cache
def source(unit: str = "support") -> str:
    """The LLVM IR of it all.

    `gpu`: of what only those need who have one; `collectives`: of what plans on several ranks call; `standalone`: of what runs models
    without Python.
    """
    folder = unit if unit in ("standalone", "collectives") else "native"
    return Path(__file__).parents[1].joinpath(folder, f"{unit}.ll").read_text()


@cache
def image() -> bytes | None:
    """Its object code for any x86-64; None on another machine, or if it is not of this IR."""
    try:
        code = Path(__file__).with_name("support.o").read_bytes()
    except OSError:
        return None
    of = digest(source())
    return code if os.uname().machine == "x86_64" and code.endswith(f"{of}\n".encode()) else None


def digest(text: str) -> str:
    """What the last line of an object says of the IR that it was made of."""
    return hashlib.sha256(text.encode()).hexdigest()


def function(module: Functions, name: str, *kinds: Any, result: Any = None) -> Callable[..., Any]:
    """A function that holds the interpreter's lock, called from Python; the module lives as long as it."""
    call = ctypes.PYFUNCTYPE(result, *kinds)(module.address(name))
    call.code = module  # type: ignore[attr-defined]
    return call


def reads_arrays(module: Functions) -> bool:
    """Whether the array object of this NumPy and Python is, word by word, what the C believes."""
    size = function(module, "array_bytes", result=ctypes.c_int64)()
    if np.ndarray.__basicsize__ < size:
        return False
    read = function(module, "array_words", ctypes.py_object, ctypes.c_void_p)
    words = (ctypes.c_int64 * 8)()

    def agrees(array: NDArray[Any]) -> bool:
        read(array, ctypes.addressof(words))
        *plain, shape, strides = words
        base = 0 if array.base is None else id(array.base)
        told = [id(np.ndarray), array.ctypes.data, array.ndim, base, id(array.dtype), array.flags.num]
        sizes = ctypes.c_int64 * array.ndim
        # only what lies between right words is taken for an address
        return plain == told and (
            (*sizes.from_address(shape), *sizes.from_address(strides)) == array.shape + array.strides
        )

    whole = np.zeros((3, 5), np.float32)
    sealed = whole[1:, ::2]
    sealed.flags.writeable = False
    return agrees(whole) and agrees(sealed) and agrees(np.zeros(7, np.int16))
