"""`prefix(i, 16)`: part of an axis that a SCAN runs along goes into lanes.

Why: one addition after another takes as long as each of them does. A vector's running sums take as many steps as its length has
bits, and from one vector to the next only the total is handed on: one addition for all its lanes.

Before → after::

    STORE(y[r], SCAN[ADD](x[r], r)) for r        STORE(y[s*16 + u], SCAN[ADD](x[s*16 + u], s, u)) for s, u: UPCAST

The values are combined in another order, which is the same in every run: integers, extrema and bits do not change.
"""

from __future__ import annotations

from typing import cast

from planish.actions.base import ALL, OneAxis
from planish.actions.splitting import MOST_UPCAST, parts
from planish.target import Target
from planish.uop.kernel_algebra import pm_flatten_range
from planish.uop.nest import OUTPUT
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import Axis, AxisType, Ops
from planish.uop.rewrite import rewrite
from planish.uop.symbolic.reduce import identity


class Prefix(OneAxis):
    """Running values of whole vectors."""

    word = "prefix"
    does = "lay a part of an axis that a SCAN runs along out in lanes, whose running values are made together"
    takes = OUTPUT
    sized = "width"
    divides = True
    width: int = ALL

    def check(self, facts: Nest, r: UOp) -> None:
        """Refuse an axis that no SCAN runs along, or whose order matters otherwise."""
        scans = [node for node in facts.nodes if node.op is Ops.SCAN and r in node.src[1:]]
        if not scans or r not in facts.scanned:
            raise self.no("no SCAN runs along the axis", remedy="upcast puts other axes into lanes")
        if r in facts.otherwise:
            raise self.no(f"the order of the axis matters: {facts.otherwise[r]}")
        for scan in scans:
            if scan.src[1:] != (r,):
                raise self.no("part of the axis is in lanes already")
            if identity(cast("Ops", scan.arg), scan) is None:
                raise self.no(f"{cast('Ops', scan.arg).name} of {scan.dtype} has no value to start from")
        if any(closing.op is not Ops.END for closing in facts.closers.get(r, ())):
            raise self.no("the axis is reduced or kept as well")
        self.check_reuse(facts, r)
        self.check_bounds(facts, r)

    def apply(self, sink: UOp, target: Target) -> UOp:
        r = self.found(sink)
        self.check(Nest.of(sink), r)
        return _in_lanes(sink, r, *parts(self, r, most=MOST_UPCAST))


def _in_lanes(sink: UOp, r: UOp, amount: int, rest: UOp | None) -> UOp:
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
