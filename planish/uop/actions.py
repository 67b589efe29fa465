"""The vocabulary of schedules: which axes a kernel has, and what may be done to one.

Stage 7 applies actions; `optimize/` chooses them. Both name axes by their place in `axes_of`: by axis type, outermost
first, then by path.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, cast

from planish.uop.node import UOp
from planish.uop.ops import Axis, Ops


class ActionKind(Enum):
    """What an action does to its axis."""

    UPCAST = "keep a part of an output axis in registers or lanes"
    UNROLL = "lay a part of a reduce axis out in lanes"


class Action(NamedTuple):
    """One step of a schedule: which axis (its place in `axes_of`), and how much of it (0: all)."""

    kind: ActionKind
    axis: int
    amount: int

    def __str__(self) -> str:
        return f"{self.kind.name}({self.axis}, {self.amount or 'all'})"


def axes_of(sink: UOp) -> list[UOp]:
    """The ranges of a kernel, in the order in which actions address them."""
    found = [node for node in sink.toposort() if node.op is Ops.RANGE]
    return sorted(found, key=lambda r: (cast("Axis", r.arg).kind.order, cast("Axis", r.arg).path))
