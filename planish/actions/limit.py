"""`limit(k, 32)`: reductions over masked rows do not look at what the mask hides from all lanes.

A causal mask hides from row i all columns after i. Sixteen rows in lanes look at columns up to that of the last of them, and
beyond there is nothing to compute, if the terms there are neutral: zeros of a sum, -inf of a maximum. Nobody can tell that they
were left out.

Before → after (columns j < n, in steps of g; b = the last column that any lane sees, rounded up to a step)::

    REDUCE[ADD](where(j <= i, x(j), 0), j)      j < n        j < b

**Softmax** keeps the row that it takes the maximum of, and makes exponentials of it: their terms are

    exp(-inf - m) = 0      for any maximum m but NaN and -inf, for which they are NaN.

In the latter case the exponential of a column that is looked at is NaN, too (s - NaN, or -inf - -inf), so the sum of the row and
everything made of it is NaN either way. What is multiplied by these zeros is not
forgotten: 0 * inf and 0 * NaN are NaN, and a value that is not finite shows in the result as the program says it does. Passes of `hold`
that have nothing but zeros for weights are left out all the same (`skipped_passes.py`)::

    s = BUFFERIZE(where(j <= i, x(j), -inf), j),  m = REDUCE[MAX](the same, j)      j < n        j < b
    e = BUFFERIZE(exp(s[k] - m), k),  l = REDUCE[ADD](the same, k)                  k < n        k < b
    e[t]                                                                            e[t]         where(t < b, e[t], 0)

The bound is an expression of the loops around, and of data that they read: rows may be as long as numbers in memory say. Beyond it
neither row is written, and neither is read but to be left out.
"""

from __future__ import annotations

from typing import cast

from planish import dtypes
from planish.actions.base import OneAxis, fitting
from planish.actions.skipped_passes import added, passes_over
from planish.target import Target
from planish.uop.nest import LANES, SEQUENTIAL, plain_index
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import AxisType, Ops
from planish.uop.ranges import kind_of
from planish.uop.reached import joined_by
from planish.uop.rewrite import substitute
from planish.uop.strides import stride
from planish.uop.symbolic import simplify
from planish.uop.symbolic.reduce import identity


class Limit(OneAxis):
    """Masked rows that end where the mask hides the rest."""

    word = "limit"
    does = "do not look at the part of masked rows that the mask hides from all lanes"
    takes = frozenset({AxisType.REDUCE})
    sized = "step"
    divides = True
    step: int
    """Rows end after a multiple of so many columns."""

    def apply(self, sink: UOp, target: Target) -> UOp:
        r = self.own_axis(sink)
        if r.src[0].op is not Ops.CONST or self.step < 1:
            raise self.no(f"the size of axis {self.axis} is not known")
        return fitting(sink, self.limited(sink, r, target.lanes(dtypes.float32)), self, target)

    def limited(self, sink: UOp, r: UOp, lanes: int) -> UOp:
        """The kernel with the loops over masked rows cut short; `lanes` make a vector."""
        facts = Nest.of(sink)
        closing = facts.closers.get(r, [])
        if facts.is_bound(r):
            raise self.no("the length of another loop depends on the axis")
        if not closing or any(n.op is not Ops.REDUCE for n in closing):
            return self.limited_softmax(sink, facts, r, lanes)
        seen = {_seen(total, r) for total in closing}
        if len(seen) != 1 or None in seen:
            raise self.no("no mask hides the end of what is reduced")
        at, last = cast("tuple[UOp, UOp]", seen.pop())
        steps, width = self.steps(r, at, last)
        return substitute(sink, {r: r.replace(src=(simplify(steps * (self.step // width)),))})

    def steps(self, r: UOp, at: UOp, last: UOp) -> tuple[UOp, int]:
        """How many steps there are up to the last column that is seen, and how many columns an iteration of the loop has."""
        size, width, step = at.vmax + 1, stride(at, r), self.step
        if not width or width < 0 or step % width or size % step or (r.vmax + 1) * width != size or at.vmin:
            raise self.no(f"{step} is no number of steps of the axis")
        steps = simplify(last // step + 1)
        if steps.vmax * step > size:
            steps = simplify(steps.alu(Ops.MIN, steps.const_like(size // step)))
        return (simplify(steps.alu(Ops.MAX, steps.const_like(0))) if steps.vmin < 0 else steps), width

    def limited_softmax(self, sink: UOp, facts: Nest, r: UOp, lanes: int) -> UOp:
        """The maximum of a row that is kept, and what is made of both."""
        step, closing = self.step, facts.closers.get(r, [])
        tops = [n for n in closing if n.op is Ops.REDUCE and n.arg is Ops.MAX]
        kept = [n for n in closing if n.op is Ops.BUFFERIZE]
        if len(tops) != 1 or len(kept) != 1 or len(closing) != 2:
            raise self.no("the axis is not that of reductions, nor that of a maximum over a row that is kept")
        (top,), (row,) = tops, kept
        if len(row.src) != 2 or row.src[0] is not top.src[0]:
            raise self.no("the row that is kept is not that of the maximum")
        at, last = _seen(top, r) or (None, None)
        if at is not row.src[1] or last is None or last.vmin < 0:
            raise self.no("no mask hides the end of the row")
        (steps, width), size = self.steps(r, at, last), at.vmax + 1
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


def _exponentials(action: Limit, facts: Nest, row: UOp, top: UOp) -> list[UOp]:
    """exp(row[k] - top): what is made of a row, if nothing else is."""
    exponentials = []
    for read in facts.nodes:
        if read.op is not Ops.INDEX or read.src[0] is not row:
            continue
        differences = [n for n in facts.nodes if read in n.src]
        exps = [n for n in facts.nodes if any(d in n.src for d in differences)]
        if any(d.op is not Ops.SUB or d.src != (read, top) for d in differences) or any(
            e.op is not Ops.EXP for e in exps
        ):
            raise action.no("something else than exponentials is made of the row")
        exponentials += exps
    users = [n for n in facts.nodes if top in n.src]
    if not exponentials or any(n.op is not Ops.SUB for n in users):
        raise action.no("something else than exponentials is made of the maximum")
    return exponentials


def _seen(total: UOp, r: UOp) -> tuple[UOp, UOp] | None:
    """The column that a reduction looks at, and the last one that any lane sees; None if no mask makes the others neutral."""
    masked, nothing = total.src[0], identity(cast("Ops", total.arg), total)
    if masked.op is not Ops.WHERE or masked.src[2].op is not Ops.CONST or masked.src[2].arg != nothing:
        return None
    for condition in joined_by(Ops.AND, masked.src[0]):
        if condition.op not in {Ops.CMPLE, Ops.CMPLT}:
            continue
        at, last = condition.src
        # lengths that are data (an index has 63 bits)
        if at.op is Ops.CAST and at.src[0].dtype.is_index and last.dtype is not dtypes.uint64:
            at, last = at.src[0], last.cast(dtypes.index)
        last = last if condition.op is Ops.CMPLE else last - 1
        if r not in at.ranges or not at.dtype.is_index or not last.ranges.isdisjoint(at.ranges):
            continue
        for lane in [s for s in last.ranges if kind_of(s) in LANES]:
            last = _largest(last, lane)
        outside = {AxisType.LOOP, AxisType.THREAD}
        if all(kind_of(s) in outside for s in last.ranges):
            return at, simplify(last)
    return None


def _largest(value: UOp, lane: UOp) -> UOp:
    """The largest of what lanes have."""
    step = stride(value, lane)
    if step is not None:
        return substitute(value, {lane: lane.const_like(lane.vmax if step > 0 else 0)})
    largest = substitute(value, {lane: lane.const_like(0)})
    for number in range(1, lane.vmax + 1):
        largest = largest.alu(Ops.MAX, substitute(value, {lane: lane.const_like(number)}))
    return largest
