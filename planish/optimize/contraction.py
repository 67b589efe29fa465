"""Contractions: sums of products whose operands are used again along output axes.

Of c[…, i, j] = Σ a[…, i, k] · b[…, k, j], with j in lanes, one nest is made, whatever the sizes and however the operands lie:

    THREAD … · j/columns · [b staged] · i/rows · REDUCE k · a register tile of rows × columns

* **The tile** (`tiles.py`) need not divide the output. Columns too many are lanes that nothing is loaded into; of rows too
  many the last is computed again; neither is stored.
* **b** is read once per row of tiles, at steps of a whole row of the matrix. If it is read often, the panel that a column of tiles
  needs is copied first, so that it lies together in a cache; lanes that are not contiguous in memory are by the copy.
* **a** is read along its rows. If these are not contiguous, a block of rows that fits the second cache is copied in the
  order in which tiles read it, and the nest runs for each such block.
* **k** is taken in blocks if a panel of all of it would not stay in the second cache; and if there are few rows: then fetching b
  is most of the work, and it is fetched fastest along its own rows.
* **Cores** (`cores.py`) share batches, or columns: then no two copy the same; or rows, if there are too few columns.

Where both operands lie along k (few rows against the rows of a matrix), nothing has to be turned if lanes run along k too: a tile of sums,
each of them a vector whose lanes are added up at the end.

What does not have this form (several reductions, windows, sizes that are not known) gets a register tile and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Final

from planish.actions.accumulators import Accumulators
from planish.actions.lanes import Lanes
from planish.actions.overrun import Overrun
from planish.actions.pad_to import PadTo
from planish.actions.peel import Peel
from planish.actions.split import Split
from planish.actions.thread import Thread
from planish.actions.upcast import Upcast
from planish.optimize.body import copying
from planish.optimize.cores import ROUNDS, CoreCut, best_cut
from planish.optimize.draft import Draft
from planish.optimize.lanes import lanes_along, take_lanes, wants_padding
from planish.optimize.tiles import MOST_LANES, Division, Shape, best_division, best_sums, dividing_tile
from planish.records import dataclass
from planish.target import Target
from planish.uop.nest import axes_of, name_of, size_of, stores_in
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import ALU, AxisType, Ops
from planish.uop.ranges import kind_of
from planish.uop.reached import reached
from planish.uop.weights import weight

_MUCH: Final = 1.0
"""Operations behind a sum, for each of its terms, that are felt when they are compiled: a function behind few of them."""
_LITTLE: Final = 4
"""Operations on a sum that every pass may do."""
_ROOM: Final = (15, 16)
"""The part of LOCAL memory that a block of rows may fill: rows are kept a cache line apart, on any machine."""

# -- register tiles alone ----------------------------------------------------------------------------------------


def contract(draft: Draft, view: Nest, axis: UOp, reductions: Sequence[UOp]) -> None:
    """A register tile: vectors along an axis, rows along one that some operand does not depend on."""
    lanes = lanes_along(draft.target, view, axis)
    rows = broadcast_axis(view, axis, reductions)
    columns = 0 if wants_padding(draft, axis, max(lanes, 2)) else draft.left(axis)
    after = _follows(view, min((size_of(r) for each in reductions for r in each.src[1:]), default=0))
    shape = dividing_tile(draft.target, 1 if rows is None else size_of(rows), columns, max(lanes, 1), after)
    take_lanes(draft, axis, Upcast, lanes, shape.vectors, least=1)
    if rows is not None and shape.rows > 1:
        draft.take(Upcast, rows, shape.rows)


def broadcast_axis(view: Nest, lanes: UOp, reductions: Sequence[UOp]) -> UOp | None:
    """An output axis of all reductions that some of their operands do not depend on: those are loaded once for all of it."""
    for axis in reversed(view.outputs):
        if axis is lanes or not size_of(axis) or not all(axis in r.ranges for r in reductions):
            continue
        if any(axis not in place.ranges for r in reductions for place in view.reads_of(r)):
            return axis
    return None


# -- products of matrices ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """A kernel that is a product of matrices, or several."""

    rows: UOp
    columns: UOp
    along: UOp
    left: UOp
    """What depends on the rows."""
    right: UOp
    """What depends on the columns, and is read for every row."""
    batches: tuple[UOp, ...]
    lanes: int
    gathered: bool = False
    """Whether the right operand is read at any places, and copied for that."""

    @property
    def sizes(self) -> tuple[int, int, int]:
        return size_of(self.rows), size_of(self.columns), size_of(self.along)


def find_product(view: Nest, target: Target, *, gathered: bool = False) -> MatrixProduct | None:
    """The product that a kernel is: one sum over one axis, of two operands, each of which lacks an output axis of the other.

    One that is `gathered` may have a right operand that is read at any places.
    """
    if len(view.reductions) != 1 or not view.writes or view.rows:
        return None
    (total,), places = view.reductions, view.writes
    if total.arg is not Ops.ADD or len(total.src) != 2 or total.src[1].op is not Ops.RANGE:
        return None
    along, reads = total.src[1], view.reads_of(total)
    columns = next((r for r in reversed(view.outputs) if all(view.stride(p, r) == 1 for p in places)), None)
    if columns is None or len(reads) != 2 or kind_of(along) is not AxisType.REDUCE:
        return None
    right = next((p for p in reads if columns in p.ranges), None)
    left = next((p for p in reads if columns not in p.ranges), None)
    if right is None or left is None or along not in right.ranges or along not in left.ranges:
        return None
    written = {place.src[0] for place in places}
    if any(p.src[0].op is not Ops.DEFINE_GLOBAL or p.src[0] in written for p in reads):
        return None
    candidates = [r for r in view.outputs if r in left.ranges and r not in right.ranges]
    rows = max(candidates, key=size_of, default=None)
    lanes = min(lanes_along(target, view, columns), target.lanes(total.dtype.scalar))
    if rows is None or lanes < 2 or not all(map(size_of, (rows, columns, along))):
        return None
    if not gathered and None in {view.stride(right, columns), view.stride(right, along)}:
        return None
    batches = tuple(r for r in view.outputs if r is not rows and r is not columns)
    return MatrixProduct(rows, columns, along, left, right, batches, lanes, gathered)


def multiply(draft: Draft, view: Nest, *, gathered: bool = False) -> bool:
    """The nest of a product of matrices; whether there is one."""
    product = find_product(view, draft.target, gathered=gathered)
    division = None if product is None else _divide(draft.target, view, product, whole=gathered)
    if product is None or division is None or size_of(product.rows) < 2:
        return False
    turned = gathered or view.stride(product.right, product.columns) != 1
    again = -(-size_of(product.rows) // division.tile.rows)
    if turned and again < draft.target.panels.turned_again:
        return False
    if division.rest is None:
        return _nest(draft, view, product, division)
    product, *others = _peel(draft, product, division)
    view = Nest.of(draft.sink)
    if others:
        return _nest(draft, view, product, division, others[0])
    division = _divide(draft.target, view, product, whole=True)
    return division is not None and _nest(draft, view, product, division)


def _nest(
    draft: Draft, view: Nest, product: MatrixProduct, division: Division, rest: MatrixProduct | None = None
) -> bool:
    """The loops of a product, and of the last columns, if they are apart; false if nothing fits."""
    (rows, columns, along), shape = product.sizes, division.tile
    panels = draft.target.panels
    turned = product.gathered or view.stride(product.right, product.columns) != 1
    width, again = shape.vectors * product.lanes, -(-rows // shape.rows)
    wide = view.reductions[0].dtype.itemsize
    converted = [
        again > 1 and product.right.dtype.itemsize < wide,
        columns > width and product.left.dtype.itemsize < wide,
    ]
    far = along * columns * wide > draft.target.caches[1] // panels.near
    enough = panels.alone if columns <= width else panels.far_again if far else panels.again
    # (the last columns are copied in any case; of rows whose number is not known there may be one, for which nothing is worth a copy)
    often = again >= enough and draft.has_pieces(product.rows)
    staged = turned or often or converted[0] or (rest is not None and columns <= width)
    scattered = columns > width and view.stride(product.left, product.along) != 1
    length = along
    if rest is None and (staged or far):
        length = _block_length(draft, view, product, width, again, scattered=scattered)
    blocks = _blocks(draft, again, shape.rows * length * wide, width * length * wide) if scattered else 1
    walked = length < along and again <= panels.few_rows and columns > width
    # what a piece writes stays in the second cache from one block of a walk to the next
    least = -(-rows * columns * wide * panels.near // draft.target.caches[1]) if walked else 2
    cuts = [
        *(
            CoreCut(batch, size_of(batch), uneven=not draft.has_pieces(batch))
            for batch in product.batches
            if size_of(batch)
        ),
        CoreCut(
            product.columns,
            -(-columns // width),
            copying(draft.target, along * rows, turned=True) if scattered else 0.0,
            is_free=walked
            and columns % width > 0,  # a panel that nothing is in is more code: only for long walks
            least=max(2, least),
            uneven=not draft.has_pieces(product.columns),
        ),
        CoreCut(
            product.rows,
            again,
            copying(draft.target, along * columns) if staged else 0.0,
            is_free=True,
            uneven=not draft.has_pieces(product.rows),
        ),
    ]
    # a block is of use to all rows of a piece, and a walk the better the longer it is
    rounds = 1 if length < along and (again < panels.again or columns <= width) else ROUNDS
    cut = best_cut(draft.target, view.work, cuts, rounds=rounds) if draft.cores else None
    even = width * cut.pieces if cut is not None and cut.axis is product.columns else width
    if columns % even and not draft.take(PadTo, product.columns, even, "columns in whole vectors"):
        return False
    tile = f"a register tile of {shape.rows} rows of {shape.vectors} vectors"
    is_outside = product.columns.order < product.rows.order
    lanes = Lanes if is_outside else Upcast
    if not draft.take(lanes, product.columns, width, tile):
        return False
    if cut is not None and cut.axis is product.rows and draft.has_pieces(product.rows):
        blocks = -(-blocks // cut.pieces) * cut.pieces  # a block of rows is a piece, or part of one
    each = -(-again // blocks)
    whole = shape.rows * (each * blocks if blocks > 1 or draft.has_pieces(product.rows) else 1)
    if rows % whole:
        beyond = PadTo if scattered else Overrun  # what is copied has its gates there
        draft.take(beyond, product.rows, whole, "rows in whole tiles")
    if shape.rows > 1:
        draft.take(Upcast, product.rows, shape.rows, tile)
    if scattered and blocks > 1 and each > 1:
        draft.take(Split, product.rows, each, "the rows of a block lie in the second cache")
    if cut is not None:
        draft.take(Thread, cut.axis, cut.pieces, "equal work for the cores, little of it twice")
    draft.cores = False  # what they share is decided
    if rest is not None and division.rest is not None:
        _sums_in_lanes(draft, rest, division.rest)
    outside_columns = _columns_outside(draft, product)
    if length < along:
        near = "rows are walked from end to end" if walked else "a panel stays in the second cache"
        draft.block(product.along, length, near)
    around = _loops_around(draft, product.rows)
    if not around:  # a tile has all rows
        return True
    *outside, loop = around
    panel = draft.outermost(product.columns) if outside_columns else _last(outside)
    if staged:
        draft.stage(product.right, panel, "a panel that all rows read lies together")
    if rest is not None and outside_columns:
        batches = [each for batch in rest.batches for each in draft.loops(batch)[:1]]
        home = max(batches, key=lambda r: r.order, default=None)
        draft.stage(product.right, home, "the last columns, along what is summed up")
    if scattered:
        home = _last(_loops_around(draft, product.columns, first=True)[:-1]) if outside_columns else panel
        draft.stage(product.left, home, "what a tile reads lies together")
    elif converted[1]:
        draft.stage(product.left, loop, "rows are converted once, not for every column")
    return True


def _divide(target: Target, view: Nest, product: MatrixProduct, *, whole: bool = False) -> Division | None:
    """The columns in tiles of whole vectors, and (unless they are to be a whole) those that are better summed up in lanes."""
    rows, columns, along = product.sizes
    pitch = (view.stride(product.left, product.rows) or 1) * product.left.dtype.itemsize
    panel = min(columns, MOST_LANES) * along * view.reductions[0].dtype.itemsize
    # (what is summed up is not taken in blocks where the last columns are apart)
    fits = panel <= _panel_bytes(target) and view.stride(product.left, product.along) == 1
    after = _follows(view, along)
    return best_division(
        target, rows, columns, along if fits and not whole else 0, product.lanes, pitch, after
    )


def _follows(view: Nest, terms: int) -> float:
    """The operations that follow each sum, for each of its terms; none where that is little."""
    values = (store.src[1] for store in stores_in(view.sink))
    nodes = reached(values, lambda n: () if n.op is Ops.REDUCE or n.dtype.is_index else n.src)
    after = sum(weight(n.op) for n in nodes if n.op in ALU) / max(terms, 1)
    return after if after >= _MUCH else 0.0


def _peel(draft: Draft, product: MatrixProduct, division: Division) -> list[MatrixProduct]:
    """The product of the first columns, and that of the last; if they cannot be told apart, that of all."""
    several = division.columns > division.tile.vectors * product.lanes
    if several and product.rows.order < product.columns.order:
        # a panel is read by all rows before the next: the last columns have loops over rows of their own
        draft.swap(product.rows, product.columns, "all rows read a panel")
        product = find_product(Nest.of(draft.sink), draft.target) or product
    reason = "whole vectors of columns; the others are sums in lanes"
    if not draft.take(Peel, product.columns, division.columns, reason):
        return [product]
    view = Nest.of(draft.sink)
    return [_part(view, product, part) for part in ("first", "last")]


def _part(view: Nest, product: MatrixProduct, part: str) -> MatrixProduct:
    """A product in terms of the loops that are one part's own."""
    axes = {name_of(r): r for r in axes_of(view.sink)}

    def own(r: UOp) -> UOp:
        own = f"{name_of(r)}.{part}"
        return axes[own if own in axes else name_of(r)]

    rows, columns, along = map(own, (product.rows, product.columns, product.along))
    (total,) = (node for node in view.reductions if along in node.src[1:])
    left, right = sorted(view.reads_of(total), key=lambda place: columns in place.ranges)
    return replace(product, rows=rows, columns=columns, along=along, left=left, right=right)


def _sums_in_lanes(draft: Draft, rest: MatrixProduct, shape: Shape, *, turned: bool = False) -> bool:
    """The last columns: several sums of several rows at once, lanes along what is summed up, also of a right operand that is `turned` so."""
    tile = f"{shape.rows} rows of {shape.vectors} sums in lanes"
    for axis, amount in ((rest.rows, shape.rows), (rest.columns, shape.vectors)):
        # (rows of one panel have their tile already)
        size = 0 if axis in draft.upcast else draft.left(axis)
        if size % amount:
            draft.take(Overrun, axis, amount, tile)
        if size and amount > 1:
            draft.take(Upcast, axis, amount, tile)
    taken = take_lanes(draft, rest.along, Accumulators, rest.lanes, least=1)
    return not turned or (
        taken > 1 and draft.stage(rest.right, None, "columns that lie along what is summed up")
    )


def is_thin(view: Nest, target: Target) -> bool:
    """Whether a kernel is a product of so few rows that what is copied of the other operand is hardly used again."""
    product = find_product(view, target)
    division = None if product is None else _divide(target, view, product)
    return (
        product is not None
        and division is not None
        and size_of(product.rows) < target.panels.again * division.tile.rows
    )


def add_up(draft: Draft, view: Nest) -> bool:
    """A product both of whose operands lie along what is summed up, or can be made to: lanes are added up at the end of each sum.

    The left one is read as it is. So is the right one, or, if it has few columns, a copy in which it lies so.
    """
    product = find_product(view, draft.target)
    if product is None or view.stride(product.left, product.along) != 1:
        return False
    turned = view.stride(product.right, product.along) != 1
    if turned and (product.batches or size_of(product.columns) >= product.lanes):
        return False
    left, right = (
        (view.stride(place, axis) or 1) * place.dtype.itemsize
        for place, axis in ((product.left, product.rows), (product.right, product.columns))
    )
    right = size_of(product.along) * product.right.dtype.itemsize if turned else right
    shape = best_sums(draft.target, *product.sizes, product.lanes, (left, right))
    if shape is None or shape.rows * shape.vectors < 2:
        return False
    rows, columns, along = product.sizes
    if turned and rows < draft.target.panels.turned_again * shape.rows:
        return False
    copied = copying(draft.target, along * columns, turned=True) if turned else 0.0
    cuts = [
        *(CoreCut(batch, size_of(batch)) for batch in product.batches if size_of(batch)),
        *([] if turned else [CoreCut(product.columns, -(-columns // shape.vectors), is_free=True)]),
        CoreCut(product.rows, -(-rows // shape.rows), copied, is_free=True),
    ]
    cut = best_cut(draft.target, view.work, cuts) if draft.cores else None
    for axis, each in ((product.columns, shape.vectors), (product.rows, shape.rows)):
        if cut is not None and cut.axis is axis and size_of(axis) % (each * cut.pieces):
            draft.take(Overrun, axis, each * cut.pieces, "pieces of whole tiles")
    if not _sums_in_lanes(draft, product, shape, turned=turned):
        return False
    if cut is not None:
        draft.take(Thread, cut.axis, cut.pieces, "equal work for the cores, none of it twice")
        draft.cores = False  # what they share is decided
    if not turned:  # (of which all that there is is near)
        _columns_outside(draft, product)
    return True


def _columns_outside(draft: Draft, product: MatrixProduct) -> bool:
    """Let columns run around rows, so that all rows read a panel before the next; whether there is a loop over columns."""
    rows, columns = draft.innermost(product.rows), draft.outermost(product.columns)
    if rows is not None and columns is not None and rows.order < columns.order:
        draft.swap(rows, columns, "all rows read a panel")
    return columns is not None


def _loops_around(draft: Draft, axis: UOp, *, first: bool = False) -> list[UOp]:
    """The loops down to the last (or first) one that is left of an axis, outermost first; none if there is none of it."""
    loops = [r for r in axes_of(draft.sink) if kind_of(r) is AxisType.LOOP]
    wanted = draft.outermost(axis) if first else draft.innermost(axis)
    return [] if wanted is None else loops[: loops.index(wanted) + 1]


def _last(loops: Sequence[UOp]) -> UOp | None:
    return loops[-1] if loops else None


def _panel_bytes(target: Target) -> int:
    """What a panel may take, so that it stays in the second cache while all rows read it."""
    some, of_all = target.panels.part
    return target.caches[1] * some // of_all


def _block_length(
    draft: Draft, view: Nest, product: MatrixProduct, width: int, again: int, *, scattered: bool
) -> int:
    """How much of the reduction one pass over the output does: all, unless a panel is too large for the second cache."""
    along, size = size_of(product.along), view.reductions[0].dtype.itemsize
    panels, longest = draft.target.panels, _panel_bytes(draft.target) // (width * size)
    written = prod(size_of(axis) for axis in view.outputs) * size
    short = -(-longest // 2) if written <= draft.target.caches[-1] else longest  # once more costs little
    if scattered:  # a block of many rows has to fit as well
        short = longest = min(longest, draft.target.local_bytes // 2 // (panels.block_rows * size))
    if again <= panels.few_rows and size_of(product.columns) > width:
        short = longest = min(longest, max(panels.walked, panels.steps * again))
    if along <= longest or not _is_bare(view, product):
        return along
    return next((n for n in range(short, short // 4, -1) if along % n == 0), along)


def _blocks(draft: Draft, tiles: int, tile: int, panel: int) -> int:
    """In how many blocks of rows an operand is copied, so that one fits beside a panel (all in bytes)."""
    room = (draft.target.local_bytes - panel) * _ROOM[0] // _ROOM[1]
    return min(tiles, max(1, -(-tiles * tile // max(room, tile))))


def _is_bare(view: Nest, product: MatrixProduct) -> bool:
    """Whether what follows the sum is little, and reads nothing element by element, and there is one result to keep it in.

    Every pass computes it; and what is read may lie where the sum is kept in between.
    """
    if len(view.writes) != 1:
        return False
    (total,) = view.reductions
    inside = set(total.toposort())
    after = [node for node in view.sink.toposort() if node not in inside and node.op in ALU]
    reads = [place for place in view.reads if place not in inside]
    each = any({product.rows, product.columns} <= place.ranges for place in reads)
    return not each and sum(not node.dtype.is_index for node in after) <= _LITTLE
