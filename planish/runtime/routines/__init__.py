"""Routines: machine code for what no kernel does well, and calls into libraries, behind one calling convention.

A routine is `void (ptr arguments, i64 chunk)`: the arguments are words of 64 bits, addresses of buffers first, then integers. The
chunks of a call are independent; the thread pool takes them. A routine is known by a name with its parameters, "sort.float32.ascending":
`source` writes it, a plan keeps only the name.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from itertools import product
from typing import Final, NamedTuple, TypeAlias

Words: TypeAlias = tuple[str, ...]
_REAL: Final = ("float32", "float64")
_NUMBERS: Final = (*_REAL, "complex64", "complex128")
_ORDERED: Final = (
    "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64",
    "float8_e4m3fn", "float8_e5m2", "float16", "bfloat16", *_REAL,
)  # fmt: skip
_DIRECTION: Final = ("ascending", "descending")
_TRIANGLE: Final = ("lower", "upper")
_SYSTEM: Final = (("left", "right"), _TRIANGLE, ("none", "transpose", "adjoint"), ("unit", "full"))


class RoutineWriter(NamedTuple):
    """Who writes a routine: a function of a file here, imported when it is wanted, that is given the rest of the name as text."""

    file: str
    writer: str
    parts: tuple[Words, ...]
    """What the parts of the rest can be."""
    unrolled: bool = False
    """Whether its loops are short, of known length and left to LLVM: then all of its passes are worth their time (small matrices 1.3
    times as fast; sorting, selection and Fourier transforms are as fast without, in a third of the time to compile)."""


ROUTINES: Final = {
    "sort": RoutineWriter("sorting", "sort", (_ORDERED, _DIRECTION)),
    "argsort": RoutineWriter("sorting", "argsort", (_ORDERED, _DIRECTION)),
    "sort_few": RoutineWriter("networks", "sort_few", (_ORDERED, _DIRECTION)),
    "argsort_few": RoutineWriter("networks", "argsort_few", (_ORDERED, _DIRECTION)),
    "cholesky": RoutineWriter("lapack", "cholesky", (_NUMBERS, _TRIANGLE)),
    "fft": RoutineWriter("fourier", "fft", (_REAL,)),
    "lu": RoutineWriter("lapack", "lu", (_NUMBERS,)),
    "small_cholesky": RoutineWriter("small_matrices", "cholesky", (_REAL, _TRIANGLE), unrolled=True),
    "small_qr": RoutineWriter("small_matrices", "qr", (_REAL,), unrolled=True),
    "small_triangular_solve": RoutineWriter("small_matrices", "triangular_solve", (_REAL, *_SYSTEM), unrolled=True),
    "qr": RoutineWriter("lapack", "qr", (_NUMBERS,)),
    "triangular_solve": RoutineWriter("lapack", "triangular_solve", (_NUMBERS, *_SYSTEM)),
    "suppress": RoutineWriter("suppression", "suppress", (_REAL, ("corners", "center"))),
    "trees": RoutineWriter("trees", "trees", (_REAL, ("le", "lt", "ge", "gt", "eq", "ne"), ("gaps", "whole"))),
    "product": RoutineWriter("products", "product", (_REAL, ("512", "256"), ("rows", "columns"))),
    "top_k_few": RoutineWriter("selection", "top_k_few", (_ORDERED, _DIRECTION)),
    "top_k_many": RoutineWriter("selection", "top_k_many", (_ORDERED, _DIRECTION)),
}  # fmt: skip
BY_LIBRARY: Final = frozenset({"lu"})
"""Whose code depends on the library that this machine has."""


def names(family: str) -> Iterator[str]:
    """All routines that are written for the same."""
    return (".".join((family, *parts)) for parts in product(*ROUTINES[family].parts))


def is_wide(name: str) -> bool:
    """Whether a routine is written for registers of 512 bits: others would hold half of what it keeps in them."""
    return "512" in name.split(".")


def family_of(name: str) -> str:
    """What a routine is for, whatever it is written for."""
    return name.partition(".")[0]


def routine_named(name: str) -> RoutineWriter | None:
    """Who writes the routine of that name."""
    return ROUTINES.get(family_of(name))


def source(name: str) -> str:
    """The LLVM IR of a routine, in which it is called `routine`."""
    from planish.runtime.routines.writer import RoutineModule

    first, *rest = name.split(".")
    module, known = RoutineModule(), ROUTINES[first]
    getattr(import_module(f"{__name__}.{known.file}"), known.writer)(module, *rest)
    return module.source
