"""Progress: one line on the terminal while something takes long: what, how far, for how long, how long still. It is erased at the end.

`with Progress("compiling f"):` around the work; whoever does a part of it says so with `report`, whether anybody listens or not.
Nothing is drawn in the first second, nor where standard error is no terminal or the setting `progress` is off; then there is no
thread either. What begins inside of another is its part, and draws nothing of its own; of several threads the first one draws.
The bar is rich's where that is installed. The thread is ours either way: rich's holds locks that a fork would want.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import Final, Self

from planish.config import current

_DELAY: Final = 1.0
"""Seconds before the line appears: what takes less needs none."""
_TICK: Final = 0.1
_WIDTH: Final = 24
_ERASE: Final = "\r\033[K"


def is_watched() -> bool:
    """Whether somebody sits at standard error and wants to know."""
    settings = current()
    if not settings.progress or settings.debug in ("ir", "kernels"):
        return False
    try:
        return os.isatty(sys.stderr.fileno())
    except (AttributeError, OSError, ValueError):  # replaced, or closed
        return False


class ProgressLine:
    """Work that may take long."""

    def __init__(self, what: str, shown: bool | None = None, counted: str = "kernels") -> None:
        self.what = what
        self.counted = counted
        """What `done` and `total` count."""
        self.done = self.total = 0
        self.doing = ""
        self.since = 0.0
        """When the first of them began: what came before tells nothing of how long they take."""
        self.share: float | None = None
        """How much of it is done, where that is not counted."""
        self._shown = shown
        self._outer: ProgressLine | None = None
        self._part = self
        """What is going on of it."""
        self._token: Token[ProgressLine | None] | None = None
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._start = time.monotonic()

    def __enter__(self) -> Self:
        self._start = self.since = time.monotonic()
        self._outer = _ACTIVE.get()
        self._token = _ACTIVE.set(self)
        if self._outer is not None:
            self._outermost()._part = self
        elif (is_watched() if self._shown is None else self._shown) and _LINE.acquire(blocking=False):
            # By its name those who fork know that it holds no lock that a fork would want.
            thread = threading.Thread(target=self._draw, name="planish-progress", daemon=True)
            try:
                thread.start()
                self._thread = thread
            except RuntimeError:  # an interpreter that ends starts no more of them
                _LINE.release()
        return self

    def __exit__(self, *error: object) -> None:
        if self._token is not None:
            _ACTIVE.reset(self._token)
        if self._outer is not None:
            self._outermost()._part = self._outer
        if self._thread is not None:
            self._ended.set()
            self._thread.join()
            _LINE.release()

    def _outermost(self) -> ProgressLine:
        line = self
        while line._outer is not None:
            line = line._outer
        return line

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.monotonic() - self._start

    @property
    def fraction(self) -> float | None:
        """How much of it is done; None while that is not known."""
        if self.share is not None:
            return min(self.share, 1.0)
        return min(self.done / self.total, 1.0) if self.total else None

    @property
    def remaining(self) -> float | None:
        """The seconds that it will still take if it goes on as it went; None while that is not known."""
        done = self.fraction
        return None if not done else (time.monotonic() - self.since) * (1 - done) / done

    def told(self) -> str:
        """What stands behind the bar."""
        part = self._part
        counted = f"{part.done} of {part.total} {part.counted}" if part.total else ""
        left = part.remaining
        rest = f"about {_duration(left)} left" if left is not None and left >= _DELAY else ""
        return ", ".join(filter(None, (counted, part.doing, f"{self.seconds:.1f} s", rest)))

    def line(self, tick: int) -> str:
        """The line at a moment, with how far its present part is; a bar that moves to and fro while that is not known."""
        share = self._part.fraction
        if share is not None:
            full = int(_WIDTH * share)
            bar = "#" * full + " " * (_WIDTH - full)
        else:
            span = _WIDTH - 4
            place = span - abs(tick % (2 * span) - span)
            bar = " " * place + "####" + " " * (span - place)
        return f"{self.what} [{bar}] {self.told()}"

    def _draw(self) -> None:
        # straight to the file: no lock of an object that a fork could find taken
        out, tick = sys.stderr.fileno(), 0
        if self._ended.wait(_DELAY):
            return
        render = _rich_line() or (lambda progress, tick, width: progress.line(tick)[: width - 1])
        try:
            while True:
                width = os.get_terminal_size(out).columns or 80 if os.isatty(out) else 80
                os.write(out, f"\r{render(self, tick, width)}\033[K".encode(errors="replace"))
                if self._ended.wait(_TICK):
                    break
                tick += 1
            os.write(out, _ERASE.encode())
        except OSError:  # the terminal is gone
            return


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return (
        f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole // 60 % 60} min"
    )


def _rich_line() -> Callable[[ProgressLine, int, int], str] | None:
    """Draws the line by rich; None without it, or where no colours are wanted."""
    if "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb":
        return None
    try:
        from rich.console import Console
        from rich.progress_bar import ProgressBar
    except ImportError:
        return None

    def render(progress: ProgressLine, tick: int, width: int) -> str:
        console = Console(
            file=io.StringIO(),
            force_terminal=True,
            color_system="standard",
            width=width,
            legacy_windows=False,
        )
        share = progress._part.fraction
        bar = ProgressBar(1.0, share or 0.0, _WIDTH, pulse=share is None, animation_time=tick * _TICK)
        room = max(width - _WIDTH - len(progress.what) - 4, 0)
        with console.capture() as drawn:
            console.out(progress.what, style="bold", highlight=False, end=" ")
            console.print(bar, end="")
            console.out(f" {progress.told()[:room]}", highlight=False, end="")
        return drawn.get().replace("\n", "")

    return render


_ACTIVE: Final[ContextVar[ProgressLine | None]] = ContextVar("progress", default=None)
"""The innermost that is going on here."""
_LINE: Final = threading.Lock()
"""Of whoever draws: there is one terminal."""


def report(done: int = 0, total: int = 0, doing: str = "") -> None:
    """Say how far the work is: how many kernels (or what its line counts) of how many, and what is being done."""
    active = _ACTIVE.get()
    if active is not None:
        if active.total != total and not done:
            active.since = time.monotonic()
        active.done, active.total, active.doing = done, total, doing


def erase() -> None:
    """Before a line of one's own: it stands where the bar was, which is drawn again below it."""
    if _LINE.locked():
        with contextlib.suppress(OSError, ValueError):
            os.write(sys.stderr.fileno(), _ERASE.encode())


def is_drawn() -> bool:
    """Whether there is a line on the terminal already, or will be."""
    return _LINE.locked()


def _forget() -> None:
    """A fork has no thread that draws."""
    _ACTIVE.set(None)
    if _LINE.locked():
        _LINE.release()


os.register_at_fork(after_in_child=_forget)
__all__ = ["ProgressLine", "erase", "is_drawn", "is_watched", "report"]
