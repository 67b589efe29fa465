"""Reductions across what lies next to each other.

Neighbouring threads have neighbouring columns, so that they read together; the others of a block share the reduced axis.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import gcd, prod
from typing import Final

from planish.actions.group import Group
from planish.actions.local import Local
from planish.actions.upcast import Upcast
from planish.optimize.draft import Draft
from planish.optimize.gpu.fit import at_once, fitted
from planish.optimize.gpu.products import is_product
from planish.optimize.templates import Candidate
from planish.target.gpu_shares import GpuShares
from planish.uop.nest import size_of
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import Ops

_DEPTHS: Final = (16, 32, 8)
"""Threads that share a column in whole rounds, as they are tried: the usual number first."""
_WORD: Final = 4
"""Bytes of a register, which a thread reads of a row: a warp then reads whole lines."""


def columns(draft: Draft, view: Nest) -> Iterator[Candidate]:
    """Threads that share columns, as many as keep memory busy; or fewer, whose loops run in whole rounds of what is brought forward at once."""
    shares = draft.target.shares
    yield Candidate("columns", partial(_share, view=view, most=shares.column_team, rounds=1))
    for depth in _DEPTHS:
        yield Candidate(
            f"columns in rounds, {depth} to each",
            partial(_share, view=view, most=depth, rounds=shares.loads_ahead),
        )


def _share(draft: Draft, view: Nest, most: int, rounds: int) -> bool:
    """Reductions across neighbours: a warp of columns, and several threads to each; of several loops the same threads."""
    if not view.reductions or view.rows or view.scans or is_product(view):
        return False
    count = prod(size_of(r) or 1 for r in view.outputs)
    target, shares = draft.target, draft.target.shares
    busy = shares.busy_columns * target.workers
    least = target.warp if count >= busy else _sector(draft)
    neighbours = [
        r
        for r in view.outputs
        if size_of(r) >= least
        and all(any(view.stride(p, r) == 1 for p in view.reads_of(each)) for each in view.reductions)
    ]
    if not neighbours:
        return False
    column = neighbours[-1]
    # a thread reads four bytes, a warp whole lines
    wide = gcd(max(at_once(draft, view) // _WORD, 1), size_of(column))
    count //= wide
    axes = [_term(each, shares, idle=count < busy) for each in view.reductions]
    shared = [axis for axis in dict.fromkeys(axes) if axis is not None]
    lanes = _lanes(draft, column, wide)
    if None in axes or not lanes:
        return False
    if wide > 1 and not draft.take(Upcast, column, wide, "neighbours by one access"):
        return False
    if not draft.take(Local, column, lanes, "neighbouring threads read together"):
        return False
    if count >= shares.filled_columns * target.workers:
        return True
    if rounds == 1 and wide > 1 and count * shares.wide_column_team >= busy:
        most = shares.wide_column_team
    deepest = max(most, shares.block // lanes) if rounds == 1 else most
    depths = range(min(deepest, target.block_threads // lanes), 1, -1)
    depth = next((n for n in depths if all(_lasts(draft, axis, shares.accesses * n) and fitted(draft, axis, n * rounds) for axis in shared)), 1)  # fmt: skip
    if depth < most and rounds > 1:
        return False  # another one has as few
    return depth == 1 or all(draft.take(Group, axis, depth, "threads that share a column") for axis in shared)


def _term(reduction: UOp, shares: GpuShares, *, idle: bool) -> UOp | None:
    """The axis of a sum that threads share: a long one, or of a GPU that is idle otherwise the longest."""
    terms = [r for r in reversed(reduction.src[1:]) if r.op is Ops.RANGE]
    long = next((r for r in terms if r.vmax >= shares.alone_terms), None)
    if long is None and idle:
        return max((r for r in terms if r.vmax >= shares.shared_terms), key=lambda r: r.vmax, default=None)
    return long


def _sector(draft: Draft) -> int:
    """Threads whose words memory brings together."""
    return draft.target.sector_bytes // _WORD


def _lanes(draft: Draft, axis: UOp, wide: int) -> int:
    """Neighbouring threads along columns: a warp, or else whole sectors of which columns have a multiple; all of few; 0 if none fits."""
    size, warp, sector, shares = draft.left(axis), draft.target.warp, _sector(draft), draft.target.shares
    if size < wide * warp:
        return size // wide
    if size % (wide * warp) == 0 or size % (wide * sector):
        if fitted(draft, axis, wide * warp):
            return warp
        return size // wide if size % wide == 0 and size <= wide * shares.all_columns else 0
    return max(n for n in range(sector, shares.neighbours + 1, sector) if size % (wide * n) == 0)


def _lasts(draft: Draft, axis: UOp, amount: int) -> bool:
    """Whether an axis is as long as that, or may be."""
    return (draft.left(axis) or axis.vmax) >= amount
