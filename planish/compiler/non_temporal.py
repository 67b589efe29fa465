"""Which buffers of a plan stream by: written once and too large to be found in a cache by whoever reads them next.

A result that nothing in the plan reads streams from a quarter of the last cache on: its reader is another call. What a kernel
of the same plan reads next is still in the last cache unless it is twice as large as that. What is written in place is not
streamed: its lines were just read.
"""

from __future__ import annotations

from typing import cast

from planish.schedule.memory import Sharing, nbytes
from planish.schedule.overlap import touched
from planish.schedule.plan import Launch, Plan, Role, walk
from planish.target import Target
from planish.uop.node import UOp
from planish.uop.ops import Ops


def streamed(plan: Plan, sharing: Sharing, target: Target) -> list[frozenset[str]]:
    """Per kernel, the parameters whose memory streams by in every launch of it. The launches name a buffer for every slot."""
    if len(target.caches) < 2:
        return [frozenset() for _ in plan.kernels]
    soon, late = target.streamed_bytes, 2 * target.caches[-1]
    reads = [_read(kernel.sink) for kernel in plan.kernels]
    used: set[int] = set()
    """Buffers that the plan itself looks at once more."""
    launches: list[Launch] = []
    for step in walk(plan.steps):
        if isinstance(step, Launch):
            launches.append(step)
            used |= {buffer for slot, buffer in enumerate(step.buffers) if slot in reads[step.kernel]}
        else:
            used.update(touched(step))
    homes = sharing.homes
    used |= {homes[buffer] for buffer in used if buffer in homes}

    def streams(number: int) -> bool:
        buffer = plan.buffers[number]
        if buffer.role not in {Role.RESULT, Role.ARENA} or not isinstance(buffer.size, int):
            return False
        read_soon = buffer.role is not Role.RESULT or number in used
        return nbytes(buffer) >= (late if read_soon else soon)

    by_kernel: list[frozenset[str] | None] = [None] * len(plan.kernels)
    for launch in launches:
        aliased = sharing.aliased[launch.kernel]
        here = frozenset(
            f"arg{slot}"
            for slot, number in enumerate(launch.buffers)
            if slot not in aliased and streams(number)
        )
        known = by_kernel[launch.kernel]
        by_kernel[launch.kernel] = here if known is None else known & here
    return [frozenset() if each is None else each for each in by_kernel]


def _read(sink: UOp) -> set[int]:
    """The slots of the parameters that a kernel reads."""
    slots: set[int] = set()
    for node in sink.toposort():
        for position, source in enumerate(node.src):
            is_element = source.op is Ops.INDEX and len(source.src) > 1  # with one source: memory as a whole
            if is_element and not (node.op is Ops.STORE and position == 0):
                base = source.src[0]
                while base.src:
                    base = base.src[0]
                if base.op is Ops.DEFINE_GLOBAL:
                    slots.add(cast("int", base.arg))
    return slots
