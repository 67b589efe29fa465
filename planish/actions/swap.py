"""`swap(i, j)`: two axes of one kind change places in the order of loops. They keep their names."""

from __future__ import annotations

from typing import cast

from planish.actions.base import Action, AxisName
from planish.target import Target
from planish.uop.nest import LANES, LOOP_VALUES, OUTPUT
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import Axis, AxisType, Ops
from planish.uop.ranges import kind_of
from planish.uop.rewrite import substitute


class Swap(Action):
    """Two loops in each other's place."""

    word = "swap"
    does = "exchange two axes of one kind in the order of loops"
    takes = OUTPUT | {AxisType.REDUCE}
    a: AxisName
    b: AxisName

    def apply(self, sink: UOp, target: Target) -> UOp:
        a, b = self.axis_of(sink, self.a), self.axis_of(sink, self.b)
        if a is b:
            raise self.no(f"{self.a} and {self.b} are one axis")
        if kind_of(a) is not kind_of(b):
            raise self.no(f"axes {self.a} and {self.b} are {kind_of(a).name} and {kind_of(b).name}")
        if kind_of(a) in LANES:
            raise self.no("lanes have no order")
        facts = Nest.of(sink)
        if a in facts.ordered and b in facts.ordered:
            raise self.no(f"the order of both axes matters: {facts.ordered[a]}")
        outer, inner = sorted((a, b), key=lambda r: r.order)
        for node in facts.nodes:
            closes = node.op in LOOP_VALUES and not (target.grid and _is_copied(node))
            if closes and outer in node.ranges and inner not in node.ranges:
                raise self.no("a loop that depends on one of the axes only would run more often")
            if node.op is Ops.RANGE and not node.src[0].ranges.isdisjoint((a, b)):
                raise self.no("the length of another loop depends on one of the axes")
        first, second = cast("Axis", a.arg), cast("Axis", b.arg)
        return substitute(
            sink, {a: a.replace(arg=first.moved(second.path)), b: b.replace(arg=second.moved(first.path))}
        )


def _is_copied(node: UOp) -> bool:
    """Whether it keeps what is computed of single elements: every block of a grid does so for itself, in whatever order blocks begin."""
    return node.op is Ops.BUFFERIZE and not any(
        each.op in {Ops.REDUCE, Ops.SCAN, Ops.WMMA} for each in node.src[0].toposort()
    )
