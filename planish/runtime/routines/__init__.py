"""Routines: machine code for what no kernel does well, and calls into libraries, behind one calling convention.

A routine is `void (ptr arguments, i64 chunk)`: the arguments are words of 64 bits, addresses of buffers first, then integers. The
chunks of a call are independent; the thread pool takes them. A routine is known by a name with its parameters, "sort.float32.ascending":
`source` writes it, a plan keeps only the name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from planish.runtime.routines import fourier, lapack, selection, small_matrices, sorting, suppression
from planish.runtime.routines.writer import RoutineModule

ROUTINES: Final[dict[str, Callable[..., None]]] = {
    "sort": sorting.sort,
    "argsort": sorting.argsort,
    "cholesky": lapack.cholesky,
    "fft": fourier.fft,
    "lu": lapack.lu,
    "small_cholesky": small_matrices.cholesky,
    "small_qr": small_matrices.qr,
    "small_triangular_solve": small_matrices.triangular_solve,
    "qr": lapack.qr,
    "triangular_solve": lapack.triangular_solve,
    "suppress": suppression.suppress,
    "top_k_few": selection.top_k_few,
    "top_k_many": selection.top_k_many,
}
"""Who writes a routine into a module; the parts of its name behind the first are given as text."""


def is_known(name: str) -> bool:
    """Whether there is such a routine."""
    return name.partition(".")[0] in ROUTINES


def source(name: str) -> str:
    """The LLVM IR of a routine, in which it is called `routine`."""
    first, *rest = name.split(".")
    module = RoutineModule()
    ROUTINES[first](module, *rest)
    return module.source
