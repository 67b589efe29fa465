"""Stage 20, add control flow: loops that have no order yet get one, by edges.

Why: a DAG does not say which of two loops runs first, nor that a loop's header stands inside the loop around it.

How: END x *nests in* END y if y depends on x and y's RANGE is among what x depends on (the inner loop runs inside each
iteration of the outer). Loops with the same parent are siblings: each RANGE waits for the END of the sibling before it,
the first for the parent's RANGE. Siblings are ordered by how many of them each depends on, so no edge closes a cycle.

Before → after::

    END(f, a), END(g, b)             b = RANGE(…, END(f, a))

Would break without it: stage 21 could open a second loop before the first is closed, and the two would interleave.

Holds afterwards: any topological order that keeps the edges has properly nested loops.
"""

from __future__ import annotations

from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.rewrite import substitute


def _dependencies(sink: UOp) -> dict[UOp, frozenset[UOp]]:
    """For each RANGE and END, the RANGEs and ENDs it depends on."""
    below: dict[UOp, frozenset[UOp]] = {}
    for node in sink.toposort():
        found: frozenset[UOp] = frozenset()
        for source in node.src:
            found |= below[source]
            if source.op in {Ops.RANGE, Ops.END}:
                found |= {source}
        below[node] = found
    return below


def control_flow_edges(sink: UOp) -> dict[UOp, UOp]:
    """RANGE → what it has to wait for besides its sources."""
    below = _dependencies(sink)
    ends = [node for node in below if node.op is Ops.END]
    children: dict[UOp | None, list[UOp]] = {}
    for inner in ends:
        around = [
            outer
            for outer in ends
            if outer is not inner and inner in below[outer] and outer.src[1] in below[inner]
        ]
        # the innermost of the loops around it: the one that has all others around itself
        parent = min(around, key=lambda end: sum(end in below[other] for other in around) * -1, default=None)
        children.setdefault(parent, []).append(inner)
    edges: dict[UOp, UOp] = {}
    for parent, siblings in children.items():
        siblings.sort(key=lambda end: (sum(other in below[end] for other in siblings), end.src[1].order))
        before = parent.src[1] if parent is not None else None
        for end in siblings:
            header = end.src[1]
            if before is not None and before not in below[header]:
                edges[header] = before
            before = end
    return edges


def add_control_flow(sink: UOp) -> UOp:
    """Order the loops."""
    while edges := control_flow_edges(sink):
        # one edge at a time: an edge may name a RANGE that another edge replaces
        header, before = next(iter(edges.items()))
        sink = substitute(sink, {header: header.replace(src=(*header.src, before))})
    return sink
