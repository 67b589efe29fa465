"""`accumulators(k, 16)`: parts of a reduce axis have accumulators of their own, in lanes, combined after the loop.

As an UPCAST the part is the fastest of the lanes: it is mostly contiguous, and combined only at the end.
"""

from __future__ import annotations

from planish.actions.base import ALL
from planish.actions.splitting import MOST_UPCAST, Splitting
from planish.target import Target
from planish.uop.node import UOp
from planish.uop.ops import AxisType, Ops


class Accumulators(Splitting):
    """Several accumulators for one reduction."""

    word = "accumulators"
    does = "give parts of a reduce axis accumulators of their own, in lanes, combined after the loop"
    takes = frozenset({AxisType.REDUCE})
    makes = AxisType.UPCAST
    most = MOST_UPCAST
    sized = "count"
    count: int = ALL

    def finished(self, sink: UOp, part: UOp, target: Target) -> UOp:
        """Every reduction over the part and something else, as one over the rest and then one over the part."""
        final: dict[UOp, UOp] = {}
        for node in sink.toposort():
            src = tuple([final[source] for source in node.src])
            rebuilt = node if src == node.src else node.replace(src=src)
            if node.op is Ops.REDUCE and part in node.src[1:] and len(node.src) > 2:
                x, *ranges = rebuilt.src
                rebuilt = rebuilt.replace(src=(x, *(r for r in ranges if r is not part)))
                rebuilt = rebuilt.replace(src=(rebuilt, part))
            final[node] = rebuilt
        return final[sink]
