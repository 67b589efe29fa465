"""Kernels made by several hands: a thread compiles one while the next is lowered; of many, other processes take their share.

LLVM works outside of the interpreter's lock, so that lowering goes on beside it. Lowering itself is Python: what promises to take
long is divided among as many processes as a call may use threads. They are forks, so the graphs are there already; each takes
kernel after kernel and leaves what it made in memory that the first one reads. A kernel that a process did not finish,
whatever happened to it, is made here: an error is always the one that making it here raises. What comes out is the same,
whoever made it.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import pickle
import queue
import signal
import struct
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from planish.compiler.pickling import dumps
from planish.config import current
from planish.runtime.pool import wanted_threads
from planish.uop.trial import active

T = TypeVar("T")

_WORTH: Final = 0.4
"""Seconds of work that are worth starting processes for: a fork costs about a tenth of that, since both sides copy the pages they touch."""
_MOST: Final = 16
_PATIENCE: Final = 5.0
"""How many times longer than this process was busy the others may be; whoever hangs is not waited for for ever."""
_OWN: Final = 2
"""Threads of ours that run meanwhile: who lowers and who compiles."""
_LOAD: Final = Path("/proc/loadavg")
_TICKET: Final = struct.Struct("<I")


class Promise(Generic[T]):
    """What a thread is making."""

    __slots__ = ("_error", "_ready", "_value")

    def __init__(self) -> None:
        self._ready = threading.Event()
        self._value: T | None = None
        self._error: BaseException | None = None

    def settle(self, make: Callable[[], T]) -> None:
        """Make it; an error is for whoever asks."""
        try:
            self._value = make()
        except BaseException as error:  # noqa: BLE001 - raised again where somebody waits for it
            self._error = error
        self._ready.set()

    def wait(self) -> None:
        """Until it is made, or cannot be."""
        self._ready.wait()

    def __call__(self) -> T:
        """What was made, as soon as it is."""
        self._ready.wait()
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # it is there: no error


class Beside:
    """Threads that do one piece of work after another, under the settings of whoever started them."""

    def __init__(self, most: int = 1) -> None:
        self._todo: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._most = most
        self._threads: list[threading.Thread] = []
        self._promised: list[Promise[Any]] = []

    def make(self, make: Callable[[], T]) -> Promise[T]:
        """Have something made."""
        promise: Promise[T] = Promise()
        if len(self._threads) < self._most:
            context = contextvars.copy_context()
            thread = threading.Thread(target=context.run, args=(self._work,), name="planish-compile")
            self._threads.append(thread)
            thread.start()
        self._promised.append(promise)
        self._todo.put(lambda: promise.settle(make))
        return promise

    def settle(self) -> None:
        """Wait until all that was asked for is made."""
        for promise in self._promised:
            promise.wait()

    def close(self) -> None:
        """There is no more to do; what was begun is finished."""
        for _ in self._threads:
            self._todo.put(None)

    def _work(self) -> None:
        while (piece := self._todo.get()) is not None:
            piece()


def is_worth_sharing(left: int, done: int, seconds: float) -> int:
    """Among how many processes, this one included, the kernels that are left are divided; 1 if it is not worth it.

    The seconds are those of a processor that went into lowering: on a busy machine the clock says nothing about work.
    """
    settings = current()
    if left < 2 or not done or seconds / done * left < _WORTH:
        return 1  # the first is made here in any case: forks then find its rules and tables ready
    watched = settings.debug == "ir" or settings.dump_dir is not None or settings.beam or active() is not None
    if watched or not hasattr(os, "memfd_create") or not hasattr(os, "fork"):
        return 1
    if any(_is_at_work(thread) for thread in threading.enumerate()):
        return 1
    hands = min(wanted_threads(), left, _MOST)
    return 1 if hands > 1 and is_machine_busy() else hands


def is_machine_busy() -> bool:
    """Whether others want every processor at this moment: a fork would take a tenth more work and end no sooner."""
    try:
        running = int(_LOAD.read_text().split()[3].partition("/")[0])
    except (OSError, ValueError, IndexError):
        return False  # nobody says
    return running - _OWN >= (os.cpu_count() or 1)


def _is_at_work(thread: threading.Thread) -> bool:
    """Whether another thread may hold a lock that a fork of this process needs, and would never see released.

    Our own hold none. Those of others do while they are in code of ours: one that waits for data of its own, or for us, does not.
    """
    if thread is threading.current_thread() or thread.name.startswith("planish-"):
        return False
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] == "planish":
            return True
        frame = frame.f_back
    return False


def shared(
    numbers: Sequence[int], make: Callable[[int], T], hands: int, told: Callable[[int], None] | None = None
) -> dict[int, T]:
    """What `make` gives for each number, by so many processes. `told` hears how many are taken."""
    source, sink = os.pipe()
    os.write(sink, b"".join(map(_TICKET.pack, numbers)))
    os.close(sink)
    results: dict[int, T] = {}
    helpers: list[tuple[int, int]] = []
    started = time.monotonic()
    try:
        for _ in range(hands - 1):
            memory = os.memfd_create("planish")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of threads: nothing of theirs is used in the fork
                process = os.fork()
            if process == 0:
                _help(source, memory, make)
            helpers.append((process, memory))
        for number in _tickets(source):
            if told is not None:
                told(numbers.index(number))
            results[number] = make(number)
        limit = time.monotonic() + _PATIENCE * (time.monotonic() - started) + 1.0
        while helpers:
            process, memory = helpers[-1]
            if _ended(process, limit):
                _read_back(memory, results)
            else:
                _stop(process)
            helpers.pop()
            os.close(memory)
    finally:
        os.close(source)
        for process, memory in helpers:
            _stop(process)
            os.close(memory)
    for number in numbers:
        if number not in results:
            results[number] = make(number)
    return results


def _tickets(source: int) -> Iterator[int]:
    """The numbers that nobody has taken yet, one by one."""
    while ticket := os.read(source, _TICKET.size):
        yield _TICKET.unpack(ticket)[0]


def _help(source: int, memory: int, make: Callable[[int], object]) -> None:
    """What a helper does, from the fork to its end. It says nothing: what it does not finish is made again."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        with os.fdopen(memory, "wb", closefd=False) as file:
            for number in _tickets(source):
                record = dumps((number, make(number)))
                file.write(struct.pack("<Q", len(record)))
                file.write(record)
    finally:
        os._exit(0)


def _read_back(memory: int, results: dict[int, T]) -> None:
    """What a helper left, as far as it is whole."""
    with os.fdopen(os.dup(memory), "rb") as file:
        file.seek(0)
        while len(head := file.read(8)) == 8:
            (length,) = struct.unpack("<Q", head)
            record = file.read(length)
            if len(record) < length:
                return
            number, value = pickle.loads(record)  # noqa: S301 - written by this very program
            results[number] = value


def _ended(process: int, limit: float) -> bool:
    """Wait for a helper; False if it is not ready in time."""
    pause = 0.0005
    while True:
        try:
            if os.waitpid(process, os.WNOHANG)[0]:
                return True
        except ChildProcessError:  # somebody else waits for all children
            return True
        if time.monotonic() > limit:
            return False
        time.sleep(pause)


def _stop(process: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
