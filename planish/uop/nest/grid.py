"""Which loops of a kernel are blocks of a grid, where a target has one, and which threads of a block are neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Final

from planish.uop.laws import memory_of
from planish.uop.nest import OF_MANY_ELEMENTS, THREADS, closed_by
from planish.uop.nest.kernel import Nest
from planish.uop.nest.memory import threads_of
from planish.uop.node import UOp
from planish.uop.ops import AxisType, Ops
from planish.uop.ranges import kind_of

_RECOMPUTED, _FREE = 64, 8
"""The longest reductions that every block may compute anew, if it is idle otherwise, and in any case."""
_RESIDENT: Final = 2048
"""Threads that a multiprocessor has at once."""
_NEAR: Final = 16
"""Elements between neighbouring threads that still share what memory brings at once."""


def _terms(node: UOp) -> int:
    return prod(r.vmax + 1 for r in closed_by(node))


def _is_copy(node: UOp) -> bool:
    """Whether it keeps what it reads of a parameter (STAGE): every block fetches its own piece."""
    if node.op is not Ops.BUFFERIZE:
        return False
    computed = node.src[0].toposort(lambda n: n.op is not Ops.INDEX)
    return not any(
        n.op in OF_MANY_ELEMENTS or (n.op is Ops.INDEX and memory_of(n).op is Ops.DEFINE_REG)
        for n in computed
    )


def block_axes(facts: Nest, workers: int) -> list[UOp]:
    """The output loops that cost nothing as blocks, or short sums that idle threads make again."""
    kept = [n for n in facts.nodes if n.op in {Ops.REDUCE, Ops.BUFFERIZE} and not _is_copy(n)]
    kept = [n for n in kept if _terms(n) > _FREE]
    costly = [n for n in kept if _terms(n) > _RECOMPUTED]
    free = [
        r
        for r in facts.axes(AxisType.LOOP)
        if r not in facts.ordered
        and all(closing.op is Ops.END for closing in facts.closers.get(r, ()))
        and all(r in closed_by(end) for end in facts.outer_ends)
        and all(r in node.ranges for node in costly)
    ]
    if prod(r.vmax + 1 for r in free) * threads_of(facts.sink) <= _RESIDENT * workers:
        return free
    return [r for r in free if all(r in node.ranges for node in kept)]


def fastest_thread(threads: Sequence[UOp], moved: Callable[[UOp], Iterable[int | None]]) -> UOp:
    """The axis of a block that most accesses to parameters move along by the least; of equals the innermost. `moved`: by how much each does."""

    def rank(r: UOp) -> tuple[int, tuple[int, ...]]:
        return sum(step is not None and 0 < abs(step) <= _NEAR for step in moved(r)), r.order

    return max(threads, key=rank)


def neighbouring_threads(facts: Nest) -> list[UOp]:
    """The axes of a block, that of neighbours first: the threads of a core, or else the axis along which most is read and written."""
    threads = sorted(facts.axes(*THREADS), key=lambda r: r.order)
    if threads and not facts.axes(AxisType.WARP):
        steps = [access.steps for access in facts.accesses if access.in_memory]
        fastest = fastest_thread(threads, lambda r: (each[r] for each in steps if r in each))
        place = threads.index(fastest)
        threads[place], threads[-1] = threads[-1], fastest
    threads.reverse()
    threads.sort(key=lambda r: kind_of(r) is not AxisType.WARP)
    return threads
