"""`relay(j, 32)`: neighbouring threads share an axis that a SCAN runs along, and hand on what they have.

Why: a row that is scanned by one thread is read one element after another. A warp reads it together: each thread scans some neighbours,
the threads exchange what each has in total, in as many steps as their number has bits, and from one round to the next only
the total of all is handed on. Nothing goes through memory, and nobody waits at a barrier.

Before → after::

    STORE(y[r], SCAN[ADD](x[r], r)) for r        STORE(y[s*32 + w], SCAN[ADD](x[s*32 + w], s, w)) for s, w: WARP

With `prefix` first, each thread has a vector. The values are combined in another order, which is the same in every run.
"""

from __future__ import annotations

from planish.actions.base import ALL, OneAxis
from planish.actions.scanned import cut_scans, scans_along
from planish.actions.splitting import parts, within_a_block
from planish.target import Target
from planish.uop.nest import OUTPUT
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import AxisType


class Relay(OneAxis):
    """A scan that the threads of a warp share."""

    word = "relay"
    does = (
        "share an axis that a SCAN runs along among neighbouring threads, each of which hands on what it has"
    )
    takes = OUTPUT
    sized = "threads"
    divides = True
    threads_needed = True
    threads: int = ALL

    def check(self, facts: Nest, r: UOp, amount: int, target: Target) -> None:
        """Refuse an axis that no SCAN runs along, or whose order matters otherwise, and what is no warp."""
        scans = scans_along(self, facts, r, "local gives other axes to threads")
        if amount > target.warp or amount & amount - 1:
            raise self.no(f"{amount} threads are not those of a warp, or a power of two of them")
        if any(scan.src[1] is not r for scan in scans):
            raise self.no("the axis is a part of what a SCAN runs along already")
        if facts.axes(AxisType.WARP, AxisType.GROUP_REDUCE):
            raise self.no("neighbouring threads do something else together already")

    def apply(self, sink: UOp, target: Target) -> UOp:
        r = self.own_axis(sink)
        amount, rest = parts(self, r)
        self.check(Nest.of(sink), r, amount, target)
        return within_a_block(self, cut_scans(sink, r, amount, rest, AxisType.WARP), target)
