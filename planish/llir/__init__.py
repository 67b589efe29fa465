"""LLIR, the linear IR: buffers, registers, loops, addresses.

The names in `__all__` are the public face. `planish.llir.program` holds the instructions themselves, and
`planish.llir.interpret` runs them.
"""

from __future__ import annotations

from planish.llir.builder import Builder
from planish.llir.counters import Counters, Traffic
from planish.llir.layout import MemoryLayout, byte_size, element_count, strides
from planish.llir.program import Buffer, Immediate, Instruction, Program, Register, Variable
from planish.llir.regalloc import Allocation, Pressure, allocate, pressure
from planish.llir.text import parse, parse_programs
from planish.llir.text import print_program as print
from planish.llir.tiles import TileOp
from planish.llir.verify import INVARIANTS, Problem, problems, verify

__all__ = [
    "INVARIANTS",
    "Allocation",
    "Buffer",
    "Builder",
    "Counters",
    "Immediate",
    "Instruction",
    "MemoryLayout",
    "Pressure",
    "Problem",
    "Program",
    "Register",
    "TileOp",
    "Traffic",
    "Variable",
    "allocate",
    "byte_size",
    "element_count",
    "parse",
    "parse_programs",
    "pressure",
    "print",
    "problems",
    "strides",
    "verify",
]
