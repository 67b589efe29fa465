"""Runs of compiled functions: the first calls of each, launch by launch, with the arrays that the program brings.

A watched call is the same machine code walked step by step, so that every launch has a beginning and an end; it takes longer than
a plain one. After a few the function is left alone.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from planish.records import dataclass

if TYPE_CHECKING:
    from planish.compiler.executable import Executable

MOST_CALLS: Final = 8
"""Calls of one function that are watched."""
MOST_EVENTS: Final = 20_000
"""Launches of one call that are kept: a loop may have any number."""


@dataclass(frozen=True, slots=True)
class RunEvent:
    """One launch of a call, or one op on the host."""

    name: str
    site: int
    start: float
    """On the clock of the process."""
    seconds: float
    flops: int
    nbytes: int
    beside: bool = False
    """Whether it is a collective under way while others run."""


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One call of a compiled function."""

    start: float
    seconds: float
    thread: int
    threads: int
    """That it could use."""
    events: tuple[RunEvent, ...]


class RunWatch:
    """Makes the first calls of a function, and keeps what it saw."""

    def __init__(self, executable: Executable) -> None:
        self.executable = executable
        self.calls: list[RecordedCall] = []

    def __call__(self, arrays: Sequence[object]) -> tuple[Any, ...]:
        """The results of a call."""
        way = self.executable.timed_walk(arrays)
        begin = perf_counter()
        way.run()
        seconds = perf_counter() - begin
        described = way.described()
        events = []
        for site, start, end in way.intervals[:MOST_EVENTS]:
            name, flops, nbytes = described[site]
            events.append(RunEvent(name, site, start, end - start, flops, nbytes))
        events += [
            RunEvent(f"{described[site][0]} under way", site, start, end - start, 0, 0, beside=True)
            for site, start, end in way.under_way[:MOST_EVENTS]
        ]
        self.calls.append(RecordedCall(begin, seconds, threading.get_ident(), way.threads, tuple(events)))
        if len(self.calls) >= MOST_CALLS:
            self.executable.watch_runs(None)
        return way.results
