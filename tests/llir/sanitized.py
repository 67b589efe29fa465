"""Runs C kernels built with the address and undefined-behaviour sanitizers; meant for a process of its own (test_c.py)."""

from __future__ import annotations

import ctypes
import itertools
import sys
from collections.abc import Sequence

import numpy as np

from planish import compiler, dtypes
from planish.codegen import c, symbols
from planish.codegen.blocks import points
from planish.compiler import Executable
from planish.llir.interpret import interpret
from planish.llir.program import Program
from planish.runtime.cc import CModule
from planish.runtime.plan import KernelCall
from tests.e2e.comparing import same
from tests.e2e.op_cases import CASES, Maker
from tests.llir.generate import arguments, random_program
from tests.llir.helpers import Array, assert_same, copies, native_c
from tests.llir.test_native import arrays_for, kernel_of_ops, ops_of

FLAGS = (
    "-march=native",
    "-O1",
    "-g0",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-Wno-psabi",
)


def check(program: Program, arrays: list[Array]) -> None:
    expected, found = copies(arrays), copies(arrays)
    interpret(program, expected)
    native_c(program, found, FLAGS)
    assert_same(expected, found, program.name)


def sanitized(program: Program) -> KernelCall:
    """A kernel of a compiled function, all its blocks."""
    sizes = {special.name: range(points(special)) for special in program.specials}
    module = CModule(c.render(program), flags=FLAGS)
    kinds = [ctypes.c_void_p] * len(program.params) + [ctypes.c_int64] * (len(program.variables) + len(sizes))
    function = ctypes.CFUNCTYPE(None, *kinds)(module.address(symbols.kernel(program.name)))

    def call(arrays: Sequence[Array], values: Sequence[int], scratch: Array | None) -> None:
        for place in itertools.product(*sizes.values()):
            function(*[array.ctypes.data for array in arrays], *values, *place)
        assert module.address(symbols.kernel(program.name))  # it is still there

    return call


def check_ops(count: int) -> None:
    """As many ops of the table, whole functions: every access of every kernel is within its buffer."""
    every = [(name, dtype) for name, (accepted, _) in CASES.items() for dtype in accepted]
    for name, dtype in every[:: max(len(every) // count, 1)]:
        m = Maker(dtype)
        CASES[name][1][0](m)
        lowered = compiler.lower(m.build(), passes=None)
        found = Executable(lowered, list(map(sanitized, lowered.programs)))(*m.arrays)
        for a, b in zip(found, lowered.compile()(*m.arrays), strict=True):
            same(a, b, f"{name} of {dtype.short}")


def main(count: int) -> None:
    """As many random programs, every op on some dtypes, and, of many, functions of the op table."""
    for seed in range(count):
        program = random_program(seed)
        check(program, arguments(program, seed))
    for dtype in (dtypes.int8, dtypes.int32, dtypes.uint64, dtypes.float32, dtypes.bfloat16)[
        : max(1, count // 3)
    ]:
        program = kernel_of_ops(dtype, ops_of(dtype), 4)
        check(program, arrays_for(program))
    if count >= 20:
        check_ops(count)
    print(f"{count} programs ran clean", np.__version__)


if __name__ == "__main__":
    main(int(sys.argv[1]))
