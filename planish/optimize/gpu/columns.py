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
from planish.optimize.gpu.fit import EACH, SHORT, WARP, at_once, fitted
from planish.optimize.gpu.products import is_product
from planish.optimize.templates import Candidate
from planish.uop.nest import size_of
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import Ops

_DEEP, _WIDE_DEEP = 32, 16
"""Threads that share a column, at most; where each has several columns, and so more to read, unless that leaves the GPU idle."""
_BUSY: Final = 512
"""Threads of each multiprocessor that keep memory busy."""
_DEPTHS: Final = (16, 32, 8)
"""Threads that share a column in whole rounds, the usual number first."""
_ROUNDS: Final = 4
"""Iterations whose loads the compiler brings forward together, if the last ones, which are masked, are as many: sums of 3333 x 3000 halves over
1111 rows took 21.9 us by 16 threads to a column, 70 rows each, and 14.5 us by 8 threads with 144 (H200)."""
_SOME: Final = 8
"""Terms of a sum that threads share where they would else be too few for that."""
_LANES: Final = 64
"""Neighbouring columns of a block where there are not whole warps of them: whole sectors (eight words) are."""
_SECTOR: Final = 8
_WHOLE: Final = 128
"""The same where they are all there are: rows then lie one behind the other, wherever sectors begin."""
_TEAM: Final = 256
"""Threads of a block of few columns."""
_FILLED: Final = 2048
"""Columns for each multiprocessor from which on each has a thread of its own: more threads to a column read no faster, and then meet
(the sum of 128 x 4096 x 4095 over its middle on an H200: 2534 us by one thread each, 3532 us by 32)."""
_WORD: Final = 4
"""Bytes that a thread reads of a row: a warp then reads whole lines."""


def columns(draft: Draft, view: Nest) -> Iterator[Candidate]:
    """Threads that share columns, as many as keep memory busy; or fewer, whose loops run in whole rounds of what is brought forward at once."""
    yield Candidate("columns", partial(_share, view=view, most=_DEEP, rounds=1))
    for depth in _DEPTHS:
        yield Candidate(
            f"columns in rounds, {depth} to each", partial(_share, view=view, most=depth, rounds=_ROUNDS)
        )


def _share(draft: Draft, view: Nest, most: int, rounds: int) -> bool:
    """Reductions across neighbours: a warp of columns, and several threads to each; of several loops the same threads."""
    if not view.reductions or view.rows or view.scans or is_product(view):
        return False
    count = prod(size_of(r) or 1 for r in view.outputs)
    least = WARP if count >= _BUSY * draft.target.workers else _SECTOR
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
    axes = [_term(each, idle=count < _BUSY * draft.target.workers) for each in view.reductions]
    shared = [axis for axis in dict.fromkeys(axes) if axis is not None]
    lanes = _lanes(draft, column, wide)
    if None in axes or not lanes:
        return False
    if wide > 1 and not draft.take(Upcast, column, wide, "neighbours by one access"):
        return False
    if not draft.take(Local, column, lanes, "neighbouring threads read together"):
        return False
    if count >= _FILLED * draft.target.workers:
        return True
    if rounds == 1 and wide > 1 and count * _WIDE_DEEP >= _BUSY * draft.target.workers:
        most = _WIDE_DEEP
    deepest = max(most, _TEAM // lanes) if rounds == 1 else most
    depths = range(min(deepest, draft.target.block_threads // lanes), 1, -1)
    depth = next((n for n in depths if all(_lasts(draft, axis, EACH * n) and fitted(draft, axis, n * rounds) for axis in shared)), 1)  # fmt: skip
    if depth < most and rounds > 1:
        return False  # another one has as few
    return depth == 1 or all(draft.take(Group, axis, depth, "threads that share a column") for axis in shared)


def _term(reduction: UOp, *, idle: bool) -> UOp | None:
    """The axis of a sum that threads share: a long one, or of a GPU that is idle otherwise the longest."""
    terms = [r for r in reversed(reduction.src[1:]) if r.op is Ops.RANGE]
    long = next((r for r in terms if r.vmax >= SHORT), None)
    if long is None and idle:
        return max((r for r in terms if r.vmax >= _SOME), key=lambda r: r.vmax, default=None)
    return long


def _lanes(draft: Draft, axis: UOp, wide: int) -> int:
    """Neighbouring threads along columns: a warp, or else whole sectors of which columns have a multiple; all of few; 0 if none fits."""
    size = draft.left(axis)
    if size < wide * WARP:
        return size // wide
    if size % (wide * WARP) == 0 or size % (wide * _SECTOR):
        if fitted(draft, axis, wide * WARP):
            return WARP
        return size // wide if size % wide == 0 and size <= wide * _WHOLE else 0
    return max(n for n in range(_SECTOR, _LANES + 1, _SECTOR) if size % (wide * n) == 0)


def _lasts(draft: Draft, axis: UOp, amount: int) -> bool:
    """Whether an axis is as long as that, or may be."""
    return (draft.left(axis) or axis.vmax) >= amount
