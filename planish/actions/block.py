"""`block(k, 256)`: a long reduction is done in several passes over the outputs, which hold it in between.

Why: the operands of a large matrix product do not fit in cache along the whole of k; a block of k at a time they do, and the
price is to read and write the outputs once per block.

Before → after::

    STORE(c[i], f(REDUCE[ADD](x(r), r)))     for i
    STORE(c[i], where(b == last, f(t), t)),  t = where(b == 0, 0, c[i]) + REDUCE[ADD](x(b*n + s), s)        for b, i

The blocks run in order around all outputs (b is a LOOP, `k.outer`, outermost; `swap` moves it). It fits where the kernel stores one value
that contains one reduction over the axis, of the dtype that is stored: a sum that is kept in a narrower one would be
rounded in every pass. A reduction over several axes may be cut along more than one of them: the first pass is then the first
of all, and the last the last of all.
"""

from __future__ import annotations

from typing import cast

from planish.actions.base import OneAxis
from planish.actions.passes import one_sum, start_of
from planish.actions.splitting import pieces
from planish.target import Target
from planish.uop.nest import closed_by
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import Axis, AxisType, Ops
from planish.uop.rewrite import substitute


class Block(OneAxis):
    """A reduction in several passes over the outputs."""

    word = "block"
    does = "make several passes over the outputs, each reducing a block of a reduce axis into them"
    takes = frozenset({AxisType.REDUCE})
    sized = "size"
    divides = True
    reads_its_sums = True
    size: int

    def apply(self, sink: UOp, target: Target) -> UOp:
        r = self.own_axis(sink)
        amount, blocks = pieces(self, r, least=1)
        facts = Nest.of(sink)
        end, store, total = one_sum(self, sink, r)
        outputs = closed_by(end)
        if total.dtype is not store.src[1].dtype or not outputs <= total.ranges | closed_by(total):
            raise self.no("the outputs cannot hold what is reduced")
        if not total.ranges <= outputs:
            raise self.no("lanes of the reduction are combined later")
        place, value = store.src
        if any(s in facts.ordered for s in outputs if s in place.ranges):
            raise self.no("the order of the outputs matters")
        nothing = start_of(self, total)
        table, axis = sink.table, cast("Axis", r.arg)
        pass_ = table.range(blocks, axis.part(0, AxisType.LOOP))
        inner = table.range(amount, axis.part(1)) if amount > 1 else None
        x, *ranges = total.src
        x = substitute(x, {r: pass_ if inner is None else pass_ * amount + inner})
        left = [s for s in ((inner if s is r else s) for s in ranges) if s is not None]
        part = total.replace(src=(x, *left)) if left else x
        begins, ends = pass_.eq(0), pass_.eq(blocks - 1)
        before = _sum_before(self, value, place)
        if before is None:
            sofar = begins.where(total.const_like(nothing), place).alu(cast("Ops", total.arg), part)
            whole = sofar if value is total else ends.where(substitute(value, {total: sofar}), sofar)
        else:  # in passes along another axis already
            first, nothing_yet, _ = before.src
            whole = substitute(value, {total: part, before: (first & begins).where(nothing_yet, place)})
            if value.op is Ops.WHERE:
                last, done, sofar = whole.src
                whole = (last & ends).where(done, sofar)
        # the passes are outside of all outputs: they take the place of the first, which moves behind them
        first = min(outputs, key=lambda s: s.order)
        outermost = cast("Axis", first.arg)
        moved = {
            pass_: pass_.replace(arg=cast("Axis", pass_.arg).moved((*outermost.path, 0))),
            first: first.replace(arg=outermost.moved((*outermost.path, 1))),
        }
        return substitute(sink.replace(src=(place.store(whole).end(pass_, *end.src[1:]),)), moved)


def _sum_before(action: Block, value: UOp, place: UOp) -> UOp | None:
    """What passes along another axis have left in the outputs: nothing in the first of them, else what is there."""
    users = [n for n in value.toposort() if place in n.src]
    if not users:
        return None
    (held,) = users if len(users) == 1 else (value,)
    sums = [n for n in value.toposort() if held in n.src]
    known = held.op is Ops.WHERE and held.src[2] is place and len(sums) == 1
    if not known or not (value is sums[0] or (value.op is Ops.WHERE and value.src[2] is sums[0])):
        raise action.no("the outputs are read for something else")
    return held
