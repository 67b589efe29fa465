"""The errors of planish: one small tree under `PlanishError`.

Every error carries what it knows as fields (`message`, `location`, `op`, `remedy`) and prints them as one
clear line, "what; where; remedy". Some add lines below it: `ParseError` the source line with a caret,
`VerifyError` its list of problems. All of them survive pickling, so that they can cross processes, and
`add_note` and `raise … from …` work as for any exception.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType
from typing import Self

__all__ = [
    "DTypeError", "GraphError", "InternalError", "Location", "LoweringError", "NanError", "OutOfMemoryError",
    "ParseError", "PassError", "PlanishError", "RewriteError", "SettingsError", "ShapeError", "VerifyError",
]  # fmt: skip

# Not resolved: code objects hold the path as it was imported, links included.
_PACKAGE_PREFIX = str(Path(__file__).absolute().parent) + os.sep


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a source file. Lines and columns count from 1."""

    file: str
    line: int
    column: int | None = None
    function: str | None = None

    def __str__(self) -> str:
        text = f"{self.file}:{self.line}" if self.column is None else f"{self.file}:{self.line}:{self.column}"
        return text if self.function is None else f"{text} in {self.function}"

    @staticmethod
    def caller(skip_package: bool = True, *, column: bool = False) -> Location | None:
        """The innermost frame outside planish: the line the user wrote.

        With `skip_package=False` it is the direct caller, whoever that is. Columns cost a walk over the
        code object's position table, so they are found only on request. None when the whole stack is
        planish's own, as on the command line.
        """
        frame = sys._getframe(1)
        if skip_package:
            while True:
                if not is_own(frame.f_code):
                    break
                if frame.f_back is None:
                    return None
                frame = frame.f_back
        code = frame.f_code
        column_number: int | None = None
        if column:
            # One entry per two-byte code unit; entries of synthetic instructions hold None.
            position = next(islice(code.co_positions(), frame.f_lasti // 2, None), None)
            if position is not None and position[2] is not None:
                column_number = position[2] + 1
        function = None if code.co_name == "<module>" else code.co_qualname
        return Location(code.co_filename, frame.f_lineno, column_number, function)

    @staticmethod
    def at(site: Site | None) -> Location | None:
        """The place that `call_site` found."""
        if site is None:
            return None
        code, offset = site
        position = next(islice(code.co_positions(), offset // 2, None), None)
        line = None if position is None else position[0]
        function = None if code.co_name == "<module>" else code.co_qualname
        return Location(code.co_filename, code.co_firstlineno if line is None else line, None, function)


def is_own(code: CodeType) -> bool:
    """Whether code is planish's, or nobody's: a dataclass's `__init__` and what imports modules have no lines that a user wrote."""
    file = code.co_filename
    return file.startswith((_PACKAGE_PREFIX, "<frozen ")) or (
        file == "<string>" and code.co_name == "__init__"
    )


Site = tuple[CodeType, int]
"""Code, and how far into it: a place that costs next to nothing to remember. `Location.at` finds its line."""
_OURS: dict[str, bool] = {}
"""Whether a file is planish's own."""


def call_site(depth: int = 1) -> Site | None:
    """The innermost frame outside planish, from `depth` frames above on: `Location.caller` for those who call it often."""
    frame: FrameType | None = sys._getframe(depth + 1)
    while frame is not None:
        code = frame.f_code
        file = code.co_filename
        ours = _OURS.get(file)
        if ours is None:
            ours = _OURS[file] = file.startswith((_PACKAGE_PREFIX, "<frozen "))
        if not ours:
            return code, frame.f_lasti
        frame = frame.f_back
    return None


def did_you_mean(name: str, valid: Iterable[str]) -> str | None:
    """The valid name closest to a mistyped one, or None when nothing is close."""
    matches = difflib.get_close_matches(name, list(valid), n=1)
    return matches[0] if matches else None


class UnknownName(AttributeError):
    """An attribute that is not there. What looks like it is searched for when somebody reads the message: `hasattr` costs nothing."""

    def __init__(self, owner: str, name: str, hint: Callable[[str], str]) -> None:
        super().__init__(owner, name)
        self._hint = hint

    def __str__(self) -> str:
        owner, name = self.args
        return f"{owner} has no attribute {name!r}{self._hint(name)}"


def spelt_like(name: str, valid: Iterable[str]) -> str:
    """The end of a message about a name: those that look like it."""
    spelt: dict[str, list[str]] = {}
    for each in valid:
        spelt.setdefault(each.casefold(), []).append(each)
    # nearer than for options and axes: among hundreds of names something is always a little like another
    near = difflib.get_close_matches(name.casefold(), list(spelt), n=3, cutoff=0.7)
    likeness = difflib.SequenceMatcher(b=name)

    def unlike(each: str) -> float:
        likeness.set_seq1(each)
        return -likeness.ratio()

    close = [each for key in near for each in sorted(spelt[key], key=unlike)][:3]
    return f"; did you mean {' or '.join(close)}?" if close else ""


class PlanishError(Exception):
    """Root of every error planish raises on purpose."""

    message: str
    location: Location | None
    op: str | None
    remedy: str | None

    def __init__(
        self,
        message: str,
        *,
        location: Location | None = None,
        op: str | None = None,
        remedy: str | None = None,
    ) -> None:
        # Exactly one positional argument in every subclass: the default pickling then calls
        # `cls(message)` and restores the fields from `__dict__`.
        super().__init__(message)
        self.message = message
        self.location = location
        self.op = op
        self.remedy = remedy

    @classmethod
    def at_caller(cls, message: str, remedy: str | None = None, *, op: str | None = None) -> Self:
        """The error of a call, at the user's line."""
        return cls(message, location=Location.caller(), op=op, remedy=remedy)

    @classmethod
    def of(cls, op: str, message: str, remedy: str | None = None) -> Self:
        """The error of a call of `op`, at the user's line."""
        return cls.at_caller(f"{op}: {message}", remedy, op=op)

    def __str__(self) -> str:
        return "\n".join([self._headline(), *self._details()])

    def _headline(self) -> str:
        parts = [self.message]
        place = ", ".join(self._places())
        if place:
            parts.append(place)
        if self.remedy:
            parts.append(self.remedy)
        return "; ".join(parts)

    def _places(self) -> list[str]:
        places = [] if self.op is None else [f"in {self.op}"]
        return places if self.location is None else [*places, f"at {self.location}"]

    def _details(self) -> list[str]:
        return []


class DTypeError(PlanishError, TypeError):
    """A dtype that does not exist, cannot hold a value, or does not go with another."""


class ShapeError(PlanishError, ValueError):
    """Shapes, axes or sizes that do not fit together."""


class SettingsError(PlanishError, ValueError):
    """An unknown setting, or a value a setting cannot take."""


class ParseError(PlanishError, ValueError):
    """Text that does not follow its grammar: shows the line with a caret under the offending column."""

    line: int | None
    column: int | None
    source_line: str | None
    expected: tuple[str, ...]

    def __init__(
        self,
        message: str,
        *,
        line: int | None = None,
        column: int | None = None,
        source_line: str | None = None,
        expected: Sequence[str] = (),
        location: Location | None = None,
        op: str | None = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(message, location=location, op=op, remedy=remedy)
        self.line = line
        self.column = column
        self.source_line = source_line
        self.expected = tuple(expected)

    @classmethod
    def at(
        cls,
        message: str,
        text: str,
        offset: int,
        *,
        file: str | None = None,
        expected: Sequence[str] = (),
        remedy: str | None = None,
    ) -> ParseError:
        """The error at character `offset` of `text`; an offset past the end points behind the last character."""
        offset = max(0, min(offset, len(text)))
        line = text.count("\n", 0, offset) + 1
        start = text.rfind("\n", 0, offset) + 1
        end = text.find("\n", start)
        source_line = (text[start:] if end < 0 else text[start:end]).removesuffix("\r")
        column = offset - start + 1
        location = None if file is None else Location(file, line, column)
        return cls(
            message,
            line=line,
            column=column,
            source_line=source_line,
            expected=expected,
            location=location,
            remedy=remedy,
        )

    def _headline(self) -> str:
        if not self.expected:
            return super()._headline()
        rest = super()._headline().removeprefix(self.message)
        return f"{self.message}, expected {alternatives(self.expected)}{rest}"

    def _places(self) -> list[str]:
        places = super()._places()
        if self.location is None and self.line is not None:
            column = "" if self.column is None else f", column {self.column}"
            places.append(f"at line {self.line}{column}")
        return places

    def _details(self) -> list[str]:
        if self.source_line is None:
            return []
        number = "" if self.line is None else str(self.line)
        lines = [f"  {number} | {self.source_line}"]
        if self.column is not None:
            # Tabs are kept so that the caret stands under its character at any tab width.
            before = self.source_line[: self.column - 1]
            indent = "".join("\t" if char == "\t" else " " for char in before)
            lines.append(f"  {' ' * len(number)} | {indent}^")
        return lines


class GraphError(PlanishError):
    """Malformed IR: wrong arity, wrong argument, nodes of two tables mixed."""


class VerifyError(PlanishError):
    """A program breaks its specification; `problems` lists every violation found."""

    problems: tuple[str, ...]

    def __init__(
        self,
        message: str,
        problems: Sequence[str] = (),
        *,
        location: Location | None = None,
        op: str | None = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(message, location=location, op=op, remedy=remedy)
        self.problems = tuple(problems)

    def _details(self) -> list[str]:
        return ["  - " + problem.replace("\n", "\n    ") for problem in self.problems]


class RewriteError(PlanishError):
    """A rewrite did not end (rules undo each other, budget spent) or broke the engine's rules."""


class PassError(PlanishError):
    """An unknown pass, a bad pass option, or a pass that failed."""


class LoweringError(PlanishError):
    """An operation or shape that cannot be lowered to the next IR."""


class NanError(PlanishError, FloatingPointError):
    """An operation made a NaN or an infinity of numbers, where `settings(check="nan")` forbids it."""


class OutOfMemoryError(PlanishError, MemoryError):
    """There is no memory for a call: `nbytes` for one buffer, `peak` for all of it."""

    nbytes: int
    peak: int

    def __init__(
        self,
        message: str,
        *,
        nbytes: int = 0,
        peak: int = 0,
        location: Location | None = None,
        op: str | None = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(message, location=location, op=op, remedy=remedy)
        self.nbytes = nbytes
        self.peak = peak


class InternalError(PlanishError):
    """A bug in planish itself, with the file that reproduces it where one was written."""

    reproducer: str | None

    def __init__(
        self,
        message: str,
        *,
        reproducer: str | None = None,
        location: Location | None = None,
        op: str | None = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(message, location=location, op=op, remedy=remedy)
        self.reproducer = reproducer

    def _headline(self) -> str:
        headline = f"this is a bug in planish: {super()._headline()}"
        if self.reproducer is None:
            return headline
        return f"{headline}; please report it with the reproducer {self.reproducer}"


def alternatives(names: Sequence[str]) -> str:
    """One name, or 'a, b or c'."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
