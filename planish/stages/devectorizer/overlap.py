"""Products under way: a tensor core that reads LOCAL memory works in the background while its threads go on to the next iteration.

Where a loop does nothing but feed such a core, its product need not be waited for in the same iteration: the copies and barriers of
the next one happen meanwhile. Its sums stay in registers that nobody else touches until the loop is over, and the buffers it reads
are replaced one iteration later than they would be otherwise.

Before → after, with products p::

    loop r: s = WMMA(a, b, s)             loop r: s = WMMA(a, b, s), pending=1      p(r - 1) is done when this goes on
    use s                                 use FINISH(s)
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import cast

from planish.uop.laws import memory_of
from planish.uop.nest import closed_by
from planish.uop.node import UOp
from planish.uop.ops import Ops, TensorCoreOp
from planish.uop.rewrite import substitute
from planish.uop.tensor_cores import core_of

_LEAST_BUFFERS = 3
"""One is read, one is still read, and one is filled."""


def _reads_memory(node: UOp) -> bool:
    core = core_of(cast("TensorCoreOp", node.arg)) if node.op is Ops.WMMA else None
    return core is not None and core.reads_memory


def lag(nodes: Sequence[UOp], memory: Collection[UOp], buffers: int) -> int:
    """How many iterations later rings (as they are read) are free: 1 if all they are read by is tensor cores, and there are enough buffers."""
    if buffers < _LEAST_BUFFERS:
        return 0
    reads = {n for n in nodes if n.op is Ops.INDEX and n.src[0] in memory}
    users = [n for n in nodes if not reads.isdisjoint(n.src)]
    return int(bool(users) and all(map(_reads_memory, users)))


def begun(sink: UOp, loop: UOp, pending: int) -> UOp:
    """The kernel whose products of a loop are begun and not waited for; their sums are finished where they are used behind it."""
    products = [
        n.src[1]
        for n in sink.toposort()
        if n.op is Ops.STORE and _reads_memory(n.src[1]) and loop in n.ranges
    ]
    sink = substitute(
        sink, {n: n.replace(arg=cast("TensorCoreOp", n.arg)._replace(pending=pending)) for n in products}
    )
    nodes = sink.toposort()
    sums = {memory_of(n.src[0]) for n in nodes if n.op is Ops.STORE and _reads_memory(n.src[1])}
    behind = [n for n in nodes if n.op is Ops.INDEX and memory_of(n) in sums and _is_behind(n.src[0], loop)]
    return substitute(sink, {n: n.table.make(Ops.FINISH, n.dtype, (n,)) for n in behind})


def _is_behind(memory: UOp, loop: UOp) -> bool:
    """Whether memory is seen after the end of a loop."""
    return memory.op is Ops.AFTER and any(
        effect.op is Ops.END and loop in closed_by(effect) for effect in memory.src[1:]
    )
