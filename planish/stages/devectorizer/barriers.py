"""Implicit barriers: where the threads of a block share LOCAL memory, they wait for each other.

Nobody writes a barrier; they follow from what is stored and read where. Two kinds:

* before a read, or before memory is used again: an AFTER on LOCAL memory waits for effects of all threads, not of one's own,
  so a BARRIER goes around them;
* before the next iteration: where a loop fills LOCAL memory and reads it, the next iteration must not fill it again before
  everybody has read it, so a BARRIER closes the body.

Memory that other blocks of a cluster read is waited for by all of them, and nobody leaves as long as it may be read.

Before → after::

    AFTER(m, END(STORE(m[i], x), i))         AFTER(m, BARRIER(END(STORE(m[i], x), i)))
    END(f(m), r), m filled inside r          END(BARRIER(f(m)), r)

Every thread comes to every barrier: loops are equally long for all, and branches guard single stores only.
"""

from __future__ import annotations

from collections.abc import Mapping

from planish import dtypes
from planish.stages.expander.loops import nest_all
from planish.uop.nest import loops_of
from planish.uop.node import UOp
from planish.uop.ops import CLUSTER, Ops


def _local(place: UOp) -> UOp | None:
    """The LOCAL memory that a place is in."""
    if place.op is not Ops.INDEX:
        return None
    buffer = place.src[0]
    while buffer.op is Ops.AFTER:
        buffer = buffer.src[0]
    return buffer if buffer.op is Ops.DEFINE_LOCAL else None


def _refilled(nodes: list[UOp], rings: Mapping[UOp, UOp]) -> set[UOp]:
    """The loops in which some LOCAL memory is both filled and read, other than the one that a ring is filled ahead for."""
    places = {n.src[0] for n in nodes if n.op is Ops.STORE}
    stored: dict[UOp, set[UOp]] = {}
    read: dict[UOp, set[UOp]] = {}
    for node in nodes:
        if node.op is Ops.STORE:
            memory = _local(node.src[0])
            if memory is not None:
                stored.setdefault(memory, set()).update(loops_of(node.ranges))
        elif node.op is Ops.INDEX and node not in places:
            memory = _local(node)
            if memory is not None:
                read.setdefault(memory, set()).update(loops_of(node.ranges))
    # memory that is stored in place is read at a place, too
    return {
        r
        for memory, loops in stored.items()
        for r in loops & read.get(memory, loops)
        if rings.get(memory) is not r
    }


def _fence(*effects: UOp, whose: str | None = None) -> UOp:
    if len(effects) == 1 and effects[0].op is Ops.BARRIER and effects[0].arg == whose:
        return effects[0]
    return effects[0].table.make(Ops.BARRIER, dtypes.void, effects, whose)


def add_barriers(sink: UOp, rings: Mapping[UOp, UOp]) -> UOp:
    """The kernel, its threads waiting for each other; `rings` tells the loop of memory that has its barriers already."""
    if not any(n.op is Ops.DEFINE_LOCAL for n in sink.toposort()):
        return sink
    nodes = nest_all(sink).toposort()  # one loop, one body: a barrier belongs to the loop that refills
    refilled = _refilled(nodes, rings)
    peers = {_local(n) for n in nodes if n.op is Ops.INDEX and n.arg is not None}
    final: dict[UOp, UOp] = {}
    for node in nodes:
        src = tuple([final[source] for source in node.src])
        if node.op is Ops.AFTER and node.src[0].op is Ops.DEFINE_LOCAL and node.src[0] not in rings:
            src = (src[0], _fence(*src[1:], whose=CLUSTER if node.src[0] in peers else None))
        elif node.op is Ops.SINK and peers:
            src = (_fence(*src, whose=CLUSTER),)
        elif node.op is Ops.END and not refilled.isdisjoint(node.src[1:]):
            src = (_fence(src[0]), *src[1:])
        final[node] = node if src == node.src else node.replace(src=src)
    return final[nodes[-1]]
