"""The way from Python into a compiled function: one builtin that checks arrays, makes results and runs the plan.

`fast_call` (`planish/runtime/native/call.c`) is the body of a Python builtin whose `self` is the address of a `Description`: what
the parameters must be, what the results are, and a template of the frame that the plan works on. Whatever is not plain goes to the
Python function in the description, which sorts it out or says what is wrong.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from planish.records import dataclass


@dataclass(frozen=True, slots=True)
class PlainTensor:
    """A parameter or result: its dtype, where its address goes in the frame, and its sizes (~slot for a variable)."""

    dtype: np.dtype[Any]
    slot: int
    dims: tuple[int, ...]
    argument: int = -1
    """Of a parameter that is written to: its number. Of a result: the argument whose array it is."""


class Description:
    """The memory that `fast_call` reads (`struct description`); it keeps alive what it points to.

    A call has `arena` bytes besides its arrays; the words of the frame in `inside` are offsets into them. `sizes` is the address of what
    computes sizes of results that no argument has.
    """

    def __init__(
        self,
        params: Sequence[PlainTensor],
        results: Sequence[PlainTensor],
        template: Sequence[int],
        bounds: Sequence[tuple[int, int]],
        run: int,
        fallback: Callable[..., object],
        arena: int,
        inside: Sequence[int],
        sizes: int = 0,
    ) -> None:
        self._kept: list[object] = [fallback, params, results]
        self._words = (ctypes.c_int64 * 13)(
            len(params),
            len(results),
            len(template),
            run,
            self._array(template),
            self._tensors(params),
            self._tensors(results),
            arena,
            id(fallback),
            self._array([n for pair in bounds for n in pair]),
            len(inside),
            self._array(inside),
            sizes,
        )

    def _array(self, numbers: Sequence[int]) -> int:
        words = (ctypes.c_int64 * max(len(numbers), 1))(*numbers)
        self._kept.append(words)
        return ctypes.addressof(words)

    def _tensors(self, tensors: Sequence[PlainTensor]) -> int:
        words: list[int] = []
        for t in tensors:
            words += (id(t.dtype), len(t.dims), t.slot, self._array(t.dims), t.argument, t.dtype.itemsize)
        return self._array(words)

    @property
    def address(self) -> int:
        """Where it is."""
        return ctypes.addressof(self._words)


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_FASTCALL: Final = 0x80


@dataclass(frozen=True, slots=True)
class Builtin:
    """A Python builtin made of machine code, with what it needs to stay alive."""

    call: Callable[..., tuple[np.ndarray[Any, Any], ...]]
    kept: object


def builtin(name: str, function: int, description: int, keep: object = None) -> Builtin:
    """A builtin whose body is the function at an address, for one compiled function: it is given where its description is."""
    method = _MethodDef(name.encode(), function, _FASTCALL, b"a compiled function")
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object, ctypes.py_object)
    call = make(ctypes.addressof(method), description, name)
    return Builtin(call, (method, keep))
