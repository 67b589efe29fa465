"""Kernels with named sizes, scheduled like kernels of a fixed size.

Templates count: how many tiles, how much memory, how many pieces. So a kernel with named sizes has a *stand-in*, the same kernel with a number
for every name, and what is chosen for that is done to the kernel itself. The numbers are primes near the largest sizes: nothing
divides them, so templates let tiles run over the edge (`pad_to`, `overrun`), and what they decide holds for every size::

    i < n          stand-in i < 61:  overrun(i, 8) upcast(i, 8)          i < ceil(n / 8) · 8, the last tile masked

Only what is computed of sizes (`(n - 1) // 2 + 1`) may have divisors: then the edge is added here. What does not fit the kernel itself is left
out, as always; whether what is left is better than what is chosen without a stand-in, the cost model says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from planish.actions.base import Action, OneAxis, is_within
from planish.actions.overrun import Overrun
from planish.actions.pad_to import PadTo
from planish.actions.padding import Padding
from planish.actions.splitting import MOST_UPCAST, Splitting
from planish.optimize.draft import Attempt, Draft
from planish.target import Target
from planish.uop.nest import axes_of, name_of, size_of
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.ops import Variable as NamedSize
from planish.uop.rewrite import substitute
from planish.uop.symbolic import simplify

_LARGEST: Final = 4093
"""A prime; for larger sizes tiles are chosen as for this one."""


def _prime(most: int) -> int:
    """The largest prime up to a number; 1 if there is none."""
    found = min(most, _LARGEST)
    while found > 1 and any(found % divisor == 0 for divisor in range(2, int(found**0.5) + 1)):
        found -= 1
    return max(found, 1)


def named_axes(sink: UOp) -> frozenset[str]:
    """The axes whose sizes are no numbers."""
    return frozenset(name_of(r) for r in axes_of(sink) if not size_of(r))


def stand_in(sink: UOp) -> UOp | None:
    """The kernel at fixed sizes; None if it would have other axes."""
    names = [node for node in sink.toposort() if node.op is Ops.DEFINE_VAR]
    sizes = {node: node.const_like(_prime(cast("NamedSize", node.arg).high)) for node in names}
    made = simplify(substitute(sink, sizes))
    same = [name_of(r) for r in axes_of(made)] == [name_of(r) for r in axes_of(sink)]
    return made if same and not named_axes(made) else None


def watched(attempt: Attempt, named: frozenset[str]) -> Attempt:
    """Attempts on a stand-in: named axes are padded to small steps only, small sizes would be nothing but padding else."""

    def tried(sink: UOp, action: Action, before: Sequence[Action]) -> UOp | None:
        if isinstance(action, Padding) and action.multiple > MOST_UPCAST and _is_of(action, named):
            return None
        return attempt(sink, action, before)

    return tried


def _is_of(action: Action, named: frozenset[str]) -> bool:
    return isinstance(action, OneAxis) and any(is_within(action.axis, name) for name in named)


def replay(draft: Draft, actions: Sequence[Action], reasons: Sequence[str], named: frozenset[str]) -> bool:
    """Do to a kernel what was chosen for its stand-in; whether all of it fits."""
    done = [
        draft.do(action, reason) or (_is_of(action, named) and _with_edge(draft, action, reason))
        for action, reason in zip(actions, reasons, strict=True)
    ]
    return all(done)


def _with_edge(draft: Draft, action: Action, reason: str) -> bool:
    """Take a part that divides the number of the stand-in, and not every size, of an axis that runs on to the next multiple."""
    if not isinstance(action, Splitting):
        return False
    kinds = (PadTo, Overrun) if action.amount >= _vector(draft.target) else (Overrun, PadTo)
    for kind in kinds:
        trial = draft.copy()
        if trial.do(kind(action.axis, action.amount), "the last tile is masked") and trial.do(action, reason):
            draft.adopt(trial)
            return True
    return False


def _vector(target: Target) -> int:
    return max(target.register_bytes // 4, 2)
