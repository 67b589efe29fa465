"""A cursor over the text of a program: what the readers of all three IRs share.

It keeps its place; whatever does not follow a grammar is a `ParseError` with line, column, caret and what was expected there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import ClassVar, Final, NoReturn, TypeVar, cast

from planish import dtypes
from planish.dtypes import DType
from planish.errors import DTypeError, ParseError, did_you_mean

T = TypeVar("T")
IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
STRING: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_INTEGER: Final = re.compile(r"[-+]?[0-9]+(?![0-9A-Za-z_])")


class Cursor:
    """A place in a text in which line breaks are spaces and `//` starts a comment."""

    __slots__ = ("end", "file", "position", "text")

    SPACE: ClassVar = re.compile(r"(?:[ \t\r\n]+|//[^\n]*)*")
    WORD: ClassVar = re.compile(r"[A-Za-z0-9_.%@#]+|//|->|.", re.DOTALL)
    """What is shown of something unexpected."""
    NO_MORE: ClassVar = "the text ends"

    def __init__(self, text: str, *, file: str | None = None, position: int = 0) -> None:
        self.start(text, position)
        self.file = file

    def start(self, text: str, position: int = 0) -> None:
        """Go over a text."""
        self.text = text
        self.position = position
        self.end = len(text)

    # -- errors ----------------------------------------------------------------------------------------------------

    def error(
        self, message: str, *expected: str, offset: int | None = None, remedy: str | None = None, op: str | None = None
    ) -> ParseError:  # fmt: skip
        where = self.position if offset is None else offset
        error = ParseError.at(message, self.text, where, file=self.file, expected=expected, remedy=remedy)
        error.op = op
        return error

    def fail(
        self, message: str, *expected: str, offset: int | None = None, remedy: str | None = None
    ) -> NoReturn:
        raise self.error(message, *expected, offset=offset, remedy=remedy)

    def unexpected(self, *expected: str) -> NoReturn:
        """Fail at what stands here."""
        self.fail(self.what_is_here(), *expected)

    def what_is_here(self) -> str:
        """What stands here, for a message."""
        if self.at_end():
            return self.NO_MORE
        word = self.WORD.match(self.text, self.position, self.end)
        return f"found {(word.group() if word else self.text[self.position])!r}"

    def unknown(
        self, what: str, name: str, known: Mapping[str, object], otherwise: str | None, offset: int
    ) -> NoReturn:
        """Fail at a name that is none of those that are known."""
        close = did_you_mean(name, known)
        remedy = otherwise if close is None else f"did you mean {close!r}?"
        self.fail(f"{what} {name!r}", offset=offset, remedy=remedy)

    # -- characters and words ------------------------------------------------------------------------------------------

    def skip(self) -> None:
        match = self.SPACE.match(self.text, self.position, self.end)
        if match is not None:
            self.position = match.end()

    def at_end(self) -> bool:
        self.skip()
        return self.position >= self.end

    def here(self) -> int:
        """Where the next word begins."""
        self.skip()
        return self.position

    def peek(self) -> str:
        """The next character that is not space; empty at the end."""
        self.skip()
        return self.text[self.position] if self.position < self.end else ""

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """The pattern at this place, consumed."""
        self.skip()
        match = pattern.match(self.text, self.position, self.end)
        if match is not None:
            self.position = match.end()
        return match

    def need(self, pattern: re.Pattern[str], *expected: str) -> re.Match[str]:
        """The pattern, which must stand here."""
        match = self.match(pattern)
        if match is None:
            self.unexpected(*expected)
        return match

    def take(self, token: str) -> bool:
        self.skip()
        if self.text.startswith(token, self.position, self.end):
            self.position += len(token)
            return True
        return False

    def expect(self, token: str) -> None:
        if not self.take(token):
            self.unexpected(repr(token))

    def word(self, *expected: str) -> str:
        """An identifier."""
        return self.need(IDENTIFIER, *expected).group()

    def at_word(self, word: str) -> bool:
        """Whether exactly this identifier stands here."""
        self.skip()
        match = IDENTIFIER.match(self.text, self.position, self.end)
        return match is not None and match.group() == word

    def take_word(self, word: str) -> bool:
        """Consume exactly this identifier."""
        if not self.at_word(word):
            return False
        self.position += len(word)
        return True

    def until(self, close: str, read: Callable[[], T], separator: str = ",") -> list[T]:
        """Items up to the closing token, which is consumed; a separator may stand before that, too."""
        items: list[T] = []
        while not self.take(close):
            if items and separator:
                self.expect(separator)
                if self.take(close):
                    break
            items.append(read())
        return items

    # -- values --------------------------------------------------------------------------------------------------------

    def integer(self) -> int:
        match = self.need(_INTEGER, "an integer")
        return self.to_int(match.group(), match.start())

    def to_int(self, digits: str, offset: int) -> int:
        try:
            return int(digits)
        except ValueError:  # Python limits how many digits it converts
            self.fail("this integer has too many digits", offset=offset)

    def string(self, *expected: str) -> str:
        match = self.need(STRING, *(expected or ("a quoted string",)))
        return self.unquote(match.group(), match.start())

    def unquote(self, text: str, offset: int, what: str = "string") -> str:
        try:
            return cast("str", json.loads(text, strict=False))
        except ValueError:
            self.fail(f"this {what} has a bad escape", offset=offset)

    def dtype_of(self, pattern: re.Pattern[str] = IDENTIFIER) -> DType:
        """The dtype that the pattern spells here."""
        match = self.need(pattern, "a dtype")
        try:
            return dtypes.parse(match.group())
        except DTypeError as error:
            self.fail(error.message, offset=match.start(), remedy=error.remedy)


class LineCursor(Cursor):
    """A cursor that goes from line to line; `#` starts a comment."""

    SPACE = re.compile(r"[ \t\r]*")
    WORD = re.compile(r"[A-Za-z0-9_.%\-]+")
    NO_MORE = "the line ends"

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.end = 0
        self._following = 0

    def at_end(self) -> bool:
        self.skip()
        return self.position >= self.end or self.text[self.position] == "#"

    def next_line(self) -> bool:
        """Go to the next line that says something."""
        while self._following <= len(self.text):
            self.position = self._following
            stop = self.text.find("\n", self.position)
            self.end = len(self.text) if stop < 0 else stop
            self._following = self.end + 1
            if not self.at_end():
                return True
        self.position = self.end = len(self.text)
        return False

    def line_ends(self, *expected: str) -> None:
        if not self.at_end():
            self.unexpected(*expected, "the end of the line")
