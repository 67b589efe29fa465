"""The actions that a search may try on a target: a table, and what has to hold before one is tried at all.

Of a row every amount is tried on every axis: `actions(target)` is the whole space, its size is a fact about the target. What
cannot fit a kernel is left out before stage 7 is asked (`obstacle`), for a reason that is counted like a refusal of stage 7's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Final

from planish import dtypes
from planish.optimize.kernel_view import size_of
from planish.target import Parallel, Target
from planish.uop.actions import Action, ActionKind, axes_of
from planish.uop.node import UOp
from planish.uop.ops import AxisType, Ops
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
_FEW: Final = (2, 3, 4, 5, 7, 8)
_MOST_VECTORS: Final = 2
"""How many times the registers of a machine the lanes of a kernel may take: more would be spilled for sure."""
_MOST_LANES: Final = 256
"""Lanes on a machine without vectors."""

_OUTPUT: Final = frozenset({AxisType.LOOP, AxisType.GLOBAL})
_REDUCED: Final = frozenset({AxisType.REDUCE})
_ANY_LOOP: Final = _OUTPUT | _REDUCED
_TAKES: Final = {
    ActionKind.UPCAST: _OUTPUT,
    ActionKind.LANES: _OUTPUT,
    ActionKind.PREFIX: _OUTPUT,
    ActionKind.UNROLL: _REDUCED,
    ActionKind.ACCUMULATORS: _REDUCED,
    ActionKind.LOCAL: _OUTPUT,
    ActionKind.GROUP: _REDUCED,
    ActionKind.GROUPTOP: _REDUCED,
    ActionKind.THREAD: _OUTPUT,
    ActionKind.SPLIT: _ANY_LOOP,
    ActionKind.SWAP: _ANY_LOOP,
    ActionKind.PEEL: _OUTPUT,
    ActionKind.PADTO: _ANY_LOOP,
    ActionKind.OVERRUN: _ANY_LOOP,
    ActionKind.ALIGN: _OUTPUT,
    ActionKind.BLOCK: _REDUCED,
    ActionKind.HOLD: _REDUCED,
    ActionKind.LIMIT: _REDUCED,
}
"""Which axes an action is for."""
_DIVIDES: Final = frozenset(_TAKES) - {
    ActionKind.SWAP,
    ActionKind.PEEL,
    ActionKind.PADTO,
    ActionKind.OVERRUN,
    ActionKind.ALIGN,
}
"""Actions whose amount divides their axis."""


@dataclass(frozen=True, slots=True)
class Row:
    """Actions of one kind: each amount on each axis."""

    kind: ActionKind
    axes: tuple[int, ...]
    amounts: tuple[int, ...]

    def actions(self) -> Iterator[Action]:
        """All of them. Two axes are exchanged once, not twice."""
        for axis in self.axes:
            for amount in self.amounts:
                if self.kind is not ActionKind.SWAP or axis < amount:
                    yield Action(self.kind, axis, amount)


@cache
def table(target: Target) -> tuple[Row, ...]:
    """What may be tried on a target."""
    everywhere = tuple(range(AXES))
    lanes = target.lanes(dtypes.float32)
    whole = tuple(lanes * n for n in (1, 2, 3, 4) if 1 < lanes * n <= 64)
    rows = [
        Row(ActionKind.SPLIT, everywhere, _LOOPS),
        Row(ActionKind.SWAP, everywhere, everywhere),
        Row(ActionKind.UNROLL, everywhere, (2, 4, 8)),
    ]
    if target.tensor_cores:
        rows.append(Row(ActionKind.TC, (0,), tuple(range(len(target.tensor_cores)))))
    if target.is_gpu:
        rows += [
            Row(ActionKind.UPCAST, everywhere, _FEW),
            Row(ActionKind.LOCAL, everywhere, _THREADS),
            Row(ActionKind.GROUP, everywhere, _THREADS),
            Row(ActionKind.GROUPTOP, everywhere, _THREADS),
            Row(ActionKind.PADTO, everywhere, (4, 16, 32, 64, 128)),
            Row(ActionKind.STAGE, everywhere, tuple(range(_SLOTS))),
            Row(ActionKind.NOLOCALS, (0,), (0,)),
        ]
        return tuple(rows)
    rows += [
        Row(ActionKind.UPCAST, everywhere, tuple(sorted({*_ROWS, *whole}))),
        Row(ActionKind.ACCUMULATORS, everywhere, tuple(sorted({4, 8, *whole}))),
        Row(ActionKind.LANES, everywhere, whole),
        Row(ActionKind.PREFIX, everywhere[:4], whole[:1]),
        Row(ActionKind.STAGE, (-1, *everywhere), tuple(range(_SLOTS))),
        Row(ActionKind.BLOCK, everywhere, _BLOCKS),
        Row(ActionKind.HOLD, everywhere, _PASSES),
        Row(ActionKind.LIMIT, everywhere, _PASSES[:1]),
        Row(ActionKind.OVERRUN, everywhere, (4, 6, 8, 12)),
        Row(ActionKind.PEEL, everywhere[:4], tuple(sorted({4, 8, *whole}))),
    ]
    if target.masked:
        rows.append(Row(ActionKind.PADTO, everywhere, tuple(sorted({4, 6, 8, *whole}))))
        rows.append(Row(ActionKind.ALIGN, everywhere[:4], whole[:1]))
    if target.parallel is Parallel.CORES:
        rows.append(Row(ActionKind.THREAD, everywhere[:4], tuple(p for p in _PIECES if p <= target.cores)))
    return tuple(rows)


@cache
def actions(target: Target) -> tuple[Action, ...]:
    """The whole space."""
    return tuple(action for row in table(target) for action in row.actions())


def amounts(target: Target, kind: ActionKind) -> tuple[int, ...]:
    """Other amounts that an action of a kind may have."""
    return tuple(dict.fromkeys(n for row in table(target) if row.kind is kind for n in row.amounts))


def obstacle(sink: UOp, axes: Sequence[UOp], action: Action, target: Target) -> str | None:
    """Why an action is not worth asking stage 7 about; None if it is. `axes` are `axes_of(sink)`."""
    kinds = _TAKES.get(action.kind)
    if kinds is None:
        return None
    for place in (action.axis, action.amount) if action.kind is ActionKind.SWAP else (action.axis,):
        if place >= len(axes):
            return f"{action.kind.name}: no such axis"
        if kind_of(axes[place]) not in kinds:
            return f"{action.kind.name}: not for such an axis"
    size = size_of(axes[action.axis])
    if action.kind in _DIVIDES and size and (size % action.amount or action.amount > size):
        return f"{action.kind.name}: does not divide"
    return None


def overfull(sink: UOp, target: Target) -> bool:
    """Whether the lanes of a kernel are more than its machine could ever hold."""
    most = 1
    for node in sink.toposort():
        if node.op in {Ops.REDUCE, Ops.STORE}:
            most = max(
                most,
                prod(r.vmax + 1 for r in node.ranges if kind_of(r) in {AxisType.UPCAST, AxisType.UNROLL}),
            )
    if target.register_bytes == 1:
        return most > _MOST_LANES
    return most > _MOST_VECTORS * target.registers * target.lanes(dtypes.float32)


def reason_of(message: str) -> str:
    """What a refusal says, without the numbers and names of the one kernel."""
    return re.sub(r"-?\b\d+\b", "n", message.partition("\n")[0])


__all__ = ["AXES", "Row", "actions", "amounts", "axes_of", "obstacle", "overfull", "reason_of", "table"]
