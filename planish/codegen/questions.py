"""What every back end asks of a kernel before it renders it."""

from __future__ import annotations

from planish.errors import LoweringError
from planish.llir.program import Address, Load, Prefetch, Program, Register, Store


def maybe_outside(program: Program) -> frozenset[Register]:
    """Addresses that need not lie in their buffer: of gated accesses, prefetches, and what others are computed from."""
    found: set[Register] = set()
    for i in program.body:
        if isinstance(i, Prefetch) or (isinstance(i, Load | Store) and i.gate is not None):
            found.add(i.address)
        elif isinstance(i, Address) and isinstance(i.base, Register):
            found |= {i.base, i.result}
    return frozenset(found)


def refuse_threads(program: Program) -> None:
    """A barrier on a CPU core is nothing, unless there are threads for it to hold."""
    if any(special.is_thread for special in program.specials):
        raise LoweringError(
            f"{program.name} has threads that wait for each other; a block on a CPU core is one thread",
            op="BARRIER",
        )
