"""Passes of `hold` that `limit` leaves out, and what they would have added.

The weights that a mask hides are 0 (`limit.py` says why), and a pass over nothing but such weights would add 0 * v to every sum. That
is 0 if v is finite and NaN if it is not, whatever the row: it depends on the column alone. So instead of a pass for every row
there is one sum for all of them, which is added in the end:

    for passes b:  m[d] += p[b*n + t] * v[b*n + t, d]      for passes b below the bound
    o[c] = m[c]                                             o[c] = m[c] + REDUCE[ADD](0 * v[j, c], j beyond the bound)
"""

from __future__ import annotations

from collections.abc import Collection
from math import prod
from typing import Final, NamedTuple, cast

from planish import dtypes
from planish.uop.nest import LANES, next_root, plain_index
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import AxisType, Bufferize, Ops
from planish.uop.ranges import kind_of
from planish.uop.rewrite import substitute
from planish.uop.strides import stride
from planish.uop.symbolic import simplify

_TOGETHER: Final = 4
"""Terms that are added up at once: one addition after another takes as long as each of them does."""


class Passes(NamedTuple):
    """Passes over blocks of rows, the sums of which LOCAL memory holds."""

    axis: UOp
    amount: int
    """Columns in a pass."""
    part: UOp
    """The axis of a pass's own sum."""
    end: UOp
    place: UOp
    """Where a sum is held."""
    values: UOp
    """What the weights are multiplied by."""

    def is_in_steps_of(self, step: int, size: int) -> bool:
        """Whether steps of rows are whole passes, over all of the rows."""
        whole = (self.axis.vmax + 1) * self.amount == size and self.axis.src[0].op is Ops.CONST
        return whole and step % self.amount == 0 and step % _TOGETHER == 0


def passes_over(facts: Nest, weight: UOp, sums: Collection[UOp]) -> Passes | None:
    """The passes in which an exponential, divided by the sum of its row, is a weight; None if it is used otherwise."""
    for axis in weight.src[1].ranges:
        ends = facts.closers.get(axis, [])
        if len(ends) != 1 or ends[0].op is not Ops.END or ends[0].src[0].op is not Ops.STORE:
            continue
        (end,) = ends
        place, value = end.src[0].src[:2]
        index, amount = plain_index(place), stride(weight.src[1], axis)
        if place.src[0].op is not Ops.DEFINE_LOCAL or index is None or axis in index.ranges or not amount:
            continue
        total = value.src[-1]
        if value.op is not Ops.ADD or total.op is not Ops.REDUCE or total.src[0].op is not Ops.MUL:
            continue
        product, *parts = total.src
        for read, values in (product.src, product.src[::-1]):
            if (
                len(parts) == 1
                and _is_quotient(read, weight, sums)
                and read.src[1:] == (parts[0],)
                and not any(kind_of(s) in LANES and s not in end.src[1:] for s in values.ranges)
            ):
                return Passes(axis, amount, parts[0], end, place, values)
    return None


def _is_quotient(read: UOp, weight: UOp, sums: Collection[UOp]) -> bool:
    """Whether a read is one of a kept block of weight / sum, and of nothing else."""
    if read.op is not Ops.INDEX or read.src[0].op is not Ops.BUFFERIZE:
        return False
    x = read.src[0].src[0]
    if x.op is Ops.MUL:
        return x.src[0] is weight and x.src[1].op is Ops.RECIP and x.src[1].src[0] in sums
    return x.op is Ops.FDIV and x.src[0] is weight and x.src[1] in sums


def added(facts: Nest, passes: Passes, bound: UOp, size: int, lanes: int) -> dict[UOp, UOp]:
    """The reads of what the passes have left, each with what the columns from a bound on add to it."""
    index = cast("UOp", plain_index(passes.place))
    twins = [s for s in passes.end.src[1:] if s is not passes.axis]
    steps = {s: cast("int", stride(index, s)) for s in twins}
    twins.sort(key=lambda s: -steps[s])
    rows, count = steps[twins[-1]], prod(s.vmax + 1 for s in twins)
    width = max(w for w in range(1, lanes + 1) if count % w == 0)
    table = index.table
    first = next_root(facts.nodes)
    column = table.range(width, first, AxisType.UPCAST) if width > 1 else table.const(0, dtypes.index)
    if width < count:
        column = table.range(count // width, first + 1) * width + column
    left = simplify(table.const(size, dtypes.index) - bound)
    beyond = table.range(simplify(left // _TOGETHER), first + 2, AxisType.REDUCE)
    some = table.range(_TOGETHER, first + 3, AxisType.UNROLL)
    at = table.const(size - 1, dtypes.index) - (beyond * _TOGETHER + some)
    exchange = {passes.axis: at // passes.amount, passes.part: at % passes.amount}
    flat = column
    for s in reversed(twins):
        exchange[s] = flat % (s.vmax + 1)
        flat = flat // (s.vmax + 1)
    values = substitute(passes.values, exchange)
    values = substitute(
        values,
        {
            n: n.replace(src=(n.src[0], *map(simplify, n.src[1:])))
            for n in values.toposort()
            if n.op is Ops.INDEX
        },
    )
    nothing = (values.const_like(0.0) * values).reduce(Ops.ADD, beyond, some)
    kept = table.make(Ops.BUFFERIZE, nothing.dtype, (nothing, column), Bufferize("local"))
    sums = {}
    for n in facts.nodes:
        if n.op is Ops.INDEX and n.src[0].op is Ops.AFTER and passes.end in n.src[0].src:
            mine = simplify(cast("UOp", plain_index(n)) // rows)
            sums[n] = n + table.make(Ops.INDEX, n.dtype, (kept, mine))
    return sums
