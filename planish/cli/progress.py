"""A bar on the terminal while something is compiled: how long it has taken, and how many kernels are ready."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Final, Self

from planish.compiler.objects import counters

_WIDTH: Final = 24
_TICK: Final = 0.1


class Progress:
    """`with Progress("compiling"):` draws on standard error if that is a terminal, and leaves nothing behind."""

    def __init__(self, what: str, shown: bool | None = None) -> None:
        self.what = what
        self.shown = sys.stderr.isatty() if shown is None else shown
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._draw, daemon=True)
        self._start = 0.0
        self._before = 0

    def __enter__(self) -> Self:
        self._start, self._before = time.monotonic(), counters.compiled + counters.loaded
        if self.shown:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        if self.shown:
            self._thread.join()
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.monotonic() - self._start

    def line(self, tick: int) -> str:
        """The bar at a moment. How many kernels there will be is not known before they are: it moves to and fro."""
        span = _WIDTH - 4
        place = span - abs(tick % (2 * span) - span)
        bar = " " * place + "####" + " " * (span - place)
        ready = counters.compiled + counters.loaded - self._before
        return f"{self.what} [{bar}] {ready} kernels, {self.seconds:.1f} s"

    def _draw(self) -> None:
        tick = 0
        while not self._done.wait(_TICK):
            sys.stderr.write("\r" + self.line(tick) + "\033[K")
            sys.stderr.flush()
            tick += 1
