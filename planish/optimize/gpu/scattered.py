"""What is added up, or replaced, at rows that data chooses: blocks that claim rows of their own.

The list of rows has an order, which one block for all of them would keep alone. Each of many goes through the list instead, and
does what is to be done for its rows (`claim`). The threads of a warp look at an entry each and vote (`llir/voting.py`), so blocks have whole warps, if need
be with idle threads, and threads have a part of the row, never lists of their own. Where rows are single elements, a warp goes through the list, 32 entries at a time
(`llir/leading.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from math import prod
from typing import Final

from planish.actions.claim import Claim
from planish.actions.local import Local
from planish.actions.pad_to import PadTo
from planish.actions.unroll import Unroll
from planish.optimize.draft import Draft
from planish.optimize.gpu.stream import stream_elements
from planish.uop.nest import size_of
from planish.uop.nest.kernel import Nest
from planish.uop.nest.memory import threads_of
from planish.uop.node import UOp
from planish.uop.ops import Ops

_WRITTEN_OUT: Final = 8
"""Terms of sums that are written out: loops inside of the walk over the list are no part of a vote."""


def claim_rows(given: Draft, view: Nest) -> bool:
    """Rows that data chooses are shared out among blocks, where there are few blocks otherwise."""
    chosen = [r for r in view.outputs if r in view.ordered and size_of(r) >= given.target.lists.claimed]
    if not chosen:
        return False
    draft = given.copy()
    for term in (r for each in view.reductions for r in each.src[1:] if r.op is Ops.RANGE):
        if 1 < size_of(term) <= _WRITTEN_OUT:
            draft.take(Unroll, term, size_of(term), "no loop inside of what is voted on")
    listed = _listed(view)
    streamed = draft.copy()
    stream_elements(streamed, view, listed)
    if threads_of(streamed.sink) == 1 and all(r in listed for r in view.outputs):
        return _gone_through(given, draft, view, chosen)
    ways = (*_whole_warps(draft, streamed, view, listed), streamed)
    return any(_claimed(given, threads, view, chosen) for threads in ways)


def _listed(view: Nest) -> frozenset[UOp]:
    """The axes of the lists: those whose order matters, and those that tell one list from another."""
    decided = (n for place in view.writes for index in place.src[1:] for n in index.toposort())
    return frozenset(view.ordered).union(*(n.ranges for n in decided if n.op is Ops.INDEX))


def _whole_warps(draft: Draft, streamed: Draft, view: Nest, listed: Collection[UOp]) -> Iterator[Draft]:
    """A warp for short rows: some of its threads have nothing to add up, and all of them vote."""
    warp = draft.target.warp
    if threads_of(streamed.sink) == 1 or threads_of(streamed.sink) % warp == 0:
        return
    for axis in view.outputs:
        if axis not in listed and all(view.stride(place, axis) == 1 for place in view.writes):
            trial = draft.copy()
            whole = trial.left(axis) % warp == 0 or trial.take(PadTo, axis, warp, "whole warps")
            if whole and trial.take(Local, axis, warp):
                yield trial


def _gone_through(given: Draft, draft: Draft, view: Nest, chosen: list[UOp]) -> bool:
    """Single elements: a warp for each list, and several for a long one if there are few."""
    target, lists = draft.target, draft.target.lists
    for axis in chosen:
        others = prod(max(draft.left(r), 1) for r in view.outputs if r is not axis)
        blocks = 1
        if size_of(axis) > lists.warp_steps * target.warp:
            blocks = 1 << max(lists.warps * target.workers // others, 1).bit_length() - 1
        while blocks:
            trial = draft.copy()
            claim = partial(Claim, voters=target.warp)
            if trial.take(claim, axis, blocks, "a warp goes through the list"):
                given.adopt(trial)
                return True
            blocks //= 2
    return False


def _claimed(draft: Draft, threads: Draft, view: Nest, chosen: list[UOp]) -> bool:
    """As many blocks as there are rows for, and as run at once."""
    others = prod(max(threads.left(r), 1) for r in view.outputs if r not in view.ordered)
    target, lists = draft.target, draft.target.lists
    enough = lists.blocks if max(map(size_of, chosen)) >= lists.long else 1
    if target.shares.accesses * others >= enough * target.workers:
        return False
    blocks = 1 << (lists.blocks * target.workers // others).bit_length() - 1
    while blocks > 1:
        for axis in chosen:  # of lists of rows and of places within them, rows
            trial = threads.copy()
            if trial.take(Claim, axis, blocks, "rows of its own for each block"):
                draft.adopt(trial)
                return True
        blocks //= 2
    return False
