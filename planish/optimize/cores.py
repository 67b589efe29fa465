"""Which axis the cores share, and in how many pieces."""

from __future__ import annotations

from typing import Final

from planish.optimize.draft import Draft
from planish.optimize.kernel_view import View
from planish.uop.actions import ActionKind

_PIECE: Final = 1 << 16
"""Iterations that are worth a core's attention."""


def share_among_cores(draft: Draft, view: View) -> None:
    pieces = min(draft.target.cores, view.work // _PIECE)
    for axis in view.outputs:
        size = draft.left(axis)
        amounts = [amount for amount in range(min(pieces, size), 1, -1) if size % amount == 0]
        if draft.take_first(ActionKind.THREAD, axis, amounts[:4]) > 1:
            return
