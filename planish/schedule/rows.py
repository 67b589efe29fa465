"""Rows that are kept: which axes of a tensor they run along, and which loop fills them.

A row depends on *held* ranges, and is stored for all values of the others. The first loop over it may fill it, if it runs over
whole rows and everybody else asks in a later loop; a loop of its own always may. Levels decide what is later: a loop depends
on loops of lower levels only, so a row filled at one level and read at higher ones closes no circle.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from planish.schedule.elements import COMPUTED, ElementPlace
from planish.schedule.limits import FEW_ROWS
from planish.schedule.loop_order import LoopOrder, Ranges
from planish.schedule.tensors import most
from planish.target import Target
from planish.uop.movement import flat_index
from planish.uop.nest import count
from planish.uop.nest.memory import local_bytes
from planish.uop.nest.order import is_row_major
from planish.uop.node import UOp
from planish.uop.ops import MOVEMENT, Ops
from planish.uop.shape import Dim, same_dim, shape
from planish.uop.symbolic import simplify

_PADDED: Final = (9, 8)
"""How much longer rows become where threads have equal shares of them."""


class Row(NamedTuple):
    """The axes of a tensor along which its rows run, and the ranges on which a row depends."""

    axes: tuple[int, ...]
    held: Ranges


class Rows:
    """The rows of tensors in the loops of one kernel."""

    def __init__(self, nest: LoopOrder, target: Target, made_again: Collection[UOp] = ()) -> None:
        self.nest = nest
        self.is_gpu = target.is_gpu
        self.block_elements = target.block_elements
        self.made_again = made_again
        """Tensors that every loop reads or computes for itself, since there is no room for their rows."""
        self.optional: dict[UOp, tuple[bool, int]] = {}
        """Rows that are kept and need not be: whether computing them again is more than reading, and their bytes."""
        self.local_bytes = target.local_bytes
        self.most = min(target.kept_bytes, target.local_bytes) if target.is_gpu else target.kept_bytes
        """Bytes of a row that is kept: a block of a GPU has no more than it has."""
        self.widest = target.block_registers if target.is_gpu else target.kept_bytes
        """Bytes of a row that was narrower when it was read: of a GPU, a quarter of a multiprocessor's registers."""

    def of(self, node: UOp, places: Sequence[ElementPlace]) -> Row | None:
        """The axes that differ from place to place, or lie in loops that the tensor does not depend on."""
        if node.dtype.is_index or any(place.valid is not None for place in places):
            return None
        first, dims = places[0].indices, shape(node)
        fixed = {
            axis for axis, index in enumerate(first) if all(place.indices[axis] is index for place in places)
        }
        while True:
            held = frozenset(r for axis in fixed for r in first[axis].ranges)
            astray = {axis for axis in fixed if not self.nest.closure(first[axis].ranges) <= held}
            if not astray:
                break
            fixed -= astray
        axes = tuple(axis for axis, dim in enumerate(dims) if axis not in fixed and not same_dim(dim, 1))
        size = most(dims[axis] for axis in axes) * node.dtype.itemsize
        if not axes or size > self.most or not self.nest.can_lead(held):
            return None
        return Row(axes, held)

    def may_keep(self, node: UOp, row: Row, *, computed: bool) -> bool:
        """Whether there is room for a row that could as well be read or computed again."""
        if node in self.made_again:
            return False
        self.optional[node] = computed, most(shape(node)[axis] for axis in row.axes) * node.dtype.itemsize
        return True

    def crowding(self, values: Iterable[UOp]) -> UOp | None:
        """The tensor that is best made again, where a block of a GPU has no room for all rows of a kernel: what is read, the longest first."""
        if not self.is_gpu or not self.optional:
            return None
        (first, *others) = values
        needed = local_bytes(first.table.sink(first, *others))
        if needed * _PADDED[0] <= self.local_bytes * _PADDED[1]:
            return None
        return min(self.optional, key=lambda node: (self.optional[node][0], -self.optional[node][1]))

    def is_wider_than_read(self, node: UOp, row: Row) -> bool:
        """Whether a long row is made of narrower elements: kept, it would leave no room for a second block. Those are kept as they are."""
        size = most(shape(node)[axis] for axis in row.axes) * node.dtype.itemsize
        if size <= self.widest:
            return False
        below = node
        while below.op in COMPUTED or below.op in MOVEMENT:
            below = max(below.src, key=lambda source: most(shape(source)))
            if below.dtype.itemsize < node.dtype.itemsize:
                return True
        return False

    def is_in_parts(self, row: Row, places: Sequence[ElementPlace]) -> bool:
        """Whether blocks of a GPU would each make a whole row and use a part of it: groups of a normalisation, parts of a sum."""
        outputs = self.nest.outputs
        return self.is_gpu and all(
            any(not outputs.isdisjoint(place.indices[axis].ranges) for axis in row.axes) for place in places
        )

    def may_lead(self, place: ElementPlace) -> bool:
        """Whether the loops around a place may be around all others of the result: on a GPU, not if a large result had few blocks then."""
        if place.valid is not None or not place.ranges <= self.nest.outputs:
            return False
        few = (
            self.is_gpu and count(place.ranges) < FEW_ROWS and count(self.nest.outputs) > self.block_elements
        )
        return not few and self.nest.can_lead(place.ranges)

    def filling(self, node: UOp, places: Sequence[ElementPlace], row: Row) -> ElementPlace | None:
        """The place of the first loop, if it runs over whole rows and all others are loops that come later."""
        dims = shape(node)
        candidates: list[tuple[int, ElementPlace]] = []
        levels = []
        for place in places:
            indices = [place.indices[axis] for axis in row.axes]
            ranges = frozenset(r for index in indices for r in index.ranges)
            level = self.nest.level_of(ranges)
            levels.append(level)
            plain = len(ranges) == len(indices) and all(
                spans(index, dims[axis]) for index, axis in zip(indices, row.axes, strict=True)
            )
            if (
                plain
                and ranges.isdisjoint(self.nest.outputs)
                and self.nest.closure(ranges) == ranges | row.held
            ):
                candidates.append((level, place))
        if not candidates:
            return None
        level, place = min(candidates, key=lambda each: each[0])
        return place if sum(each <= level for each in levels) == 1 else None

    def own_loop(self, node: UOp, place: ElementPlace, row: Row, level: int) -> ElementPlace:
        """The place of a new loop over whole rows."""
        dims = shape(node)
        ranges = iter(self.nest.fresh(level, row.held, [dims[axis] for axis in row.axes]))
        return ElementPlace(
            tuple(next(ranges) if axis in row.axes else index for axis, index in enumerate(place.indices))
        )


def spans(index: UOp, dim: Dim) -> bool:
    """Whether an index is a range over all of a dim."""
    if index.op is not Ops.RANGE:
        return False
    bound = index.src[0]
    return bound.op is Ops.CONST and bound.arg == dim if isinstance(dim, int) else bound is dim


def is_each_once(place: ElementPlace, node: UOp, may_be_cut: bool) -> bool:
    """Whether the ranges of a place are the axes of a tensor; or, if axes `may_be_cut`, number its elements in some order."""
    ranges = [index for index in place.indices if index.op is not Ops.CONST]
    dims = [dim for dim in shape(node) if not same_dim(dim, 1)]
    if len(set(ranges)) == len(ranges) == len(dims) and all(map(spans, ranges, dims)):
        return True
    number = simplify(flat_index(shape(node), place.indices, node.table)) if may_be_cut else None
    return number is not None and count(place.ranges) == most(shape(node)) and is_row_major(number)
