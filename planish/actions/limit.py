"""`limit(k, 32)`: a softmax over masked rows does not look at what the mask hides from all lanes.

A causal mask hides from row i all columns after i. Sixteen rows in lanes look at columns up to that of the last of them, and
beyond there is nothing to compute: the terms of the maximum are -inf, which is neutral, and the exponentials are

    exp(-inf - m) = 0      for any maximum m but NaN and -inf, for which they are NaN.

In the latter case the exponential of a column that is looked at is NaN, too (s - NaN, or -inf - -inf), so the sum of the row and
everything made of it is NaN either way: nobody can tell that the others were taken for 0. What is multiplied by these zeros is not
forgotten: 0 * inf and 0 * NaN are NaN, and a value that is not finite shows in the result as the program says it does. Passes of `hold`
that have nothing but zeros for weights are left out all the same (`leftovers.py`).

Before → after (columns j < n, in steps of g; b = the last column that any lane sees, rounded up to a step)::

    s = BUFFERIZE(where(j <= i, x(j), -inf), j),  m = REDUCE[MAX](the same, j)      j < n        j < b
    e = BUFFERIZE(exp(s[k] - m), k),  l = REDUCE[ADD](the same, k)                  k < n        k < b
    e[t]                                                                            e[t]         where(t < b, e[t], 0)

The bound is an expression of the loops around. Beyond it neither row is written, and neither is read but to be left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import ClassVar

from planish import dtypes
from planish.actions.base import OneAxis, fitting
from planish.actions.leftovers import added, passes_over
from planish.actions.legality import Facts
from planish.target import Target
from planish.uop.nest import LANES, SEQUENTIAL, plain_index
from planish.uop.node import UOp
from planish.uop.ops import AxisType, Ops
from planish.uop.ranges import kind_of
from planish.uop.rewrite import substitute
from planish.uop.strides import stride
from planish.uop.symbolic import simplify


@dataclass(frozen=True, slots=True)
class Limit(OneAxis):
    """Masked rows that end where the mask hides the rest."""

    word: ClassVar = "limit"
    does: ClassVar = "do not look at the part of masked rows that the mask hides from all lanes"
    takes: ClassVar = frozenset({AxisType.REDUCE})
    sized: ClassVar = "step"
    divides: ClassVar = True
    step: int
    """Rows end after a multiple of so many columns."""

    def apply(self, sink: UOp, target: Target) -> UOp:
        r = self.found(sink)
        if r.src[0].op is not Ops.CONST or self.step < 1:
            raise self.no(f"the size of axis {self.axis} is not known")
        return fitting(sink, self.limited(sink, r, target.lanes(dtypes.float32)), self, target)

    def limited(self, sink: UOp, r: UOp, lanes: int) -> UOp:
        """The kernel with the loops over masked rows cut short; `lanes` make a vector."""
        step = self.step
        facts = Facts(sink)
        closing = facts.closers.get(r, [])
        tops = [n for n in closing if n.op is Ops.REDUCE and n.arg is Ops.MAX]
        kept = [n for n in closing if n.op is Ops.BUFFERIZE]
        if len(tops) != 1 or len(kept) != 1 or len(closing) != 2 or facts.is_bound(r):
            raise self.no("the axis is not that of a maximum over a row that is kept")
        (top,), (row,) = tops, kept
        masked = top.src[0]
        if len(row.src) != 2 or row.src[0] is not masked:
            raise self.no("the row that is kept is not that of the maximum")
        at = row.src[1]
        last = _last(masked, at)
        if last is None or last.vmin < 0:
            raise self.no("no mask hides the end of the row")
        size, width = at.vmax + 1, stride(at, r)
        if not width or step % width or size % step or (r.vmax + 1) * width != size:
            raise self.no(f"{step} is no number of steps of the axis")
        steps = simplify(last // step + 1)
        if steps.vmax * step > size:
            steps = simplify(steps.alu(Ops.MIN, steps.const_like(size // step)))
        bound = simplify(steps * step)
        exchange = {r: r.replace(src=(simplify(steps * (step // width)),))}
        left_out: dict[UOp, UOp] = {}
        for e in _exponentials(self, facts, row, top):
            (read,) = [n for n in e.src[0].src if n is not top]
            along = read.src[1]
            closed = facts.closers.get(along, [])
            sums = [n for n in closed if n.op is Ops.REDUCE and n.arg is Ops.ADD and n.src == (e, along)]
            rows = [n for n in closed if n.op is Ops.BUFFERIZE and n.src == (e, along)]
            if (
                along.op is not Ops.RANGE
                or kind_of(along) not in SEQUENTIAL
                or along.vmax + 1 != size
                or len(sums) + len(rows) != len(closed)
                or not sums
            ):
                raise self.no("the exponentials are not summed and kept along one axis")
            exchange[along] = along.replace(src=(bound,))
            for n in facts.nodes:
                if n.op is Ops.INDEX and n.src[0] in rows:
                    if n.src[1:] != (plain_index(n),):
                        raise self.no("the exponentials are read at places that are nowhere")
                    passes = passes_over(facts, n, sums)
                    if passes is not None and passes.is_in_steps_of(step, size):
                        times = simplify(steps * (step // passes.amount))
                        exchange[passes.axis] = passes.axis.replace(src=(times,))
                        left_out |= added(facts, passes, bound, size, lanes)
                    else:
                        exchange[n] = (n.src[1] < bound).where(_moved(n, exchange), n.const_like(0.0))
        return substitute(substitute(sink, left_out), exchange)


def _moved(n: UOp, exchange: dict[UOp, UOp]) -> UOp:
    return substitute(n, {old: new for old, new in exchange.items() if old.op is Ops.RANGE})


def _exponentials(action: Limit, facts: Facts, row: UOp, top: UOp) -> list[UOp]:
    """exp(row[k] - top): what is made of a row, if nothing else is."""
    found = []
    for read in facts.nodes:
        if read.op is not Ops.INDEX or read.src[0] is not row:
            continue
        differences = [n for n in facts.nodes if read in n.src]
        exps = [n for n in facts.nodes if any(d in n.src for d in differences)]
        if any(d.op is not Ops.SUB or d.src != (read, top) for d in differences) or any(
            e.op is not Ops.EXP for e in exps
        ):
            raise action.no("something else than exponentials is made of the row")
        found += exps
    users = [n for n in facts.nodes if top in n.src]
    if not found or any(n.op is not Ops.SUB for n in users):
        raise action.no("something else than exponentials is made of the maximum")
    return found


def _last(masked: UOp, at: UOp) -> UOp | None:
    """The last column that any lane sees, of a row that is -inf wherever `at` is beyond."""
    if masked.op is not Ops.WHERE or masked.src[2].op is not Ops.CONST or masked.src[2].arg != -inf:
        return None
    for condition in _conjuncts(masked.src[0]):
        if condition.op not in {Ops.CMPLE, Ops.CMPLT} or condition.src[0] is not at:
            continue
        last = condition.src[1] if condition.op is Ops.CMPLE else condition.src[1] - 1
        if not last.ranges.isdisjoint(at.ranges):
            continue
        for lane in [s for s in last.ranges if kind_of(s) in LANES]:
            step = stride(last, lane)
            if step is None:
                return None
            last = substitute(last, {lane: lane.const_like(lane.vmax if step > 0 else 0)})
        outside = {AxisType.LOOP, AxisType.THREAD}
        if all(kind_of(s) in outside for s in last.ranges):
            return simplify(last)
    return None


def _conjuncts(condition: UOp) -> Iterator[UOp]:
    stack = [condition]
    while stack:
        each = stack.pop()
        if each.op is Ops.AND:
            stack.extend(each.src)
        else:
            yield each
