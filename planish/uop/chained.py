"""Products whose left operand is made, element by element, of other products: what a derivative of attention is made of.

    o[m, n] = Σ_k f(Σ_d q[m, d] · x[k, d], Σ_e p[m, e] · y[k, e], …) · v[k, n]

`chained` finds such sums in a kernel that keeps rows of f (BUFFERIZE), which are looked through (`weighted_sums.py`). What f reads besides
may depend on m and on k: rows and columns of numbers, masks.
"""

from __future__ import annotations

from typing import NamedTuple

from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.products import Product, factors
from planish.uop.symbolic import simplify
from planish.uop.tensor_cores import Core
from planish.uop.visible import Seen, seen, unless_nothing
from planish.uop.weighted_sums import product_axes, sums_over_kept


class Chain(NamedTuple):
    """A product and what its left operand is made of."""

    inner: tuple[Product, ...]
    """Products that stand in the left operand: their rows are its rows, their columns the axis that is summed over."""
    outer: Product
    between: UOp
    """The left operand, in the dtype of the core."""

    @property
    def seen(self) -> Seen:
        """Where along the axis that is summed over the left operand is not 0."""
        return seen(unless_nothing(self.between), self.outer.k, self.outer.m)


def chained(sink: UOp, core: Core) -> list[Chain]:
    """The products of a kernel that are made so, of operands that a core takes."""
    found = []
    for total, keys, weights, v in sums_over_kept(sink, core):
        sums = [n for n in weights.toposort(lambda n: n.op is not Ops.REDUCE) if n.op is Ops.REDUCE]
        inner = [_inner(each, keys, v, core) for each in sums]
        products = [each for each in inner if each is not None]
        if not products or len(products) < len(inner) or len({(p.m, n) for p, n in products}) != 1:
            continue
        m, n = products[0][0].m, products[0][1]
        if n not in weights.ranges:
            found.append(
                Chain(tuple(p for p, _ in products), Product(total, weights, v, m, n, keys), weights)
            )
    return found


def _inner(total: UOp, keys: UOp, v: UOp, core: Core) -> tuple[Product, UOp] | None:
    """A sum as a product of queries and keys, and the columns of the result."""
    for factor in factors(total, core):
        q, x = map(simplify, factor)
        axes = product_axes(q, x, v, keys, total)
        if axes is not None:
            m, n, depth = axes
            return Product(total, q, x, m, keys, depth), n
    return None
