"""Stage 20, add control flow: loops that have no order yet get one, by edges.

Why: a DAG does not say which of two loops runs first, nor that a loop's header stands inside the loop around it.

How: END x *nests in* END y if y depends on x and y's RANGE is among what x depends on (the inner loop runs inside each
iteration of the outer). Loops with the same parent are siblings, also when they have nothing to do with each other: each
RANGE waits for the END of the sibling before it, the first for the parent's RANGE. A sibling comes after all those it
depends on, so no edge closes a cycle. Edges are found by one walk over the graph and added by another.

Before → after::

    END(f, a), END(g, b)             b = RANGE(…, END(f, a))

Would break without it: stage 21 could open a second loop before the first is closed, and the two would interleave.

Holds afterwards: any topological order that keeps the edges, and keeps code that a loop does not need out of it, has
properly nested loops.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from planish.errors import LoweringError
from planish.uop.matcher import Matcher, rule
from planish.uop.node import UOp
from planish.uop.ops import Axis, Ops
from planish.uop.pattern import node
from planish.uop.rewrite import rewrite

Edges = Mapping[UOp, UOp]
"""RANGE → what it has to wait for besides its sources."""


_HEADS: Final = frozenset({Ops.RANGE, Ops.END})


class _Dependencies:
    """Which RANGEs and ENDs each node depends on: sets of bits, one bit per RANGE and END."""

    def __init__(self, sink: UOp) -> None:
        self.bit: dict[UOp, int] = {}
        self.below: dict[UOp, int] = {}
        through: dict[UOp, int] = {}  # what whoever uses a node depends on
        for each in sink.toposort():
            heads = 0
            for source in each.src:
                heads |= through[source]
            self.below[each] = through[each] = heads
            if each.op in _HEADS:
                self.bit[each] = bit = 1 << len(self.bit)
                through[each] = heads | bit

    def needs(self, user: UOp, used: UOp) -> bool:
        """Whether one node depends on a RANGE or END."""
        return bool(self.below[user] & self.bit[used])


def control_flow_edges(sink: UOp) -> dict[UOp, UOp]:
    """The edges that order the loops of a kernel whose ENDs close one RANGE each."""
    known = _Dependencies(sink)
    ends = [each for each in known.bit if each.op is Ops.END]
    if len(ends) < 2:
        return {}
    children: dict[UOp | None, list[UOp]] = {}
    for inner in ends:
        around = [end for end in ends if known.needs(end, inner) and known.needs(inner, end.src[1])]
        # the innermost of the loops around it: the one on which all others depend
        parent = max(around, key=lambda end: sum(known.needs(o, end) for o in around), default=None)
        children.setdefault(parent, []).append(inner)
    edges: dict[UOp, UOp] = {}
    for parent, siblings in children.items():
        # what depends on a sibling depends on all that one depends on: counting them is a topological order
        counts = {end: sum(known.needs(end, other) for other in siblings) for end in siblings}
        before = parent.src[1] if parent is not None else None
        for end in sorted(siblings, key=lambda end: (counts[end], end.src[1].order)):
            header = end.src[1]
            if before is not None and not known.needs(header, before):
                if known.needs(before, header):
                    raise _escaped(header)
                edges[header] = before
            before = end
    return edges


def _escaped(header: UOp) -> LoweringError:
    return LoweringError(
        f"the loop {cast('Axis', header.arg)} is used by another loop that does not stand inside of it",
        op="RANGE",
        remedy="an END has to cover everything that uses its RANGE: check the stage before with spec.check",
    )


def _wait(root: UOp, ctx: Edges) -> UOp | None:
    before = ctx.get(root)
    return None if before is None else root.replace(src=(*root.src, before))


pm_add_control_flow: Final = Matcher(
    "pm_add_control_flow", [rule(node(Ops.RANGE), _wait, says="RANGE(n) -> RANGE(n, END before it)")]
)


def add_control_flow(sink: UOp) -> UOp:
    """Order the loops. (Sink first: edges name the RANGEs as they were.)"""
    edges = control_flow_edges(sink)
    return rewrite(sink, pm_add_control_flow, edges, order="sink_first") if edges else sink
