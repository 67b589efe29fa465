"""What `stage` asks of copies: which there are, what a copy makes of what it reads, and which reads one of them serves."""

from __future__ import annotations

from typing import Final

from planish.records import dataclass
from planish.uop.nest import closed_by
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.rewrite import substitute
from planish.uop.symbolic import simplify

_PREPARING: Final = frozenset({Ops.CAST, Ops.BITCAST, Ops.ADD, Ops.SUB, Ops.XOR})
"""What a copy may make of what it reads, with operands that are the same everywhere."""


def reads_of_copies(facts: Nest) -> set[UOp]:
    """The reads of copies that were made before."""
    reads: set[UOp] = set()
    for node in facts.nodes:
        if node.op is not Ops.BUFFERIZE:
            continue
        value = node.src[0]
        while value.op in _PREPARING:
            moving = [source for source in value.src if source.ranges]
            if len(moving) != 1:
                break
            (value,) = moving
        if value.op is Ops.INDEX and value.src[0].op is Ops.DEFINE_GLOBAL:
            closed = closed_by(node)
            reads.update(n for n in value.toposort() if n.op is Ops.INDEX and not n.ranges.isdisjoint(closed))
    return reads


_SHORT: Final = 4
"""Elements of fewer bytes are prepared when they are copied."""


def prepared(facts: Nest, read: UOp) -> UOp:
    """What is made of a read of a narrow dtype before it meets another: conversions, and shifts by a zero point of all.

    That is done once, by the copy.
    """
    value = read
    while True:
        uses = [n for n in facts.nodes if value in n.src]
        if len(uses) != 1 or uses[0].dtype.itemsize > _SHORT or read.dtype.itemsize >= _SHORT:
            return value
        (use,) = uses
        others = [source for source in use.src if source is not value]
        shift = use.op in _PREPARING - {Ops.CAST, Ops.BITCAST} and len(others) == 1 and not others[0].ranges
        if use.op not in {Ops.CAST, Ops.BITCAST} and not shift:
            return value
        value = use


@dataclass(frozen=True, slots=True)
class ReadCopy:
    """What was copied for a read, and how it is read from there."""

    wanted: UOp
    reading: UOp

    def serves(self, wanted: UOp) -> UOp | None:
        """The same copy as another read sees it that differs only in the loops it runs over; None if it needs its own."""
        mine, its = (
            sorted(one.ranges - other.ranges, key=lambda r: r.order)
            for one, other in ((self.wanted, wanted), (wanted, self.wanted))
        )
        if [axis.vmax + 1 for axis in mine] != [axis.vmax + 1 for axis in its]:
            return None
        if not self.reading.src[0].ranges.isdisjoint(mine):
            return None  # of a loop around the copy: what is copied differs
        axes = dict(zip(mine, its, strict=True))
        if simplify(substitute(self.wanted, axes)) is not simplify(wanted):
            return None
        return self.reading.replace(src=(self.reading.src[0], substitute(self.reading.src[1], axes)))
