"""Kernels with named sizes, scheduled like kernels of a fixed size.

Templates count: how many tiles, how much memory, how many pieces. So a kernel with named sizes has a *stand-in*, the same kernel with a number
for every name, and what is chosen for that is done to the kernel itself. The numbers are near the largest sizes and such that no axis has
small divisors, also one whose size is computed (`(n - 1) // 2 + 1`): so templates let tiles run over the edge (`pad_to`, `overrun`), and
what they decide holds for every size::

    i < n          stand-in i < 61:  overrun(i, 8) upcast(i, 8)          i < ceil(n / 8) · 8, the last tile masked

Where no number is such the edge is added here. What does not fit the kernel itself is left out, as always; whether what is left is
better than what is chosen without a stand-in, the cost model says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, cast

from planish.actions.base import Action, OneAxis, is_within
from planish.actions.overrun import Overrun
from planish.actions.pad_to import PadTo
from planish.actions.padding import Padding
from planish.actions.splitting import MOST_UPCAST, Splitting
from planish.optimize.cost import estimate
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
_FEW: Final = 32
"""Up to so many rows of a contraction have one tile, or very few: that of the largest is best for all, and its edge is added."""
_SMALL_PRIMES: Final = (2, 3, 5, 7, 11, 13)
"""What tiles are multiples of."""
_TRIED: Final = 256
"""Numbers looked at for a name: of so many several will do, whatever is computed of them."""


def _prime(most: int) -> int:
    """The largest prime up to a number; 1 if there is none."""
    candidate = most
    while candidate > 1 and any(candidate % divisor == 0 for divisor in range(2, int(candidate**0.5) + 1)):
        candidate -= 1
    return max(candidate, 1)


def _numbers(names: Sequence[UOp], sizes: Sequence[UOp], few: int) -> dict[UOp, UOp]:
    """A number for each name: a prime near its bound, or the largest there that leaves computed sizes fewer small divisors.

    Of up to so few it is the bound.
    """
    chosen: dict[UOp, UOp] = {}
    for name in names:
        most, own = min(cast("NamedSize", name.arg).high, _LARGEST), [s for s in sizes if _depends(s, name)]
        if most <= few:
            chosen[name] = name.const_like(most)
            continue
        best = name.const_like(_prime(most))
        fewest = len(own) * len(_SMALL_PRIMES) + 1
        for number in (_prime(most), *range(most, max(most - _TRIED, most * 3 // 4), -1)):
            tried = name.const_like(number)
            divisors = sum(_divisors(size, {**chosen, name: tried}) for size in own)
            if divisors < fewest:
                fewest, best = divisors, tried
            if not divisors:
                break
        chosen[name] = best
    return chosen


def _divisors(size: UOp, numbers: dict[UOp, UOp]) -> int:
    """How many small primes divide a size at these numbers; none if it depends on others, too."""
    known = simplify(substitute(size, numbers))
    if known.op is not Ops.CONST:
        return 0
    return sum(known.arg != prime and cast("int", known.arg) % prime == 0 for prime in _SMALL_PRIMES)


def _depends(size: UOp, name: UOp) -> bool:
    return name in size.toposort()


def named_axes(sink: UOp) -> dict[str, int]:
    """The axes whose sizes are no numbers, and the least that each may have."""
    return {name_of(r): r.src[0].vmin for r in axes_of(sink) if not size_of(r)}


def stand_in(sink: UOp) -> UOp | None:
    """The kernel at fixed sizes; None if it would have other axes."""
    names = [node for node in sink.toposort() if node.op is Ops.DEFINE_VAR]
    sizes = list(dict.fromkeys(r.src[0] for r in axes_of(sink) if not size_of(r)))
    is_contraction = any(
        node.op is Ops.REDUCE and node.arg is Ops.ADD and node.src[0].op is Ops.MUL
        for node in sink.toposort()
    )
    fixed = simplify(substitute(sink, _numbers(names, sizes, _FEW if is_contraction else 0)))
    same = [name_of(r) for r in axes_of(fixed)] == [name_of(r) for r in axes_of(sink)]
    return fixed if same and not named_axes(fixed) else None


def watched(attempt: Attempt, named: Mapping[str, int]) -> Attempt:
    """Attempts on a stand-in: named axes are padded to small steps only, small sizes would be nothing but padding else."""

    def tried(sink: UOp, action: Action, before: Sequence[Action]) -> UOp | None:
        if isinstance(action, Padding) and action.multiple > MOST_UPCAST and _is_of(action, named):
            return None
        return attempt(sink, action, before)

    return tried


def _is_of(action: Action, named: Mapping[str, int]) -> bool:
    return isinstance(action, OneAxis) and any(is_within(action.axis, name) for name in named)


def replay(draft: Draft, actions: Sequence[Action], reasons: Sequence[str], named: Mapping[str, int]) -> bool:
    """Do to a kernel what was chosen for its stand-in; whether all of it fits."""
    gated = draft.copy()
    fits = _replayed(draft, actions, reasons, named, gated=False)
    if fits and draft.actions == list(actions):
        return True
    # what lies beyond an edge is copied as part of a box if it is nothing, not if it is the last element once more
    if _replayed(gated, actions, reasons, named, gated=True) and not (fits and _is_cheaper(draft, gated)):
        draft.adopt(gated)
        return True
    return fits


def _is_cheaper(one: Draft, other: Draft) -> bool:
    return _cycles(one) <= _cycles(other)


def _cycles(draft: Draft) -> float:
    return estimate(draft.sink, draft.target, threads=1).cycles


def _replayed(
    draft: Draft, actions: Sequence[Action], reasons: Sequence[str], named: Mapping[str, int], *, gated: bool
) -> bool:
    done = [
        draft.do(action, reason) or (_is_of(action, named) and _with_edge(draft, action, reason, gated=gated))
        for action, reason in zip(actions, reasons, strict=True)
    ]
    return all(done)


def _with_edge(draft: Draft, action: Action, reason: str, *, gated: bool) -> bool:
    """Take a part that divides the number of the stand-in, and not every size, of an axis that runs on to the next multiple."""
    if not isinstance(action, Splitting):
        return False
    gated = gated or action.amount >= _vector(draft.target)
    for kind in (PadTo, Overrun) if gated else (Overrun, PadTo):
        trial = draft.copy()
        if trial.do(kind(action.axis, action.amount), "the last tile is masked") and trial.do(action, reason):
            draft.adopt(trial)
            return True
    return False


def _vector(target: Target) -> int:
    return max(target.register_bytes // 4, 2)
