"""`no_locals()`: no threads of a block after it."""

from __future__ import annotations

from planish.actions.base import Action
from planish.target import Target
from planish.uop.nest import THREADS
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.ranges import kind_of


class NoLocals(Action):
    """A kernel without threads of a block."""

    word = "no_locals"
    does = "use no threads of a block"
    bars_threads = True

    def apply(self, sink: UOp, target: Target) -> UOp:
        if any(n.op is Ops.RANGE and kind_of(n) in THREADS for n in sink.toposort()):
            raise self.no("the kernel uses threads of a block already")
        return sink
