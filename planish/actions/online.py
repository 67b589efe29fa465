"""`online(wgmma_m64n128_bf16_f32_kk, i, j, k, groups=2, buffers=2)`: sums weighted by a softmax, in one walk over the keys.

Attention is two products of matrices with a softmax between them (`planish.uop.weighted_sums`). Row by row it needs all scores of a query
before the first share of one is known. In one walk it needs none of them twice: with the greatest score so far, weights are right but
for a factor, and when a greater one comes, what was summed so far is made smaller by as much::

    for keys in blocks of the columns of the core:                        per thread, in registers:
      s  = q @ xᵀ;  u = graded(s)                                         a tile of scores, by a tensor core
      m' = max(m, max over the block of u)                                threads that hold one row combine theirs
      a  = exp(m - m');  p = exp(u - m')
      l  = l · a + Σ p;  o = o · a + cast(p) @ v;  m = m'                 p lies as the left operand of the second product has to
    o / l;  what else is stored of m and l, row by row

Queries stay in LOCAL memory; blocks of keys and values come through rings of `buffers` of them. Of a core that reads LOCAL memory a
thread holds columns of C exactly as it has to hold columns of A, so that the weights go from one product into the other in registers.

The sum of the weights is taken of what they are before they are cast, and divides the result instead of each of them: they are rounded
to the dtype of the values one by one, as in the program, but before the division. Beyond the last key scores are -inf.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from planish.actions.key_walk import KeyWalk
from planish.actions.walk import SCORES, SUMS, Walk, row_stores, unscaled
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.tensor_cores import Core
from planish.uop.weighted_sums import WeightedSum, weighted_sums

_LOG2E: Final = math.log2(math.e)


def _walked(sink: UOp, core: Core, way: WeightedSum, how: tuple[int, int, bool]) -> UOp:
    """The kernel with the walk in it."""
    sink, others = row_stores(sink, way.outer.n)
    walk = Walk(sink, core, way.outer, way.seen, how)
    held, sums = walk.fragment(core, SCORES), walk.fragment(walk.second, SUMS)
    graded, factor = unscaled(way.between)
    graded = walk.standing(walk.unhidden(graded), {way.scores.reduce: walk.product(way.scores)}, held)
    if walk.size % core.n:
        graded = (walk.key(held) < walk.size).where(graded, graded.const_like(-math.inf))
    kept = walk.register(held.rows), walk.register(held.rows), walk.register(sums.lanes)
    begun = [
        each.at(*walk.around).store(graded.const_like(start))
        for each, start in zip(kept, (-math.inf, 0.0, 0.0), strict=True)
    ]
    top, share, total = (each.at(start, walk.block) for each, start in zip(kept, begun, strict=True))
    rate = factor * _LOG2E
    best = top.alu(Ops.MAX, walk.of_row(Ops.MAX, walk.over_columns(Ops.MAX, graded, held)))
    base = best.eq(-math.inf).where(best.const_like(0.0), best) * rate
    shrunk = top.alu(Ops.MULACC, top.const_like(rate), -base).alu(Ops.EXP2_ESTIMATE)
    grown = graded.alu(Ops.MULACC, graded.const_like(rate), -base).alu(Ops.EXP2_ESTIMATE)
    weights = walk.gathered(grown.cast(walk.second.inputs), held.lanes)
    products = walk.summed(way.outer, weights, walk.gathered(total * shrunk, sums.lanes))
    new = (
        best,
        share.alu(Ops.MULACC, shrunk, walk.over_columns(Ops.ADD, grown, held)),
        sink.table.make(Ops.UNROLL, total.dtype, (products,), sums.lanes),
    )
    ends = [was.store(now).end(walk.block) for was, now in zip((top, share, total), new, strict=True)]
    whole = walk.of_row(Ops.ADD, kept[1].at(*ends))
    known = {way.softmax.top: kept[0].at(*ends) * factor, way.softmax.total: whole}
    ends += [walk.stored_row(store, known, held) for store in others]
    if way.blind:
        whole = whole.eq(0.0).where(whole.const_like(1.0), whole)
    return walk.stored(sink, {way.outer.reduce: kept[2].at(*ends) * whole.alu(Ops.RECIP)}, sums)


class Online(KeyWalk[WeightedSum]):
    """A softmax between two products, in one walk over the keys."""

    word = "online"
    does = "walk over the keys once, both products of an attention by tensor cores and the softmax between them in registers"
    makes = "sum weighted by a softmax"

    @classmethod
    def ways(cls, sink: UOp, core: Core) -> Sequence[WeightedSum]:
        return weighted_sums(sink, core)

    def walked(self, sink: UOp, core: Core, way: WeightedSum) -> UOp:
        return _walked(sink, core, way, self.how)
