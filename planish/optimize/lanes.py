"""Which axis goes into lanes, and how many of it: for what is written element by element, and for reductions in lanes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from planish.actions.accumulators import Accumulators
from planish.actions.align import Align
from planish.actions.block import Block
from planish.actions.limit import Limit
from planish.actions.pad_to import PadTo
from planish.actions.prefix import Prefix
from planish.actions.thread import Thread
from planish.actions.upcast import Upcast
from planish.dtypes import PtrDType
from planish.optimize.cores import amounts_for
from planish.optimize.draft import Draft, Kind
from planish.target import Target
from planish.uop.nest import size_of
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import AxisType, Ops
from planish.uop.ranges import kind_of

_LEAST_LANES: Final = 4
"""Below that, lanes are not worth the wider loads, unless the machine has no more."""
_LEAST_PADDED: Final = 3
"""Elements that are worth a vector that they do not fill."""
MOST_LANES: Final = 64
"""Lanes of one axis in a register tile."""
_ROWS: Final = (8, 7, 6, 5, 4, 3, 2)
"""Rows that are reduced at once: as many streams keep memory busier than one, and one tree of shuffles finishes them all."""
_NEAR: Final = frozenset({-1, 0, 1, 2, 3, 4})
"""Strides at which whole vectors are loaded, and lanes selected."""
_HALVES: Final = 4
"""Up to so many vectors an axis may be covered by halves of them."""
_PADDED: Final = (8, 9)
"""Several vectors are padded to only if that makes an axis no longer than by this ratio,"""
_BESIDE_ONE: Final = (16, 17)
"""and beside one vector at a time by no more than this: 200 are 13 vectors, not 7 pairs."""
_MANY: Final = 8
"""So many times the vectors side by side: fewer do not wait long enough for masks to be worth it."""


def vector_axes(view: Nest, *, every: bool = False) -> list[UOp]:
    """For every place written, and every row kept, the axis whose neighbours go into lanes.

    Unless `every` one is wanted, an axis is left out if lanes do better along a reduced one.
    """
    axes: dict[UOp, None] = {}
    for place in view.writes:
        axis = next(
            (r for r in reversed(view.outputs) if size_of(r) != 1 and view.stride(place, r) == 1), None
        )
        if axis is not None and all(view.stride(other, axis) in {0, 1} for other in view.writes):
            axes[axis] = None
    for axis in view.rows:
        if kind_of(axis) is AxisType.LOOP and all(view.stride(p, axis) in {0, 1} for p in view.reads):
            axes[axis] = None
    return [axis for axis in axes if every or not _prefers_reduction(view, axis)]


def _prefers_reduction(view: Nest, axis: UOp) -> bool:
    """Whether reads jump along an output axis but run along a reduced one."""
    for reduction in view.reductions:
        reads = [place for place in view.reads_of(reduction) if axis in place.ranges]
        steps = {view.stride(place, axis) for place in reads}
        if steps == {1}:
            continue
        along = contiguous_reduced(view, reduction) if axis in reduction.ranges else None
        if along is not None and not (0 < size_of(along) < _LEAST_LANES and steps <= _NEAR):
            return True
    return False


def contiguous_reduced(view: Nest, reduction: UOp) -> UOp | None:
    """The reduced axis along which everything that is read moves by 0 or 1, and something does move."""
    for axis in reversed(reduction.src[1:]):
        if axis.op is not Ops.RANGE or kind_of(axis) is not AxisType.REDUCE:
            continue
        steps = {view.stride(place, axis) for place in view.reads_of(reduction)}
        if 1 in steps and steps <= {0, 1}:
            return axis
    return None


def lanes_along(target: Target, view: Nest, axis: UOp) -> int:
    """How many elements along an axis fill a register, for the widest dtype that is accessed along it.

    What only says where another element is does not count: lanes of it are looked at one by one.
    """
    places = [p for p in (*view.writes, *view.reads) if axis in p.ranges and p not in view.positions]
    return min((target.lanes(place.dtype.scalar) for place in places if not place.dtype.is_index), default=1)


def take_lanes(draft: Draft, axis: UOp, kind: Kind, lanes: int, vectors: int = 1, least: int = 2) -> int:
    """Lanes of an axis: whole vectors if that is possible, parts of one if not; padded if nothing divides.

    `least`: how many halves of a vector an axis must have to be padded before parts are thought of.
    """
    if lanes < 2:
        return 1
    whole = [lanes * count for count in range(vectors, 0, -1) if lanes * count <= MOST_LANES]
    parts = _parts(lanes)
    size = axis.vmax + 1
    most = min(size * _PADDED[1] / _PADDED[0], rounded_up(size, lanes) * _BESIDE_ONE[1] / _BESIDE_ONE[0])
    width = next((w for w in whole if rounded_up(size, w) <= most), lanes)
    padded = wants_padding(draft, axis, lanes) and 2 * size > least * lanes
    if (padded or _waits(draft, axis, whole, width)) and draft.take(PadTo, axis, width):
        return width if draft.take(kind, axis, width) else 1
    if (taken := draft.take_first(kind, axis, (*whole, *parts))) > 1 or size < _LEAST_PADDED:
        return taken
    width = next((part for part in sorted(parts) if part >= size), lanes)
    padded = draft.target.masked and draft.left(axis) == size and draft.take(PadTo, axis, width)
    return width if padded and draft.take(kind, axis, width) else 1


def _parts(lanes: int) -> list[int]:
    """Parts of a vector, the longest first."""
    fewest = min(_LEAST_LANES, lanes)
    return [lanes >> shift for shift in range(1, lanes.bit_length()) if lanes >> shift >= fewest]


def fills_none(target: Target, view: Nest, axis: UOp) -> bool:
    """Whether an axis is shorter than a vector, and no part of one divides it."""
    size, lanes = size_of(axis), lanes_along(target, view, axis)
    return 0 < size < lanes and all(size % part for part in _parts(lanes))


def _waits(draft: Draft, axis: UOp, whole: Sequence[int], width: int) -> bool:
    """Whether of the vectors that are wanted side by side, so that one hides the latency of the other, only one divides an axis of many."""
    size = draft.left(axis)
    divides = next((w for w in whole if size % w == 0), 0)
    return (
        draft.target.masked and 0 < 2 * divides < width and draft.left(axis) == size_of(axis) >= _MANY * width
    )


def following_rows(target: Target, view: Nest, axis: UOp) -> UOp | None:
    """The axis along which the next row is, of rows that follow each other in memory, are shorter than a vector and no parts of one."""
    size, lanes = size_of(axis), lanes_along(target, view, axis)
    if not 1 < size < lanes or size % _LEAST_LANES == 0 or _rows_together(lanes, size) < 2:
        return None
    if not all(view.stride(place, axis) in _NEAR for place in view.reads):
        return None
    places = [place for place in view.writes if axis in place.ranges]
    return next(
        (r for r in view.outputs if r is not axis and all(view.stride(place, r) == size for place in places)),
        None,
    )


def rows_in_lanes(draft: Draft, view: Nest, axis: UOp, rows: UOp) -> bool:
    """Whole vectors of short rows: all of a row, and as many that follow it as fill several vectors; whether there are as many."""
    if not draft.take(Upcast, axis, size_of(axis), "rows shorter than a vector"):
        return False
    together = _rows_together(lanes_along(draft.target, view, axis), size_of(axis))
    return take_lanes(draft, rows, Upcast, together) > 1


def _rows_together(lanes: int, size: int) -> int:
    """How many rows of a size go into lanes together: as many as make whole vectors, or such a part of them as there is room for."""
    return next((n for n in (lanes >> k for k in range(lanes.bit_length())) if n * size <= MOST_LANES), 1)


def is_large(target: Target, place: UOp) -> bool:
    """Whether the memory that a place is in is so large that it is written past the caches, if nobody reads it soon."""
    memory = place.src[0].dtype
    return isinstance(memory, PtrDType) and memory.size * place.dtype.itemsize >= target.streamed_bytes


def align_rows(draft: Draft, view: Nest, axis: UOp, lanes: int) -> bool:
    """Start long rows of a large result where a line starts, if they do not: stores past the caches write whole lines; whether so."""
    target = draft.target
    if (
        not target.masked
        or len(target.caches) < 2
        or lanes < 2
        or size_of(axis) < target.register_tiles.long_row * lanes
    ):
        return False
    read = {place.src[0] for place in view.reads}
    written = [place for place in view.writes if axis in place.ranges]
    return (
        bool(written)
        and all(is_large(target, place) and place.src[0] not in read for place in written)
        and draft.take(Align, axis, lanes, "rows of a large result that start anywhere")
    )


def scan_in_lanes(draft: Draft, view: Nest, axis: UOp) -> bool:
    """Lanes of a kernel that scans; whether it does.

    Along the scanned axis they are running sums of whole vectors. Along another one every lane has a scan of its own, and
    several vectors side by side use more of each line that is read.
    """
    if not view.scans:
        return False
    lanes = lanes_along(draft.target, view, axis)
    if any(axis in scan.src[1:] for scan in view.scans):
        take_lanes(draft, axis, Prefix, lanes, least=4)
    else:
        take_lanes(draft, axis, Upcast, lanes, draft.target.register_tiles.columns, least=4)
    return True


def wants_padding(draft: Draft, axis: UOp, lanes: int) -> bool:
    """Whether no vector, nor half of one, divides an axis, on a machine that can leave out the lanes too many."""
    size = draft.left(axis)
    half = max(lanes // 2, 1)
    # halves of vectors take as many operations as whole ones: beyond a few it is less work to leave out lanes of the last
    halves = size % half == 0 and size <= _HALVES * lanes
    return draft.target.masked and (size == 0 or (size % lanes != 0 and not halves))


def rounded_up(size: int, width: int) -> int:
    return -(-size // width) * width


def reduce_in_lanes(draft: Draft, view: Nest, reduction: UOp) -> None:
    """Lanes on the reduced axis, in enough vectors to hide the latency of adding; several rows at once do that too."""
    axis = contiguous_reduced(view, reduction)
    if axis is None or draft.left(axis) != size_of(axis):  # (another one along the same axis has done it)
        return
    row = _row_axis(draft, view)
    if row is not None:
        most = draft.left(row) // draft.target.register_tiles.shared_rows
        draft.take_first(Upcast, row, [n for n in _ROWS if n <= most], "rows read at once")
    lanes = min(lanes_along(draft.target, view, axis), draft.target.lanes(reduction.dtype.scalar))
    rows = prod(amount for each, amount in draft.upcast.items() if each in reduction.ranges)
    vectors = max(1, draft.target.register_tiles.accumulators // rows)
    take_lanes(draft, axis, Accumulators, lanes, vectors, least=4)


def leave_out_masked(draft: Draft, view: Nest) -> None:
    """End loops over what a mask hides, where its terms are neutral. (A loop of such a length is not split any more: it comes last.)"""
    for reduction in view.reductions:
        masked = reduction.src[0]
        if masked.op is Ops.WHERE and masked.src[2].op is Ops.CONST:
            for axis in reduction.src[1:]:
                together = size_of(axis) // max(draft.left(axis), 1)
                if together:
                    draft.take(Limit, axis, together, "what is masked is not computed")


def _row_axis(draft: Draft, view: Nest) -> UOp | None:
    """The axis of rows, if all that a kernel does is to reduce rows of their own."""
    if view.rows or len(view.reductions) != 1 or draft.upcast or not view.outputs:
        return None
    row = view.outputs[-1]
    (reduction,) = view.reductions
    apart = all(view.stride(place, row) not in {0, None} for place in view.writes)
    return row if apart and row in reduction.ranges else None


def reduce_in_columns(draft: Draft, view: Nest, axis: UOp, reductions: Sequence[UOp]) -> bool:
    """Lanes on an output axis whose every element reduces a column of its own; whether that is what the kernel does.

    Several vectors side by side are reduced together. A column of them is a short piece of each row, so a block of rows is
    reduced for all columns before the next one: rows are then read from end to end, and the results hold the sums.
    """
    rows = columns_of(view, axis, reductions)
    if not rows:
        return False
    lanes = lanes_along(draft.target, view, axis)
    take_lanes(draft, axis, Upcast, lanes, draft.target.register_tiles.columns, least=1)
    alone = len(view.writes) == 1 and set(view.reads_of(reductions[0])) == set(view.reads)
    if alone and len(view.outputs) == 1 and draft.left(axis) > 1:
        _by_rows(draft, axis, rows[0])
    return True


def columns_of(view: Nest, axis: UOp, reductions: Sequence[UOp]) -> list[UOp]:
    """The axes that columns are reduced along, if that is all that a kernel does for an axis; none if it is something else."""
    if view.rows or len(view.reductions) != 1 or list(reductions) != view.reductions:
        return []
    (reduction,) = reductions
    reads = view.reads_of(reduction)
    along = [r for r in reduction.src[1:] if r.op is Ops.RANGE and kind_of(r) is AxisType.REDUCE]
    if len(along) != len(reduction.src) - 1 or any(axis in r.src[0].ranges for r in along):
        return []
    if not all(view.stride(p, axis) in {0, 1} and any(r in p.ranges for r in along) for p in reads):
        return []
    # what some operand does not depend on is used again: a contraction
    others = [r for r in view.outputs if r is not axis]
    return along if all(r in p.ranges for r in others for p in reads) else []


def _by_rows(draft: Draft, axis: UOp, rows: UOp) -> None:
    """Blocks of rows; what the cores share is cut first, since the blocks are outside of everything else."""
    size, tiles_of = draft.left(rows), draft.target.register_tiles
    about = sorted(range(4, 33), key=lambda n: (abs(n - tiles_of.block_rows), -n))
    block = next((n for n in about if size and size % n == 0 and size > n), 0)
    if not block:
        return
    tiles = draft.left(axis)
    if draft.cores:
        # (of fewer pieces each is longer, and what bounds is memory, which cores share)
        wanted = max(min(tiles // tiles_of.piece, draft.target.workers), 2)
        pieces = amounts_for(draft.target, tiles, wanted)
        draft.take_first(Thread, axis, pieces, "wide pieces of rows")
    if draft.take(Block, rows, block, "rows are read from end to end"):
        draft.cores = False  # narrower pieces would be parts of rows again
