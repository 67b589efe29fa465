"""The body of a loop as the machine sees it: what starts in one iteration, and how many cycles that takes.

Every estimate of how long code runs goes through here: the cost model's, for each loop of a scheduled kernel, and that of a register
tile before there is a kernel. Ports work side by side, so that the busiest one, or the chain of what waits for each other, bounds an
iteration; of all else a fraction is seen.
"""

from __future__ import annotations

from typing import NamedTuple

from planish.target import Target


class Body(NamedTuple):
    """What one iteration starts, in operations on whole registers."""

    operations: float = 0.0
    """Arithmetic that is no multiplication."""
    multiplies: float = 0.0
    """Multiplications, multiply-adds, and functions, which count as many as they are made of (`uop/weights.py`)."""
    loads: float = 0.0
    stores: float = 0.0
    shuffles: float = 0.0
    elements: float = 0.0
    """Elements that are put into lanes, or taken out of them, one by one."""
    chain: float = 0.0
    """Cycles until the next iteration can go on with what this one has made."""
    nbytes: float = 0.0
    """Bytes that come from the second cache."""

    def plus(self, other: Body) -> Body:
        """Two bodies in one: what waits, waits at the same time."""
        both = [a + b for a, b in zip(self, other, strict=True)]
        both[6] = max(self.chain, other.chain)
        return Body(*both)

    def compute(self, target: Target) -> float:
        """Multiplications have ports of their own, or share them with all else."""
        return max(self.multiplies / target.multiplies, (self.operations + self.multiplies) / target.ports)

    def access(self, target: Target) -> float:
        """Loads and stores have ports of their own; what is shuffled, or put together, goes through one more."""
        moved = max(self.loads / target.loads, self.stores / target.stores)
        return max(moved, self.shuffles / target.shuffles + self.elements * target.gathers)

    def cycles(self, target: Target) -> float:
        """One iteration."""
        near = self.nbytes / target.bytes_per_cycle[0]
        return overlapped(target, self.compute(target), self.access(target), self.chain, near)


def copying(target: Target, elements: int, *, turned: bool = False) -> float:
    """Cycles to copy so many elements of 32 bits from wherever so many lie, in order or turned in registers."""
    lanes = max(target.register_bytes // 4, 1)
    body = Body(loads=1, stores=1, shuffles=(lanes - 1).bit_length() if turned else 0)
    vector = body.cycles(target) + target.branches
    return elements / lanes * max(vector, 4 * lanes / target.rate(4 * elements))


def multiplying(target: Target, products: int) -> float:
    """Cycles for so many multiply-adds of 32 bits, if nothing else is waited for."""
    return products / (target.multiplies * max(target.register_bytes // 4, 1))


def overlapped(target: Target, *parts: float) -> float:
    """Cycles of parts that run side by side."""
    bound = max(parts)
    return bound + target.hidden * (sum(parts) - bound)
