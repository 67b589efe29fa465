"""Where the time of a call on a GPU goes: every launch by itself, between two events of the stream."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from planish.compiler.profile import TimedWalk
from planish.runtime.cuda.arrays import GpuArray
from planish.runtime.cuda.code import LaunchSegment
from planish.runtime.cuda.driver import call
from planish.runtime.cuda.trace import KernelLaunch

if TYPE_CHECKING:
    from planish.compiler.cuda.executable import GpuExecutable

_BUSY: Final = 64 << 20
"""Bytes that are cleared again and again: that takes some ten microseconds, and handing it over a few."""
_EACH: Final = 3
"""Times for each launch of a call."""
_MOST: Final = 600


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

        def watch(segment: LaunchSegment, memory: Sequence[int]) -> None:
            begin = self.gpu.event()
            segment.run(memory)
            sites = [item.site for item in segment.items if isinstance(item, KernelLaunch) and item.site >= 0]
            times.extend((site, (begin, self.gpu.event())) for site in sites)

        arguments = self.arguments()
        self._keep_busy()
        began, first = perf_counter(), self.gpu.event()
        self.results = self.call(*arguments, watch=watch)
        self.wait()
        spent, self.counts = [0.0] * len(self.counts), [0] * len(self.counts)
        self.intervals.clear()
        for site, events in times:
            took = self.gpu.seconds(events)
            start = began + self.gpu.seconds((first, events[0]))
            self.intervals.append((site, start, start + took))
            spent[site] += took
            self.counts[site] += 1
            self.gpu.forget(events)
        self.gpu.forget([first])
        return spent

    def _keep_busy(self) -> None:
        """Give the GPU something to do while launches are handed to it: else it waits between two events for the host."""
        block = self.gpu.pool.take(_BUSY)
        self.gpu.enter()
        for _ in range(min(_MOST, _EACH * max(1, len(self.counts)))):
            call("cuMemsetD8Async", block.address, 0, _BUSY, self.gpu.stream)

    def wait(self) -> None:
        self.gpu.synchronize()
