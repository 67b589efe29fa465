"""What a schedule is expected to cost: the whole, and of what it is made, in numbers and in words."""

from __future__ import annotations

from collections.abc import Mapping

from planish.records import dataclass


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a schedule is expected to cost, and of what."""

    cycles: float
    """The whole, in cycles: only good for comparing schedules of one kernel on one machine."""
    parts: Mapping[str, float]
    """Cycles of one core by what they are spent on: compute, access, L2, L3, memory, loops, spills."""
    flops: int
    moved: tuple[int, ...]
    """Bytes fetched or written beyond each cache, nearest first; the last are those of memory."""
    registers: int
    """Vector registers that its innermost loop wants."""
    vector_efficiency: float
    """Lanes that do something, of those that loads, stores and arithmetic have."""
    pieces: int
    """Into how many the cores divide it."""

    @property
    def bound_by(self) -> str:
        """The part that takes longest."""
        return max(self.parts, key=lambda name: self.parts[name]) if self.parts else "nothing"

    @property
    def nbytes(self) -> int:
        """Bytes to and from memory."""
        return self.moved[-1] if self.moved else 0

    @property
    def intensity(self) -> float:
        """Flops per byte of memory."""
        return self.flops / self.nbytes if self.nbytes else 0.0

    def __str__(self) -> str:
        total = sum(self.parts.values()) or 1.0
        shares = ", ".join(
            f"{name} {part / total:.0%}" for name, part in _by_size(self.parts) if part >= 0.01 * total
        )
        caches = " / ".join(_amount(each) for each in self.moved)
        return (
            f"bound by {self.bound_by} ({shares}); {_amount(self.flops, 1000)}flop, {caches}B beyond each cache, "
            f"{self.intensity:.2g} flop/B, {self.registers} vector registers, {self.vector_efficiency:.0%} of lanes, "
            f"{self.pieces} pieces"
        )


def _by_size(parts: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(parts.items(), key=lambda item: -item[1])


def _amount(number: float, base: int = 1024) -> str:
    for unit in ("", "k", "M", "G", "T"):
        if number < 10 * base or unit == "T":
            return f"{number:.0f} {unit}" if unit else f"{number:.0f} "
        number /= base
    return ""
