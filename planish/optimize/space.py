"""The actions that a search may try on a target: a table, and what has to hold before one is tried at all.

Of a row every amount is tried on every axis of a kernel: the number of actions for so many axes is a fact about the target. What
cannot fit a kernel is left out before stage 7 is asked (`obstacle`), for a reason that is counted like a refusal of stage 7's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import combinations
from math import prod
from typing import Final, cast

from planish import dtypes
from planish.actions.accumulators import Accumulators
from planish.actions.align import Align
from planish.actions.base import Action, OneAxis
from planish.actions.block import Block
from planish.actions.claim import Claim
from planish.actions.group import Group
from planish.actions.hold import Hold
from planish.actions.lanes import Lanes
from planish.actions.limit import Limit
from planish.actions.local import Local
from planish.actions.no_locals import NoLocals
from planish.actions.overrun import Overrun
from planish.actions.pad_to import PadTo
from planish.actions.peel import Peel
from planish.actions.prefix import Prefix
from planish.actions.relay import Relay
from planish.actions.shift_inwards import ShiftInwards
from planish.actions.split import Split
from planish.actions.stage import Stage
from planish.actions.swap import Swap
from planish.actions.tensor_core import TensorCore
from planish.actions.thread import Thread
from planish.actions.unroll import Unroll
from planish.actions.upcast import Upcast
from planish.optimize.draft import Kind
from planish.target import Parallel, Target
from planish.uop.nest import LANES, axes_of, name_of, size_of
from planish.uop.nest.memory import local_bytes
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.products import products
from planish.uop.ranges import kind_of

AXES: Final = 10
"""Axes of a kernel that actions are tried on; schedules with more of them have been cut up enough."""
_SLOTS: Final = 4
"""Parameters that may be staged."""
_ROWS: Final = (2, 3, 4, 5, 6, 7, 8, 12, 14)
"""Rows of a register tile."""
_LOOPS: Final = (4, 8, 16, 32, 64, 128, 256, 512)
_PIECES: Final = (2, 4, 8, 16, 32, 64)
_BLOCKS: Final = (128, 256, 512, 1024)
_PASSES: Final = (32, 64, 128)
_THREADS: Final = (2, 3, 4, 8, 16, 32, 64, 128, 256)
_CLAIMS: Final = (64, 256, 1024)
_FEW: Final = (2, 3, 4, 5, 7, 8)
_MOST_VECTORS: Final = 2
"""How many times the registers of a machine the lanes of a kernel may take: more would be spilled for sure."""
_MOST_LANES: Final = 256
"""Lanes on a machine without vectors."""


@dataclass(frozen=True, slots=True)
class SpaceRow:
    """Actions of one kind: each amount on each axis, or on the first ones."""

    kind: type[Action]
    amounts: tuple[int, ...]
    axes: int = AXES
    make: Kind | None = None
    """What makes one, if that is not the kind itself."""

    def actions(self, names: Sequence[str]) -> Iterator[Action]:
        """All of them, for axes of some names."""
        make = self.make or cast("Kind", self.kind)
        for name in names[: self.axes]:
            for amount in self.amounts:
                yield make(name, amount)


@cache
def table(target: Target) -> tuple[SpaceRow, ...]:
    """What may be tried on a target, besides exchanging loops, staging and tensor cores."""
    lanes = target.lanes(dtypes.float32)
    whole = tuple(lanes * n for n in (1, 2, 3, 4) if 1 < lanes * n <= 64)
    rows = [SpaceRow(Split, _LOOPS), SpaceRow(Unroll, (2, 4, 8))]
    if target.is_gpu:
        return (
            *rows,
            SpaceRow(Upcast, _FEW),
            SpaceRow(Local, _THREADS),
            SpaceRow(Group, _THREADS),
            SpaceRow(Group, _THREADS, make=partial(Group, contiguous=True)),
            SpaceRow(Relay, (target.warp,), 4),
            SpaceRow(PadTo, (4, 16, 32, 64, 128)),
            SpaceRow(Claim, _CLAIMS, 2),
        )
    rows += [
        SpaceRow(Upcast, tuple(sorted({*_ROWS, *whole}))),
        SpaceRow(Accumulators, tuple(sorted({4, 8, *whole}))),
        SpaceRow(Lanes, whole),
        SpaceRow(Prefix, whole[:1], 4),
        SpaceRow(Block, _BLOCKS),
        SpaceRow(Hold, _PASSES),
        SpaceRow(Limit, _PASSES[:1]),
        SpaceRow(Overrun, (4, 6, 8, 12)),
        SpaceRow(ShiftInwards, (4, 8), 4),
        SpaceRow(Peel, tuple(sorted({4, 8, *whole})), 4),
    ]
    if target.masked:
        rows += [SpaceRow(PadTo, tuple(sorted({4, 6, 8, *whole}))), SpaceRow(Align, whole[:1], 4)]
    if target.parallel is Parallel.CORES:
        rows.append(SpaceRow(Thread, tuple(p for p in _PIECES if p <= target.cores), 4))
    return tuple(rows)


def actions(target: Target, names: Sequence[str]) -> Iterator[Action]:
    """The whole space for axes of some names, but for tensor cores, which are asked of a kernel."""
    names = names[:AXES]
    for row in table(target):
        yield from row.actions(names)
    for a, b in combinations(names, 2):
        yield Swap(a, b)
    for at in names if target.is_gpu else (None, *names):
        for slot in range(_SLOTS):
            yield Stage(slot, at)
    if target.is_gpu:
        yield NoLocals()


def candidates(sink: UOp, target: Target) -> Iterator[Action]:
    """What may be tried on a kernel."""
    for core in target.tensor_cores:
        for product in products(sink, core)[:1]:
            yield TensorCore.of(core, product)
    yield from actions(target, [name_of(r) for r in axes_of(sink)])


def amounts(target: Target, kind: type[Action]) -> tuple[int, ...]:
    """Other amounts that an action of a kind may have."""
    return tuple(dict.fromkeys(n for row in table(target) if row.kind is kind for n in row.amounts))


def obstacle(axes: dict[str, UOp], action: Action) -> str | None:
    """Why an action is not worth asking stage 7 about; None if it is. `axes` are those of the kernel, by name."""
    if isinstance(action, Swap):
        names = [action.a, action.b]
    elif isinstance(action, OneAxis):
        names = [action.axis]
    else:
        return None
    if any(kind_of(axes[name]) not in action.takes for name in names):
        return f"{action.word}: not for such an axis"
    size = size_of(axes[names[0]])
    if action.divides and size and (size % action.amount or action.amount > size):
        return f"{action.word}: does not divide"
    return None


def overfull(sink: UOp, target: Target) -> bool:
    """Whether the lanes of a kernel, or what a block keeps, are more than its machine could ever hold."""
    if target.block and local_bytes(sink, final=True) > target.local_bytes:
        return True
    most = 1
    for node in sink.toposort():
        if node.op in {Ops.REDUCE, Ops.STORE}:
            most = max(most, prod(r.vmax + 1 for r in node.ranges if kind_of(r) in LANES))
    if target.register_bytes == 1:
        return most > _MOST_LANES
    return most > _MOST_VECTORS * target.registers * target.lanes(dtypes.float32)


def reason_of(message: str) -> str:
    """What a refusal says, without the numbers and names of the one kernel."""
    plain = re.sub(
        r"\b(ax[ei]s) [a-z]\d*(\.\w+)*( and [a-z]\d*(\.\w+)*)?\b(?! are [a-z])",
        r"\1 n",
        message.partition("\n")[0],
    )
    return re.sub(r"-?\b(arg)?\d+\b", "n", plain)
