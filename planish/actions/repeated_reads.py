"""Reads of which several axes are the same element: the halves of a byte, each read under a condition of its own.

A tile has such an element once. The axes that it is the same along have no part in where it lies, and conditions on them decide, for whoever
reads the tile, which of the reads is meant; what is copied is copied under the other conditions alone.

Before → after (h: the half of a byte)::

    where(h < 1, w[r if h < 1] & 15, w[r if h ≥ 1] >> 4)
    where(h < 1, where(h < 1, t[r], 0) & 15, where(h ≥ 1, t[r], 0) >> 4),  t = BUFFERIZE(w[r], r)
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from planish.actions.padding import gated
from planish.actions.shared_tiles import SharedTile
from planish.records import dataclass
from planish.uop.nest import without_gate
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.reached import joined_by
from planish.uop.rewrite import substitute
from planish.uop.symbolic import simplify


@dataclass(frozen=True, slots=True)
class ReadOnce:
    """A read, and the tile that has each of its elements once."""

    tile: SharedTile
    bare: UOp
    """The read without the conditions on axes that it is the same element along."""
    single: UOp
    """The same at the beginning of these axes."""
    conditions: tuple[UOp, ...]

    def under_conditions(self, value: UOp) -> UOp:
        """What is read of the tile, where these conditions hold; elsewhere what a read of nothing is."""
        for condition in self.conditions:
            value = condition.where(value, value.const_like(value.dtype.const(0)))
        return value


def read_once(read: UOp, axes: Sequence[UOp], *, turned: bool, swizzle: int, pad: int) -> ReadOnce | None:
    """The tile of a read along some axes; None if it is no box, or conditions are on axes that are the same element in part only."""
    tile = SharedTile.of(read, axes, turned=turned, swizzle=swizzle, pad=pad, repeated=True)
    if tile is None:
        return None
    sizes: dict[UOp, int] = {}
    for digit in (digit for dim in tile.dims for digit in dim.digits):
        sizes[digit.axis] = sizes.get(digit.axis, 1) * digit.size
    same = [axis for axis in axes if axis not in sizes]
    apart = _apart(read, same, [axis for axis in sizes if sizes[axis] != axis.vmax + 1])
    if apart is None:
        return None
    bare, conditions = apart
    return ReadOnce(tile, bare, substitute(bare, {axis: bare.table.const(0) for axis in same}), conditions)


def _apart(read: UOp, same: Collection[UOp], in_part: Collection[UOp]) -> tuple[UOp, tuple[UOp, ...]] | None:
    """A read without its conditions on some axes, and these; None if one is on others as well, or on those that count in part."""
    index = read.src[1]
    inside, conditions, kept = without_gate(index), list(read.src[2:]), list[UOp]()
    while index is not inside:
        conditions.append(index.src[0])
        index = index.src[1]
    removed: list[UOp] = []
    for condition in joined_by(Ops.AND, *conditions):
        leaves = {n for n in condition.toposort() if n.op is Ops.RANGE or n.op is Ops.UNROLL}
        if not leaves.isdisjoint(in_part):
            return None
        elif leaves.isdisjoint(same):
            kept.append(condition)
        elif leaves <= set(same):
            removed.append(condition)
        else:
            return None
    bare = read.replace(src=(read.src[0], simplify(inside)))
    for condition in kept:
        bare = gated(bare, condition)
    return bare, tuple(removed)
