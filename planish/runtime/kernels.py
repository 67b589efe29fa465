"""Kernels as callables on flat arrays, for those who walk a plan in Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planish.llir.counters import Counters
from planish.llir.interpret import interpret
from planish.llir.program import Buffer, Program
from planish.runtime.plan import KernelCall

Array = NDArray[Any]


Observer = Callable[[Program, Counters], None]
"""Told after every run of a kernel what it did."""


def _as_declared(buffer: Buffer, array: Array) -> Array:
    """A buffer of a named size, in a kernel to which that size does not matter: the kernel declares the largest one."""
    if array.size >= buffer.elements:
        return array
    longer = np.zeros(buffer.elements, array.dtype)
    longer[: array.size] = array
    return longer


def interpreted(program: Program, observer: Observer | None = None) -> KernelCall:
    """A kernel run by the LLIR interpreter."""
    names = [variable.name for variable in program.variables]

    def call(arrays: Sequence[Array], values: Sequence[int], scratch: Array | None) -> None:
        given = arrays if names else list(map(_as_declared, program.params, arrays))
        counters = interpret(program, given, dict(zip(names, values, strict=True)))
        for array, used in zip(arrays, given, strict=True):
            if used is not array:
                array[:] = used[: array.size]
        if observer is not None:
            observer(program, counters)

    return call
