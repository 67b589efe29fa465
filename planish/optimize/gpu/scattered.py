"""What is added up, or replaced, at rows that data chooses: blocks that claim rows of their own.

The list of rows has an order, which one block for all of them would keep alone. Each of many goes through the list instead, and
does what is to be done for its rows (`claim`). Where rows are single elements, so do the threads of a block.
"""

from __future__ import annotations

from math import prod
from typing import Final

from planish.actions.claim import Claim
from planish.actions.local import Local
from planish.optimize.draft import Draft
from planish.uop.nest import size_of
from planish.uop.nest.kernel import Nest
from planish.uop.nest.memory import threads_of

_LISTED: Final = 32
"""Rows of a list that are worth to be gone through many times."""
_ROUNDS: Final = 4
"""Blocks for each multiprocessor: all of them go through the list, so that more would only take turns."""
_TEAM: Final = 128
"""Threads of a block, where each claims elements of its own."""


def claim_rows(draft: Draft, view: Nest) -> None:
    """Rows that data chooses are shared out among blocks, where there are few blocks otherwise."""
    chosen = [r for r in view.outputs if r in view.ordered and size_of(r) >= _LISTED]
    others = prod(max(draft.left(r), 1) for r in view.outputs if r not in view.ordered)
    if others >= draft.target.workers:
        return
    blocks = 1 << (_ROUNDS * draft.target.workers // others).bit_length() - 1
    team = _TEAM if threads_of(draft.sink) == 1 else 1
    while chosen and blocks > 1:
        for axis in chosen:  # of lists of rows and of places within them, rows
            trial = draft.copy()
            if trial.take(Claim, axis, blocks * team, "rows of its own for each block") and (
                team == 1 or trial.take(Local, axis, team)
            ):
                draft.adopt(trial)
                return
        blocks //= 2
