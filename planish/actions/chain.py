"""`chain(wgmma_m64n64_bf16_f32_kk, i, j, k, groups=2, buffers=2)`: a product whose left operand is made of products, in one walk.

The derivatives of attention are sums over keys (or queries) of what is made of scores, element by element, times a matrix
(`planish.uop.chained`). As kernels of their own the products between would be matrices as large as queries times keys::

    for keys in blocks of the columns of the core:                        per thread, in registers:
      s = q @ xᵀ;  d = p @ yᵀ                                             tiles of the products, by a tensor core
      o = o + cast(f(s, d)) @ v                                           f lies as the left operand of the last product has to

As in `online` (`walk.py` is what both share). Exponentials in f are of 16 bits right afterwards: they are what the machine's estimate is.
Beyond the last key f is 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from planish import dtypes
from planish.actions.key_walk import KeyWalk
from planish.actions.walk import SCORES, SUMS, Walk
from planish.uop.chained import Chain, chained
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.rewrite import substitute
from planish.uop.tensor_cores import Core

_LOG2E: Final = math.log2(math.e)


def _estimated(value: UOp) -> UOp:
    """A value whose exponentials are powers of two as a machine has them."""
    powers = (n for n in value.toposort() if n.op is Ops.EXP and n.dtype is dtypes.float32)
    exchange = {n: (n.src[0] * _LOG2E).alu(Ops.EXP2_ESTIMATE) for n in powers}
    return substitute(value, exchange)


def _walked(sink: UOp, core: Core, found: Chain, how: tuple[int, int, bool]) -> UOp:
    """The kernel with the walk in it."""
    walk = Walk(sink, core, found.outer, found.seen, how)
    held, sums = walk.fragment(core, SCORES), walk.fragment(walk.second, SUMS)
    products = {each.reduce: walk.product(each) for each in found.inner}
    made = walk.standing(walk.unhidden(_estimated(found.between)), products, held)
    if walk.size % core.n:
        made = (walk.key(held) < walk.size).where(made, made.const_like(0.0))
    total = walk.register(sums.lanes)
    start = total.at(*walk.around)
    sofar = total.at(start.store(start.const_like(0.0)), walk.block)
    summed = walk.summed(walk.gathered(made, held.lanes), walk.gathered(sofar, sums.lanes))
    end = sofar.store(sink.table.make(Ops.UNROLL, sofar.dtype, (summed,), sums.lanes)).end(walk.block)
    return walk.stored(sink, total.at(end), sums)


class Chained(KeyWalk[Chain]):
    """A product made of products, in one walk over the keys."""

    word = "chain"
    does = "walk over the keys once, products and the one that is made of them by tensor cores, in registers in between"
    made = "product of products"

    @classmethod
    def ways(cls, sink: UOp, core: Core) -> Sequence[Chain]:
        return chained(sink, core)

    def walked(self, sink: UOp, core: Core, found: Chain) -> UOp:
        return _walked(sink, core, found, self.how)
