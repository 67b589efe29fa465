"""`PLANISH_VIZ`: a whole process is recorded, and at its end a file is written and told of."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import time
from pathlib import Path
from typing import Final

from planish.compiler.progress import ProgressLine
from planish.config import current, default_folder
from planish.filenames import file_name
from planish.viz.recorder import Recorder
from planish.viz.recording import Recording

_KEPT: Final = 8
"""Recordings that stay in the cache folder; older ones go."""
SUFFIX: Final = ".planish"


def record_process(wanted: str) -> Recorder:
    """A recorder that writes a file when the process ends: of a name, or for `1` in the cache folder."""
    recorder = Recorder()
    owner = os.getpid()

    def finish() -> None:
        if os.getpid() == owner:  # a fork has its own things to do
            _finish(recorder, wanted)

    atexit.register(finish)
    return recorder


def _finish(recorder: Recorder, wanted: str) -> None:
    if not recorder.programs:
        _say("nothing was compiled, and nothing is recorded")
        return
    path = _place() if wanted.lower() in {"1", "true", "yes", "on"} else Path(wanted)
    try:
        with ProgressLine(f"writing {path.name}"):
            recording = Recording(recorder, program_name(), " ".join(sys.argv))
            recording.save(path)
        programs = "1 program" if len(recording.programs) == 1 else f"{len(recording.programs)} programs"
        _say(
            f"{recording.index.steps_total} steps of {programs} are recorded; see them with: planish viz {path}"
        )
    except Exception as error:  # noqa: BLE001 - a program that ends well does not fail for its recording
        _say(f"the recording could not be written: {type(error).__name__}: {error}")


def program_name() -> str:
    """What the process runs."""
    return Path(sys.argv[0]).name if sys.argv and sys.argv[0] else "python"


def _place() -> Path:
    """A new file in the cache folder; the oldest of its kind make room."""
    chosen = current().cache_dir
    folder = (default_folder() if chosen is None else Path(chosen)) / "viz"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    known = sorted(folder.glob(f"*{SUFFIX}"), key=lambda path: path.stat().st_mtime)
    for old in known[: max(0, len(known) - _KEPT + 1)]:
        with contextlib.suppress(OSError):
            old.unlink()
    stamp = time.strftime("%Y%m%d-%H%M%S")
    return folder / f"{file_name(program_name())}-{stamp}-{os.getpid()}{SUFFIX}"


def _say(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"planish viz: {text}\n")
