"""`thread(i, 8)`: contiguous pieces of an output axis are given to the cores.

In a kernel of several loops, one after another, every core does its piece of each (`companions.py`). Pieces that are `uneven` may be of an axis
whose size is not known, or that they do not divide: the last ones are shorter, or empty.

    i < n            t < 8, k < min(m, n - t·m)   at   t·m + k        m = ceil(n / 8)
"""

from __future__ import annotations

from math import prod
from typing import cast

from planish.actions.base import ALL
from planish.actions.companions import companions, done_once
from planish.actions.splitting import Splitting
from planish.target import Target
from planish.uop.nest import OUTPUT
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import Axis, AxisType, Ops
from planish.uop.symbolic import simplify


class Thread(Splitting):
    """Pieces of an output axis for the cores."""

    word = "thread"
    does = "give contiguous pieces of an output axis to the cores"
    takes = OUTPUT
    makes = AxisType.THREAD
    sized = "pieces"
    pieces: int = ALL
    uneven: bool = False

    def parted(self, r: UOp, facts: Nest) -> tuple[UOp, UOp]:
        if not self.uneven:
            return super().parted(r, facts)
        if r.src[0].ranges or self.pieces < 2:
            raise self.no(f"axis {self.axis} has no pieces of about the same size")
        axis, size = cast("Axis", r.arg), r.src[0]
        part = r.table.range(self.pieces, self.place(axis.part(0, self.makes), facts))
        most = simplify((size + (self.pieces - 1)) // self.pieces)
        left = simplify((size - part * most).alu(Ops.MAX, size.const_like(0)).alu(Ops.MIN, most))
        return part, part * most + r.table.range(left, axis.part(1))

    @property
    def takes_outer(self) -> bool:
        return True

    def check_reuse(self, facts: Nest, r: UOp) -> None:
        """Every core has LOCAL memory of its own."""

    def check(self, facts: Nest, r: UOp, amount: int, target: Target) -> None:
        self.check_order(facts, r)
        if target.block or target.cores < 2:
            raise self.no(f"{target.name} has no cores to share work among")
        cores = amount * prod(s.vmax + 1 for s in facts.axes(AxisType.THREAD))
        if cores > target.cores:
            raise self.no(f"{cores} pieces are more than the {target.cores} that {target.name} takes")
        closers = facts.closers.get(r, ())
        if any(closing.op is not Ops.END for closing in closers):
            raise self.no(f"axis {self.axis} is reduced or kept: not every core has all of it")
        if not set(closers) <= set(facts.outer_ends):
            raise self.no(f"not every core would have all that is held over axis {self.axis}")

    def besides(self, facts: Nest, r: UOp, part: UOp) -> dict[UOp, UOp]:
        """What becomes of the other loops of a kernel when cores share one."""
        pieces = part.vmax + 1
        others = companions(self, facts, r, pieces)
        if self.uneven and others.axes:
            raise self.no("other loops have no such pieces")
        exchange = {end: done_once(end, part) for end in others.alone}
        for axis in others.axes:
            rest = (axis.vmax + 1) // pieces
            inner = cast("Axis", axis.arg).part(1)
            exchange[axis] = part if rest == 1 else part * rest + axis.table.range(rest, inner)
        return exchange
