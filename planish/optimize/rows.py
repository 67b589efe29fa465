"""Blocks of rows: kernels that keep rows which are made or used by products of matrices. Attention is the example.

Row by row, such a product loads every element of a matrix for two operations. Here several rows run in lanes instead: what they
have in common (keys, values) is loaded once for all of them and spread, what is their own (queries, scores) lies in vectors, and
maxima, sums and functions along a row work on whole vectors without ever combining lanes.

1. The axis of the rows goes into lanes, in as many vectors as the kept rows leave room for in the second cache.
2. Each product has another axis in registers, so that there are enough sums at once: along the row where it makes the row
   (keys), along the output where it uses it.
3. What is read along the rows with jumps (the queries) is staged, transposed on the way.
4. A product that uses rows which do not fit in the first cache takes a block of them at a time (`hold`).
5. Where a mask hides the end of the rows from all lanes, scores and exponentials end there (`limit`).

Rows that lie side by side in memory, as the columns of a matrix do, run in lanes for the same reasons, with no product at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import lcm, prod
from typing import Final, NamedTuple, cast

from planish.actions.hold import Hold
from planish.actions.lanes import Lanes
from planish.actions.limit import Limit
from planish.actions.overrun import Overrun
from planish.actions.pad_to import PadTo
from planish.actions.split import Split
from planish.actions.stage import Stage
from planish.actions.thread import Thread
from planish.actions.unroll import Unroll
from planish.actions.upcast import Upcast
from planish.optimize.body import Body
from planish.optimize.cores import amounts_for, is_done_again, pieces_for
from planish.optimize.draft import Draft
from planish.optimize.templates import Candidate
from planish.target import Target
from planish.uop.nest import axes_of, name_of, size_of
from planish.uop.nest.kernel import Nest, work_of
from planish.uop.node import UOp
from planish.uop.ops import AxisType, Ops
from planish.uop.ranges import kind_of

_VECTORS: Final = (4, 2, 1)
"""Vectors of rows at once."""


class _Block(NamedTuple):
    """What is known of a kernel whose rows run in lanes."""

    rows: UOp
    """The axis that numbers the rows."""
    products: list[UOp]
    """Sums of products in which rows share an operand."""
    row_bytes: int
    """What is kept for each row."""
    across: UOp | None = None
    """The axis along which results lie next to each other, if that is not the one of the rows: squares are turned."""


def blocks_of_rows(draft: Draft, nest: Nest) -> Iterator[Candidate]:
    """A candidate for kernels that keep rows."""
    if nest.kept:
        yield Candidate("rows in lanes", partial(_block_rows, view=nest))


def _block_rows(draft: Draft, view: Nest) -> bool:
    """Schedule a kernel whose rows share the operands of products; false, and nothing done, if it is none."""
    block = _find(view)
    if block is None:
        return _in_groups(draft, view)
    # rows are as wide as what is computed of them, however narrow what is stored in the end
    widths = [
        view.writes[0].dtype,
        *(node.src[0].dtype for node in view.kept),
        *(r.dtype for r in block.products),
    ]
    lanes = min(draft.target.lanes(dtype.scalar) for dtype in widths)
    for vectors in sorted(
        _VECTORS if block.across is None else (1,),
        key=lambda count: (
            _cycles(block, view, draft.target, count) * -(-size_of(block.rows) // (count * lanes))
        ),
    ):
        if not _fits(block, view, draft.target, vectors * lanes):
            continue
        # what fits in part only is not begun
        trial = draft.copy()
        if _schedule(trial, view, block, vectors, lanes):
            draft.adopt(trial)
            return True
    return False


def _sums(target: Target, vectors: int) -> int:
    """How many sums of a product there are registers for, beside so many vectors of rows."""
    return max(1, min(target.registers // 2, target.registers - vectors - 1) // vectors)


def _cycles(block: _Block, view: Nest, target: Target, vectors: int) -> float:
    """What so many vectors of rows take: with more of them there are fewer loads for each operation, and sums wait less."""
    sums, total = _sums(target, vectors), 0.0
    for reduction in view.reductions:
        body = Body(operations=vectors, loads=vectors, chain=target.latency)
        count = 1
        if reduction in block.products:
            body = Body(multiplies=vectors * sums, loads=vectors + sums, chain=target.latency)
            count = sums
        total += (body.cycles(target) + target.branches) / count * work_of(reduction)
    return total


def _in_groups(draft: Draft, view: Nest) -> bool:
    """The same for rows of which groups share an operand (heads that have keys in common): such an axis is cut into groups first."""
    for axis in view.outputs:
        for node in view.sink.toposort():
            if node.op is not Ops.FLOORDIV or node.src[0] is not axis or node.src[1].op is not Ops.CONST:
                continue
            size = cast("int", node.src[1].arg)
            trial = draft.copy()
            if size_of(axis) % size or not trial.take(Split, axis, size, "rows that share an operand"):
                continue
            if _find(inner := Nest.of(trial.sink)) is not None and _block_rows(trial, inner):
                draft.adopt(trial)
                return True
    return False


def _operands(reduction: UOp, view: Nest) -> list[UOp]:
    """What a reduction reads itself, not through what others have reduced or kept."""
    own = set(reduction.src[0].toposort(lambda n: n.op not in {Ops.REDUCE, Ops.INDEX}))
    return [place for place in view.reads if place in own]


def _find(view: Nest) -> _Block | None:
    kept = view.kept
    if not all(node.src[0].dtype.is_float for node in kept):
        return None
    for axis in reversed(view.outputs):
        if kind_of(axis) is not AxisType.LOOP or axis in view.rows or size_of(axis) < 2:
            continue
        if not all(axis in node.ranges for node in (*kept, *view.reductions)):
            continue
        products = [
            reduction
            for reduction in view.reductions
            if reduction.arg is Ops.ADD
            and reduction.src[0].op is Ops.MUL
            and any(axis not in place.ranges for place in _operands(reduction, view))
        ]
        across = None if products or _side_by_side(view, axis) else _across(view, axis)
        if products or across is not None or _side_by_side(view, axis):
            # each row is made of the one before, in its place
            size = max(
                prod(place.vmax + 1 for place in node.src[1:]) * node.src[0].dtype.itemsize for node in kept
            )
            return _Block(axis, products, size, across)
    return None


def _side_by_side(view: Nest, axis: UOp) -> bool:
    """Whether neighbouring elements of memory belong to neighbouring rows (which then are columns), wherever memory is."""
    places = [p for p in (*view.writes, *view.reads) if p.src[0].op is Ops.DEFINE_GLOBAL and axis in p.ranges]
    return all(view.stride(place, axis) == 1 for place in (*view.writes, *places))


def _across(view: Nest, axis: UOp) -> UOp | None:
    """The axis along which results are written of rows that are only read side by side (a norm over channels that come first)."""
    reads = [p for p in view.reads if p.src[0].op is Ops.DEFINE_GLOBAL and axis in p.ranges]
    if not reads or any(view.stride(place, axis) != 1 for place in reads):
        return None
    for other in reversed(view.outputs):
        if other is not axis and all(view.stride(place, other) == 1 for place in view.writes):
            return other
    return None


def _fits(block: _Block, view: Nest, target: Target, width: int) -> bool:
    """Whether so many rows are worth running at once: there are as many, nearly, and what they keep stays near.

    Rows that nothing goes over more than once may be farther away.
    """
    near = target.caches[1] // 2 if len(target.caches) > 1 else target.local_bytes
    users = [product for product in block.products if _kept_by(product, view)]
    if users and all(_passes(product, view, target, width) for product in users):
        near = max(near, target.far_bytes - target.local_bytes // 2)
    return 3 * size_of(block.rows) >= 2 * width and block.row_bytes * width <= near


def _schedule(draft: Draft, view: Nest, block: _Block, vectors: int, lanes: int) -> bool:
    width, rows = vectors * lanes, block.rows
    # what is contiguous along the rows is masked, what is staged or spread is not
    padding = Overrun if block.products or not draft.target.masked else PadTo
    if size_of(rows) % width and not draft.take(padding, rows, width, "whole vectors of rows"):
        return False
    if not draft.take(Lanes, rows, width, f"{vectors} vectors of rows run side by side"):
        return False
    if block.across is not None:
        across = block.across
        if size_of(across) % lanes and not draft.take(PadTo, across, lanes, "whole squares"):
            return False
        if not draft.take(Upcast, across, lanes, "squares of rows and columns are turned in registers"):
            return False
    for product in block.products:
        _in_registers(draft, view, product, rows, _sums(draft.target, vectors))
    for slot, loops in _jumping(view, block).items():
        # as far inside as what is read changes, if there is room; None: all rows are in lanes, and there is no loop
        places = {left for loop in loops if (left := draft.outermost(loop)) is not None}
        names: list[str | None] = [name_of(r) for r in reversed(axes_of(draft.sink)) if r in places]
        reason = "rows lie next to each other in lanes"
        if not any(draft.do(Stage(slot, name), reason) for name in names or [None]):
            return False
    step = 1
    if block.row_bytes * width > draft.target.caches[0] // 2:
        for product in block.products:
            for axis, count in _passes(product, view, draft.target, width):
                reason = f"{count} of a row at a time stay in the first cache"
                if draft.take(Hold, axis, count, reason):
                    step = lcm(step, count)
                    break
    _share(draft, view, block, width)
    for top in (reduction for reduction in view.reductions if reduction.arg is Ops.MAX):
        for axis in top.src[1:]:
            together = size_of(axis) // max(draft.left(axis), 1)
            draft.take(Limit, axis, lcm(step, together), "what is masked is not computed")
    return True


def _kept_by(product: UOp, view: Nest) -> list[UOp]:
    """The rows that a product uses."""
    return [place.src[0] for place in _operands(product, view) if place.src[0].op is Ops.BUFFERIZE]


def _passes(product: UOp, view: Nest, target: Target, width: int) -> list[tuple[UOp, int]]:
    """Which axis of a product that uses rows may be taken in blocks, and of how many elements.

    A block takes two thirds of the first cache, with what it is multiplied by.
    """
    kept = _kept_by(product, view)
    columns = [r for r in view.outputs if r in product.ranges and not any(r in node.ranges for node in kept)]
    if not kept or not columns:
        return []
    together = width + prod(size_of(r) for r in columns)
    most = target.caches[0] * 2 // 3 // (together * product.dtype.itemsize)
    counts = {
        axis: max(
            (n for n in range(target.register_tiles.row_elements, most + 1) if size_of(axis) % n == 0),
            default=0,
        )
        for axis in product.src[1:]
    }
    return [(axis, count) for axis, count in counts.items() if count]


def _share(draft: Draft, view: Nest, block: _Block, width: int) -> None:
    """Blocks of rows are the pieces of work, as far as there may be so many: none does what another does.

    Each has memory of its own, and together they are to stay in a part of the last cache.
    """
    if not draft.cores:
        return
    target = draft.target
    room = max(2 * target.workers, 2 * target.far_bytes // (block.row_bytes * width))
    pieces = min(pieces_for(target, view), room)
    for axis in view.outputs:
        if all(axis in product.ranges for product in block.products) and not is_done_again(view, axis):
            amounts = amounts_for(target, draft.left(axis), pieces)
            pieces //= draft.take_first(Thread, axis, amounts)


def _in_registers(draft: Draft, view: Nest, product: UOp, rows: UOp, most: int) -> None:
    """Several sums of a product at once, along an axis that some of its operands do not depend on."""
    operands = _operands(product, view)
    for axis in sorted(product.ranges, key=lambda r: r.order, reverse=True):
        if axis is rows or not size_of(axis) or all(axis in place.ranges for place in operands):
            continue
        kind = Unroll if kind_of(axis) is AxisType.REDUCE else Upcast
        size = draft.left(axis)
        count = max((n for n in range(1, most + 1) if size % n == 0), default=1)
        if 2 * count < most < size and draft.take(Overrun, axis, most, "whole tiles of sums"):
            count = most
        if count > 1 and draft.take(kind, axis, count, f"{count} sums for each row at once"):
            return


def _jumping(view: Nest, block: _Block) -> dict[int, list[UOp]]:
    """The parameters that products read along the rows, but not one next to the other; and the loops around the products."""
    loops: dict[int, list[UOp]] = {}
    for product in block.products:
        operands = _operands(product, view)
        around = [
            r for r in product.ranges if r is block.rows or all(r in place.ranges for place in operands)
        ]
        for place in operands:
            memory = place.src[0]
            slot = memory.arg
            jumps = memory.op is Ops.DEFINE_GLOBAL and view.stride(place, block.rows) not in {0, 1}
            if jumps and isinstance(slot, int):
                loops.setdefault(slot, []).extend(around)
    return loops
