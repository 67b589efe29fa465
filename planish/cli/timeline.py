"""`planish run --trace FILE`: what a script or model ran, and which passes came before, as a timeline for Chrome and Perfetto."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from planish.compiler import traces
from planish.ptir.trace import ExecutionContext, ExecutionStats, PassEvent


class TimelineSink:
    """Collects executions and passes; each thread has a track of its own."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._events: list[dict[str, Any]] = []
        self._threads: dict[int, int] = {}

    def before_run(self, context: ExecutionContext) -> None:
        """Nothing is known yet that the end would not tell."""

    def after_run(self, context: ExecutionContext, stats: ExecutionStats) -> None:
        told = {"graph": context.graph_id, "backend": context.backend, **stats.counters, **context.meta}
        if stats.error is not None:
            told["error"] = stats.error
        self._add(f"{context.program.entry.name} #{context.number}", context.kind, stats.seconds, told)

    def pass_event(self, event: PassEvent) -> None:
        self._add(event.text, "pass", event.seconds, {"changed": event.changed, **event.statistics})

    def _add(self, name: str, category: str, seconds: float, told: dict[str, Any]) -> None:
        """An event that ends now."""
        end = (time.perf_counter() - self._start) * 1e6
        track = self._threads.setdefault(threading.get_ident(), len(self._threads) + 1)
        self._events.append(
            {"name": name, "cat": category, "ph": "X", "ts": max(end - seconds * 1e6, 0.0), "dur": seconds * 1e6,
             "pid": 1, "tid": track, "args": told}
        )  # fmt: skip

    def write(self, path: Path | str) -> int:
        """Write the file; how many events there are."""
        traces.write(path, {"traceEvents": self._events, "displayTimeUnit": "ms"})
        return len(self._events)
