"""Memory pool: blocks for results and arenas that outlive the arrays made of them (`planish/runtime/native/memory.c`).

A fresh page costs more than the work on it: the system clears it. So memory that an array gives up is kept, up to a limit,
and the next array of about that size gets it. An array made here owns its block by way of NumPy's own protocol for allocators;
whoever lets the last reference go, wherever, gives it back.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from planish.config import current
from planish.runtime.native import Functions, function, reads_arrays


class PoolStatistics(NamedTuple):
    """What a pool holds, in bytes, and what it did."""

    used: int
    """Bytes of blocks that arrays and running calls have."""
    kept: int
    """Bytes of blocks that wait for the next array."""
    limit: int
    """The most bytes that are kept."""
    made: int
    """Blocks that were asked of the system."""
    reused: int
    """Blocks that were there."""


class Blocks:
    """The memory of this process that compiled functions take and give back."""

    def __init__(self, module: Functions) -> None:
        self._trim = function(module, "memory_trim", ctypes.c_int64)
        self._set_limit = function(module, "memory_limit", ctypes.c_int64)
        self._bytes = function(module, "memory_bytes", ctypes.c_int64, result=ctypes.py_object)
        self._statistics = function(module, "memory_statistics", ctypes.c_void_p)
        self.reads_arrays = reads_arrays(module) and (new_array := _new_array_function()) != 0
        """Whether native code may read and make arrays; where not, NumPy does."""
        if self.reads_arrays:
            capsule = _capsule(
                module.address("memory_allocator"), module.address("memory_capsule_name"), None
            )
            kinds = (ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.py_object, ctypes.c_int)
            tell = function(module, "memory_arrays", *kinds)
            byte = np.dtype(np.uint8)
            # arrays may outlive the interpreter's modules: what frees them is never unloaded
            for kept in (capsule, module, byte):
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
            tell(np.ndarray, new_array, capsule, byte, 1)
            # NumPy keeps who frees an array where we think it does
            if _handler_name(self._bytes(4096)) != "planish":
                tell(np.ndarray, new_array, capsule, byte, 0)
        self.configure()
        os.register_at_fork(after_in_child=function(module, "memory_after_fork"))

    def configure(self) -> None:
        """Let the settings of this moment say how much is kept."""
        self._set_limit(wanted_limit())

    def empty(self, size: int) -> NDArray[np.uint8]:
        """So many bytes, whatever is in them, from the start of a cache line (if it is not few)."""
        if not self.reads_arrays:
            return np.empty(size, np.uint8)
        array: NDArray[np.uint8] = self._bytes(size)
        return array

    def data_address(self, array: NDArray[Any]) -> int:
        """Where the data of an array is, read as native code reads it: `ctypes.data` takes ten times as long."""
        return _word_at(id(array) + _DATA).value if self.reads_arrays else array.ctypes.data

    def release(self) -> int:
        """Return everything that is kept to the system; how many bytes that was."""
        kept = self.statistics.kept
        self._trim(0)
        return kept

    @property
    def statistics(self) -> PoolStatistics:
        """What is in use and what is kept."""
        words = (ctypes.c_int64 * len(PoolStatistics._fields))()
        self._statistics(ctypes.addressof(words))
        return PoolStatistics(*words)


_word_at: Final = ctypes.c_int64.from_address
_DATA: Final = 16
"""Of an array's bytes, those of the address of its data."""
_capsule: Final = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)


def _new_array_function() -> int:
    """The address of NumPy's function that makes an array from a dtype; 0 if it does not say."""
    core = getattr(np, "_core", None)
    table = getattr(getattr(core, "_multiarray_umath", None), "_ARRAY_API", None)
    if table is None:
        return 0
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    functions = ctypes.cast(get(table, None), ctypes.POINTER(ctypes.c_void_p))
    return functions[94] or 0


def _handler_name(array: NDArray[Any]) -> str | None:
    try:
        from numpy._core.multiarray import get_handler_name
    except ImportError:
        return None
    name: str | None = get_handler_name(array)
    return name


def wanted_limit() -> int:
    """The bytes that may be kept: what the settings of this moment say, or an eighth of what this process may have."""
    chosen = current().memory_limit
    return available_memory() // 8 if chosen is None else chosen << 20


@cache
def available_memory() -> int:
    """The bytes of memory that this process may have: of the machine, or of its control group. (Every compilation asks.)"""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        text = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        if text != "max":
            total = min(total, int(text))
    except (OSError, ValueError):
        pass
    return total
