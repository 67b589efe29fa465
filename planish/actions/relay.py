"""`relay(j, 32)`: neighbouring threads share an axis that a SCAN runs along, and hand on what they have.

Why: a row that is scanned by one thread is read one element after another. A warp reads it together: each thread scans some neighbours,
the threads exchange what each has in total, in as many steps as their number has bits, and from one round to the next only
the total of all is handed on. Nothing goes through memory, and nobody waits at a barrier.

Before → after::

    STORE(y[r], SCAN[ADD](x[r], r)) for r        STORE(y[s*32 + w], SCAN[ADD](x[s*32 + w], s, w)) for s, w: WARP

With `prefix` first, each thread has a vector. The values are combined in another order, which is the same in every run.
"""

from __future__ import annotations

from typing import cast

from planish.actions.base import ALL, OneAxis
from planish.actions.splitting import parts, within_a_block
from planish.target import Target
from planish.uop.kernel_algebra import pm_flatten_range
from planish.uop.nest import OUTPUT
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import Axis, AxisType, Ops
from planish.uop.rewrite import rewrite
from planish.uop.symbolic.reduce import identity


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
        scans = [node for node in facts.nodes if node.op is Ops.SCAN and r in node.src[1:]]
        if not scans:
            raise self.no("no SCAN runs along the axis", remedy="local gives other axes to threads")
        if r in facts.otherwise:
            raise self.no(f"the order of the axis matters: {facts.otherwise[r]}")
        if amount > target.warp or amount & amount - 1:
            raise self.no(f"{amount} threads are not those of a warp, or a power of two of them")
        for scan in scans:
            if scan.src[1] is not r:
                raise self.no("the axis is a part of what a SCAN runs along already")
            if identity(cast("Ops", scan.arg), scan) is None:
                raise self.no(f"{cast('Ops', scan.arg).name} of {scan.dtype} has no value to start from")
        if facts.axes(AxisType.WARP, AxisType.GROUP_REDUCE):
            raise self.no("neighbouring threads do something else together already")
        if any(closing.op is not Ops.END for closing in facts.closers.get(r, ())):
            raise self.no("the axis is reduced or kept as well")
        self.check_reuse(facts, r)
        self.check_bounds(facts, r)

    def apply(self, sink: UOp, target: Target) -> UOp:
        r = self.found(sink)
        amount, rest = parts(self, r)
        self.check(Nest.of(sink), r, amount, target)
        table, axis = r.table, cast("Axis", r.arg)
        part = table.range(amount, axis.part(1, AxisType.WARP))
        other = r.const_like(0) if rest is None else table.range(rest, axis.part(0))
        final: dict[UOp, UOp] = {r: part if rest is None else other * amount + part}
        for node in sink.toposort():
            if node in final:
                continue
            src = tuple([final[source] for source in node.src])
            if node.op is Ops.SCAN and node.src[1] is r:
                src = (src[0], other, part, *src[2:])
            final[node] = node if src == node.src else node.replace(src=src)
        return within_a_block(self, rewrite(final[sink], pm_flatten_range), target)
