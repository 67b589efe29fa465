"""The vocabulary of schedules: which axes a kernel has, and what may be done to one.

Stage 7 applies actions; `optimize/` chooses them. Both name axes by their place in `axes_of`: by axis type, outermost
first, then by path.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple, cast

from planish.uop.node import UOp
from planish.uop.ops import Axis, Ops


class ActionKind(Enum):
    """What an action does to its axis."""

    TC = "a sum of products is done by a tensor core (amount: which core, axis: which way to use it)"
    UPCAST = "keep a part of an output axis in registers or lanes"
    LANES = "the same, neighbours in neighbouring lanes whatever other axes are in registers"
    UNROLL = "lay a part of a reduce axis out in lanes, combined in every iteration"
    ACCUMULATORS = "give parts of a reduce axis accumulators of their own, in lanes, combined after the loop"
    PREFIX = (
        "lay a part of an axis that a SCAN runs along out in lanes, whose running values are made together"
    )
    LOCAL = "give a part of an output axis to the threads of a block"
    GROUP = "share a reduce axis among the threads of a block: neighbouring elements to neighbouring threads"
    GROUPTOP = "share a reduce axis among the threads of a block: a contiguous piece to each"
    THREAD = "give contiguous pieces of an output axis to the cores"
    SPLIT = "make two loops of one (amount: the size of the inner)"
    SWAP = "exchange two axes of one kind in the order of loops (amount: the other axis)"
    PEEL = "make two loops of an output axis, one after the other (amount: where the second begins)"
    PADTO = "run an axis up to the next multiple of the amount, doing nothing beyond its end"
    OVERRUN = "run an axis up to the next multiple of the amount: beyond its end its last element is read again, and not stored or counted"
    ALIGN = "start an axis up to the amount earlier, where what it writes starts a multiple of it, doing nothing outside its bounds"
    STAGE = "copy the piece of a parameter that is needed inside of a loop to LOCAL memory first (amount: its slot; axis -1: of the kernel)"
    BLOCK = "make several passes over the outputs, each reducing a block of a reduce axis into them (amount: the size of a block)"
    HOLD = "make several passes over kept rows, each reducing a block of them into sums that LOCAL memory holds (amount: the size of a block)"
    LIMIT = "do not look at the part of masked rows that the mask hides from all lanes (amount: in steps of so many columns)"
    NOLOCALS = "use no threads of a block"


class Action(NamedTuple):
    """One step of a schedule: which axis (its place in `axes_of`), and how much of it (0: all).

    `pad` is for STAGE: so many elements more from one row of the tile to the next.
    """

    kind: ActionKind
    axis: int = 0
    amount: int = 0
    pad: int = 0

    def __str__(self) -> str:
        pad = f", pad {self.pad}" if self.pad else ""
        return f"{self.kind.name}({self.axis}, {self.amount or 'all'}{pad})"


def axes_of(sink: UOp) -> list[UOp]:
    """The ranges of a kernel, in the order in which actions address them."""
    found = [node for node in sink.toposort() if node.op is Ops.RANGE]
    return sorted(found, key=lambda r: (cast("Axis", r.arg).kind.order, cast("Axis", r.arg).path))


def next_root(nodes: Iterable[UOp]) -> int:
    """A place in the nest that comes after those of all ranges."""
    return 1 + max((cast("Axis", n.arg).path[0] for n in nodes if n.op is Ops.RANGE), default=-1)
