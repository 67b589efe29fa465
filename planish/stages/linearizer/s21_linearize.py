"""Stage 21, linearize: the graph becomes a list of instructions.

Why: machine code is a sequence.

How: list scheduling from the sink backwards. The ideal place of a node is given by how often it runs (the product of the
sizes of its open ranges), then by how many loops it stands in (a loop of at most one iteration may also have none: what it
does not need has to stay outside of it), then by the priority of its op, then by where a walk along the sources meets it, so
that equal graphs give equal lists, and what belongs together stays together. Of the nodes whose users are all placed, the one with the last ideal place is taken; at the end the list is
reversed. Code that runs less often thereby ends up before the loops that do not need it.

Would break without it: nothing could be rendered.

Holds afterwards: sources precede users; loops are properly nested (with stage 20's edges).
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from math import prod
from typing import Final, cast

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


def structural_order(sink: UOp) -> list[UOp]:
    """All nodes, sources first, in an order that follows from the graph alone: depth first, the first source first."""
    order: list[UOp] = []
    done: set[UOp] = set()
    stack = [(sink, iter(sink.src))]
    while stack:
        node, sources = stack[-1]
        for source in sources:
            if source not in done:
                done.add(source)
                stack.append((source, iter(source.src)))
                break
        else:
            order.append(node)
            stack.pop()
    return order


def linearize(sink: UOp, priority: Mapping[Ops, int] = PRIORITY) -> list[UOp]:
    """All nodes in an order that a machine can run."""
    nodes = structural_order(sink)
    _ = sink.ranges  # those of all nodes, in one walk
    counts: dict[frozenset[UOp], tuple[int, int]] = {}
    ideal: list[tuple[int, int, int, int, int]] = []
    for number, node in enumerate(nodes):
        ranges = node._ranges or node.ranges
        count = counts.get(ranges)
        if count is None:
            count = counts[ranges] = run_count(node), len(ranges)
        slot = cast("int", node.arg) if node.op is Ops.DEFINE_GLOBAL else 0
        ideal.append((*count, priority.get(node.op, 0), slot, number))
    ideal.sort(reverse=True)
    backwards = [nodes[key[-1]] for key in ideal]
    place = {node: position for position, node in enumerate(backwards)}
    waiting = dict.fromkeys(nodes, 0)
    for node in nodes:
        for source in node.src:
            waiting[source] += 1
    ready = [place[sink]]
    result: list[UOp] = []
    push, pop = heapq.heappush, heapq.heappop
    while ready:
        node = backwards[pop(ready)]
        result.append(node)
        for source in node.src:
            left = waiting[source] = waiting[source] - 1
            if not left:
                push(ready, place[source])
    result.reverse()
    return result
