"""A file for every internal error: the program that could not be compiled, and all that it takes to see it fail again.

`planish bisect FILE` finds the stage that fails, with the pipeline, target and settings that the file names; the error says where it is.
"""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from planish import ptir
from planish.config import Settings, current
from planish.errors import InternalError, PlanishError
from planish.ptir.rewrite.reproducer import write_reproducer
from planish.target import Target

if TYPE_CHECKING:
    from planish.compiler import Lowered

_NOT_OURS: Final = (OSError, MemoryError, Warning)
"""What a machine or its user is to blame for."""
_ELSEWHERE: Final = frozenset(
    {"cache", "cache_dir", "cache_limit", "dump_dir", "progress", "device", "target"}
)
"""Settings that decide nothing about the code."""


@contextlib.contextmanager
def reproducible(
    function: ptir.Function | ptir.Program, target: Target, pipeline: str | None
) -> Iterator[None]:
    """Around a compilation: an error that is ours leaves a file behind. Without a pipeline's text, passes are the user's own: not ours."""
    try:
        yield
    except _NOT_OURS:
        raise
    except Exception as error:
        if pipeline is None or (isinstance(error, PlanishError) and not isinstance(error, InternalError)):
            raise
        place = _written(function, target, pipeline, error)
        if isinstance(error, InternalError):
            error.reproducer = error.reproducer or place
            raise
        raise InternalError(f"{type(error).__name__}: {error}", reproducer=place) from error


def keep_program(error: InternalError, lowered: Lowered) -> None:
    """An internal error of a call leaves its program behind, as it was after all passes.

    No other exception does: what a host op or a function of the user's raises is theirs.
    """
    error.reproducer = error.reproducer or _written(lowered.function, lowered.target, "", error)


def _written(
    function: ptir.Function | ptir.Program, target: Target, pipeline: str, error: Exception
) -> str | None:
    """Where the file is; None if it cannot be written: the error is what counts."""
    program = function if isinstance(function, ptir.Program) else ptir.Program([function])
    now, plain = current(), Settings()
    changed = [
        f"{field.name}={value}"
        for field in dataclasses.fields(Settings)
        if (value := getattr(now, field.name)) != getattr(plain, field.name) and field.name not in _ELSEWHERE
    ]
    named = {"target": "host", "machine": target.name} if target.native else {"target": target.name}
    facts = {**named, "set": " ".join(changed)}
    directory = Path(now.dump_dir or tempfile.gettempdir())
    try:
        return str(write_reproducer(directory, program, pipeline, error, facts))
    except (OSError, PlanishError):
        return None


__all__ = ["keep_program", "reproducible"]
