"""`stagger(k.outer, j.outer)`: what a sum begins with is another term in every iteration of an outer loop; what is before that comes last.

Blocks that start together go through the same terms at the same time, and those that share an operand all want the same few lines of
the second cache, which gives a line to one after the other. Each a step further on, they want different ones.

Before → after (n terms)::

    REDUCE[ADD](x(j, k), k)                  REDUCE[ADD](x(j, (k + j) % n), k)

Terms are added up in another order, as they are when threads share a sum; the same one every time.
"""

from __future__ import annotations

from planish.actions.base import Action, AxisName
from planish.target import Target
from planish.uop.nest import OUTPUT, SEQUENTIAL, closed_by, size_of
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import AxisType, Ops
from planish.uop.ranges import kind_of
from planish.uop.rewrite import substitute


class Stagger(Action):
    """A sum that begins elsewhere in every iteration of another loop."""

    word = "stagger"
    does = "begin a sum with another term in every iteration of an outer loop"
    takes = frozenset({AxisType.REDUCE})
    axis: AxisName
    by: AxisName

    def apply(self, sink: UOp, target: Target) -> UOp:
        axis, by = self.axis_of(sink, self.axis), self.axis_of(sink, self.by)
        facts = Nest.of(sink)
        if kind_of(axis) is not AxisType.REDUCE or not size_of(axis):
            raise self.no(f"axis {self.axis} is no sum of a known length")
        if kind_of(by) not in OUTPUT & SEQUENTIAL:
            raise self.no(f"axis {self.by} is {kind_of(by).name}, not a loop around the sum")
        if axis in facts.ordered:
            raise self.no(f"the order of axis {self.axis} matters: {facts.ordered[axis]}")
        if facts.is_bound(axis):
            raise self.no(f"the length of another loop depends on axis {self.axis}")
        sums = [n for n in facts.nodes if axis in closed_by(n)]
        if any(n.op is not Ops.REDUCE or by not in n.ranges for n in sums):
            raise self.no(f"what is summed over {self.axis} is the same for all of {self.by}, or no sum")
        moved = (axis + by) % size_of(axis)
        return substitute(
            sink, {n: n.replace(src=(substitute(n.src[0], {axis: moved}), *n.src[1:])) for n in sums}
        )
