"""Where the time of a call on a GPU goes: every launch by itself, between two events of the stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from planish.compiler.profile import TimedWalk
from planish.runtime.cuda.arrays import GpuArray
from planish.runtime.cuda.code import Segment
from planish.runtime.cuda.trace import Launch

if TYPE_CHECKING:
    from planish.compiler.gpu import GpuExecutable


class GpuWalk(TimedWalk):
    """Launches one at a time. What the host does in between is not told apart: it waits for the GPU anyway."""

    def __init__(self, exe: GpuExecutable, given: Sequence[object]) -> None:
        placed = [array if isinstance(array, GpuArray) else exe.placed(array) for array in given]
        super().__init__(exe, placed)
        self.gpu, self.call = exe.gpu, exe.general

    def arguments(self) -> list[object]:
        return [
            array.copy() if position in self.donated and isinstance(array, GpuArray) else array
            for position, array in enumerate(self.given)
        ]

    def run(self) -> list[float]:
        times: list[tuple[int, tuple[Any, Any]]] = []

        def watch(segment: Segment, memory: Sequence[int]) -> None:
            begin = self.gpu.event()
            segment.run(memory)
            sites = [item.site for item in segment.items if isinstance(item, Launch) and item.site >= 0]
            times.extend((site, (begin, self.gpu.event())) for site in sites)

        self.results = self.call(*self.arguments(), watch=watch)
        self.wait()
        spent, self.counts = [0.0] * len(self.counts), [0] * len(self.counts)
        for site, events in times:
            spent[site] += self.gpu.seconds(events)
            self.counts[site] += 1
            self.gpu.forget(events)
        return spent

    def wait(self) -> None:
        self.gpu.synchronize()
