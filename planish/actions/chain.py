"""`chain(wgmma_m64n64_bf16_f32_kk, i, j, k, groups=2, buffers=2)`: a product whose left operand is made of products, in one walk.

The derivatives of attention are sums over keys (or queries) of what is made of scores, element by element, times a matrix
(`planish.uop.chained`). As kernels of their own the products between would be matrices as large as queries times keys::

    for keys in blocks of the columns of the core:                        per thread, in registers:
      s = q @ xᵀ;  d = p @ yᵀ                                             tiles of the products, by a tensor core
      o = o + cast(f(s, d)) @ v                                           f lies as the left operand of the last product has to

Several such sums of the same products are made in one walk: dK and dV of attention, f(s, d) @ q and g(s) @ p.
As in `online` (`walk.py` is what both share). Exponentials in f are of 16 bits right afterwards: they are what the machine's estimate is.
Beyond the last key f is 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from planish import dtypes
from planish.actions.key_walk import KeyWalk
from planish.actions.walk import SCORES, SUMS, Walk, unscaled
from planish.uop.chained import Chain, chained
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.rewrite import substitute
from planish.uop.tensor_cores import Core

_LOG2E: Final = math.log2(math.e)


def _estimated(value: UOp) -> UOp:
    """A value whose exponentials are powers of two as a machine has them, and whose constant factors are part of what is multiplied and added anyway."""
    powers = (n for n in value.toposort() if n.op is Ops.EXP and n.dtype is dtypes.float32)
    value = substitute(value, {n: _power(n.src[0]).alu(Ops.EXP2_ESTIMATE) for n in powers})
    return substitute(value, {n: spread for n in value.toposort() if (spread := _spread(n)) is not None})


def _power(x: UOp) -> UOp:
    """x · log₂ e; of a scaled score less something, in one step."""
    if x.op is not Ops.SUB:
        return x * _LOG2E
    score, less = x.src
    value, factor = unscaled(score)
    return value.alu(Ops.MULACC, value.const_like(factor * _LOG2E), -(less * _LOG2E))


def _spread(x: UOp) -> UOp | None:
    """y · (a - b) · c as y · (a · c - b · c), where b · c is one for many; None for others."""
    if x.op is not Ops.MUL or x.src[1].op is not Ops.CONST or x.src[0].op is not Ops.MUL:
        return None
    scale, (left, right) = x.src[1], x.src[0].src
    for y, less in ((left, right), (right, left)):
        if less.op is Ops.SUB and less.src[1].ranges < less.src[0].ranges:
            a, b = less.src
            return y * a.alu(Ops.MULACC, scale, -(b * scale))
    return None


def _walked(sink: UOp, core: Core, way: Chain, how: tuple[int, int, bool]) -> UOp:
    """The kernel with the walk in it."""
    walk = Walk(sink, core, way.outer, way.seen, how)
    held, sums = walk.fragment(core, SCORES), walk.fragment(walk.second, SUMS)
    products = {each.reduce: walk.product(each) for each in way.inner}
    kept = [walk.register(sums.lanes) for _ in way.sums]
    ends = []
    for total, (outer, between) in zip(kept, way.sums, strict=True):
        weights = walk.standing(walk.unhidden(_estimated(between)), products, held)
        if walk.size % core.n:
            weights = (walk.key(held) < walk.size).where(weights, weights.const_like(0.0))
        start = total.at(*walk.around)
        sofar = total.at(start.store(start.const_like(0.0)), walk.block)
        summed = walk.summed(outer, walk.gathered(weights, held.lanes), walk.gathered(sofar, sums.lanes))
        now = sink.table.make(Ops.UNROLL, sofar.dtype, (summed,), sums.lanes)
        ends.append(sofar.store(now).end(walk.block))
    results = {each.outer.reduce: total.at(*ends) for total, each in zip(kept, way.sums, strict=True)}
    return walk.stored(sink, results, sums)


class Chained(KeyWalk[Chain]):
    """A product made of products, in one walk over the keys."""

    word = "chain"
    does = "walk over the keys once, products and the one that is made of them by tensor cores, in registers in between"
    makes = "product of products"

    @classmethod
    def ways(cls, sink: UOp, core: Core) -> Sequence[Chain]:
        return chained(sink, core)

    def walked(self, sink: UOp, core: Core, way: Chain) -> UOp:
        return _walked(sink, core, way, self.how)
