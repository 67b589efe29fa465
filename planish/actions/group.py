"""`group(k, 32)`: a reduce axis is shared among the threads of a block, which finish it through LOCAL memory.

Neighbouring elements go to neighbouring threads; with `contiguous=true` each thread has a contiguous piece.
"""

from __future__ import annotations

from planish.actions.base import ALL
from planish.actions.splitting import Splitting, within_a_block
from planish.target import Target
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import AxisType


class Group(Splitting):
    """A reduction that threads share."""

    word = "group"
    does = "share a reduce axis among the threads of a block"
    takes = frozenset({AxisType.REDUCE})
    makes = AxisType.GROUP_REDUCE
    sized = "threads"
    threads_needed = True
    asks_for_room = False  # rows that one loop shares already and another not yet are more than they will be
    threads: int = ALL
    contiguous: bool = False

    def check(self, facts: Nest, r: UOp, amount: int, target: Target) -> None:
        self.check_order(facts, r)
        if not target.block:
            raise self.no(f"{target.name} has no threads in blocks")

    @property
    def takes_outer(self) -> bool:
        return self.contiguous

    def finished(self, sink: UOp, part: UOp, target: Target) -> UOp:
        return within_a_block(self, sink, target)
