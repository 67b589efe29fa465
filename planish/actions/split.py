"""`split(i, 6)`: two loops instead of one, `i.outer` and `i.inner`; the inner one has the size."""

from __future__ import annotations

from planish.actions.splitting import Splitting
from planish.target import Target
from planish.uop.nest import OUTPUT
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import AxisType


class Split(Splitting):
    """Two loops instead of one."""

    word = "split"
    does = "make two loops of one"
    takes = OUTPUT | {AxisType.REDUCE}
    sized = "by"
    by: int

    def check(self, facts: Nest, r: UOp, amount: int, target: Target) -> None:
        """The values come in the same order, so that hardly anything matters."""
        if r in facts.scanned:
            raise self.no(f"the order of axis {self.axis} matters: a SCAN runs along it")
