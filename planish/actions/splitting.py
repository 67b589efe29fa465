"""Actions that take a part of an axis: `r -> outer*k + inner`, one of the two with another axis type.

The part that changes is the inner one, unless a kind says otherwise. The parts are called `i.outer` and `i.inner`, also where one of
them is all of the axis.
"""

from __future__ import annotations

from typing import ClassVar, cast

from planish.actions.base import Action, OneAxis, fitting
from planish.actions.threads import share_threads
from planish.target import Target
from planish.uop.kernel_algebra import pm_flatten_range
from planish.uop.nest.kernel import Nest
from planish.uop.nest.memory import threads_of
from planish.uop.node import UOp
from planish.uop.ops import Axis, AxisType, Ops
from planish.uop.rewrite import rewrite, substitute
from planish.uop.symbolic import simplify
from planish.uop.symbolic.alignment import divides

MOST_UPCAST = 64
"""Lanes of one axis."""


def parts(action: OneAxis, r: UOp, *, least: int = 2, most: int | None = None) -> tuple[int, UOp | None]:
    """The size of the part that an action takes of an axis, and that of the other (None: nothing is left)."""
    size = r.src[0]
    if size.ranges:
        raise action.no(f"the length of axis {action.axis} depends on other loops")
    amount = action.amount
    if size.op is Ops.CONST:
        whole = cast("int", size.arg)
        amount = amount or whole
        if amount < least or whole % amount:
            remedy = (
                f"pad_to({action.axis}, {amount}) first, or a divisor of {whole}" if amount >= 2 else None
            )
            raise action.no(f"{amount} does not divide the {whole} of axis {action.axis}", remedy)
        rest = None if amount == whole else r.table.const(whole // amount)
    else:
        quotient = divides(size, amount) if amount >= 2 else None
        if quotient is None:
            remedy = f"pad_to({action.axis}, {amount}) first" if amount >= 2 else "name an amount"
            raise action.no(f"the size of axis {action.axis} is not known", remedy=remedy)
        rest = simplify(quotient)
    if most is not None and amount > most:
        raise action.no(f"{amount} lanes are more than {most}")
    return amount, rest


def pieces(action: OneAxis, r: UOp, *, least: int = 2) -> tuple[int, UOp]:
    """The same for an action that has to leave something."""
    amount, rest = parts(action, r, least=least)
    if rest is None:
        raise action.no(f"{amount} is all of axis {action.axis}")
    return amount, rest


class Splitting(OneAxis):
    """An action on a part of an axis; what is left of it stays a loop."""

    makes: ClassVar[AxisType | None] = None
    """The axis type of the part; None: it stays what it was."""
    most: ClassVar[int | None] = None
    """The largest part."""
    divides: ClassVar[bool] = True
    asks_for_room: ClassVar[bool] = True
    """Whether LOCAL memory has to be enough as soon as it is taken, or when the schedule is whole."""

    @property
    def takes_outer(self) -> bool:
        """Whether the outer part is the one that changes."""
        return False

    def check(self, facts: Nest, r: UOp, amount: int, target: Target) -> None:
        """Refuse what does not fit; by default, that the parts do not run in any order."""
        self.check_order(facts, r)

    def place(self, part: Axis, facts: Nest) -> Axis:
        """Where the part goes."""
        return part

    def besides(self, facts: Nest, r: UOp, part: UOp) -> dict[UOp, UOp]:
        """What else becomes something else."""
        return {}

    def finished(self, sink: UOp, part: UOp, target: Target) -> UOp:
        """What is done to the kernel when the axis is split."""
        return sink

    def parted(self, r: UOp, facts: Nest) -> tuple[UOp, UOp]:
        """The part that changes, and what the axis is in terms of both."""
        amount, rest = parts(self, r, most=self.most)
        if rest is None and self.makes is None:
            raise self.no(f"{amount} is all of axis {self.axis}")
        axis, table = cast("Axis", r.arg), r.table
        part = table.range(amount, self.place(axis.part(0 if self.takes_outer else 1, self.makes), facts))
        if rest is None:
            return part, part
        other = table.range(rest, axis.part(1 if self.takes_outer else 0))
        return part, part * rest + other if self.takes_outer else other * amount + part

    def apply(self, sink: UOp, target: Target) -> UOp:
        r = self.own_axis(sink)
        facts = Nest.of(sink)
        part, instead = self.parted(r, facts)
        self.check(facts, r, part.vmax + 1, target)
        exchange = {r: instead}
        # a quotient may turn out to be one of the parts, and what depends on it not to need the other
        for node in facts.nodes:
            if node.op in {Ops.FLOORDIV, Ops.FLOORMOD} and r in node.ranges:
                exchange[node] = simplify(substitute(node, {r: instead}))
        exchange |= self.besides(facts, r, part)
        kernel = self.finished(rewrite(substitute(sink, exchange), pm_flatten_range), part, target)
        return fitting(sink, kernel, self, target) if self.asks_for_room else kernel


def within_a_block(action: Action, sink: UOp, target: Target) -> UOp:
    """The kernel with its threads shared, if they fit."""
    sink = share_threads(sink)
    threads = threads_of(sink)
    if threads > target.block_threads:
        raise action.no(f"{threads} threads are more than the {target.block_threads} of a block")
    return sink
