"""A profile for other people's viewers: Chrome's trace format (also Perfetto's) and speedscope's.

Launches lie behind each other in the order of the plan, each as long as its median; what runs several times in a call is one piece.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from planish.compiler.profile import LaunchProfile, Profile

_MICRO: Final = 1e6
_SCHEMA: Final = "https://www.speedscope.app/file-format-schema.json"
"""By this speedscope recognises its files; nothing is fetched."""


def record_of(launch: LaunchProfile) -> dict[str, Any]:
    """A launch as plain data."""
    return {
        "kernel": launch.kernel, "position": launch.position, "calls": launch.calls, "seconds": launch.seconds, "best": launch.best,
        "flops": launch.flops, "bytes": launch.nbytes, "gflops": launch.gflops, "gbytes": launch.gbytes,
        "ops": list(launch.ops), "lines": list(launch.lines),
    }  # fmt: skip


def in_order(profile: Profile) -> list[LaunchProfile]:
    """The launches that ran, as the plan has them."""
    return sorted((r for r in profile.records if r.calls), key=lambda record: record.position)


def chrome(profile: Profile, name: str = "planish") -> dict[str, Any]:
    """Complete events on one track; rates, ops and lines are their arguments."""
    events: list[dict[str, Any]] = [_named("process_name", name), _named("thread_name", "launches")]
    at = 0.0
    for launch in in_order(profile):
        length = launch.seconds * _MICRO
        told = {key: value for key, value in record_of(launch).items() if key not in ("kernel", "position")}
        events.append(
            {
                "name": launch.kernel,
                "cat": "kernel",
                "ph": "X",
                "ts": at,
                "dur": length,
                "pid": 1,
                "tid": 1,
                "args": told,
            }
        )
        at += length
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"call_seconds": profile.call}}


def _named(what: str, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": 1, "tid": 1, "args": {"name": name}}


def speedscope(profile: Profile, name: str = "planish") -> dict[str, Any]:
    """Stacks of two: the user's line, and the kernel that computes it."""
    frames: list[dict[str, Any]] = []
    known: dict[tuple[str, str], int] = {}

    def frame(title: str, line: str) -> int:
        if (title, line) not in known:
            known[title, line] = len(frames)
            frames.append({"name": title, **_place(line)})
        return known[title, line]

    events: list[dict[str, Any]] = []
    at = 0.0
    for launch in in_order(profile):
        line = launch.lines[0] if launch.lines else ""
        stack = [frame(line, line)] if line else []
        stack.append(frame(launch.kernel, ""))
        events += [{"type": "O", "frame": number, "at": at} for number in stack]
        at += launch.seconds * _MICRO
        events += [{"type": "C", "frame": number, "at": at} for number in reversed(stack)]
    timeline = {
        "type": "evented",
        "name": name,
        "unit": "microseconds",
        "startValue": 0,
        "endValue": at,
        "events": events,
    }
    return {"$schema": _SCHEMA, "shared": {"frames": frames}, "profiles": [timeline], "exporter": "planish"}


def _place(line: str) -> dict[str, Any]:
    """`file.py:12` as the two that viewers link."""
    file, _, number = line.partition(" ")[0].rpartition(":")
    return {"file": file, "line": int(number)} if file and number.isdecimal() else {}


def write(path: Path | str, record: Mapping[str, Any] | Sequence[Any]) -> None:
    """Write JSON to a file."""
    Path(path).write_text(json.dumps(record) + "\n", encoding="utf-8")


__all__ = ["chrome", "in_order", "record_of", "speedscope", "write"]
