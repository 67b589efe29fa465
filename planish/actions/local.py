"""`local(j, 32)`: the inner part of an output axis is the threads of a block."""

from __future__ import annotations

from planish.actions.base import ALL
from planish.actions.splitting import Splitting, within_a_block
from planish.target import Target
from planish.uop.nest import OUTPUT
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import AxisType, Ops


class Local(Splitting):
    """A part of an output axis for the threads of a block."""

    word = "local"
    does = "give a part of an output axis to the threads of a block"
    takes = OUTPUT
    makes = AxisType.LOCAL
    sized = "threads"
    threads_needed = True
    threads: int = ALL

    def check(self, facts: Nest, r: UOp, amount: int, target: Target) -> None:
        self.check_order(facts, r)
        if not target.block:
            raise self.no(f"{target.name} has no threads in blocks")
        if any(closing.op is Ops.REDUCE for closing in facts.closers.get(r, ())):
            raise self.no(f"axis {self.axis} is reduced", remedy="group shares a reduction among threads")

    def finished(self, sink: UOp, part: UOp, target: Target) -> UOp:
        return within_a_block(self, sink, target)
