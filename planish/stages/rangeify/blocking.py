"""The action BLOCK of stage 7: a long reduction is done in several passes over the outputs, which hold it in between.

Why: the operands of a large matrix product do not fit in cache along the whole of k; a block of k at a time they do, and the
price is to read and write the outputs once per block.

Before → after::

    STORE(c[i], f(REDUCE[ADD](x(r), r)))     for i
    STORE(c[i], where(b == last, f(t), t)),  t = where(b == 0, 0, c[i]) + REDUCE[ADD](x(b*n + s), s)        for b, i

The blocks run in order around all outputs (b is a LOOP, outermost; SWAP moves it). It fits where the kernel stores one value
that contains one reduction over the axis, of the dtype that is stored: a sum that is kept in a narrower one would be
rounded in every pass.
"""

from __future__ import annotations

from typing import cast

from planish.stages.expander.loops import closed_by, stores_in
from planish.stages.rangeify.legality import Facts
from planish.stages.rangeify.refusal import Refusal
from planish.uop.node import UOp
from planish.uop.ops import Axis, AxisType, Ops
from planish.uop.rewrite import substitute
from planish.uop.symbolic.reduce import identity


def block(sink: UOp, r: UOp, amount: int, blocks: UOp) -> UOp:
    """The kernel with one pass per block of a reduce axis."""
    facts = Facts(sink)
    stores = list(stores_in(sink))
    if len(sink.src) != 1 or len(stores) != 1 or sink.src[0].op is not Ops.END or len(stores[0].src) != 2:
        raise Refusal("BLOCK: the kernel has not one loop nest with one store")
    (end,), (store,) = sink.src, stores
    closers = facts.closers.get(r, [])
    if r in facts.ordered or facts.is_bound(r) or len(closers) != 1 or closers[0].op is not Ops.REDUCE:
        raise Refusal("BLOCK: the axis is not that of one reduction alone")
    (total,) = closers
    outputs = closed_by(end)
    if total.dtype is not store.src[1].dtype or not outputs <= total.ranges | closed_by(total):
        raise Refusal("BLOCK: the outputs cannot hold what is reduced")
    if any(s in facts.ordered for s in outputs):
        raise Refusal("BLOCK: the order of the outputs matters")
    nothing = identity(cast("Ops", total.arg), total)
    if nothing is None:
        raise Refusal(f"BLOCK: {cast('Ops', total.arg).name} of {total.dtype} has no value to start from")
    table, path = sink.table, cast("Axis", r.arg).path
    pass_ = table.range(blocks, (*path, 0))
    inner = table.range(amount, (*path, 1), AxisType.REDUCE)
    place, value = store.src
    x, *ranges = total.src
    x = substitute(x, {r: pass_ * amount + inner})
    part = total.replace(src=(x, *(inner if s is r else s for s in ranges)))
    sofar = pass_.eq(0).where(total.const_like(nothing), place).alu(cast("Ops", total.arg), part)
    last = pass_.eq(blocks - 1)
    whole = sofar if value is total else last.where(substitute(value, {total: sofar}), sofar)
    # the passes are outside of all outputs: they take the place of the first, which moves behind them
    first = min(outputs, key=lambda s: s.order)
    renamed = {
        pass_: pass_.replace(arg=Axis((*cast("Axis", first.arg).path, 0), AxisType.LOOP)),
        first: first.replace(arg=Axis((*cast("Axis", first.arg).path, 1), cast("Axis", first.arg).kind)),
    }
    return substitute(sink.replace(src=(place.store(whole).end(pass_, *end.src[1:]),)), renamed)
