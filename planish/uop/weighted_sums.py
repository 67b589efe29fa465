"""Sums weighted by a softmax of scores that are products of matrices: attention, as the algebra of one kernel.

    o[m, n] = Σ_k softmax_k(g(Σ_d q[m, d] · x[k, d])) · v[k, n]

`weighted_sums` finds such a sum among the reductions of a kernel. Rows that the kernel keeps in between (BUFFERIZE) are looked through, so
that what is found is the definition: scores as an expression of one key, whatever is done to them (a scale, a mask, a bias, a
soft cap), and both products with their axes. Nothing here knows attention by name.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from planish.uop.nest import OUTPUT
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.products import Product, factors, narrowed
from planish.uop.ranges import kind_of
from planish.uop.rewrite import substitute
from planish.uop.strides import stride
from planish.uop.symbolic import simplify
from planish.uop.tensor_cores import Core
from planish.uop.visible import Seen, seen, unless_hidden


class SoftmaxWeights(NamedTuple):
    """Shares of a whole that exponentials have."""

    of: UOp
    """The exponents, at one key."""
    top: UOp
    """The greatest of them."""
    total: UOp
    """The sum of the exponentials, each less the greatest."""
    blind: bool


class WeightedSum(NamedTuple):
    """Two products of matrices with a softmax between them."""

    scores: Product
    """The first: rows are queries, columns the keys."""
    outer: Product
    """The second: the sum itself; its k are the keys."""
    softmax: SoftmaxWeights

    @property
    def blind(self) -> bool:
        """Whether rows that see no key give 0; otherwise NaN, as -inf - -inf is."""
        return self.softmax.blind

    @property
    def between(self) -> UOp:
        """What the softmax is of, at one key."""
        return self.softmax.of

    @property
    def weights(self) -> tuple[UOp, ...]:
        """What is made of the product, at one key."""
        return (self.between,)

    @property
    def keys(self) -> UOp:
        """The axis of the keys."""
        return self.outer.k

    @property
    def inner(self) -> tuple[Product, ...]:
        """The product that the softmax is made of."""
        return (self.scores,)

    @property
    def seen(self) -> Seen:
        """Which keys masks let a query see."""
        return seen(unless_hidden(self.between), self.keys, self.outer.m)


def sums_over_kept(sink: UOp, core: Core) -> Iterator[tuple[UOp, UOp, UOp, UOp]]:
    """Sums of products whose left factor is kept in the dtype of a core: each with what is summed over, that factor, and the other one."""
    for total in sink.toposort():
        if total.op is not Ops.REDUCE or total.arg is not Ops.ADD or len(total.src) != 2:
            continue
        value, keys = total.src
        if value.op is not Ops.MUL or keys.op is not Ops.RANGE:
            continue
        for left, right in (value.src, value.src[::-1]):
            v = narrowed(right, core)
            if v is not None and is_kept(left) and left.op is Ops.CAST and left.src[0].dtype is core.inputs:
                yield total, keys, looked_through(left.src[0]), simplify(v)


def weighted_sums(sink: UOp, core: Core) -> list[WeightedSum]:
    """The sums of a kernel that are made so, of operands that a core takes."""
    sums = []
    for total, keys, weights, v in sums_over_kept(sink, core):
        softmax = _softmax(weights, keys)
        if softmax is None:
            continue
        for product in (n for n in softmax.of.toposort(_above_sums) if n.op is Ops.REDUCE):
            for factor in factors(product, core):
                q, x = map(simplify, factor)
                axes = product_axes(q, x, v, keys, product)
                if axes is not None:
                    m, n, depth = axes
                    first = Product(product, q, x, m, keys, depth)
                    sums.append(WeightedSum(first, Product(total, weights, v, m, n, keys), softmax))
    return sums


def _above_sums(node: UOp) -> bool:
    return node.op is not Ops.REDUCE


def product_axes(q: UOp, x: UOp, v: UOp, keys: UOp, product: UOp) -> tuple[UOp, UOp, UOp] | None:
    """Queries, columns of the result and what the scores are summed over; None if that is no product of matrices."""
    outputs = sorted(
        (r for r in (q.ranges | v.ranges) if kind_of(r) in OUTPUT), key=lambda r: r.order, reverse=True
    )
    rows = [r for r in outputs if r in q.ranges and r not in x.ranges and r not in v.ranges]
    columns = [r for r in outputs if r in v.ranges and r not in q.ranges and r not in x.ranges]
    depth = [r for r in product.src[1:] if r in q.ranges and r in x.ranges]
    if not rows or len(columns) != 1 or len(depth) != 1 or len(product.src) != 2:
        return None
    if keys in q.ranges or keys not in x.ranges or keys not in v.ranges:
        return None
    return rows[0], columns[0], depth[0]


def is_kept(value: UOp) -> bool:
    """Whether a value is read from rows that the kernel keeps, converted or not."""
    while value.op is Ops.CAST:
        (value,) = value.src
    return value.op is Ops.INDEX and value.src[0].op is Ops.BUFFERIZE


def looked_through(value: UOp) -> UOp:
    """A value whose kept rows are what they are made of."""
    final: dict[UOp, UOp] = {}
    for node in value.toposort():
        src = tuple([final[source] for source in node.src])
        rebuilt = node if src == node.src else node.table.remake(node, src)
        if rebuilt.op is Ops.INDEX and rebuilt.src[0].op is Ops.BUFFERIZE:
            kept, *at = rebuilt.src
            x, *places = kept.src
            if len(at) == len(places):
                numbers = [_numbers(place, number) for place, number in zip(places, at, strict=True)]
                if all(numbers):
                    rebuilt = substitute(x, {r: number for each in numbers for r, number in each.items()})
        final[node] = rebuilt
    return final[value]


def _numbers(place: UOp, number: UOp) -> dict[UOp, UOp]:
    """Which ranges a place with a number belongs to, row by row; none if places are no numbers of theirs."""
    if place.op is Ops.RANGE:
        return {place: number}
    numbers, left = dict[UOp, UOp](), 1
    for r in sorted(place.ranges, key=lambda r: stride(place, r) or 0):
        if stride(place, r) != left or r.src[0].op is not Ops.CONST:
            return {}
        size = r.vmax + 1
        numbers[r] = number // left % size
        left *= size
    return numbers if place.vmin == 0 and place.vmax == left - 1 else {}


def _softmax(share: UOp, keys: UOp) -> SoftmaxWeights | None:
    """What a share is the softmax of, along an axis: e^(x - top) / total, or e^(x - (top + log total))."""
    while share.op is Ops.CAST:
        (share,) = share.src
    grown, total = _divided(share) or (share, None)
    if grown.op is not Ops.EXP or grown.src[0].op is not Ops.SUB:
        return None
    graded, top = grown.src[0].src
    for one, other in (top.src, top.src[::-1]) if total is None and top.op is Ops.ADD else ():
        if other.op is Ops.LOG:
            top, total = one, other.src[0]
            grown = (graded - top).alu(Ops.EXP)
            break
    if total is None:
        return None
    total, never_none = _unless(total, 0.0, 1.0)
    top, ever_seen = _unless(top, -math.inf, 0.0)
    if total.op is not Ops.REDUCE or total.arg is not Ops.ADD:
        return None
    if top.op is not Ops.REDUCE or top.arg is not Ops.MAX or never_none is not ever_seen:
        return None
    same = all(
        len(each.src) == 2 and each.src[1].op is Ops.RANGE and _is_same(each.src[0], of, keys, each.src[1])
        for each, of in ((top, graded), (total, grown))
    )
    return SoftmaxWeights(graded, top, total, ever_seen) if same else None


def _divided(share: UOp) -> tuple[UOp, UOp] | None:
    """What is divided, and by what."""
    if share.op is Ops.FDIV:
        return share.src[0], share.src[1]
    if share.op is Ops.MUL:
        for x, y in (share.src, share.src[::-1]):
            if y.op is Ops.RECIP:
                return x, y.src[0]
    return None


def _is_same(value: UOp, other: UOp, keys: UOp, along: UOp) -> bool:
    """Whether a value along one axis is another along the axis of the keys."""
    if along.vmax != keys.vmax:
        return False
    moved = substitute(other, {keys: along})
    return moved is value or simplify(moved) is simplify(value)


def _is_number(value: UOp, number: float) -> bool:
    return value.op is Ops.CONST and value.arg == number


def _unless(value: UOp, nothing: float, instead: float) -> tuple[UOp, bool]:
    """What a value is unless that is nothing, and whether something else is then taken instead."""
    if value.op is Ops.WHERE and _is_number(value.src[1], instead):
        condition, _, x = value.src
        if condition.op is Ops.CMPEQ and condition.src[0] is x and _is_number(condition.src[1], nothing):
            return x, True
    return value, False
