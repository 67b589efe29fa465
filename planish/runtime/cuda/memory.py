"""Memory of a GPU: blocks that are kept when they are freed, by size.

Asking the driver costs a hundred times what looking into a table costs. Sizes are rounded up, to 512 bytes below a MiB and to an eighth of
their power of two above, so that blocks fit again. All work of a GPU is in one order (`device`), so a freed block may be given out at
once. When the driver has no more, what is kept goes back to it, and it is asked once more.
"""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

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


@dataclass(slots=True)
class Statistics:
    """Of the memory of one GPU, in bytes."""

    used: int = 0
    kept: int = 0
    peak: int = 0
    asked: int = 0
    """How often the driver was asked."""


class Block:
    """Memory on a GPU; it goes back to the pool when nobody knows it any more."""

    __slots__ = ("__weakref__", "address", "nbytes", "pool", "size")

    def __init__(self, pool: Pool, address: int, size: int, nbytes: int) -> None:
        self.pool, self.address, self.size, self.nbytes = pool, address, size, nbytes

    def __del__(self) -> None:
        self.pool.free(self.address, self.size)


class Pool:
    """The memory of one GPU that this process has."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = weakref.ref(gpu)
        self._free: dict[int, list[int]] = {}
        self._lock = threading.RLock()
        self.statistics = Statistics()

    def take(self, nbytes: int) -> Block:
        """A block for at least so many bytes."""
        size = rounded(nbytes)
        with self._lock:
            kept, own = self._free.get(size), self.statistics
            if kept:
                address = kept.pop()
                own.kept -= size
            else:
                address = self._ask(size, nbytes)
            own.used += size
            own.peak = max(own.peak, own.used)
        return Block(self, address, size, nbytes)

    def free(self, address: int, size: int) -> None:
        """Keep a block for whoever needs one of its size."""
        with self._lock:
            self._free.setdefault(size, []).append(address)
            self.statistics.used -= size
            self.statistics.kept += size

    def release(self) -> int:
        """Give what is kept back to the driver; how many bytes that were."""
        gpu = self._gpu()
        with self._lock:
            if gpu is None or not self.statistics.kept:
                return 0
            gpu.enter()
            call("cuStreamSynchronize", 0)
            freed, self.statistics.kept = self.statistics.kept, 0
            addresses = [address for kept in self._free.values() for address in kept]
            self._free.clear()
            for address in addresses:
                call("cuMemFree", address)
            return freed

    def _ask(self, size: int, nbytes: int) -> int:
        gpu = self._gpu()
        if gpu is None:
            raise OutOfMemoryError("the GPU was closed")
        gpu.enter()
        self.statistics.asked += 1
        try:
            return int(call("cuMemAlloc", size))
        except OutOfMemoryError:
            if not self.release():
                raise self._refused(gpu, nbytes) from None
        try:
            return int(call("cuMemAlloc", size))
        except OutOfMemoryError:
            raise self._refused(gpu, nbytes) from None

    def _refused(self, gpu: Gpu, nbytes: int) -> OutOfMemoryError:
        return OutOfMemoryError(
            f"{gpu.name} has no {nbytes:,} bytes left: of its {gpu.memory_bytes:,} this process uses {self.statistics.used:,}, "
            f"and {gpu.free_bytes():,} are free",
            remedy="free tensors (del), use smaller ones, or another device",
        )
