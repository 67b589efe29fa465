"""The blocks of a kernel: how many there are, and what each takes from scratch memory."""

from __future__ import annotations

from planish.dtypes import AddrSpace
from planish.errors import LoweringError
from planish.llir.layout import pack
from planish.llir.program import MIN_ALIGNMENT, Immediate, Program, Special


def scratch_bytes(program: Program) -> int:
    """What the LOCAL memory of a launch takes if it comes from a `scratch` pointer: all blocks may run at the same time."""
    total = block_bytes(program)
    for special in {special.name: special for special in program.specials}.values():
        total *= points(special)
    return total


def block_bytes(program: Program) -> int:
    """The LOCAL memory of one block, up to the next cache line."""
    need = pack([b for b in program.locals if b.space is AddrSpace.LOCAL]).nbytes
    return -(-need // MIN_ALIGNMENT) * MIN_ALIGNMENT


def points(special: Special) -> int:
    """How many values a special index takes."""
    if isinstance(special.bound, Immediate) and isinstance(special.bound.value, int):
        return special.bound.value
    raise LoweringError(f"the bound of {special.name} is not known when it is compiled", op="SPECIAL")
