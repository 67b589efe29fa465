"""What a scheduled kernel costs on a GPU, in cycles of the whole: it ranks candidates of a search before any is measured.

Four bounds, of which the longest counts most: bytes of memory, each fetched once, in whole sectors; bytes that multiprocessors ask the
second cache for; instructions; and how long a multiprocessor waits when too little is under way at once. Blocks come in rounds.
"""

from __future__ import annotations

from math import prod
from typing import Final, NamedTuple

from planish.optimize.body import overlapped
from planish.target import Target
from planish.uop.nest import LANES, OUTPUT, SEQUENTIAL, THREADS, count
from planish.uop.nest.access import Access
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import ALU, Ops, TensorCoreOp
from planish.uop.ranges import kind_of
from planish.uop.weights import weight

_SECTOR: Final = 32
"""Bytes that memory moves at least."""
_UNDER_WAY: Final = 32 << 10
"""Bytes that a multiprocessor has to have asked for to be served at full speed: a microsecond's worth."""
_RESIDENT: Final = (2048, 32)
"""Threads and blocks of a multiprocessor, at most."""
_AHEAD: Final = 4
"""Iterations of a loop whose loads the compiler brings forward."""
_TILED: Final = 4096
"""Products of a tensor core per cycle and multiprocessor."""


class GpuCost(NamedTuple):
    """Cycles by what they are spent on, and bytes: those asked of the second cache, and those of memory."""

    parts: dict[str, float]
    asked: int
    memory: int
    blocks: int

    def cycles(self, target: Target) -> float:
        """The whole."""
        return overlapped(*self.parts.values()) + target.launch


def gpu_cost(nest: Nest, target: Target) -> GpuCost:
    """What a kernel takes if all multiprocessors share it evenly, but for the last round of blocks."""
    threads = count(r for r in nest.ranges if kind_of(r) in THREADS)
    blocks = max(count(r for r in nest.ranges if kind_of(r) in OUTPUT), 1)
    resident = max(min(_RESIDENT[0] // max(threads, 32), _RESIDENT[1]), 1)
    rounds = -(-blocks // (target.workers * resident)) * target.workers * resident / blocks
    idle = max(min(rounds, 2.0), target.workers / blocks)
    asked, accesses, wide = 0.0, 0.0, 1.0
    seen: dict[UOp, float] = {}
    for access in nest.accesses:
        if not access.in_memory:
            accesses += count(_all(access)) / _vector(access)
            continue
        vector = _vector(access)
        moved = count(_all(access)) * access.dtype.itemsize / _efficiency(access, vector)
        asked += moved
        accesses += count(_all(access)) / vector
        own = access.footprint((*access.loops, *access.lanes))
        seen[access.memory] = max(seen.get(access.memory, 0.0), min(moved, own))
        loops = [r for r in access.loops if kind_of(r) in SEQUENTIAL and kind_of(r) not in OUTPUT]
        ahead = min(_AHEAD, count(loops[-1:]))
        side = prod(r.vmax + 1 for r in access.lanes if kind_of(r) in LANES)
        if not access.is_store:
            wide = max(wide, side * ahead * access.dtype.itemsize)
    memory = sum(seen.values())
    second, first = target.bytes_per_cycle[0] * target.workers, target.bytes_per_cycle[-1] * target.workers
    under_way = wide * threads * min(resident, -(-blocks // target.workers))
    slow = max(_UNDER_WAY / under_way, 1.0)
    issue = target.ports * target.workers
    parts = {
        "memory": memory / first * slow,
        "L2": asked / second * idle,
        "access": accesses / (target.loads * target.workers) * idle,
        "compute": _operations(nest, issue, target.workers) * idle,
    }
    return GpuCost(parts, int(max(asked, memory)), int(memory), blocks)


def _all(access: Access) -> tuple[UOp, ...]:
    return (*access.loops, *access.lanes)


def _vector(access: Access) -> int:
    """Neighbours that one thread moves by one access."""
    for r in access.lanes:
        if kind_of(r) in LANES and access.steps.get(r) == 1:
            return max(min(r.vmax + 1, 16 // access.dtype.itemsize), 1)
    return 1


def _efficiency(access: Access, vector: int) -> float:
    """The bytes that threads asked for, by those of the sectors that they lie in."""
    each = vector * access.dtype.itemsize
    for r in access.lanes:
        step = access.steps.get(r)
        if kind_of(r) in THREADS and step is not None and 0 <= step <= vector:
            return float(min(r.vmax + 1, 32)) if step == 0 else 1.0
    return min(each / _SECTOR, 1.0)


def _operations(nest: Nest, issue: float, workers: int) -> float:
    """Cycles of arithmetic."""
    total = 0.0
    for node in nest.nodes:
        if isinstance(node.arg, TensorCoreOp) and node.op is Ops.WMMA:
            total += prod(node.arg.dims) * count(node.ranges) / (_TILED * workers)
        elif (node.op in ALU or node.op is Ops.CAST) and not node.dtype.is_index and not node.dtype.is_bool:
            total += weight(node.op) * count(node.ranges) / issue
        elif node.op is Ops.REDUCE:
            total += count(node.src[0].ranges) / issue
    return total
