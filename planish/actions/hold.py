"""`hold(k, 64)`: a long sum over kept rows is made in several passes, and LOCAL memory holds it in between.

Why: what is made of a block of rows (attention: scores times values) goes over all of them once for each register tile of the
result. Rows that do not fit in the first cache come from the second one every time. A block of them at a time they do fit,
and all tiles are brought on by that block before the next one is looked at.

Before → after::

    STORE(o[c], f(REDUCE[ADD](p[r] * v[r, c], r)))     for c          p = BUFFERIZE(g(s), s)
    m = LOCAL;  STORE(m[d], where(b == 0, 0, m[d]) + REDUCE[ADD](q[t] * v[b*n + t, d], t))     for b, d
    STORE(o[c], f(m[c]))     for c, after that                        q = BUFFERIZE(g(b*n + u), u)

Axes of the output on which the rows depend stay around all of it; the others run inside of every pass, and once more for the
store. Rows that nothing but the sum reads, and that no reduction is made of on the way, are made block by block as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import cast

from planish import dtypes
from planish.actions.base import OneAxis, fitting
from planish.actions.passes import one_sum, start_of
from planish.actions.splitting import pieces
from planish.dtypes import AddrSpace
from planish.target import Target
from planish.uop.nest import LANES, SEQUENTIAL, closed_by
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import NUMBERED, Axis, AxisType, Ops
from planish.uop.ranges import kind_of
from planish.uop.rewrite import substitute


class Hold(OneAxis):
    """Sums over kept rows in several passes."""

    word = "hold"
    does = (
        "make several passes over kept rows, each reducing a block of them into sums that LOCAL memory holds"
    )
    takes = frozenset({AxisType.REDUCE})
    sized = "size"
    divides = True
    reads_its_sums = True
    size: int

    def apply(self, sink: UOp, target: Target) -> UOp:
        r = self.own_axis(sink)
        amount, blocks = pieces(self, r)
        if target.block:
            raise self.no(f"on {target.name} the threads of a block share LOCAL memory")
        return fitting(sink, self.held(sink, r, amount, blocks), self, target)

    def held(self, sink: UOp, r: UOp, amount: int, blocks: UOp) -> UOp:
        """The kernel with one pass per block of the axis, sums held in LOCAL memory."""
        facts = Nest.of(sink)
        end, _, total = one_sum(self, sink, r)
        nothing = start_of(self, total)
        rows = [
            n for n in _own(total) if n.op is Ops.INDEX and n.src[0].op is Ops.BUFFERIZE and r in n.ranges
        ]
        if not rows:
            raise self.no("the reduction is not one of kept rows")
        apart = frozenset(s for read in rows for s in read.src[0].ranges)
        inside = [s for s in total.ranges - apart if s in closed_by(end) and kind_of(s) in SEQUENTIAL | LANES]
        inside.sort(key=lambda s: s.order)
        lanes = sorted((s for s in total.ranges & apart if kind_of(s) in LANES), key=lambda s: s.order)
        loops = [s for s in inside if kind_of(s) in SEQUENTIAL]
        if any(kind_of(s) in LANES and s not in closed_by(end) for s in total.ranges):
            raise self.no("lanes of the reduction are combined later")
        if not loops or any(s.src[0].op is not Ops.CONST for s in (*inside, *lanes)):
            raise self.no("no loop of a known length would run inside of a pass")
        table = sink.table
        taken = {cast("Axis", n.arg).path for n in facts.nodes if n.op is Ops.RANGE}
        number = NUMBERED
        while any((*cast("Axis", s.arg).path, number + k) in taken for s in inside for k in (0, 1)):
            number += 2
        outermost = _named(loops[0], number)
        pass_ = table.range(blocks, _named(r, 0)._replace(kind=AxisType.LOOP).moved(outermost.path))
        twins = {s: s.replace(arg=_named(s, number + 1)) for s in inside}
        part = table.range(amount, _named(r, 1))
        order = [*loops, *(s for s in inside if s not in loops), *lanes]
        memory = table.make(
            Ops.DEFINE_LOCAL,
            total.dtype.scalar.ptr(prod(s.vmax + 1 for s in order), AddrSpace.LOCAL),
            (),
            max((cast("int", n.arg) + 1 for n in facts.nodes if n.op is Ops.DEFINE_LOCAL), default=0),
        )
        place = _at(memory, order, twins, total)
        blockwise = {
            read: _block_of(read, pass_ * amount, part) for read in rows if _is_made_for(facts, read, r)
        }
        x, *ranges = total.src
        x = substitute(x, {**blockwise, r: pass_ * amount + part, **twins})
        fresh = total.replace(src=(x, *(part if s is r else s for s in ranges)))
        sofar = pass_.eq(0).where(total.const_like(nothing), place).alu(cast("Ops", total.arg), fresh)
        passes = place.store(sofar).end(pass_, *twins.values())
        held = _at(memory.after(passes), order, {}, total)
        return substitute(sink, {total: held})


def _own(total: UOp) -> list[UOp]:
    """What a reduction combines, up to what others have reduced or kept."""
    return total.src[0].toposort(lambda n: n.op not in {Ops.REDUCE, Ops.INDEX})


def _named(r: UOp, number: int) -> Axis:
    return cast("Axis", r.arg).part(number)


def _at(memory: UOp, order: list[UOp], instead: Mapping[UOp, UOp], like: UOp) -> UOp:
    """The place of a sum in memory, in row-major order of the axes."""
    total = like.table.const(0, dtypes.index)
    for s in order:
        total = total * (s.vmax + 1) + instead.get(s, s)
    return like.table.make(Ops.INDEX, like.dtype, (memory, total))


def _is_made_for(facts: Nest, read: UOp, r: UOp) -> bool:
    """Whether kept rows are made for one read along r alone, in a loop of their own."""
    rows = read.src[0]
    return (
        len(rows.src) == 2
        and read.src[1:] == (r,)
        and rows.src[1].op is Ops.RANGE
        and facts.closers.get(rows.src[1]) == [rows]
        and not any(rows in n.src and n is not read for n in facts.nodes)
    )


def _block_of(read: UOp, start: UOp, part: UOp) -> UOp:
    """A read of kept rows, as one of a block of them."""
    rows = read.src[0]
    x, along = rows.src
    own = along.table.range(part.src[0], _named(along, 1))
    value = substitute(x, {along: start + own})
    return read.replace(src=(rows.replace(dtype=value.dtype, src=(value, own)), part))
