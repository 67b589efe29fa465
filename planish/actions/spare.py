"""`spare(8)`: a further output axis, of which the first element alone is read and stored: one row, where a tensor core does eight.

A core multiplies matrices; a vector is one whose other rows are nothing. What is read of the vector (a factor that no output axis
has a part in) is nothing beyond the first row, so that nothing is loaded for the others.

Before → after::

    y[i] = REDUCE[ADD](x[k] * w[i, k], k)        r = RANGE(8); y[i if r < 1] = REDUCE[ADD](x[k if r < 1] * w[i, k], k)
"""

from __future__ import annotations

from typing import Final

from planish.actions.base import Action, fitting
from planish.actions.padding import gated
from planish.target import Target
from planish.uop.laws import memory_of
from planish.uop.nest import OF_MANY_ELEMENTS, OUTPUT, next_root
from planish.uop.node import UOp
from planish.uop.ops import AxisType, Ops
from planish.uop.ranges import kind_of

_MOST: Final = 64
_BEYOND_SUMS: Final = OF_MANY_ELEMENTS - {Ops.REDUCE}


class Spare(Action):
    """One row as the first of several."""

    word = "spare"
    does = "make one row the first of several, of which the others are nothing"
    rows: int

    def apply(self, sink: UOp, target: Target) -> UOp:
        nodes = sink.toposort()
        stores = [n for n in nodes if n.op is Ops.STORE]
        ends = [n for n in nodes if n.op is Ops.END and n.src[0] in stores]
        sums = [n for n in nodes if n.op is Ops.REDUCE]
        if not 1 < self.rows <= _MOST:
            raise self.no(f"{self.rows} rows: from 2 to {_MOST}")
        if len(stores) != 1 or len(ends) != 1 or len(sums) != 1 or any(n.op in _BEYOND_SUMS for n in nodes):
            raise self.no("the kernel is not one sum, stored once")
        written = {memory_of(each.src[0]) for each in stores}
        read = [
            n
            for n in sums[0].src[0].toposort()
            if n.op is Ops.INDEX and n.ranges and not any(kind_of(r) in OUTPUT for r in n.ranges)
        ]
        if not read or any(memory_of(n) in written for n in read):
            raise self.no("no factor of the sum is the same for all outputs")
        row = sink.table.range(self.rows, next_root(nodes), AxisType.LOOP)
        return fitting(sink, _with(sink, row, read), self, target)


def _with(sink: UOp, row: UOp, read: list[UOp]) -> UOp:
    """The kernel with a further axis, beyond whose first element these places are nowhere, and nothing is stored."""
    first, final = row < 1, dict[UOp, UOp]()
    for node in sink.toposort():
        src = tuple([final[source] for source in node.src])
        rebuilt = node if src == node.src else node.replace(src=src)
        if node in read:
            rebuilt = gated(rebuilt, first)
        elif node.op is Ops.STORE:
            rebuilt = rebuilt.replace(src=(gated(rebuilt.src[0], first), *rebuilt.src[1:]))
        elif node.op is Ops.END:
            rebuilt = rebuilt.replace(src=(*rebuilt.src, row))
        final[node] = rebuilt
    return final[sink]
