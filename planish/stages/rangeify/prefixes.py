"""The action PREFIX of stage 7: part of an axis that a SCAN runs along goes into lanes.

Why: one addition after another takes as long as each of them does. A vector's running sums take as many steps as its length has
bits, and from one vector to the next only the total is handed on: one addition for all its lanes.

Before → after::

    STORE(y[r], SCAN[ADD](x[r], r)) for r        STORE(y[s*16 + u], SCAN[ADD](x[s*16 + u], s, u)) for s, u: UPCAST

The values are combined in another order, which is the same in every run: integers, extrema and bits do not change.
"""

from __future__ import annotations

from typing import cast

from planish.stages.rangeify.algebra import pm_flatten_range
from planish.stages.rangeify.legality import OUTPUT, Facts
from planish.stages.rangeify.refusal import Refusal
from planish.uop.node import UOp
from planish.uop.ops import Axis, AxisType, Ops
from planish.uop.ranges import kind_of
from planish.uop.rewrite import rewrite
from planish.uop.symbolic.reduce import identity


def check_prefix(facts: Facts, r: UOp) -> None:
    """Refuse an axis that no SCAN runs along, or whose order matters otherwise."""
    scans = [node for node in facts.nodes if node.op is Ops.SCAN and r in node.src[1:]]
    if kind_of(r) not in OUTPUT or not scans or r not in facts.scanned:
        raise Refusal("PREFIX: no SCAN runs along the axis", remedy="UPCAST puts other axes into lanes")
    if r in facts.otherwise:
        raise Refusal(f"PREFIX: the order of the axis matters: {facts.otherwise[r]}")
    for scan in scans:
        if scan.src[1:] != (r,):
            raise Refusal("PREFIX: part of the axis is in lanes already")
        if identity(cast("Ops", scan.arg), scan) is None:
            raise Refusal(f"PREFIX: {cast('Ops', scan.arg).name} of {scan.dtype} has no value to start from")
    if any(closing.op is not Ops.END for closing in facts.closers.get(r, ())):
        raise Refusal("PREFIX: the axis is reduced or kept as well")


def prefix(sink: UOp, r: UOp, amount: int, rest: UOp | None) -> UOp:
    """The kernel with part of a scanned axis in lanes; `rest` is how many times (None: once)."""
    table, axis = r.table, cast("Axis", r.arg)
    part = table.range(amount, axis.part(1, AxisType.UPCAST))
    other = r.const_like(0) if rest is None else table.range(rest, axis.part(0))
    final: dict[UOp, UOp] = {r: part if rest is None else other * amount + part}
    for node in sink.toposort():
        if node in final:
            continue
        if node.op is Ops.SCAN and node.src[1] is r:
            final[node] = node.replace(src=(final[node.src[0]], other, part))
            continue
        src = tuple([final[source] for source in node.src])
        final[node] = node if src == node.src else node.replace(src=src)
    return rewrite(final[sink], pm_flatten_range)
