"""What the commands share: streams, errors as people expect them of a compiler, exit statuses.

prog.ptir:4:22: error: there is no attribute 'permutation' here
  %1 = transpose %0 {permutation=[1, 0]} : tensor<f32, 8x4>
                     ^
help: the attributes are: perm
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import json
import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NoReturn, TextIO

from planish.config import current, in_environment
from planish.errors import (
    InternalError,
    Location,
    ParseError,
    PlanishError,
    SettingsError,
    VerifyError,
    alternatives,
    did_you_mean,
)

OK: Final = 0
FAILED: Final = 1
MISUSED: Final = 2
# As a shell reports a program that these signals ended.
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141

_STYLES: Final = {
    "error": "1;31",
    "help": "1;36",
    "note": "1;36",
    "place": "1",
    "caret": "1;32",
    "+": "32",
    "-": "31",
}


_CONTROL: Final = re.compile(r"\x1b(?!\[[0-9;]*m)|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f]")


class CommandError(Exception):
    """A command cannot go on: the message is for the user. Without a message, everything has been said."""

    status: int = FAILED

    def __init__(self, message: str = "", *, remedy: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


class UsageError(CommandError):
    """The command line itself is wrong."""

    status = MISUSED


def examples(doc: str | None) -> str:
    """The command lines below the first line of a module's docstring, for the end of its help."""
    lines = (doc or "").strip().split("\n")[1:]
    return "\n".join(["examples:", *(f"  {line}" for line in lines if line.strip())])


class _Declaring:
    """Options in one line each; `how` is what argparse takes besides."""

    add_argument: Any

    def flag(self, *words: str) -> None:
        """A switch: its names, and what it does."""
        *names, says = words
        self.add_argument(*names, action="store_true", help=says)

    def option(self, *words: str, **how: Any) -> None:
        """An argument with a value: its names, what help calls the value, and what it is for."""
        *names, metavar, says = words
        self.add_argument(*names, metavar=metavar, help=says, **how)

    def several(self, *words: str, **how: Any) -> None:
        """An option that may be given several times."""
        self.option(*words, action="append", default=[], **how)


class OptionGroup(_Declaring):
    """Options that help lists together."""

    def __init__(self, parser: argparse.ArgumentParser, title: str) -> None:
        self.add_argument = parser.add_argument_group(title).add_argument


class CommandParser(argparse.ArgumentParser, _Declaring):
    """An argument parser that knows near misses and keeps its complaints short; what every command has is declared here."""

    def __init__(self, prog: str, description: str, epilog: str, json: str = "write JSON") -> None:
        super().__init__(
            prog,
            description=description,
            epilog=epilog,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self.flag("-v", "--verbose", "show tracebacks with errors")
        self.flag("--json", json)
        self.several(
            "--set", "NAME=VALUE", "a setting for this command, such as threads=1; repeatable", dest="set_"
        )

    def parse(self, arguments: Sequence[str], console: Console) -> argparse.Namespace:
        """The values of the arguments; the rest of the command runs under this program's name."""
        console.program = self.prog
        values, unknown = self.parse_known_args(list(arguments))
        if unknown:
            word = unknown[0].partition("=")[0]
            close = did_you_mean(word, self._option_string_actions) if word.startswith("-") else None
            hint = f"; did you mean {close}?" if close else ""
            self.error(f"unrecognized argument: {unknown[0]}{hint}")
        console.verbose = console.verbose or values.verbose
        console.json = values.json
        chosen = _settings(values.set_)
        if console.verbose and "PLANISH_DEBUG" not in os.environ:
            chosen.setdefault("debug", "errors")
        console.open.enter_context(in_environment(chosen))
        return values

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            close = did_you_mean(str(value), [str(choice) for choice in action.choices])
            hint = f"did you mean {close!r}? " if close else ""
            valid = ", ".join(map(str, action.choices))
            raise argparse.ArgumentError(action, f"invalid choice: {value!r}; {hint}valid: {valid}")

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, remedy=f"see `{self.prog} --help`")


def _settings(words: Sequence[str]) -> dict[str, str]:
    """`threads=1` of the command line, by name."""
    by_name: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise UsageError(
                f"{word!r} sets nothing", remedy="write --set NAME=VALUE, such as --set threads=1"
            )
        by_name[name.replace("-", "_")] = value
    return by_name


class Console:
    """The standard streams of one command, and the texts that errors may point into."""

    def __init__(self) -> None:
        self.program = "planish"
        self.verbose = False
        self.json = False
        """Whether the product is to be JSON."""
        self.open = contextlib.ExitStack()
        """What ends with the command."""
        self.sources: dict[str, str] = {}
        """Texts by the name that locations call them."""

    # --- streams ---

    def write(self, text: str) -> None:
        """Put a part of the product on standard output."""
        _write(sys.stdout, text)

    def product(self, record: object, text: str) -> None:
        """The whole product of a command: as JSON if that was asked for, else as text."""
        self.write(json.dumps(record, indent=2, default=str) + "\n" if self.json else text)

    def write_code(self, text: str, language: str | None) -> None:
        """Code in a language, with colours on a terminal that shows some and where rich is installed."""
        _write(sys.stdout, text if language is None else _highlighted(text, language))

    def say(self, text: str) -> None:
        """Say something about it, on standard error."""
        # whoever draws a bar has imported this; nobody else has to
        progress = sys.modules.get("planish.compiler.progress")
        if progress is not None:
            progress.erase()
        _write(sys.stderr, text.rstrip("\n") + "\n")

    def style(self, name: str, text: str) -> str:
        """`text` in colour, if standard error is a terminal that shows some."""
        if not _shows_colours(sys.stderr):
            return text
        return f"\033[{_STYLES[name]}m{text}\033[0m"

    def say_diff(self, lines: Iterable[str]) -> None:
        """Lines of a unified diff."""
        for line in lines:
            self.say(self.style(line[0], line) if line[:1] in ("+", "-") else line)

    def warnings_as_notes(self) -> None:
        """From now on, a warning is a line for users and not one of the source that gave it."""

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            self.say_labelled("note", str(message))

        warnings.showwarning = show

    # --- errors ---

    def guard(self, run: Callable[[], int]) -> int:
        """Run a command; whatever it raises becomes a message and an exit status."""
        try:
            try:
                with self.open:
                    status = run()
            except BrokenPipeError:
                raise
            except SystemExit as stop:  # argparse, after printing its help
                status = stop.code if isinstance(stop.code, int) else FAILED
            except Exception as error:  # noqa: BLE001 - the last place where an error can be made readable
                status = self._failed(error)
            return self._finish(status)
        except KeyboardInterrupt:
            return INTERRUPTED
        except BrokenPipeError:
            # Whoever read us has gone, and Python's own flush at exit must not fail on it again.
            _silence(sys.stdout)
            _silence(sys.stderr)
            return BROKEN_PIPE

    def _finish(self, status: int) -> int:
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            self.complain(f"cannot write to standard output: {error.strerror}")
            _silence(sys.stdout)
            return FAILED
        return status

    def _failed(self, error: Exception) -> int:
        if isinstance(error, CommandError):
            if error.message:
                self.complain(error.message, remedy=error.remedy)
            return error.status
        if isinstance(error, PlanishError):
            self._planish_error(error)
        elif isinstance(error, OSError):
            place = "" if error.filename is None else f"{error.filename}: "
            self.complain(f"{place}{error.strerror or error}")
        elif isinstance(error, MemoryError):
            self.complain(
                f"out of memory{f': {error}' if str(error) else ''}", remedy="smaller sizes, or more memory"
            )
        else:
            self.complain(f"this is a bug in planish: {type(error).__name__}: {error}")
        self._notes(error)
        if self.wants_traceback():
            self.say("".join(traceback.format_exception(error)))
        elif not isinstance(error, PlanishError | OSError | MemoryError):
            self.say_labelled("note", "run again with -v for the traceback")
        return MISUSED if isinstance(error, SettingsError) else FAILED

    def wants_traceback(self) -> bool:
        """Whether the user asked for tracebacks, by `-v` or by the setting `debug`."""
        with contextlib.suppress(SettingsError):
            return self.verbose or current().debug in ("ir", "errors")
        return self.verbose

    def complain(
        self,
        message: str,
        *,
        location: Location | None = None,
        remedy: str | None = None,
        details: Iterable[str] = (),
    ) -> None:
        """An error with its place, the line it points at, and what to do."""
        place, window = self._point(location)
        self.say(f"{self.style('place', place)} {self.style('error', 'error:')} {message}")
        for line in [*window, *details]:
            self.say(line)
        if location is not None and location.function is not None:
            self.say_labelled("note", f"in {location.function}")
        if remedy is not None:
            self.say_labelled("help", remedy)

    def say_labelled(self, label: str, text: str) -> None:
        self.say(f"{self.style(label, label + ':')} {text}")

    def _planish_error(self, error: PlanishError) -> None:
        message = error.message
        details: list[str] = []
        location = error.location
        if isinstance(error, ParseError):
            if error.expected:
                message += f", expected {alternatives(error.expected)}"
            if location is None and error.source_line is not None:
                details = [error.source_line, self._caret(error.source_line, error.column or 1)]
        if isinstance(error, VerifyError):
            details = ["  - " + problem.replace("\n", "\n    ") for problem in error.problems]
        if isinstance(error, InternalError):
            message = f"this is a bug in planish: {message}"
        if error.op is not None:
            message += f" (in {error.op})"
        self.complain(message, location=location, remedy=error.remedy, details=details)
        if isinstance(error, InternalError) and error.reproducer is not None:
            self.say_labelled("note", f"reproducer: {error.reproducer}")
            self.say_labelled("note", f"find the stage with: planish bisect {error.reproducer}")

    def _notes(self, error: Exception) -> None:
        for note in getattr(error, "__notes__", ()):
            self.say_labelled("note", note)
            if note.startswith("reproducer: "):
                self.say_labelled("note", f"run it with: planish opt {note.removeprefix('reproducer: ')}")

    def _point(self, location: Location | None) -> tuple[str, list[str]]:
        """A place as `file:line:column:`, and the line with a caret where its text is at hand."""
        if location is None:
            return f"{self.program}:", []
        column = location.column
        lines = self.sources.get(location.file, "").split("\n")
        if location.line > len(lines) or location.file not in self.sources:
            shown = "" if column is None else f"{column}:"
            return f"{location.file}:{location.line}:{shown}", []
        line = lines[location.line - 1].removesuffix("\r")
        if column is None:
            # The line as a whole is meant: point at where it begins.
            column = len(line) - len(line.lstrip()) + 1
        return f"{location.file}:{location.line}:{column}:", [line, self._caret(line, column)]

    def _caret(self, line: str, column: int) -> str:
        # Tabs are kept so that the caret stands under its character at any tab width.
        indent = "".join("\t" if char == "\t" else " " for char in line[: column - 1])
        return indent + self.style("caret", "^")


def plural(count: int, what: str) -> str:
    """`1 run`, `2 runs`."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _shows_colours(stream: TextIO) -> bool:
    return stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def _highlighted(text: str, language: str) -> str:
    if not _shows_colours(sys.stdout) or importlib.util.find_spec("rich") is None:
        return text
    from rich.console import Console as RichConsole
    from rich.syntax import Syntax

    width = max(map(len, text.split("\n"))) + 1
    drawn = RichConsole(file=io.StringIO(), force_terminal=True, color_system="standard", width=width)
    with drawn.capture() as captured:
        drawn.print(Syntax(text, language, theme="ansi_dark", background_color="default", word_wrap=False))
    # it fills lines with blanks up to the width
    return re.sub(r"[ ]+(?=(?:\x1b\[0m)?\n)", "", captured.get())


def tamed(text: str) -> str:
    """Text for a terminal: characters that would steer it (in names of files and models, say) as escapes; colours stay."""
    return _CONTROL.sub(lambda match: repr(match.group())[1:-1], text)


def _write(stream: TextIO, text: str) -> None:
    if stream.isatty():
        text = tamed(text)
    try:
        stream.write(text)
    except UnicodeEncodeError:
        # A terminal of few characters gets the others as escapes instead of an error.
        encoding = stream.encoding or "ascii"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))


def _silence(stream: TextIO) -> None:
    # A stream that is no file, or closed, has nothing left to flush.
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
