"""What is added up, or replaced, at rows that data chooses: blocks that claim rows of their own.

The list of rows has an order, which one block for all of them would keep alone. Each of many goes through the list instead, and
does what is to be done for its rows (`claim`). The threads of a warp look at an entry each and vote (`llir/voting.py`), so blocks have whole warps, if need
be with idle threads. Where rows are single elements, the threads of a block claim them, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Final

from planish.actions.claim import Claim
from planish.actions.local import Local
from planish.actions.pad_to import PadTo
from planish.actions.unroll import Unroll
from planish.optimize.draft import Draft
from planish.optimize.gpu.fit import WARP
from planish.optimize.gpu.stream import stream_elements
from planish.uop.nest import size_of
from planish.uop.nest.kernel import Nest
from planish.uop.nest.memory import threads_of
from planish.uop.node import UOp
from planish.uop.ops import Ops

_LISTED: Final = 32
"""Rows of a list that are worth to be gone through many times."""
_ROUNDS: Final = 16
"""Blocks for each multiprocessor, at most: they run at once, and each has less to do for rows of its own."""
_WRITTEN_OUT: Final = 8
"""Terms of sums that are written out: loops inside of the walk over the list are no part of a vote."""
_TEAM: Final = 128
"""Threads of a block, where each claims elements of its own."""


def claim_rows(given: Draft, view: Nest) -> bool:
    """Rows that data chooses are shared out among blocks, where there are few blocks otherwise."""
    chosen = [r for r in view.outputs if r in view.ordered and size_of(r) >= _LISTED]
    if not chosen:
        return False
    draft = given.copy()
    for term in (r for each in view.reductions for r in each.src[1:] if r.op is Ops.RANGE):
        if 1 < size_of(term) <= _WRITTEN_OUT:
            draft.take(Unroll, term, size_of(term), "no loop inside of what is voted on")
    streamed = draft.copy()
    stream_elements(streamed, view)
    return any(
        _claimed(given, threads, view, chosen) for threads in (*_whole_warps(draft, streamed, view), streamed)
    )


def _whole_warps(draft: Draft, streamed: Draft, view: Nest) -> Iterator[Draft]:
    """A warp for short rows: some of its threads have nothing to add up, and all of them vote."""
    if threads_of(streamed.sink) == 1 or threads_of(streamed.sink) % WARP == 0:
        return
    for axis in view.outputs:
        if all(view.stride(place, axis) == 1 for place in view.writes):
            trial = draft.copy()
            whole = trial.left(axis) % WARP == 0 or trial.take(PadTo, axis, WARP, "whole warps")
            if whole and trial.take(Local, axis, WARP):
                yield trial


def _claimed(draft: Draft, threads: Draft, view: Nest, chosen: list[UOp]) -> bool:
    """As many blocks as there are rows for, and as run at once."""
    others = prod(max(threads.left(r), 1) for r in view.outputs if r not in view.ordered)
    if others >= draft.target.workers:
        return False
    team = _TEAM if threads_of(threads.sink) == 1 else 1
    blocks = 1 << (_ROUNDS * draft.target.workers // others).bit_length() - 1
    while blocks > 1:
        for axis in chosen:  # of lists of rows and of places within them, rows
            trial = threads.copy()
            if trial.take(Claim, axis, blocks * team, "rows of its own for each block") and (
                team == 1 or trial.take(Local, axis, team)
            ):
                draft.adopt(trial)
                return True
        blocks //= 2
    return False
