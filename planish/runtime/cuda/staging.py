"""Copies between the host and a GPU through memory that both can see: pinned buffers, several under way at a time.

The copy engine takes what lies in pinned memory at full speed, while threads of the host bring the next piece there; from anywhere else
the driver does the same, with one thread and one buffer. Small copies are not worth it, and where the host gives no pinned
memory there is none: both go straight.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from planish.errors import PlanishError
from planish.runtime.cuda.driver import call

if TYPE_CHECKING:
    from planish.runtime.cuda.device import Gpu

LEAST: Final = 4 << 20
"""Bytes from which on pieces are worth it."""
PIECE: Final = 4 << 20
_BUFFERS: Final = 4
_THREADS: Final = 4
"""Threads that bring pieces: one of them moves about a fifth of what the copy engine does."""
_NO_TIMING: Final = 2


class _Pinned:
    """One buffer, and when it was last used up."""

    def __init__(self) -> None:
        self.address = int(call("cuMemHostAlloc", PIECE, 0))
        self.event = call("cuEventCreate", _NO_TIMING)

    def wait(self) -> None:
        call("cuEventSynchronize", self.event)


class Staging:
    """The pinned buffers of one GPU, for one copy at a time."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self._lock = threading.Lock()
        self._buffers: list[_Pinned] | None = None
        self._threads: ThreadPoolExecutor | None = None

    def upload(self, source: int, address: int, nbytes: int) -> bool:
        """Copy from the host; when this returns the source may change, and what comes on the stream sees the copy. False: it was not done."""

        def bring(piece: _Pinned, start: int, size: int) -> None:
            self.gpu.enter()
            piece.wait()
            ctypes.memmove(piece.address, source + start, size)

        def send(piece: _Pinned, start: int, size: int) -> None:
            call("cuMemcpyHtoDAsync", address + start, piece.address, size, self.gpu.stream)
            call("cuEventRecord", piece.event, self.gpu.stream)

        return self._pieces(nbytes, bring, send)

    def download(self, address: int, target: int, nbytes: int) -> bool:
        """Copy to the host, behind all that was begun. False: it was not done."""

        def fetch(piece: _Pinned, start: int, size: int) -> None:
            call("cuMemcpyDtoHAsync", piece.address, address + start, size, self.gpu.stream)
            call("cuEventRecord", piece.event, self.gpu.stream)

        def take(piece: _Pinned, start: int, size: int) -> None:
            self.gpu.enter()
            piece.wait()
            ctypes.memmove(target + start, piece.address, size)

        return self._pieces(nbytes, take, fetch, host_last=True)

    def _pieces(
        self,
        nbytes: int,
        by_thread: Callable[[_Pinned, int, int], None],
        in_order: Callable[[_Pinned, int, int], None],
        *,
        host_last: bool = False,
    ) -> bool:
        """A thread's part and the stream's part of every piece, in that order or the other; as many at a time as there are buffers."""
        if nbytes < LEAST:
            return False
        with self._lock:
            buffers, threads = self._ready()
            if buffers is None or threads is None:
                return False
            self.gpu.enter()
            todo = [(start, min(PIECE, nbytes - start)) for start in range(0, nbytes, PIECE)]
            under_way: list[tuple[Any, _Pinned, tuple[int, int]]] = []
            for number, part in enumerate(todo):
                if len(under_way) == len(buffers):
                    self._finish(under_way.pop(0), None if host_last else in_order)
                piece = buffers[number % len(buffers)]
                if host_last:
                    in_order(piece, *part)
                under_way.append((threads.submit(by_thread, piece, *part), piece, part))
            for each in under_way:
                self._finish(each, None if host_last else in_order)
        return True

    @staticmethod
    def _finish(
        job: tuple[Any, _Pinned, tuple[int, int]], then: Callable[[_Pinned, int, int], None] | None
    ) -> None:
        future, piece, part = job
        future.result()
        if then is not None:
            then(piece, *part)

    def _ready(self) -> tuple[list[_Pinned] | None, ThreadPoolExecutor | None]:
        if self._buffers is None:
            self.gpu.enter()
            try:
                self._buffers = [_Pinned() for _ in range(_BUFFERS)]
            except PlanishError:  # the host has no memory that it would pin
                self._buffers = []
            if self._buffers:
                self._threads = ThreadPoolExecutor(_THREADS, "planish-copy")
        return (self._buffers or None), self._threads
