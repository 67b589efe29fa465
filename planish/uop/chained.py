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
from planish.uop.rewrite import substitute
from planish.uop.symbolic import simplify
from planish.uop.tensor_cores import Core
from planish.uop.visible import Seen, seen, unless_nothing
from planish.uop.weighted_sums import product_axes, sums_over_kept


class ChainedSum(NamedTuple):
    """A product whose left operand is made of others."""

    outer: Product
    between: UOp
    """The left operand, in the dtype of the core."""

    @property
    def seen(self) -> Seen:
        """Where along the axis that is summed over the left operand is not 0."""
        return seen(unless_nothing(self.between), self.outer.k, self.outer.m)


class Chain(NamedTuple):
    """Products that are summed in one walk, and what their left operands are made of."""

    inner: tuple[Product, ...]
    """Products that stand in the left operands: their rows are those of all, their columns the axis that is summed over."""
    sums: tuple[ChainedSum, ...]
    """Several, if they are made of the same products along the same axis: both gradients by keys and values, over the queries."""

    @property
    def outer(self) -> Product:
        return self.sums[0].outer

    @property
    def weights(self) -> tuple[UOp, ...]:
        """What is made of the products, at one key."""
        return tuple([each.between for each in self.sums])

    @property
    def seen(self) -> Seen:
        """Where along the axis that is summed over any left operand is not 0."""
        first, *others = (each.seen for each in self.sums)
        return first if all(other == first for other in others) else Seen()


def chained(sink: UOp, core: Core) -> list[Chain]:
    """The products of a kernel that are made so, of operands that a core takes; those that are made of the same are one."""
    chains: list[Chain] = []
    for total, keys, weights, v in sums_over_kept(sink, core):
        sums = [n for n in weights.toposort(lambda n: n.op is not Ops.REDUCE) if n.op is Ops.REDUCE]
        inner = [_inner(each, keys, v, core) for each in sums]
        products = [each for each in inner if each is not None]
        if not products or len(products) < len(inner) or len({(p.m, n) for p, n in products}) != 1:
            continue
        m, n = products[0][0].m, products[0][1]
        if n not in weights.ranges:
            outer = Product(total, weights, v, m, n, keys)
            chains.append(Chain(tuple(p for p, _ in products), (ChainedSum(outer, weights),)))
    return _joined(chains)


def _joined(chains: list[Chain]) -> list[Chain]:
    """Chains, as many of them in one walk as go together; first those that are made of most."""
    left = sorted(chains, key=lambda chain: -len(chain.inner))
    joined: list[Chain] = []
    while left:
        base, *left = left
        apart = []
        for each in left:
            both = _together(base, each)
            if both is None:
                apart.append(each)
            else:
                base = both
        joined.append(base)
        left = apart
    return joined


def _together(base: Chain, other: Chain) -> Chain | None:
    """Two chains in one walk, if all that the second is made of is what the first is made of; None if not."""
    mine, theirs = base.outer, other.outer
    if (mine.m, mine.n) != (theirs.m, theirs.n) or mine.k.vmax != theirs.k.vmax:
        return None
    along = {theirs.k: mine.k}
    known: dict[UOp, UOp] = {}
    for product in other.inner:
        moved = product._replace(
            reduce=substitute(product.reduce, along), a=_at(product.a, along), b=_at(product.b, along)
        )
        same = next((each for each in base.inner if _is_same(moved, each)), None)
        if same is None:
            return None
        known[moved.reduce] = same.reduce
    sums = []
    for outer, between in other.sums:
        weights = substitute(substitute(between, along), known)
        sums.append(ChainedSum(outer._replace(a=weights, b=_at(outer.b, along), k=mine.k), weights))
    return Chain(base.inner, (*base.sums, *sums))


def _at(value: UOp, along: dict[UOp, UOp]) -> UOp:
    return simplify(substitute(value, along))


def _is_same(one: Product, other: Product) -> bool:
    """Whether two products of the same rows and columns are of the same operands."""
    if one.m is not other.m or one.k.vmax != other.k.vmax:
        return False
    depth = {one.k: other.k}
    return _at(one.a, depth) is other.a and _at(one.b, depth) is other.b


def _inner(total: UOp, keys: UOp, v: UOp, core: Core) -> tuple[Product, UOp] | None:
    """A sum as a product of queries and keys, and the columns of the result."""
    for factor in factors(total, core):
        q, x = map(simplify, factor)
        axes = product_axes(q, x, v, keys, total)
        if axes is not None:
            m, n, depth = axes
            return Product(total, q, x, m, keys, depth), n
    return None
