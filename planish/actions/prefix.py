"""`prefix(i, 16)`: part of an axis that a SCAN runs along goes into lanes.

Why: one addition after another takes as long as each of them does. A vector's running sums take as many steps as its length has
bits, and from one vector to the next only the total is handed on: one addition for all its lanes.

Before → after::

    STORE(y[r], SCAN[ADD](x[r], r)) for r        STORE(y[s*16 + u], SCAN[ADD](x[s*16 + u], s, u)) for s, u: UPCAST

The values are combined in another order, which is the same in every run: integers, extrema and bits do not change.
"""

from __future__ import annotations

from planish.actions.base import ALL, OneAxis
from planish.actions.scanned import cut_scans, scans_along
from planish.actions.splitting import MOST_UPCAST, parts
from planish.target import Target
from planish.uop.nest import OUTPUT
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import AxisType


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
        remedy = "upcast puts other axes into lanes"
        scans = scans_along(self, facts, r, remedy)
        if r not in facts.scanned:
            raise self.no("no SCAN runs along the axis", remedy=remedy)
        if any(scan.src[1:] != (r,) for scan in scans):
            raise self.no("part of the axis is in lanes already")

    def apply(self, sink: UOp, target: Target) -> UOp:
        r = self.own_axis(sink)
        self.check(Nest.of(sink), r)
        return cut_scans(sink, r, *parts(self, r, most=MOST_UPCAST), AxisType.UPCAST)
