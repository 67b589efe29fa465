"""Routines: machine code for what no kernel does well, and calls into libraries, behind one calling convention.

A routine is `void (ptr arguments, i64 chunk)`: the arguments are words of 64 bits, addresses of buffers first, then integers. The
chunks of a call are independent; the thread pool takes them. A routine is known by a name with its parameters, "sort.float32.ascending":
`source` writes it, a plan keeps only the name.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final, NamedTuple

from planish.runtime.routines.writer import RoutineModule


class RoutineWriter(NamedTuple):
    """Who writes a routine: a function of a file here, imported when it is wanted, that is given the rest of the name as text."""

    file: str
    writer: str
    unrolled: bool = False
    """Whether its loops are short, of known length and left to LLVM: then all of its passes are worth their time (small matrices 1.3
    times as fast; sorting, selection and Fourier transforms are as fast without, in a third of the time to compile)."""


ROUTINES: Final = {
    "sort": RoutineWriter("sorting", "sort"),
    "argsort": RoutineWriter("sorting", "argsort"),
    "cholesky": RoutineWriter("lapack", "cholesky"),
    "fft": RoutineWriter("fourier", "fft"),
    "lu": RoutineWriter("lapack", "lu"),
    "small_cholesky": RoutineWriter("small_matrices", "cholesky", unrolled=True),
    "small_qr": RoutineWriter("small_matrices", "qr", unrolled=True),
    "small_triangular_solve": RoutineWriter("small_matrices", "triangular_solve", unrolled=True),
    "qr": RoutineWriter("lapack", "qr"),
    "triangular_solve": RoutineWriter("lapack", "triangular_solve"),
    "suppress": RoutineWriter("suppression", "suppress"),
    "trees": RoutineWriter("trees", "trees"),
    "top_k_few": RoutineWriter("selection", "top_k_few"),
    "top_k_many": RoutineWriter("selection", "top_k_many"),
}


def routine_named(name: str) -> RoutineWriter | None:
    """Who writes the routine of that name."""
    return ROUTINES.get(name.partition(".")[0])


def source(name: str) -> str:
    """The LLVM IR of a routine, in which it is called `routine`."""
    first, *rest = name.split(".")
    module, known = RoutineModule(), ROUTINES[first]
    getattr(import_module(f"{__name__}.{known.file}"), known.writer)(module, *rest)
    return module.source
