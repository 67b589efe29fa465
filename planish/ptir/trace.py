"""Tracing: what ran, when, on what, and which passes came before.

A sink is told before and after every execution and after every pass. One sink is installed for the process;
installing gives a guard that puts the previous one back. Without a sink, nothing is collected.

    with trace.install_global_sink(trace.FileTraceSink("out")):
        ...
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, field
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from planish.filenames import file_name
from planish.ptir.dump import program_json, program_text
from planish.ptir.function import Program
from planish.records import dataclass


@dataclass(frozen=True, slots=True)
class ExecutionContext:
    """One execution, as it is known before it starts."""

    program: Program
    graph_id: str
    """Equal for executions of the same graph."""
    targets: tuple[int, ...]
    """The ids of the values asked for."""
    backend: str
    number: int = 0
    """Counts executions in this process from 1."""
    kind: str = "run"
    meta: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExecutionStats:
    """One execution, as it is known afterwards."""

    seconds: float
    error: str | None = None
    counters: Mapping[str, int | float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PassEvent:
    """One pass that ran."""

    text: str
    """The pass as pipelines spell it."""
    number: int
    changed: bool
    seconds: float
    statistics: Mapping[str, int | float] = field(default_factory=dict)


class ExecutionTraceSink(Protocol):
    """Receives what happens; a sink must not change the program."""

    def before_run(self, context: ExecutionContext) -> None: ...

    def after_run(self, context: ExecutionContext, stats: ExecutionStats) -> None: ...

    def pass_event(self, event: PassEvent) -> None: ...


class _TraceState:
    """The sink in force and the number of executions; a lock keeps numbers unique between threads."""

    __slots__ = ("count", "lock", "sink")

    def __init__(self) -> None:
        self.sink: ExecutionTraceSink | None = None
        self.count = 0
        self.lock = threading.Lock()


_state = _TraceState()


class SinkGuard:
    """Puts the previous sink back when closed, or at the end of a `with` block."""

    __slots__ = ("_open", "_previous", "sink")

    def __init__(self, sink: ExecutionTraceSink, previous: ExecutionTraceSink | None) -> None:
        self.sink = sink
        self._previous = previous
        self._open = True

    def close(self) -> None:
        """Restore; closing twice does no harm."""
        if self._open:
            self._open = False
            _state.sink = self._previous

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def install_global_sink(sink: ExecutionTraceSink) -> SinkGuard:
    """Send all traces to `sink` until the guard is closed."""
    previous = _state.sink
    _state.sink = sink
    return SinkGuard(sink, previous)


def current_sink() -> ExecutionTraceSink | None:
    return _state.sink


def pass_event(event: PassEvent) -> None:
    """Tell the sink of a pass."""
    if _state.sink is not None:
        _state.sink.pass_event(event)


class Execution:
    """An execution in progress: `counters` may be filled while it runs."""

    __slots__ = ("context", "counters")

    def __init__(self, context: ExecutionContext | None) -> None:
        self.context = context
        self.counters: dict[str, int | float] = {}


@contextlib.contextmanager
def execution(
    program: Program,
    *,
    graph_id: str | None = None,
    targets: Sequence[int] = (),
    backend: str,
    kind: str = "run",
    meta: Mapping[str, str] | None = None,
) -> Iterator[Execution]:
    """Surround one execution: the sink hears of its start, its end and how long it took.

    Without a `graph_id`, the program's text makes one.
    """
    sink = _state.sink
    if sink is None:
        yield Execution(None)
        return
    with _state.lock:
        _state.count += 1
        number = _state.count
    if graph_id is None:
        graph_id = hashlib.sha256(program_text(program).encode()).hexdigest()[:16]
    context = ExecutionContext(program, graph_id, tuple(targets), backend, number, kind, dict(meta or {}))
    running = Execution(context)
    sink.before_run(context)
    start = time.perf_counter()
    try:
        yield running
    except BaseException as error:
        failure = f"{type(error).__name__}: {error}"
        sink.after_run(context, ExecutionStats(time.perf_counter() - start, failure, running.counters))
        raise
    sink.after_run(context, ExecutionStats(time.perf_counter() - start, None, running.counters))


class FileTraceSink:
    """Writes `NNNNN_kind/` with `program.ptir`, `program.json`, `meta.json` and `stats.json` per execution.

    `executions.jsonl` and `passes.jsonl` beside them hold one line per execution and per pass.
    """

    def __init__(self, directory: Path | str) -> None:
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()

    def before_run(self, context: ExecutionContext) -> None:
        """Write what is known beforehand, so that a crash leaves the program behind."""
        folder = self._folder(context)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "program.ptir").write_text(program_text(context.program), encoding="utf-8")
        (folder / "program.json").write_text(program_json(context.program), encoding="utf-8")
        meta = {
            "graph_id": context.graph_id,
            "targets": list(context.targets),
            "backend": context.backend,
            "kind": context.kind,
            "number": context.number,
            "process": os.getpid(),
            "time": time.time(),
            **context.meta,
        }
        (folder / "meta.json").write_text(json.dumps(meta, indent=2) + "\n", encoding="utf-8")

    def after_run(self, context: ExecutionContext, stats: ExecutionStats) -> None:
        record = {"seconds": stats.seconds, "error": stats.error, **stats.counters}
        (self._folder(context) / "stats.json").write_text(
            json.dumps(record, indent=2) + "\n", encoding="utf-8"
        )
        line = {"number": context.number, "graph_id": context.graph_id, "backend": context.backend, **record}
        self._append("executions.jsonl", line)

    def pass_event(self, event: PassEvent) -> None:
        self._append("passes.jsonl", asdict(event))

    def _folder(self, context: ExecutionContext) -> Path:
        return self.directory / f"{context.number:05}_{file_name(context.kind)}"

    def _append(self, name: str, record: Mapping[str, object]) -> None:
        with self._lock, (self.directory / name).open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
