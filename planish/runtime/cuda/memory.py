"""Memory of a GPU: blocks that are kept when they are freed, by size.

Asking the driver costs a hundred times what looking into a table costs. Sizes are rounded up, to 512 bytes below a MiB and to an eighth of
their power of two above, so that blocks fit again. All work of a GPU is in one order (`device`), so a freed block may be given out at
once. When the driver has no more, what is kept goes back to it, and it is asked once more.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Final, NamedTuple

from planish.errors import OutOfMemoryError
from planish.runtime.cuda.driver import call

if TYPE_CHECKING:
    from planish.runtime.cuda.device import Gpu

_SMALL: Final = 512
_LARGE: Final = 1 << 20


def rounded(nbytes: int) -> int:
    """The size of the block that is given for so many bytes."""
    if nbytes <= _LARGE:
        return max(-(-nbytes // _SMALL), 1) * _SMALL
    step = 1 << (nbytes - 1).bit_length() - 4
    return -(-nbytes // step) * step


class GpuStatistics(NamedTuple):
    """Of the memory of one GPU, in bytes."""

    used: int
    kept: int
    """Freed, and ready to be given out again."""
    asked: int
    """How often the driver was asked."""


class GpuBlock:
    """Memory on a GPU; it goes back to the pool when nobody knows it any more."""

    __slots__ = ("address", "free", "nbytes", "size")

    def __init__(self, free: list[int], address: int, size: int, nbytes: int) -> None:
        self.free, self.address, self.size, self.nbytes = free, address, size, nbytes

    def __del__(self) -> None:
        self.free.append(self.address)


class Pool:
    """The memory of one GPU that this process has."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = weakref.ref(gpu)
        self._free: dict[int, list[int]] = {}
        """By size, the addresses of free blocks. Both ends of a list are one step of the interpreter: no lock is needed."""
        self._lock = threading.Lock()
        self._reserved = self._asked = 0

    def take(self, nbytes: int) -> GpuBlock:
        """A block for at least so many bytes."""
        size = rounded(nbytes)
        free = self._free.get(size)
        if free is None:
            free = self.free_list(size)
        try:
            address = free.pop()
        except IndexError:
            address = self._ask(size, nbytes)
        return GpuBlock(free, address, size, nbytes)

    def free_list(self, size: int) -> list[int]:
        """The addresses of free blocks of a size."""
        with self._lock:
            return self._free.setdefault(size, [])

    @property
    def statistics(self) -> GpuStatistics:
        """What is used and what is kept now."""
        kept = sum(size * len(free) for size, free in list(self._free.items()))
        return GpuStatistics(self._reserved - kept, kept, self._asked)

    def release(self) -> int:
        """Give what is kept back to the driver; how many bytes that were."""
        gpu = self._gpu()
        if gpu is None or not self.statistics.kept:
            return 0
        gpu.enter()
        gpu.synchronize()
        freed = 0
        with self._lock:
            for size, free in self._free.items():
                while free:
                    call("cuMemFree", free.pop())
                    freed += size
            self._reserved -= freed
        return freed

    def _ask(self, size: int, nbytes: int) -> int:
        gpu = self._gpu()
        if gpu is None:
            raise OutOfMemoryError("the GPU was closed")
        gpu.enter()
        self._asked += 1
        for _ in range(2):
            try:
                address = int(call("cuMemAlloc", size))
            except OutOfMemoryError:
                if not self.release():
                    break
            else:
                with self._lock:
                    self._reserved += size
                return address
        raise OutOfMemoryError(
            f"{gpu.name} has no {nbytes:,} bytes left: of its {gpu.memory_bytes:,} this process uses {self.statistics.used:,}, "
            f"and {gpu.free_bytes():,} are free",
            remedy="free tensors (del), use smaller ones, or another device",
        )
