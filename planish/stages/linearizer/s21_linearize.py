"""Stage 21, linearize: the graph becomes a list of instructions.

Why: machine code is a sequence.

How: list scheduling from the sink backwards. The ideal place of a node is given by how often it runs (the product of the
sizes of its open ranges), then by the priority of its op, then by structure, so that equal graphs give equal lists. Of the
nodes whose users are all placed, the one with the last ideal place is taken; at the end the list is reversed. Code that
runs less often thereby ends up before the loops that do not need it.

Would break without it: nothing could be rendered.

Holds afterwards: sources precede users; loops are properly nested (with stage 20's edges).
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from math import prod
from typing import Final

from planish.uop.node import UOp
from planish.uop.ops import Ops

PRIORITY: Final[Mapping[Ops, int]] = {
    Ops.DEFINE_GLOBAL: -20,
    Ops.DEFINE_VAR: -19,
    Ops.DEFINE_LOCAL: -18,
    Ops.DEFINE_REG: -17,
    Ops.CONST: -10,
    Ops.END: -5,
    Ops.LOAD: -1,
    Ops.STORE: 1,
    Ops.RANGE: 5,
}
"""Lower comes earlier among nodes that run equally often. (Going backwards: an END is placed late and its RANGE as soon
as it can be, so bodies stay tight.)"""


def run_count(node: UOp) -> int:
    """How often a node is evaluated."""
    return prod(r.vmax + 1 for r in node.ranges)


def linearize(sink: UOp, priority: Mapping[Ops, int] = PRIORITY) -> list[UOp]:
    """All nodes in an order that a machine can run."""
    nodes = sink.toposort()
    ideal = sorted(
        nodes,
        key=lambda n: (run_count(n), priority.get(n.op, 0), n.arg if n.op is Ops.DEFINE_GLOBAL else 0, n.key),
    )
    place = {node: position for position, node in enumerate(ideal)}
    waiting = dict.fromkeys(nodes, 0)
    for node in nodes:
        for source in node.src:
            waiting[source] += 1
    ready = [(-place[sink], sink)]
    result: list[UOp] = []
    while ready:
        _, node = heapq.heappop(ready)
        result.append(node)
        for source in node.src:
            waiting[source] -= 1
            if not waiting[source]:
                heapq.heappush(ready, (-place[source], source))
    result.reverse()
    return result
