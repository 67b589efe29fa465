"""Stage 7, apply opts: a list of actions reshapes the loops of a kernel. Choosing them is `optimize/`'s business.

Why: the same sums run ten times faster when the right axis is in registers. An action says which.

How: an action splits a range, `r -> outer*k + inner`, and gives the inner part another axis type. The ranges of a kernel are
addressed by their place in `planish.uop.actions.axes_of`. An action that does not
fit is refused with a reason, and changes nothing.

| action | effect |
|---|---|
| UPCAST | part of an output axis is kept in registers or lanes |
| UNROLL | part of a reduce axis is laid out in lanes |

Before → after::

    L0 = RANGE(12)                   L0 = RANGE(3), u0 = RANGE(4, UPCAST);  L0*4 + u0        Action(UPCAST, axis=0, amount=4)

Would break without it: nothing; every kernel would be scalar loops.

Holds afterwards: the same values are stored at the same places.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from planish.errors import LoweringError
from planish.stages.rangeify.algebra import pm_flatten_range
from planish.uop.actions import Action, ActionKind, axes_of
from planish.uop.node import UOp
from planish.uop.ops import Axis, AxisType, Ops
from planish.uop.rewrite import rewrite, substitute

_MOST_UPCAST: Final = 64
_MOST_UNROLL: Final = 32


class Refusal(LoweringError):
    """An action that does not fit the kernel."""


_FROM: Final = {
    ActionKind.UPCAST: (frozenset({AxisType.LOOP, AxisType.GLOBAL}), AxisType.UPCAST, _MOST_UPCAST),
    ActionKind.UNROLL: (frozenset({AxisType.REDUCE}), AxisType.UNROLL, _MOST_UNROLL),
}
"""Which axes an action takes, what it makes of them, and how many lanes at most."""


def apply_action(sink: UOp, action: Action) -> UOp:
    """The kernel after one action; `Refusal` if it does not fit."""
    axes = axes_of(sink)
    if not 0 <= action.axis < len(axes):
        raise Refusal(f"{action.kind.name}: there is no axis {action.axis}, the kernel has {len(axes)}")
    header = axes[action.axis]
    path, kind = cast("Axis", header.arg)
    taken, made, most = _FROM[action.kind]
    if kind not in taken:
        names = " or ".join(sorted(k.name for k in taken))
        raise Refusal(f"{action.kind.name}: axis {action.axis} is {kind.name}, {names} is expected")
    if header.src[0].op is not Ops.CONST:
        raise Refusal(f"{action.kind.name}: the size of axis {action.axis} is not known")
    size = cast("int", header.src[0].arg)
    amount = action.amount or size
    if amount < 2 or size % amount:
        raise Refusal(f"{action.kind.name}: {amount} does not divide the {size} of axis {action.axis}")
    if amount > most:
        raise Refusal(f"{action.kind.name}: {amount} lanes are more than {most}")
    table = header.table
    inner = table.range(amount, (*path, 1), made)
    if amount == size:
        return rewrite(substitute(sink, {header: inner}), pm_flatten_range)
    outer = table.range(size // amount, (*path, 0), kind)
    return rewrite(substitute(sink, {header: outer * amount + inner}), pm_flatten_range)


def apply_opts(sink: UOp, actions: Sequence[Action] = ()) -> UOp:
    """The kernel after a list of actions."""
    for action in actions:
        sink = apply_action(sink, action)
    return sink
