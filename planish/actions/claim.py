"""`claim(i, 512)`: the rows that data chooses are shared out among 512 blocks; each goes through all of `i`, and stores to its own rows.

What is added up at places that data decides has an order, and one loop keeps it. Places whose rows differ never meet: a block that
claims every 512th row, and goes through the list for them, keeps the order of each row. It reads the list whole, and of everything
else only what it adds up. The result is the same number every time, without atomic sums.

Before → after (`i.outer` < 512, a block; `i.inner` as long as `i` was)::

    for i:   y[idx[i]] += x[i]           for i.inner:   y[idx[i.inner]] += x[i.inner]     where idx[i.inner] % 512 == i.outer

Of single elements there is nothing for threads to share but the list. With `voters=32` a block is a warp that goes through it together: the first
thread stands for all of them, and `llir/leading.py` finds that any of them may take its place for an entry. One block may then do for all rows.
"""

from __future__ import annotations

from functools import reduce as fold_left
from typing import cast

from planish.actions.base import OneAxis
from planish.target import Target
from planish.uop.laws import memory_of
from planish.uop.nest import OUTPUT, closed_by, plain_index
from planish.uop.nest.access import is_global
from planish.uop.nest.kernel import Nest
from planish.uop.nest.memory import threads_of
from planish.uop.node import UOp
from planish.uop.ops import NUMBERED, Axis, AxisType, Ops
from planish.uop.reached import joined_by
from planish.uop.rewrite import substitute
from planish.uop.symbolic import simplify


def _is_read(node: UOp) -> bool:
    return any(n.op is Ops.INDEX for n in node.toposort())


class Claim(OneAxis):
    """Blocks that each store to rows of their own."""

    word = "claim"
    does = "share out the rows that data chooses among blocks, each of which goes through the whole axis"
    takes = OUTPUT
    sized = "blocks"
    blocks: int
    voters: int = 0
    """Threads that go through the list together, where a row is one element: a warp, or none."""

    def apply(self, sink: UOp, target: Target) -> UOp:
        r = self.own_axis(sink)
        if not target.block:
            raise self.no(f"{target.name} has no blocks")
        facts = Nest.of(sink)
        if facts.is_bound(r):
            raise self.no(f"the length of another loop depends on axis {self.axis}")
        if self.voters and (self.voters != target.warp or threads_of(sink) > 1):
            raise self.no(f"{self.voters} threads are no warp that goes through a list alone")
        stores = [n for n in facts.nodes if n.op is Ops.STORE]
        if len(stores) != 1 or not is_global(memory_of(stores[0].src[0])):
            raise self.no("only one store to memory is shared out")
        place = stores[0].src[0]
        axis = cast("Axis", r.arg)
        new, mine = list[UOp](), list[UOp]()
        if self.blocks != 1 or not self.voters:
            new.append(r.replace(src=(r.table.const(self.blocks),), arg=axis.part(0)))
            mine.append((self.row(place, r) % self.blocks).eq(new[0]))
        if self.voters:
            voter = r.table.range(self.voters, axis.part(NUMBERED, AxisType.LOCAL))
            new.append(voter)
            mine.append(voter < 1)
        own = fold_left(lambda p, q: p & q, mine)
        decided = place.toposort()
        gated = [
            n
            for n in stores[0].toposort()
            if n.op is Ops.INDEX
            and (n is place or (n not in decided and is_global(memory_of(n)) and r in n.ranges))
        ]
        sink = substitute(sink, {n: self.gated(n, own) for n in gated})
        sink = substitute(sink, {r: r.replace(arg=axis.part(1))})
        whole = r.replace(arg=axis.part(1))
        ends = {
            n: n.replace(src=(*n.src, *new))
            for n in sink.toposort()
            if n.op is Ops.END and whole in closed_by(n)
        }
        return substitute(sink, ends)

    def row(self, place: UOp, r: UOp) -> UOp:
        """The row of a place that data along the axis chooses."""
        index = plain_index(place)
        if index is None or len(place.src) != 2:
            raise self.no("it is not known where is stored")
        chosen = [term for term in joined_by(Ops.ADD, index) if _is_read(term)]
        mine = [term for term in chosen if r in term.ranges]
        if len(mine) != 1:
            raise self.no(f"no row is chosen by data along axis {self.axis}")
        (row,), pitch = mine, 1
        if row.op is Ops.MUL and row.src[1].op is Ops.CONST:
            row, pitch = row.src[0], cast("int", row.src[1].arg)
        if len(chosen) > 1 and simplify(index // pitch) is not simplify(row):
            raise self.no(
                f"what data along other axes chooses is not a part of the row that axis {self.axis} chooses"
            )
        if row.vmin < 0 or not 1 < self.blocks <= row.vmax + 1:
            raise self.no(f"{self.blocks} blocks for {row.vmax + 1} rows")
        return row

    def gated(self, place: UOp, mine: UOp) -> UOp:
        """A place that is nowhere for the other blocks."""
        memory, index = place.src[:2]
        nowhere = index.table.invalid(index.dtype)
        if index.op is Ops.WHERE and index.src[2].op is Ops.INVALID:
            mine, index = index.src[0] & mine, index.src[1]
        return place.replace(src=(memory, mine.where(index, nowhere)))
