"""`peel(j, 48)`: the last elements of an output axis get a loop of their own, after that over the others.

Why: 49 columns are three vectors and one column. In whole vectors they would be four, and a quarter of the work would be for
nothing; each part by itself gets the schedule that fits it (the last column has its lanes along what is summed up).

Before → after::

    END(STORE(c[i, j], REDUCE(f(i, j, k), k)), i, j)         j < 49
        END(STORE(c[i, j], REDUCE(f(i, j, k), k)), i, j),  END(STORE(c[i, l + 48], REDUCE(f(i, l + 48, m), m)), i, l)     j < 48, l < 1

Loops outside of the axis are shared by both parts, those inside of it, and what is reduced, are each part's own: `k.first` and `k.last`. Nothing is computed
twice: what does not depend on the axis and is a loop by itself forbids the cut.
"""

from __future__ import annotations

from typing import Final, cast

from planish.actions.base import OneAxis
from planish.target import Target
from planish.uop.nest import LOOP_VALUES, SEQUENTIAL, closed_by, constant_size
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import FIRST_RANGE, Axis, AxisType, Ops
from planish.uop.ranges import kind_of
from planish.uop.rewrite import substitute

_FIRST: Final = 2
"""The number of an axis' part that is called `first`; the next is called `last`."""


class Peel(OneAxis):
    """Two loops over an axis, one after the other."""

    word = "peel"
    does = "make two loops of an output axis, one after the other"
    takes = frozenset({AxisType.LOOP})
    sized = "start"
    start: int
    """Where the second begins."""

    def apply(self, sink: UOp, target: Target) -> UOp:
        r, start = self.own_axis(sink), self.start
        facts, size = Nest.of(sink), constant_size(r)
        if size is None or not 0 < start < size:
            raise self.no(f"{start} is no element inside of an axis of {r.vmax + 1}")
        ends = [end for end in facts.outer_ends if r in closed_by(end)]
        if set(facts.closers[r]) != set(ends) or any(end.op is not Ops.END for end in ends):
            raise self.no("the axis is reduced or kept: there is more than what is stored of it")
        if r in facts.ordered or facts.is_bound(r) or any(n.op is Ops.AFTER for n in facts.nodes):
            raise self.no("the order of the axis matters")
        if any(n.op in LOOP_VALUES and r not in n.ranges for n in facts.nodes):
            raise self.no("what does not depend on the axis would be computed for both parts")
        loops: list[UOp] = []
        for end in reversed(facts.outer_ends):
            loops += [_part(end, r, number, start) for number in (0, 1)] if end in ends else [end]
        return sink.replace(src=tuple(loops))


def _part(end: UOp, r: UOp, number: int, start: int) -> UOp:
    """One part of a loop nest, with its own inner loops."""
    size, own_name = (start, r.vmax + 1 - start)[number], cast("Axis", r.arg).part(_FIRST + number)
    new = r.table.range(size, own_name)
    here = new + start if number else new
    inner = {
        s
        for node in end.toposort()
        if node.op in FIRST_RANGE
        for s in closed_by(node)
        if s is not r and kind_of(s) in SEQUENTIAL and (node is not end or s.order > r.order)
    }
    own = {s: s.replace(arg=cast("Axis", s.arg).part(_FIRST + number)) for s in inner}
    body, *ranges = end.src
    body = substitute(body, {r: here, **own})
    return end.replace(src=(body, *(new if s is r else own.get(s, s) for s in ranges)))
