"""`overrun(i, 6)`: an axis runs on to a multiple; beyond its end its last element is read again, and not stored or counted.

That is `pad_to` for an output axis that will not be in lanes, say the rows of a register tile: a gate on each load of a scalar would
be a jump in the innermost loop. What is computed beyond the end is not stored, so it may be anything.

Before → after::

    STORE(c[r], a[r]) for r              STORE(c[s if s < 30], a[min(s, 29)]) for s
"""

from __future__ import annotations

from collections.abc import Callable

from planish.actions.padding import Padding, gated, longer
from planish.uop.laws import memory_of
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.rewrite import substitute
from planish.uop.symbolic import simplify


class Overrun(Padding):
    """An axis whose last element comes several times."""

    word = "overrun"
    does = "run an axis up to the next multiple: beyond its end its last element is read again, and not stored or counted"

    def check(self, facts: Nest, r: UOp) -> None:
        """What a SCAN meets beyond the end comes after all that counts, unless it is counted again."""
        if r in facts.scanned:
            raise self.no(f"the order of axis {self.axis} matters: a SCAN runs along it")

    def read(self, sink: UOp, r: UOp) -> Callable[[UOp, UOp], UOp]:
        new = longer(r, self.multiple)
        condition, last = new < r.src[0], new.alu(Ops.MIN, simplify(r.src[0] - 1))
        written = {memory_of(node.src[0]) for node in sink.toposort() if node.op is Ops.STORE}

        def guarded(node: UOp, now: UOp) -> UOp:
            if memory_of(node) in written:
                return gated(now, condition)
            return now.replace(src=(now.src[0], *(substitute(index, {r: last}) for index in node.src[1:])))

        return guarded
