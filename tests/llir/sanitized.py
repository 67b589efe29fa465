"""Runs C kernels built with the address and undefined-behaviour sanitizers; meant for a process of its own (test_c.py)."""

from __future__ import annotations

import sys

import numpy as np

from planish import dtypes
from planish.llir.interpret import interpret
from planish.llir.program import Program
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


def main(count: int) -> None:
    """As many random programs, and every op on some dtypes."""
    for seed in range(count):
        program = random_program(seed)
        check(program, arguments(program, seed))
    for dtype in (dtypes.int8, dtypes.int32, dtypes.uint64, dtypes.float32, dtypes.bfloat16)[
        : max(1, count // 3)
    ]:
        program = kernel_of_ops(dtype, ops_of(dtype), 4)
        check(program, arrays_for(program))
    print(f"{count} programs ran clean", np.__version__)


if __name__ == "__main__":
    main(int(sys.argv[1]))
