"""Stage 11, remove reduce: "combine these values" becomes an accumulator that a loop updates.

Why: hardware has no REDUCE; it has a register that is set once and updated in a loop.

Before → after::

    REDUCE[ADD](value, r)            acc = DEFINE_REG
                                     init:    acc[0] = 0          after the outer ranges, so once per outer iteration
                                     update:  acc[0] = acc[0] + value      inside r, after init; END r
                                     result:  acc[0]              after update

Lanes first: a reduction of lanes (an unrolled axis) is combined by a tree of ops before it reaches the accumulator, so the
loop carries one dependency per unrolled group.

Would break without it: stage 21 could not place the value in any loop.

Holds afterwards: no REDUCE is left; each accumulator is initialised after all ranges its value depends on except
those it reduces, and read inside them only after that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from planish import dtypes
from planish.dtypes import AddrSpace, DType
from planish.errors import LoweringError
from planish.uop.matcher import Matcher, rule
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.pattern import node
from planish.uop.rewrite import rewrite
from planish.uop.symbolic.reduce import identity


@dataclass(slots=True)
class Accumulators:
    """How many registers the kernel has so far."""

    count: int = 0


def horizontal(op: Ops, value: UOp, dtype: DType) -> UOp:
    """Lanes combined down to the dtype: whole vectors of its width, pair by pair as a tree."""
    width = dtype.lanes
    count = value.dtype.lanes // width
    parts = [value.gep(*range(i * width, (i + 1) * width)) for i in range(count)] if count > 1 else [value]
    while len(parts) > 1:
        paired = [a.alu(op, b) for a, b in zip(parts[::2], parts[1::2], strict=False)]
        parts = paired + parts[len(paired) * 2 :]
    return parts[0]


def _to_accumulator(root: UOp, ctx: Accumulators) -> UOp:
    value, *reduced = root.src
    op = cast("Ops", root.arg)
    table, dtype = root.table, root.dtype
    value = horizontal(op, value, dtype)
    if not reduced:
        return value
    # as many scalars side by side as there are lanes; a vector there is so many elements from the first on
    register = table.make(Ops.DEFINE_REG, dtype.scalar.ptr(dtype.lanes, AddrSpace.REG), (), ctx.count)
    ctx.count += 1

    def element(*effects: UOp) -> UOp:
        memory = register.after(*effects) if effects else register
        return table.make(Ops.INDEX, dtype, (memory, table.const(0, dtypes.index)))

    outer = sorted(value.ranges - set(reduced), key=lambda r: r.order)
    start = identity(op, root)
    if start is None:
        raise LoweringError(f"{op.name} of {dtype} has no value to start from", op="REDUCE")
    init = element(*outer).store(table.const(start, dtype))
    inside = element(init, *reduced)
    update = inside.store(inside.alu(op, value)).end(*reduced)
    return element(update)


pm_reduce = Matcher(
    "pm_reduce",
    [rule(node(Ops.REDUCE), _to_accumulator, says="REDUCE(x, r…) -> acc after (acc = op(acc, x) for r…)")],
)


def remove_reduce(sink: UOp) -> UOp:
    """Turn every REDUCE into an accumulator."""
    return rewrite(sink, pm_reduce, Accumulators())
