"""Scans: along neighbours a warp for each row, across them a thread for each column.

A thread of a warp has some neighbours at a time, scans them, and hands on what it has (`relay`): rows are read and written as whole
lines, nothing goes through shared memory, and warps do not wait for each other, so that many rounds are under way at once.
"""

from __future__ import annotations

from typing import Final

from planish.actions.local import Local
from planish.actions.prefix import Prefix
from planish.actions.relay import Relay
from planish.optimize.draft import Draft
from planish.optimize.gpu.fit import WARP, at_once, fitted, shared
from planish.uop.nest import size_of
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp

_ROWS: Final = (4, 2)
"""Rows, each of a warp, that share a block."""
_WORTH: Final = 64
"""Elements of a row that a warp is worth."""
_COLUMNS: Final = (128, 64, 32)
"""Columns, each of a thread, that share a block: of few columns there are then blocks for all multiprocessors."""


def scan(draft: Draft, view: Nest) -> bool:
    """A kernel that scans along one axis."""
    along = {scan.src[1] for scan in view.scans}
    if len(along) != 1 or view.reductions or view.rows:
        return False
    (axis,) = along
    steps = {view.stride(place, axis) for place in (*view.writes, *view.reads)}
    if steps <= {-1, 0, 1}:
        return size_of(axis) >= _WORTH and _rows(draft, view, axis)
    return _columns(draft, view, axis)


def _rows(draft: Draft, view: Nest, axis: UOp) -> bool:
    """A warp for each row, some rows for a block."""
    wide = at_once(draft, view)
    for n in (wide, wide // 2, 1):
        trial = draft.copy()
        if (
            n
            and fitted(trial, axis, n * WARP)
            and (n == 1 or trial.take(Prefix, axis, n, "neighbours by one access"))
            and trial.take(Relay, axis, WARP, "a row for a warp")
        ):
            draft.adopt(trial)
            for row in reversed(view.outputs):
                if row is not axis and draft.take_first(Local, row, _ROWS, "rows that share a block") > 1:
                    break
            return True
    return False


def _columns(draft: Draft, view: Nest, axis: UOp) -> bool:
    """A thread for a column: neighbouring threads read together."""
    neighbours = [
        r
        for r in view.outputs
        if r is not axis and all(view.stride(place, r) in {0, 1} for place in (*view.writes, *view.reads))
    ]
    if not neighbours:
        return False
    return shared(draft, neighbours[-1], _COLUMNS) > 1
