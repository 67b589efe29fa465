"""`shift_inwards(i, 8)`: an axis in tiles, `i.outer` and `i.inner`, the last of which starts earlier, so that it ends where the axis does.

14 rows in tiles of 8 are rows 0 to 7 and rows 6 to 13: nothing runs over the end, so that nothing has a gate. What two tiles have in
common is computed and stored twice, and is the same both times. So an axis that is summed up or kept does not fit, nor does
a kernel that reads what it writes; and there have to be as many elements as a tile has, however small a named size may be.

Before → after::

    STORE(c[r], x[r]) for r < n          s = min(o*8, n - 8) + t; STORE(c[s], x[s]) for o < ceil(n / 8), t < 8
"""

from __future__ import annotations

from typing import cast

from planish.actions.splitting import Splitting
from planish.target import Target
from planish.uop.laws import memory_of
from planish.uop.nest import OUTPUT
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import Axis, Ops
from planish.uop.symbolic import simplify


class ShiftInwards(Splitting):
    """Two loops instead of one, tiles of which two may overlap."""

    word = "shift_inwards"
    does = "make two loops of one, of which the inner one starts earlier where it would run over the end"
    takes = OUTPUT
    divides = False
    stores_twice = True
    sized = "by"
    by: int

    def parted(self, r: UOp, facts: Nest) -> tuple[UOp, UOp]:
        size, by = r.src[0], self.by
        if size.ranges:
            raise self.no(f"the length of axis {self.axis} depends on other loops")
        if by < 2 or size.vmax <= by:
            raise self.no(f"{by} is no part of the {size.vmax} of axis {self.axis}")
        if size.vmin < by:
            raise self.no(
                f"axis {self.axis} may have no more than {size.vmin} elements",
                remedy=f"pad_to({self.axis}, {by})",
            )
        axis, table = cast("Axis", r.arg), r.table
        outer = table.range(simplify((size + (by - 1)) // by), axis.part(0))
        inner = table.range(by, axis.part(1))
        return inner, (outer * by).alu(Ops.MIN, simplify(size - by)) + inner

    def check(self, facts: Nest, r: UOp, amount: int, target: Target) -> None:
        """What is done twice has to be the same both times."""
        self.check_order(facts, r)
        if target.is_gpu:
            raise self.no(f"the blocks of {target.name} have no order in which one writes over another")
        if facts.scans or any(closing.op is not Ops.END for closing in facts.closers.get(r, ())):
            raise self.no(f"axis {self.axis} is reduced, scanned or kept")
        written = {memory_of(node.src[0]) for node in facts.nodes if node.op is Ops.STORE}
        for node in facts.nodes:
            read = node.src[1:] if node.op is Ops.STORE else node.src
            if any(place.op is Ops.INDEX and memory_of(place) in written for place in read):
                raise self.no("the kernel reads what it writes")
