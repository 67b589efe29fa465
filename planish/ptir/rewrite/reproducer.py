"""Reproducers: one file with a program, the pipeline that broke it, and the versions it broke with.

The file is a program in text form with comments on top, so the tool runs it as it is:
`planish opt FILE` finds the pipeline in the line `// run: …`.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from planish.errors import ParseError
from planish.ptir.dump import program_text
from planish.ptir.function import Program
from planish.records import dataclass

_RUN = "// run: "


@dataclass(frozen=True, slots=True)
class Reproducer:
    """A reproducer read back."""

    pipeline: str
    text: str
    """The program in text form, comments included."""
    facts: dict[str, str]
    """What else its head says, such as the target."""


def reproducer_text(
    program: Program,
    pipeline: str,
    error: BaseException | None = None,
    facts: Mapping[str, str] | None = None,
) -> str:
    """The contents of a reproducer file."""
    what = "the program before the pass that failed" if facts is None else "a program that is not compiled"
    lines = [
        f"// planish reproducer: {what}",
        f"{_RUN}{pipeline}",
        *(f"// {name}: {value}" for name, value in (facts or {}).items() if value),
        f"// versions: planish {_installed()}, python {platform.python_version()}, numpy {np.__version__}",
    ]
    if error is not None:
        message = f"{type(error).__name__}: {error}"
        lines += [f"// error: {line}" for line in message.splitlines()]
        lines += [
            f"// note: {line}" for note in getattr(error, "__notes__", ()) for line in note.splitlines()
        ]
    return "\n".join([*lines, program_text(program)])


def _installed() -> str:
    """The version of planish as installed; a bare source tree has none on record."""
    from importlib import metadata  # brings `email`, and only a failure is told to anybody

    try:
        return metadata.version("planish")
    except metadata.PackageNotFoundError:
        return "from source"


def write_reproducer(
    directory: Path | str,
    program: Program,
    pipeline: str,
    error: BaseException | None = None,
    facts: Mapping[str, str] | None = None,
) -> Path:
    """Write a reproducer into `directory`, named by its content; gives its path."""
    text = reproducer_text(program, pipeline, error, facts)
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    path = Path(directory) / f"reproducer-{digest}.ptir"
    path.parent.mkdir(parents=True, exist_ok=True)
    # the folder may be one that all users share: what lies there under this name is not followed
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o666)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def read_reproducer(text: str) -> Reproducer:
    """The pipeline and program of a reproducer file's contents."""
    facts: dict[str, str] = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("//"):
            break
        name, colon, value = line.removeprefix("//").partition(":")
        if colon:
            facts.setdefault(name.strip(), value.strip())
    if "run" in facts:
        return Reproducer(facts.pop("run"), text, facts)
    raise ParseError("this is no reproducer: it has no line '// run: …' on top")
