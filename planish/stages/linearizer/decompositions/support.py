"""What a target computes by itself: the ops that stage 18 leaves alone."""

from __future__ import annotations

from typing import Final

from planish.config import current
from planish.records import dataclass
from planish.target import MACHINE_OPS, Target
from planish.uop.ops import ESTIMATES, Ops


@dataclass(frozen=True, slots=True)
class Support:
    """The ALU ops of a target, and what the program allows.

    `MULACC` among them means that a fused multiply-add is fast: functions of floats are then built with it. Without it
    they use multiplication, addition and exact splitting instead; both forms keep the same bounds, though not the same
    last bits.
    """

    ops: frozenset[Ops]
    contract: bool = False
    """Whether any float a*b + c may be rounded once. Without it only a product that feeds a reduction is."""

    calls: bool = False
    """Whether a function that is used many times may be called."""

    @staticmethod
    def of(target: Target) -> Support:
        """What a target supports, under the settings in force."""
        return Support(target.supported_ops, current().contract, calls=True)

    @property
    def fused(self) -> bool:
        return Ops.MULACC in self.ops

    @property
    def tables(self) -> bool:
        """Whether a table in a register, and a power of two as a factor, are an instruction each."""
        return self.fused and Ops.LOOKUP in self.ops and Ops.SCALE in self.ops

    @property
    def estimates(self) -> bool:
        """Whether functions may start from what the machine has for them, about."""
        return self.fused and self.ops >= ESTIMATES

    @property
    def branches(self) -> bool:
        """Whether code may branch around what is hardly ever needed."""
        return Ops.RARE in self.ops

    def lacks(self, op: Ops) -> bool:
        return op not in self.ops


CPU: Final = Support(MACHINE_OPS)
"""A CPU with vectors and a fused multiply-add (x86-64-v3, ARMv8)."""
