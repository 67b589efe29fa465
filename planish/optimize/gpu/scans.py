"""Scans: along neighbours a warp for each row, across them a thread for each column.

A thread of a warp has some neighbours at a time, scans them, and hands on what it has (`relay`): rows are read and written as whole
lines, nothing goes through shared memory, and warps do not wait for each other, so that many rounds are under way at once.

A thread of a column goes down it alone, from the first row to the last, and there are few such threads: as many as columns. What keeps memory busy
is a ring of tiles in shared memory (`stage`) that is filled many rows ahead, by all threads of the block, while some rows at a time are scanned in registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Final, cast

from planish.actions.local import Local
from planish.actions.prefix import Prefix
from planish.actions.relay import Relay
from planish.actions.stage import Stage
from planish.actions.upcast import Upcast
from planish.optimize.draft import Draft
from planish.optimize.gpu.fit import at_once, fitted, shared
from planish.uop.nest import name_of, size_of
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import Ops

_ROWS: Final = (4, 2)
"""Rows, each of a warp, that share a block."""
_COLUMNS: Final = (128, 64, 32)
"""Columns, each of a thread, that share a block: of few columns there are then blocks for all multiprocessors."""
_ROWS_AT_ONCE: Final = (32, 16, 8)
"""Rows of a tile, which a thread scans in registers."""
_NARROW: Final = 2
"""Bytes of elements of which a thread has two columns, where there are columns enough."""


def scan(draft: Draft, view: Nest) -> bool:
    """A kernel that scans along one axis."""
    along = {scan.src[1] for scan in view.scans}
    if len(along) != 1 or view.reductions or view.rows:
        return False
    (axis,) = along
    steps = {view.stride(place, axis) for place in (*view.writes, *view.reads)}
    if steps <= {-1, 0, 1}:
        return size_of(axis) >= draft.target.shares.scanned_elements and _rows(draft, view, axis)
    return _columns(draft, view, axis)


def _rows(draft: Draft, view: Nest, axis: UOp) -> bool:
    """A warp for each row, some rows for a block."""
    wide, warp = at_once(draft, view), draft.target.warp
    for n in (wide, wide // 2, 1):
        trial = draft.copy()
        if (
            n
            and fitted(trial, axis, n * warp)
            and (n == 1 or trial.take(Prefix, axis, n, "neighbours by one access"))
            and trial.take(Relay, axis, warp, "a row for a warp")
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
    return _fetched_ahead(draft, view, axis, neighbours[-1]) or shared(draft, neighbours[-1], _COLUMNS) > 1


def _fetched_ahead(draft: Draft, view: Nest, axis: UOp, column: UOp) -> bool:
    """Columns that are read through a ring, if they are enough for nearly all multiprocessors."""
    read = sorted(
        {
            (cast("int", place.src[0].arg), place.dtype.itemsize)
            for place in view.reads
            if place.src[0].op is Ops.DEFINE_GLOBAL and axis in place.ranges and column in place.ranges
        }
    )
    sizes = [size_of(r) for r in view.outputs if r is not axis]
    # (rows that begin elsewhere than an access does are copied in pieces, which takes longer than it gains)
    if (
        not read
        or not all(sizes)
        or any(size_of(column) * itemsize % draft.target.thread_bytes for _, itemsize in read)
    ):
        return False
    wide = sum(itemsize for _, itemsize in read)
    total, workers, shares = prod(sizes), draft.target.workers, draft.target.shares
    (some, of_all), (fewest, most) = shares.nearly_all, shares.scan_buffers
    for threads, each, rows in product(_COLUMNS, (2, 1), _ROWS_AT_ONCE):
        width = threads * each
        blocks = total // size_of(column) * -(-size_of(column) // width)
        if blocks * of_all < workers * some or rows * width * wide > shares.scan_tile:
            continue
        if each > 1 and (wide > _NARROW or threads < _COLUMNS[0]):
            continue
        under_way = rows * width * wide * -(-blocks // workers)
        buffers = min(max(1 + -(-shares.scan_ahead // under_way), fewest), most)
        trial = draft.copy()
        if (
            fitted(trial, axis, rows)
            and fitted(trial, column, width)
            and (each == 1 or trial.take(Upcast, column, each, "neighbours by one access"))
            and trial.take(Local, column, threads, "columns that share a block")
            and trial.take(Prefix, axis, rows, "rows that are scanned in registers")
            and all(
                trial.do(Stage(slot, at, buffers), "tiles that are fetched ahead")
                for slot, at in _loops(trial, axis, read)
            )
        ):
            draft.adopt(trial)
            return True
    return False


def _loops(draft: Draft, axis: UOp, read: Sequence[tuple[int, int]]) -> Iterator[tuple[int, str | None]]:
    """Parameters, and the loop that each is fetched in."""
    for slot, _ in read:
        loop = draft.outermost(axis)
        yield slot, None if loop is None else name_of(loop)
