"""The native way to a GPU (`runtime/native/gpu.c`): what it reads, laid out in memory, and the functions it is called by."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from planish.runtime.cuda.driver import addresses
from planish.runtime.native import Functions, function

_DRIVER: Final = (
    "cuLaunchKernel", "cuGraphLaunch", "cuCtxGetCurrent", "cuCtxSetCurrent", "cuGraphExecKernelNodeSetParams_v2",
)  # fmt: skip
_PYTHON: Final = (
    "PyType_GenericAlloc", "PyList_Size", "PyList_GetItem", "PyList_SetSlice", "PyObject_RichCompareBool", "PyLong_FromVoidPtr",
)  # fmt: skip
WANTS_GRAPH: Final = -1
_RECENT: Final = 16


def needed() -> Mapping[str, int]:
    """What it calls besides what all native code may call, and where that is."""
    symbols = dict(addresses(_DRIVER))
    for name in _PYTHON:
        symbols[name] = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0
    return symbols


class Launcher:
    """Its functions."""

    def __init__(self, module: Functions) -> None:
        self.module = module
        number, place = ctypes.c_int64, ctypes.c_void_p
        self.run: Callable[..., int] = ctypes.CFUNCTYPE(number, place, place, place)(
            module.address("gpu_run")
        )
        self.add = function(module, "gpu_add", place, place, place)
        self._history = function(module, "gpu_history", place)
        self.call = module.address("gpu_call")

    def recent(self) -> list[int]:
        """The segments that were launched last, the last one first."""
        words = (ctypes.c_int64 * (1 + _RECENT))()
        self._history(words)
        count, *last = words
        return [last[(count - 1 - n) % _RECENT] for n in range(min(count, _RECENT))]


class WordArrays:
    """Arrays of words that somebody else reads; they live as long as this."""

    def __init__(self) -> None:
        self.kept: list[object] = []

    def words(self, numbers: Sequence[int]) -> int:
        """Where they are."""
        array = (ctypes.c_int64 * max(len(numbers), 1))(*numbers)
        self.kept.append(array)
        return ctypes.addressof(array)

    def objects(self, of: Sequence[object]) -> list[int]:
        """The addresses of Python's objects, which are kept."""
        self.kept += of
        return [id(each) for each in of]


def packed(low: int, high: int) -> int:
    """Two unsigned numbers of 32 bits as one word."""
    word = low | high << 32
    return word - (1 << 64) if word >> 63 else word


def slots_of(example: object, names: Sequence[str]) -> list[int] | None:
    """Where the slots of an object lie in it; None if that is not plain to see. Their values have to be of different objects."""
    size = type(example).__basicsize__
    words = list((ctypes.c_int64 * (size // 8)).from_address(id(example)))
    offsets: list[int] = []
    for name in names:
        value: Any = getattr(example, name)
        if words.count(id(value)) != 1:
            return None
        offsets.append(words.index(id(value)) * 8)
    return offsets
