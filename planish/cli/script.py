"""`planish run script.py`: a Python program under settings of the command line, as `python script.py` would run it.

What stands behind the script's name is the script's own. Settings hold in all of its threads, and in processes that it starts.
"""

from __future__ import annotations

import contextlib
import runpy
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from planish.cli.console import FAILED, OK, CommandError, CommandParser, Console
from planish.errors import PlanishError


def divide(arguments: Sequence[str], parser: CommandParser) -> tuple[list[str], list[str] | None]:
    """The words for planish, and those for the script (or the module of `-m`) that the first other one names; None if none does."""
    valued = {word for action in parser._actions if action.nargs != 0 for word in action.option_strings}
    skip = False
    for position, word in enumerate(arguments):
        if skip:
            skip = False
        elif word == "-m" and word in valued:
            return list(arguments[: position + 2]), list(arguments[position + 2 :])
        elif word.startswith("-") and word != "-":
            skip = word in valued
        else:
            if not word.endswith(".py"):
                break
            return list(arguments[: position + 1]), list(arguments[position + 1 :])
    return list(arguments), None


def run_script(
    path: str, words: Sequence[str], console: Console, failed: Callable[[str], None] | None = None
) -> int:
    """Run it; the exit status is the script's. `failed` is told the traceback of what it raises, whatever that is."""
    if not Path(path).is_file():
        raise CommandError(f"cannot run {path}: there is no such file")
    with _as_program(path, words):
        try:
            runpy.run_path(path, run_name="__main__")
        except SystemExit as stop:
            return _status(stop.code, console)
        except PlanishError as error:
            if failed is not None:
                failed(_traceback(error, path))
                return FAILED
            # The user's own lines are what they want to see; planish's say nothing to them.
            if not console.wants_traceback():
                _tell_lines(error, path, console)
            raise
        except Exception as error:  # noqa: BLE001 - the script's own error, shown as Python shows it
            (console.say if failed is None else failed)(_traceback(error, path))
            return FAILED
    return OK


@contextlib.contextmanager
def _as_program(path: str, words: Sequence[str]) -> Iterator[None]:
    """What a program finds in `sys` when Python starts it."""
    arguments, paths = sys.argv, list(sys.path)
    sys.argv = [path, *words]
    sys.path.insert(0, str(Path(path).resolve().parent))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = arguments, paths


def _status(code: Any, console: Console) -> int:
    if code is None or isinstance(code, int):
        return code or OK
    console.say(str(code))
    return FAILED


def _traceback(error: BaseException, path: str) -> str:
    """The traceback from the script's first line on."""
    start = error.__traceback__
    while start is not None and start.tb_frame.f_code.co_filename != path:
        start = start.tb_next
    return "".join(traceback.format_exception(error.with_traceback(start or error.__traceback__)))


def _tell_lines(error: PlanishError, path: str, console: Console) -> None:
    lines = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == path]
    if lines and (error.location is None or error.location.line != lines[-1].lineno):
        console.say(f"{path}:{lines[-1].lineno}: {lines[-1].line}")
