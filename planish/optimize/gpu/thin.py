"""Few rows against a long matrix (decoding): what counts is that the matrix is read once, as fast as memory gives it.

The matrix lies along what is summed. Neighbouring threads share a sum, 16 bytes of the matrix each; a thread has all of the few rows, and
some of the many columns, so that what it reads of the rows is used several times. Elements that are stored narrow and widened on the way
(bytes with a scale for each group of them, halves of bytes) are read as they are stored: what they are widened with does not have to
lie next to each other.
"""

from __future__ import annotations

from math import prod
from typing import Final, NamedTuple, cast

from planish.actions.group import Group
from planish.actions.local import Local
from planish.actions.unroll import Unroll
from planish.actions.upcast import Upcast
from planish.dtypes import PtrDType
from planish.optimize.draft import Draft
from planish.optimize.gpu.fit import fitted
from planish.target import Target
from planish.uop.nest import size_of
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import AxisType, Ops
from planish.uop.ranges import kind_of

_PACKED: Final = 8
"""Elements of the sum that one stored element stands for, at most."""
_COLUMNS: Final = (4, 2)
"""Columns of a thread."""
_SHORT_TEAMS: Final = (16, 8)
"""Threads that share a sum that is shorter than one access of each thread of a warp (the width of a head)."""


class Thin(NamedTuple):
    """The axes of such a product, and where its matrix is read."""

    matrix: UOp
    rows: tuple[UOp, ...]
    column: UOp
    along: UOp
    """The summed axis along which the matrix lies."""
    packed_axes: tuple[UOp, ...]
    """Summed axes inside of one stored element."""

    @property
    def packed(self) -> int:
        """Terms of the sum that one stored element holds."""
        return prod(map(size_of, self.packed_axes))


def thin_of(view: Nest, target: Target) -> Thin | None:
    """A kernel read as few rows against a long matrix; None if it is not."""
    if len(view.reductions) != 1 or view.rows or view.scans:
        return None
    (reduction,) = view.reductions
    reads = [place for place in view.reads_of(reduction) if place.src[0].op is Ops.DEFINE_GLOBAL]
    if len(reads) < 2:
        return None
    summed = [r for r in reduction.src[1:] if r.op is Ops.RANGE and kind_of(r) is AxisType.REDUCE]
    sizes = {place.src[0]: cast("PtrDType", place.src[0].dtype).size for place in reads}
    matrix = max(reads, key=lambda place: sizes[place.src[0]])
    columns = [r for r in view.outputs if r in matrix.ranges and size_of(r) >= target.few_rows.columns]
    rows = tuple(r for r in view.outputs if r not in matrix.ranges)
    along = next((r for r in summed if view.stride(matrix, r) == 1), None)
    if along is None or not columns or not size_of(along) or 2 * sizes[matrix.src[0]] < sum(sizes.values()):
        return None
    inside = tuple(r for r in summed if r is not along and view.stride(matrix, r) == 0)
    if set(summed) != {along, *inside} or any(not 0 < size_of(r) <= _PACKED for r in inside):
        return None
    return Thin(matrix, rows, columns[-1], along, inside)


def thin_product(draft: Draft, view: Nest, *, stored: bool, several: bool = False) -> bool:
    """Few rows against a long matrix, or `several`; `stored`: one whose elements are narrower than what is computed with."""
    target, few = draft.target, draft.target.few_rows
    thin = thin_of(view, target)
    if thin is None:
        return False
    rows = 1
    for r in thin.rows:
        rows *= size_of(r) or few.most + 1
    narrow = thin.matrix.dtype.itemsize == 1
    wide = next((n for n in _widths(thin, target) if size_of(thin.along) % n == 0), 1)
    left = size_of(thin.along) // wide
    if (
        not (few.fewest < rows <= few.most if several else rows <= few.fewest)
        or narrow is not stored
        or (rows == 1 and not narrow and left not in _SHORT_TEAMS)
    ):
        return False
    warp, accesses, block = target.warp, target.shares.accesses, target.shares.shared_block
    # threads that share a sum: each has enough of it to be worth combining what they have
    teams = (n for n in (2 * warp, warp) if left % n == 0 and (left >= accesses * n or n == warp))
    team = next(teams, 0)
    team = left if left in _SHORT_TEAMS else team
    if wide == 1 or not team:
        return False
    if left in _SHORT_TEAMS and not fitted(draft, thin.column, _COLUMNS[0] * block // team):
        return False
    done = all(draft.take(Unroll, r, size_of(r), "what one stored element holds") for r in thin.packed_axes)
    done = done and draft.take(Unroll, thin.along, wide, "neighbours by one access")
    done = done and all(draft.take(Upcast, r, size_of(r), "rows that share the matrix") for r in thin.rows)
    if not done:
        return False
    draft.take_first(Upcast, thin.column, _COLUMNS, "columns that share the rows")
    if not draft.take(Group, thin.along, team, "a sum for neighbouring threads"):
        return False
    if team < block:
        draft.take_first(Local, thin.column, (block // team,), "sums that share a block")
    return True


def _widths(thin: Thin, target: Target) -> tuple[int, ...]:
    most = target.thread_bytes // thin.matrix.dtype.itemsize
    return tuple(most >> n for n in range(3))
