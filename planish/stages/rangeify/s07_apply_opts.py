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
from math import prod
from typing import Final, cast

from planish.actions.base import Action, Refusal, apply_action
from planish.target import TARGETS, Target
from planish.uop.laws import memory_of
from planish.uop.nest import closed_by
from planish.uop.nest.kernel import Nest
from planish.uop.nest.memory import local_bytes, threads_of
from planish.uop.node import UOp
from planish.uop.ops import Axis, AxisType, Ops
from planish.uop.rewrite import substitute

_RECOMPUTED, _FREE = 64, 8
"""The longest reductions that every block may compute anew, if it is idle otherwise, and in any case."""
_RESIDENT: Final = 2048
"""Threads that a multiprocessor has at once."""
_SCALAR: Final = TARGETS["scalar"]


def _terms(node: UOp) -> int:
    return prod(r.vmax + 1 for r in closed_by(node))


def _is_copy(node: UOp) -> bool:
    """Whether it keeps what it reads of a parameter (STAGE): every block fetches its own piece."""
    if node.op is not Ops.BUFFERIZE:
        return False
    computed = node.src[0].toposort(lambda n: n.op is not Ops.INDEX)
    return not any(
        n.op in {Ops.REDUCE, Ops.SCAN, Ops.BUFFERIZE, Ops.WMMA}
        or (n.op is Ops.INDEX and memory_of(n).op is Ops.DEFINE_REG)
        for n in computed
    )


def to_grid(sink: UOp, workers: int = 1 << 62) -> UOp:
    """The kernel with its output loops as blocks of a grid, as far as that costs nothing, or short sums that idle threads make again."""
    facts = Nest.of(sink)
    kept = [n for n in facts.nodes if n.op in {Ops.REDUCE, Ops.BUFFERIZE} and not _is_copy(n)]
    kept = [n for n in kept if _terms(n) > _FREE]
    costly = [n for n in kept if _terms(n) > _RECOMPUTED]
    free = [
        r
        for r in facts.axes(AxisType.LOOP)
        if r not in facts.ordered
        and all(closing.op is Ops.END for closing in facts.closers.get(r, ()))
        and all(r in closed_by(end) for end in facts.outer_ends)
        and all(r in node.ranges for node in costly)
    ]
    chosen = [r for r in free if all(r in node.ranges for node in kept)]
    if prod(r.vmax + 1 for r in free) * threads_of(sink) <= _RESIDENT * workers:
        chosen = free
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
