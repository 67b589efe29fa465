"""Threads that are never needed together are the same threads.

A row kernel walks its row several times: a maximum, a sum, a result, each shared among the threads of a block. As separate
axes they would multiply; but no value depends on two of them at once, so thread t may do part t of each. Two axes of a
block with the same size become one if nothing in the kernel depends on both.

Before → after::

    REDUCE(x(g), g), STORE(c[l], …) for l        REDUCE(x(g), g), STORE(c[g], …) for g        g: GROUP_REDUCE(32), l: LOCAL(32)
"""

from __future__ import annotations

from itertools import combinations
from typing import Final

from planish.uop.kernel_algebra import pm_flatten_range
from planish.uop.node import UOp
from planish.uop.ops import AxisType, Ops
from planish.uop.ranges import kind_of
from planish.uop.rewrite import rewrite, substitute

_SHARED: Final = (AxisType.GROUP_REDUCE, AxisType.LOCAL)
"""A reduction that threads share is told by its axis, so that one stays."""


def _pair(sink: UOp) -> tuple[UOp, UOp] | None:
    """Two axes that can be one; the first stays."""
    nodes = sink.toposort()
    threads = [n for n in nodes if n.op is Ops.RANGE and kind_of(n) in _SHARED]
    threads.sort(key=lambda r: (_SHARED.index(kind_of(r)), r.order))
    if len(threads) < 2:
        return None
    together = {frozenset(pair) for n in nodes for pair in combinations(n.ranges.intersection(threads), 2)}
    for kept, other in combinations(threads, 2):
        if kept.src == other.src and frozenset((kept, other)) not in together:
            return kept, other
    return None


def share_threads(sink: UOp) -> UOp:
    """The kernel with as few threads in a block as it needs."""
    while (pair := _pair(sink)) is not None:
        kept, other = pair
        sink = rewrite(substitute(sink, {other: kept}), pm_flatten_range)
    return sink
