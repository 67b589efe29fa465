"""Reductions along what lies next to each other, and what is computed of them (sums, softmax, normalisation).

The threads of a block share a row: each takes some neighbours at a time, warps combine their values without memory, blocks
through it once. Short rows share a block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from math import prod
from typing import Final, NamedTuple

from planish.actions.group import Group
from planish.actions.local import Local
from planish.actions.pad_to import PadTo
from planish.actions.unroll import Unroll
from planish.actions.upcast import Upcast
from planish.optimize.draft import Draft
from planish.optimize.gpu.fit import at_once, fitted, is_little, shared
from planish.optimize.gpu.products import is_product
from planish.optimize.lanes import contiguous_reduced
from planish.optimize.templates import Candidate
from planish.target import Target
from planish.target.gpu_shares import GpuShares
from planish.uop.nest import closed_by, size_of
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import Ops

_TEAMS: Final = (1024, 512, 256, 128, 64, 32)
"""Threads that share a reduction: whole warps, since each takes as long as its slowest thread."""
_PARTS_OF_A_WARP: Final = (32, 16, 8, 4)
"""Threads that share a short row: so many that each has two accesses, and few are without."""
_IDLE: Final = (1, 6)
"""How many of them may be idle: a share of the work, on any machine."""
_SEVERAL: Final = (32, 16, 8, 4, 2)
"""Rows of a block."""
_SHORT_MORE: Final = (1, 1)
"""The same for rows that a warp shares: idle lanes still cost less than a thread that does a row alone."""
_WORD: Final = 4
"""Bytes of a register: what is narrower has several neighbours in one."""


class Team(NamedTuple):
    """Who shares a row."""

    threads: int
    wide: int
    """Neighbours that each takes at a time."""


def rows(draft: Draft, view: Nest) -> Iterator[Candidate]:
    """Rows that share a block where they are short; or each has its own; or many threads, where there are few.

    Rows that are kept and made longer do not share a block: only of one are the registers of its threads sure to be theirs (`own_registers.py`). (Variance of
    5000 x 1700: 14.3 us two to a block, 9.4 us one; layer norm of 9000 x 900: 23.6 us four, 19.0 us one.)
    """
    yield Candidate("rows", partial(_share, view=view, alone=False))
    yield Candidate("rows, each alone", partial(_share, view=view, alone=True))
    yield Candidate(
        "rows of many threads", partial(_share, view=view, alone=False, more=draft.target.shares.more_threads)
    )


def _share(draft: Draft, view: Nest, *, alone: bool, more: int = 1) -> bool:
    """Reductions along neighbours: a block for a row, or for a few short ones."""
    target, shares = draft.target, draft.target.shares
    sums = _shared_sums(view, shares)
    along = [_along(view, reduction) for reduction in sums]
    if not along or None in along or view.scans or is_product(view, sums):
        return False
    if all(contiguous_reduced(view, each) is None for each in sums):
        return False
    reduced = list(dict.fromkeys(axis for axis in along if axis is not None))
    usual, size = not alone and more == 1, size_of(reduced[0])
    if len({axis.src[0] for axis in reduced}) != 1:
        return usual and _several_lengths(draft, view, reduced)
    if not size:
        return usual and _masked_rows(draft, view, reduced)
    if size < shares.shortest_row:
        return False
    row_team = _team(draft, size, at_once(draft, view))
    if row_team is None:
        return False
    team, wide = row_team
    written = [
        r
        for r in view.outputs
        if size_of(r) == size
        and all(any(view.stride(p, r) == 1 for p in each) for each in (view.writes, view.reads))
    ]
    if not all(fitted(draft, axis, wide * team, _SHORT_MORE) for axis in (*reduced, *written)):
        return False
    for axis in reduced:
        if wide > 1 and not draft.take(Unroll, axis, wide, "neighbours by one access"):
            return False
        if not draft.take(Group, axis, team, "a row for a block"):
            return False
    for axis in written:
        if wide > 1 and not draft.take(Upcast, axis, wide, "neighbours by one access"):
            return False
        if not draft.take(Local, axis, team):
            return False
    if not written:
        written = _spread(draft, view, sums, team)
    rows = prod(max(draft.left(r), 1) for r in view.outputs)
    others = _more(draft, view, sums, reduced, rows * team // more)
    if more > 1 and others <= max(_fair(rows * team, target), 1):
        return False
    team *= others
    several = min(max(shares.shared_block // team, 1), max(rows // target.workers, target.warp // team, 1))
    padded = size % (wide * team // others) != 0
    apart = several > 1 and team >= target.warp
    if alone and not apart:
        return False
    if apart and (alone or (view.rows and padded)):
        several = 1
    _together(draft, [r for r in reversed(view.outputs) if r not in written], several)
    return True


def _shared_sums(view: Nest, shares: GpuShares) -> list[UOp]:
    """The sums that threads share: not those of few terms beside long ones, which each thread makes for itself before them."""
    few = shares.alone_terms
    long = [each for each in view.reductions if prod(size_of(r) or few + 1 for r in closed_by(each)) > few]
    inside = frozenset[UOp]().union(*map(closed_by, long))
    nested = any(not inside.isdisjoint(each.ranges) for each in view.reductions if each not in long)
    return long if long and not nested else list(view.reductions)


def _along(view: Nest, reduction: UOp) -> UOp | None:
    """The axis that threads share: along neighbours, or any of a sum that reads nothing along it."""
    axis = contiguous_reduced(view, reduction)
    own = [r for r in closed_by(reduction) if r.op is Ops.RANGE]
    if axis is not None or len(own) != 1 or not size_of(own[0]):
        return axis
    steps = {view.stride(place, own[0]) for place in view.reads_of(reduction)}
    return own[0] if steps <= {0} else None


def _several_lengths(draft: Draft, view: Nest, reduced: Sequence[UOp]) -> bool:
    """Sums of different lengths, of few results: as many threads as the shortest has elements, about, share each of them."""
    sizes = [size_of(axis) for axis in reduced]
    results = prod(size_of(r) or 1 for r in view.outputs)
    target, shares = draft.target, draft.target.shares
    if view.rows or min(sizes) < shares.shortest_row or results >= target.workers * shares.busy_threads:
        return False
    for team in _TEAMS:
        if not all(is_little(-size % team, size, _SHORT_MORE) for size in sizes):
            continue
        trial = draft.copy()
        if all(
            fitted(trial, axis, team, _SHORT_MORE) and trial.take(Group, axis, team, "a sum for a block")
            for axis in reduced
        ):
            draft.adopt(trial)
            _spread(draft, view, _shared_sums(view, shares), team)
            return True
    return False


def _spread(draft: Draft, view: Nest, sums: Sequence[UOp], team: int) -> list[UOp]:
    """Elements that all follow from the sums of their row: the threads that made these store them together."""
    for axis in reversed(view.outputs):
        apart = not any(axis in each.ranges for each in sums)
        steps = {view.stride(place, axis) for place in view.writes}  # some may be of the row as a whole
        if apart and size_of(axis) and 1 in steps and steps <= {0, 1}:
            trial = draft.copy()
            if fitted(trial, axis, team, _SHORT_MORE) and trial.take(Local, axis, team, "stored together"):
                draft.adopt(trial)
                return [axis]
    return []


def _fair(threads: int, target: Target) -> int:
    """How many times as many threads keep memory busy."""
    return target.shares.accesses * target.workers * target.shares.busy_threads // max(threads, 1)


def _more(draft: Draft, view: Nest, sums: Sequence[UOp], reduced: Sequence[UOp], threads: int) -> int:
    """Threads that share another axis of all sums as well, where a GPU is idle otherwise: sums of channels over many pictures."""
    most, accesses = _fair(threads, draft.target), draft.target.shares.accesses
    others = [max(closed_by(each) - {*reduced}, key=size_of, default=reduced[0]) for each in sums]
    size = size_of(others[0])
    if view.rows or reduced[0] in others or any(size_of(axis) != size for axis in others):
        return 1
    for n in _SEVERAL:
        if n <= most and size >= accesses * n and size % n == 0:
            trial = draft.copy()
            if all(trial.take(Group, axis, n, "threads that were idle") for axis in dict.fromkeys(others)):
                draft.adopt(trial)
                return n
    return 1


def _together(draft: Draft, axes: Sequence[UOp], most: int) -> None:
    """Rows that share a block: of the axis that has the most of them, then of others; of one that has no size yet, masked."""
    while most > 1:
        fair = [
            (n, r) for r in axes for n in _SEVERAL if n <= most and draft.left(r) and draft.left(r) % n == 0
        ]
        if not fair:
            break
        n, axis = max(fair, key=lambda pair: pair[0])
        if not draft.take(Local, axis, n, "rows that share a block"):
            return
        most //= n
        axes = [r for r in axes if r is not axis]
    for axis in axes:
        if most > 1 and not draft.left(axis):
            shared(draft, axis, [most])
            return


def _team(draft: Draft, size: int, most: int) -> Team | None:
    """Threads that share a row, and neighbours that each takes at a time."""
    target, shares = draft.target, draft.target.shares
    warp, access, accesses = target.warp, target.thread_bytes, shares.accesses
    wide = next(n for n in (most, 4, 2, 1) if size % n == 0)
    for n in _TEAMS:
        if (
            size >= accesses * wide * n
            and is_little(-size % (wide * n), size)
            and (
                wide <= access // _WORD
                or n <= shares.narrow_team
                or 2 * size * access // wide > target.local_bytes
            )
        ):
            return Team(n, wide)
    # a short row: several of them share a warp
    ways = [Team(n, w) for w in (most, 4, 2, 1) if w <= most and size % w == 0 for n in _PARTS_OF_A_WARP]
    return next(
        (
            way
            for way in ways
            if accesses * way.wide * way.threads <= size <= shares.row_elements * way.threads
            and is_little(-size % (way.wide * way.threads), size, _IDLE)
        ),
        None
        if size < shares.alone_terms
        else Team(warp, next(n for n in (most, 4, 2, 1) if size % n == 0 and n * warp <= max(size, warp))),
    )


def _masked_rows(draft: Draft, view: Nest, reduced: Sequence[UOp]) -> bool:
    """The same for rows whose length is told when the code runs: an element for each thread, masked beyond the end."""
    length = reduced[0].src[0]
    team = min(draft.target.shares.block, 1 << max(length.vmax, 1).bit_length() - 1)
    written = [
        r for r in view.outputs if r.src[0] is length and any(view.stride(p, r) == 1 for p in view.writes)
    ]
    return team >= draft.target.warp and all(
        draft.take(PadTo, axis, team, "as much for every thread")
        and draft.take(kind, axis, team, "a row for a block")
        for kind, axes in ((Group, reduced), (Local, written))
        for axis in axes
    )
