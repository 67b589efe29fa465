"""Stage 7, apply opts: a list of actions reshapes the loops of a kernel. Choosing them is `optimize/`'s business.

Why: the same sums run ten times faster when the right axis is in registers. An action says which.

How: one action after the other is applied (`planish/actions`, one file for each kind). One that does not fit the kernel or the
target is refused with a reason, and changes nothing; `uop/nest/order.py` says when the order of an axis matters.

After the actions, on targets with a grid, an output LOOP becomes GLOBAL if every store runs over it and no long reduction
or kept row would have to be computed again in each block. (The seed's ranges are GLOBAL from here on; stage 12 numbers
them.) Actions therefore see LOOP on every target. Axes of a block that nothing depends on together are the same threads
(`actions/threads.py`).

Before → after::

    i = RANGE(12)                i.outer = RANGE(3), i.inner = RANGE(4, UPCAST);  i.outer*4 + i.inner        upcast(i, 4)

Would break without it: nothing; every kernel would be scalar loops.

Holds afterwards: the same values are stored at the same places (float sums may be added in another order).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from planish.actions.base import Action, Refusal, apply_action
from planish.target import TARGETS, Target
from planish.uop.nest.grid import block_axes
from planish.uop.nest.kernel import Nest
from planish.uop.nest.memory import local_bytes
from planish.uop.node import UOp
from planish.uop.ops import Axis, AxisType
from planish.uop.rewrite import substitute

_SCALAR: Final = TARGETS["scalar"]


def to_grid(sink: UOp, workers: int = 1 << 62) -> UOp:
    """The kernel with its output loops as blocks of a grid, as far as that costs nothing, or short sums that idle threads make again."""
    chosen = block_axes(Nest.of(sink), workers)
    exchange = {r: r.replace(arg=cast("Axis", r.arg)._replace(kind=AxisType.GLOBAL)) for r in chosen}
    return substitute(sink, exchange)


def apply_opts(sink: UOp, actions: Sequence[Action] = (), target: Target = _SCALAR) -> UOp:
    """The kernel after a list of actions, its output loops on the grid if the target has one."""
    for number, action in enumerate(actions):
        sink = apply_action(sink, action, target, actions[:number])
    if not target.block:
        return sink
    needed = local_bytes(sink, final=True) if actions else 0
    if needed > target.local_bytes:
        raise Refusal(
            f"{needed} bytes of LOCAL memory are more than {target.local_bytes}",
            remedy="give each thread the elements that it reads of a row, or keep a shorter one",
        )
    return to_grid(sink, target.workers)
