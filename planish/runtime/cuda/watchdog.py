"""Collectives of GPUs that take too long: a rank that waits for others on the device waits for ever, and the host with it.

Before and behind each collective a small kernel writes to memory of the host which one it is, and how many there were. A thread looks at that from time to
time: where nothing has changed for as long as a rank may wait, it says what this one waits for, and ends all ranks.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from planish.runtime import rank_faults, ranks
from planish.runtime.cuda.build import cubin_of
from planish.runtime.cuda.device import Gpu
from planish.runtime.cuda.driver import call
from planish.runtime.cuda.launch import LoadedKernel
from planish.runtime.grid import Grid

_MARK: Final = """
extern "C" __global__ void planish_mark(volatile long long *at, long long which) {
    at[1] = at[1] + 1;
    at[0] = which;
    __threadfence_system();
}
"""
_LOOKS: Final = 0.25
_WORDS: Final = 2


class Watchdog:
    """What a device is about, and since when. `words`: the number of the collective it is in, or 0, and how often that has changed."""

    def __init__(
        self, words: Sequence[int] | ctypes.Array[ctypes.c_int64], ended: Callable[[str], None]
    ) -> None:
        self.words, self.ended = words, ended
        self.names: list[str] = []
        self._seen: tuple[int, int] = (0, 0)
        self._since = 0.0

    def number(self, what: str) -> int:
        """Of a collective that is to be watched; 0 is none."""
        if what not in self.names:
            self.names.append(what)
        return self.names.index(what) + 1

    def look(self, now: float, patience: float) -> None:
        """End all, if it has been in one collective for longer than a rank waits."""
        seen = (self.words[0], self.words[1])
        if seen[0] == 0 or seen != self._seen:
            self._seen, self._since = seen, now
        elif now - self._since > patience:
            self._since = now
            self.ended(self.names[seen[0] - 1])


class _OfGpu:
    """The watchdog of a GPU, the memory it looks at, and the kernel that writes there."""

    def __init__(self, gpu: Gpu) -> None:
        gpu.enter()
        mapped = 2  # CU_MEMHOSTALLOC_DEVICEMAP
        place = int(call("cuMemHostAlloc", 8 * _WORDS, mapped))
        self.words = (ctypes.c_int64 * _WORDS).from_address(place)
        self.words[0] = self.words[1] = 0
        self.address = int(call("cuMemHostGetDevicePointer", place, 0))
        self.kernel = LoadedKernel(
            gpu, "planish_mark", cubin_of(_MARK, gpu.arch, ()), Grid(("1", "1", "1"), (1, 1, 1)), 0
        )
        self.dog = Watchdog(self.words, _end)
        threading.Thread(target=self._watch, name="planish-watchdog", daemon=True).start()

    def _watch(self) -> None:
        while True:
            time.sleep(_LOOKS)
            self.dog.look(time.monotonic(), ranks.world().patience)


def _end(what: str) -> None:
    world = ranks.world()
    error = ranks.late(world, what, world.patience)
    rank_faults.end_all(world, rank_faults.message(world, type(error), error, None))


_WATCHDOGS: Final[dict[int, _OfGpu]] = {}


def watchdog(gpu: Gpu) -> _OfGpu:
    """The one of a GPU."""
    if gpu.number not in _WATCHDOGS:
        _WATCHDOGS[gpu.number] = _OfGpu(gpu)
    return _WATCHDOGS[gpu.number]
