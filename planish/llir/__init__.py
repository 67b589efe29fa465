"""LLIR, the linear IR: buffers, registers, loops, addresses.

The names in `__all__` are the public face; `planish.llir.program` holds the instructions themselves. `lower` makes LLIR of a
whole PTIR function, `lower_lines` of the linear UOps of one kernel. As attributes of this package `lower` and `interpret`
are these functions; the modules of the same names are reached by `from planish.llir.interpret import …`.

For the optimizer: `pressure(program)` says how many scalar, vector and pointer registers a kernel needs at once,
`allocate(program, n)` what it spills with n of each, and `Counters` what a run of it moves.
"""

from __future__ import annotations

from planish.llir.builder import Builder
from planish.llir.counters import Counters, Traffic
from planish.llir.front import LoweredFunction
from planish.llir.interpret import interpret
from planish.llir.layout import MemoryLayout, TensorPlace, byte_size, element_count, strides
from planish.llir.lower import lower as lower_lines
from planish.llir.program import Buffer, Immediate, Instruction, LaunchVariable, Program, Register
from planish.llir.regalloc import Allocation, Pressure, allocate, pressure
from planish.llir.text import parse, parse_programs
from planish.llir.text import print_program as print
from planish.llir.tiles import TileOp
from planish.llir.verify import INVARIANTS, Problem, problems, verify

# Last: importing the submodule of that name has bound it here, which the function takes over.
from planish.llir.front import lower  # isort: skip

__all__ = [
    "INVARIANTS",
    "Allocation",
    "Buffer",
    "Builder",
    "Counters",
    "Immediate",
    "Instruction",
    "LaunchVariable",
    "LoweredFunction",
    "MemoryLayout",
    "Pressure",
    "Problem",
    "Program",
    "Register",
    "TensorPlace",
    "TileOp",
    "Traffic",
    "allocate",
    "byte_size",
    "element_count",
    "interpret",
    "lower",
    "lower_lines",
    "parse",
    "parse_programs",
    "pressure",
    "print",
    "problems",
    "strides",
    "verify",
]  # fmt: skip
