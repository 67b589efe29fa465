"""What a traceback shows: the lines of those who call planish, and none of planish's own.

An error that says what is wrong, where and what to do needs no way there through the compiler: twenty frames of it hide the two
that a user wrote. `short_tracebacks` is put around what users call. It leaves out of the traceback what is inside of planish, and
NumPy and the standard library where planish called them; functions of the user's that planish called stay. A bug (an error that is
not planish's nor the system's, and was not raised in the user's code) keeps everything, and so does every error under `settings(debug="errors")`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from types import CodeType, TracebackType
from typing import Any, Final, TypeVar, cast

from planish.config import current
from planish.errors import InternalError, PlanishError, SettingsError, is_own

F = TypeVar("F", bound=Callable[..., Any])
_STANDARD: Final = str(Path(os.__file__).parent) + os.sep
_INSTALLED: Final = os.sep + "site-packages" + os.sep
_PACKAGES: Final = tuple(os.sep + name + os.sep for name in ("numpy", "llvmlite", "ml_dtypes"))
"""What planish stands on."""


def short_tracebacks(function: F) -> F:
    """The function, whose errors show the lines of the user alone."""

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except Exception as error:
            shorten(error)
            raise

    return cast("F", call)


def shorten(error: BaseException, says_all: bool = False) -> None:
    """Leave planish's frames out of an error's traceback. Said within `except`, before a bare `raise`, which adds none.

    `says_all` is for errors of Python's that nobody has to look inside of planish for.
    """
    if isinstance(error, InternalError):
        return
    kept, ends_inside = _of_the_user(error.__traceback__)
    if (ends_inside and not says_all and not isinstance(error, PlanishError | OSError)) or _are_wanted():
        return
    error.__traceback__ = _linked(kept)
    reason = error.__cause__
    if reason is not None and not isinstance(reason, InternalError):
        reason.__traceback__ = _linked(_of_the_user(reason.__traceback__)[0])


def _of_the_user(trace: TracebackType | None) -> tuple[list[TracebackType], bool]:
    """The entries that are not planish's, and whether the innermost is."""
    kept: list[TracebackType] = []
    inside = False
    while trace is not None:
        code = trace.tb_frame.f_code
        inside = is_own(code) or (inside and _is_library(code))
        if not inside:
            kept.append(trace)
        trace = trace.tb_next
    return kept, inside


def _linked(entries: list[TracebackType]) -> TracebackType | None:
    after: TracebackType | None = None
    for entry in reversed(entries):
        after = TracebackType(after, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return after


def _is_library(code: CodeType) -> bool:
    """Whether code is of the standard library or of what planish stands on."""
    file = code.co_filename
    if file.startswith("<__array_function__") or any(package in file for package in _PACKAGES):
        return True
    return file.startswith(_STANDARD) and _INSTALLED not in file


def _are_wanted() -> bool:
    """Whether somebody asked for whole tracebacks."""
    try:
        return current().debug != "none"
    except SettingsError:
        return False  # which may be the error at hand
