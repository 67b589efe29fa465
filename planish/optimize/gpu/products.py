"""Products: a tile of the result for a block, a tile of it in the registers of each thread.

What a block reads of both operands for some steps of the sum is fetched to shared memory in the background, while the steps before are
computed. In shared memory both lie as rows of one step each, so that a thread reads neighbours: an operand whose neighbours
in memory are steps is turned on the way.

Which tile: the larger one reads less of shared memory for each product; the smaller one leaves fewer multiprocessors without work
at the end, and less beyond the edges. Both are counted (`planish.target.rounds`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import combinations
from typing import Final, NamedTuple, cast

from planish.actions.local import Local
from planish.actions.split import Split
from planish.actions.stage import Stage
from planish.actions.upcast import Upcast
from planish.optimize.draft import Draft
from planish.optimize.gpu.fit import Fetching, fetching, fitted
from planish.target.rounds import THREAD_TILES, THREADS, BlockTile, ProductSizes, cycles
from planish.uop.nest import size_of
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import Ops

_LARGE: Final = 16
"""Elements of an axis that tiles are worth while for."""
_NEIGHBOURS: Final = 4
"""Columns of a tile that one thread has next to each other."""
_STEPS: Final = (16, 8, 4)
"""Terms of a sum for which operands are fetched at once: the first that makes it no more than a quarter longer, else the last."""
_DOUBLE: Final = (1, 1)
"""An axis may become twice as long: what that costs is counted."""
_BUFFERS: Final = 2
"""Tiles of an operand: one is used while the other is fetched."""
_PADDING: Final = 16
"""Bytes between the rows of a turned tile, so that who fills it does not want the same bank again and again."""


class _Threads(NamedTuple):
    """The threads of a block along rows and columns, the rows and groups of neighbouring columns of each."""

    down: int
    across: int
    high: int
    groups: int


_THREADS: Final = dict(
    zip(
        THREAD_TILES,
        map(
            _Threads._make,
            ((16, 16, 8, 2), (8, 16, 8, 2), (8, 8, 8, 2), (8, 16, 8, 1), (8, 16, 4, 1), (8, 8, 4, 1)),
        ),
        strict=True,
    )
)
"""Who does a tile."""


class _Product(NamedTuple):
    """The axes of a product, and where its operands are read."""

    row: UOp
    column: UOp
    summed: UOp
    left: UOp
    right: UOp
    others: int
    """How many products there are."""


def is_product(view: Nest, sums: Sequence[UOp] | None = None) -> bool:
    """Whether sums read two operands along what is summed, each of which varies along an output axis of its own: then tiles share what they read."""
    large = frozenset(r for r in view.outputs if size_of(r) >= _LARGE)
    for reduction in view.reductions if sums is None else sums:
        terms = frozenset(reduction.src[1:])
        read = [place.ranges for place in view.reads_of(reduction) if not terms.isdisjoint(place.ranges)]
        seen = {ranges & large & reduction.ranges for ranges in read}
        if any(one - other and other - one for one, other in combinations(seen, 2)):
            return True
    return False


def _product_of(view: Nest) -> _Product | None:
    if len(view.reductions) != 1 or view.rows or view.scans or not is_product(view):
        return None
    (reduction,) = view.reductions
    summed = [r for r in reduction.src[1:] if r.op is Ops.RANGE]
    column = next(
        (r for r in reversed(view.outputs) if all(view.stride(p, r) == 1 for p in view.writes)), None
    )
    reads = [place for place in view.reads_of(reduction) if place.src[0].op is Ops.DEFINE_GLOBAL]
    right = [place for place in reads if column is not None and column in place.ranges]
    if column is None or len(reads) != 2 or len(right) != 1 or not summed:
        return None
    left = next(place for place in reads if place is not right[0])
    rows = [r for r in view.outputs if r in left.ranges and r not in right[0].ranges]
    if not rows:
        return None
    row, others = max(rows, key=size_of), 1
    for r in view.outputs:
        others *= 1 if r is row or r is column else size_of(r)
    return _Product(row, column, summed[-1], left, right[0], others)


def tile_product(draft: Draft, view: Nest) -> bool:
    """Tiles of a product of matrices, one or several."""
    product = _product_of(view)
    if product is None:
        return False
    m, n, k = map(size_of, (product.row, product.column, product.summed))
    sizes = ProductSizes(m, n, k, product.others, product.left.dtype.itemsize)
    for tile in sorted(THREAD_TILES, key=lambda each: cycles(draft.target, sizes, each, THREADS)):
        trial = draft.copy()
        if _tiled(trial, view, product, tile):
            draft.adopt(trial)
            return True
    return False


def _tiled(draft: Draft, view: Nest, product: _Product, tile: BlockTile) -> bool:
    """A tile of threads, each with a tile of sums, and both operands in shared memory for some steps."""
    row, column, summed = product.row, product.column, product.summed
    threads = _THREADS[tile]
    steps = next((n for n in _STEPS if -size_of(summed) % n * 4 <= size_of(summed)), _STEPS[-1])
    done = (
        fitted(draft, column, tile.columns, _DOUBLE)
        and fitted(draft, row, tile.rows, _DOUBLE)
        and fitted(draft, summed, steps, _DOUBLE)
        and draft.take(Upcast, column, _NEIGHBOURS, "neighbours by one access")
        and draft.take(Local, column, threads.across)
        and (threads.groups == 1 or draft.take(Upcast, column, threads.groups, "columns of a thread"))
        and draft.take(Upcast, row, threads.high, "rows of a thread")
        and draft.take(Local, row, threads.down)
        and (draft.left(summed) == steps or draft.take(Split, summed, steps, "what is fetched at once"))
    )
    if not done:
        return False
    how = fetching(draft, summed, 1, (_BUFFERS,))
    turned = [view.stride(place, summed) == 1 for place in (product.left, product.right)]
    return all(map(partial(_fetched, draft, how), (product.left, product.right), turned))


def _fetched(draft: Draft, how: Fetching, place: UOp, turned: bool) -> bool:
    """An operand in shared memory, ahead of its use where that is possible."""
    slot, pad = cast("int", place.src[0].arg), max(_PADDING // place.dtype.itemsize, 1)
    ahead = "a block fetches the next tile while it computes"
    return (
        (turned and draft.do(Stage(slot, how.at, how.buffers[0], pad, turned=True), f"{ahead}, and turns it"))
        or draft.do(Stage(slot, how.at, how.buffers[0]), ahead)
        or draft.do(Stage(slot, how.at), "a block fetches a tile together")
    )
