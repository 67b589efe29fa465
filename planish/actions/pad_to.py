"""`pad_to(i, 16)`: an axis runs on to a multiple, and nothing happens beyond its end (`padding.py`).

Before → after::

    r = RANGE(30); REDUCE(x[r], r)       s = RANGE(32); REDUCE(where(s < 30, x[s if s < 30], 0), s)
"""

from __future__ import annotations

from collections.abc import Callable

from planish.actions.bounded_reads import is_periodic, reads_nothing_new, stays_inside
from planish.actions.padding import Padding, gated, longer
from planish.uop.laws import memory_of
from planish.uop.nest import LOOP_VALUES, closed_by
from planish.uop.node import UOp
from planish.uop.ops import Ops


class PadTo(Padding):
    """An axis with nothing beyond its end."""

    word = "pad_to"
    does = "run an axis up to the next multiple, doing nothing beyond its end"

    def is_neutral(self, reduction: UOp, r: UOp) -> bool:
        """A sum of products adds nothing there by itself: products of zeros, since neither factor is loaded."""
        value = reduction.src[0]
        return (
            reduction.arg is Ops.ADD
            and value.op is Ops.MUL
            and all(x.op is Ops.INDEX and any(r in index.ranges for index in x.src[1:]) for x in value.src)
        )

    def read(self, sink: UOp, r: UOp) -> Callable[[UOp, UOp], UOp]:
        nodes, condition = sink.toposort(), longer(r, self.multiple) < r.src[0]
        written = {memory_of(node.src[0]) for node in nodes if node.op is Ops.STORE}
        is_stored = not any(r in closed_by(node) for node in nodes if node.op in LOOP_VALUES)

        def guarded(node: UOp, now: UOp) -> UOp:
            # what nobody stores may be read, if it is there
            is_free = is_stored and memory_of(node) not in written
            if is_free and (
                stays_inside(now, r)
                or reads_nothing_new(node, r)
                or is_periodic(node, r, longer(r, self.multiple).vmax)
            ):
                return now
            return gated(now, condition)

        return guarded
