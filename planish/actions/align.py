"""`align(i, 16)`: an axis starts where its elements start a vector in the memory that they are written to.

Rows of 1000 elements start anywhere in a line, and what is stored in vectors from there straddles lines, all along the row. So the axis
starts up to a vector earlier, at a multiple, and nothing happens before its beginning, as with `pad_to` nothing does beyond its end.

Before → after::

    STORE(c[1000*i + r], x[r]) for r < 1000     s = 1000*i % 16; STORE(c[1000*i + t - s], x[t - s]) for t < 1024 where 0 <= t - s < 1000
"""

from __future__ import annotations

from planish.actions.base import OneAxis
from planish.actions.padding import MOST_PADDING, gated
from planish.target import Target
from planish.uop.nest import OUTPUT, closed_by
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.rewrite import substitute
from planish.uop.strides import stride
from planish.uop.symbolic import simplify


class Align(OneAxis):
    """An axis that starts where a vector starts."""

    word = "align"
    does = "start an axis up to a multiple earlier, where what it writes starts one, doing nothing outside its bounds"
    takes = OUTPUT
    sized = "multiple"
    multiple: int

    def apply(self, sink: UOp, target: Target) -> UOp:
        r, size = self.own_axis(sink), self.own_axis(sink).vmax + 1
        if self.multiple < 2:
            raise self.no(f"{self.multiple} is no number to be a multiple of")
        if size + 2 * self.multiple >= MOST_PADDING * size:
            raise self.no(f"{self.multiple} makes axis {self.axis} of {size} too long")
        self.check_order(Nest.of(sink), r)
        return _aligned(self, sink, r)


def _aligned(action: Align, sink: UOp, r: UOp) -> UOp:
    """The kernel with an output axis that starts at a multiple, in elements of what is written along it."""
    size, multiple = r.src[0], action.multiple
    if size.op is not Ops.CONST:
        raise action.no("the size of the axis is not known")
    nodes = sink.toposort()
    if any(node.op is Ops.SCAN and r in node.ranges for node in nodes):
        raise action.no("a SCAN keeps what it has found by the places of the axis, which move")
    before = _start(action, nodes, r)
    longer = r.replace(src=(simplify((size + (2 * multiple - 2)) // multiple * multiple), *r.src[1:]))
    moved = longer - before
    condition = (before < longer + 1) & (moved < size)
    final: dict[UOp, UOp] = {}
    for node in nodes:
        if node is r:
            final[node] = moved
            continue
        src = tuple([final[source] for source in node.src])
        if r in closed_by(node):
            if node.op is not Ops.END:
                raise action.no("the axis is reduced or kept")
            src = tuple([longer if source is r else final[source] for source in node.src])
        rebuilt = node if src == node.src else node.replace(src=src)
        if node.op is Ops.INDEX and any(r in index.ranges for index in node.src[1:]):
            rebuilt = gated(rebuilt, condition)
        elif node.op is Ops.STORE and r in node.ranges and r not in node.src[0].ranges:
            rebuilt = rebuilt.replace(src=(gated(rebuilt.src[0], condition), *rebuilt.src[1:]))
        final[node] = rebuilt
    return final[sink]


def _start(action: Align, nodes: list[UOp], r: UOp) -> UOp:
    """How far behind a multiple the elements along an axis start where they are written."""
    starts: dict[UOp, None] = {}
    for node in nodes:
        if node.op is Ops.STORE and r in node.src[0].ranges:
            indices = node.src[0].src[1:]
            if len(indices) != 1 or stride(indices[0], r) != 1:
                raise action.no("what is written along the axis does not lie side by side")
            starts[simplify(substitute(indices[0], {r: r.table.const(0)}) % action.multiple)] = None
    if len(starts) != 1:
        raise action.no("what is written along the axis does not start together")
    (start,) = starts
    if start.op is Ops.CONST and start.arg == 0:
        raise action.no(f"the axis starts at a multiple of {action.multiple}")
    return start
