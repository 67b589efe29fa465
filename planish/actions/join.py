"""`join(i, j)`: one loop instead of two, which takes the values of both in order; it is called `i`.

A core multiplies one axis of rows by one of columns and adds up one axis. The rows of a convolution are pixels of several images, its
sums run over taps and channels: joined, they are one axis each, and which pixel, tap or channel a value stands for is a quotient or
remainder in the index of whatever is read there.

Before → after::

    REDUCE(x[(i + r)*C + c] * w[r*C + c], r, c)        REDUCE(x[(i + k // C)*C + k % C] * w[k], k)        k < R*C

Unlike stage 5, which joins what costs no division, it asks for nothing but that both loops are closed together and that nothing runs
inside of one of them alone.
"""

from __future__ import annotations

from planish.actions.base import Action, AxisName
from planish.target import Target
from planish.uop.kernel_algebra import kernel_sym
from planish.uop.nest import LOOP_VALUES, OUTPUT, name_of, size_of
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import AxisType
from planish.uop.ranges import kind_of
from planish.uop.rewrite import rewrite, substitute


class Join(Action):
    """Two loops as one."""

    word = "join"
    does = "make one loop of two"
    takes = OUTPUT | {AxisType.REDUCE}
    a: AxisName
    b: AxisName

    def apply(self, sink: UOp, target: Target) -> UOp:
        outer, inner = self.axis_of(sink, self.a), self.axis_of(sink, self.b)
        if outer is inner or kind_of(outer) is not kind_of(inner) or kind_of(outer) not in self.takes:
            raise self.no(f"axes {self.a} and {self.b} are {kind_of(outer).name} and {kind_of(inner).name}")
        facts = Nest.of(sink)
        for r in (outer, inner):
            if not size_of(r):
                raise self.no(f"the size of axis {name_of(r)} is not known")
            if r in facts.ordered:
                raise self.no(f"the order of axis {name_of(r)} matters: {facts.ordered[r]}")
            if facts.is_bound(r):
                raise self.no(f"the length of another loop depends on axis {name_of(r)}")
        if set(facts.closers.get(outer, ())) != set(facts.closers.get(inner, ())):
            raise self.no(f"axes {self.a} and {self.b} do not end together")
        if any(n.op in LOOP_VALUES and (outer in n.ranges) is not (inner in n.ranges) for n in facts.nodes):
            raise self.no("a loop that depends on one of the axes only would run more often")
        size = size_of(inner)
        both = outer.replace(src=(outer.table.const(size_of(outer) * size),))
        return rewrite(substitute(sink, {outer: both // size, inner: both % size}), kernel_sym)
