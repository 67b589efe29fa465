"""The reader of the text form's words: numbers, names, axes, tuples, dtypes, references to nodes.

It walks over one line at a time and keeps its place, so that every failure is a `ParseError` with line, column and
what was expected there. The grammar of a line is in `text.py`.
"""

from __future__ import annotations

import json
import math
import re
from typing import Final, NoReturn, cast

from planish import dtypes
from planish.dtypes import DType
from planish.errors import DTypeError, ParseError, did_you_mean
from planish.uop.node import Number, Table, UOp
from planish.uop.ops import Axis, AxisType, Lanes, Ops, axis_path

_OPS: Final = {op.name.lower(): op for op in Ops}
_AXIS_LETTERS: Final = {kind.letter: kind for kind in AxisType}
_WORDS: Final[dict[str, object]] = {"none": None, "true": True, "false": False}
_MAX_NESTING: Final = 16
"""Tuples in arguments nest two or three deep; the limit keeps the reader's recursion bounded."""

NAME_FORM: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORD: Final = re.compile(r"[A-Za-z0-9_.%\-]+")
REF_FORM: Final = re.compile(r"%([0-9]+)(?![0-9A-Za-z_])")
_INT: Final = re.compile(r"[-+]?[0-9]+(?![0-9A-Za-z_])")
_NUMBER: Final = re.compile(
    r"[-+]?(?:nan|inf|[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)(?![0-9A-Za-z_]|\.[0-9])"
)
_STRING: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"')
KEY_FORM: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)[ \t]*=")
_AXIS: Final = re.compile(
    r"([a-z](?:[1-9][0-9]{0,8})?(?:\.(?:outer|inner|first|last|[4-9]|[1-9][0-9]{1,8}))*):([A-Za-z])(?:@([0-9]+(?:_[0-9]+)*))?(?![0-9A-Za-z_])"
)
_LANE: Final = re.compile(r"(-?[0-9]+(?:_-?[0-9]+)*)?:([0-9]+)(?![0-9A-Za-z_])")
_BOUNDS: Final = re.compile(r"([-+]?[0-9]+)\.\.([-+]?[0-9]+)(?![0-9A-Za-z_])")
_DTYPE: Final = re.compile(
    r"\*?[ \t]*(?:(?:global|local|reg)[ \t]+)?[A-Za-z]\w*(?:\[(?:[0-9]+|\?)\](?:x[0-9]+)?)?"
)


class Reader:
    """Reads one line at a time; nodes go to a scratch table of its own."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.end = 0
        self.table = Table()
        self.nodes: dict[str, UOp] = {}
        self.defined: dict[str, int] = {}  # name -> offset of its line

    # -- characters --------------------------------------------------------------------------------------------

    def fail(
        self, message: str, *expected: str, offset: int | None = None, remedy: str | None = None
    ) -> NoReturn:
        where = self.position if offset is None else offset
        raise ParseError.at(message, self.text, where, expected=expected, remedy=remedy)

    def found(self) -> str:
        """What stands here, for a message."""
        if self.at_end():
            return "the line ends"
        word = _WORD.match(self.text, self.position, self.end)
        return f"found {(word.group() if word else self.text[self.position])!r}"

    def skip(self) -> None:
        text, position, end = self.text, self.position, self.end
        while position < end and text[position] in " \t\r":
            position += 1
        self.position = position

    def at_end(self) -> bool:
        self.skip()
        return self.position >= self.end or self.text[self.position] == "#"

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """The pattern at this place, consumed."""
        self.skip()
        found = pattern.match(self.text, self.position, self.end)
        if found is not None:
            self.position = found.end()
        return found

    def take(self, char: str) -> bool:
        self.skip()
        if self.position < self.end and self.text[self.position] == char:
            self.position += 1
            return True
        return False

    def expect(self, char: str) -> None:
        if not self.take(char):
            self.fail(self.found(), repr(char))

    # -- values ------------------------------------------------------------------------------------------------

    def integer(self) -> int:
        found = self.match(_INT)
        if found is None:
            self.fail(self.found(), "an integer")
        return self.to_int(found.group(), found.start())

    def to_int(self, digits: str, offset: int) -> int:
        try:
            return int(digits)
        except ValueError:  # Python limits how many digits it converts
            self.fail("this integer has too many digits", offset=offset)

    def name(self) -> str:
        found = self.match(NAME_FORM)
        if found is not None:
            return found.group()
        quoted = self.match(_STRING)
        if quoted is None:
            self.fail(self.found(), "a name", "a quoted string")
        return self.unquote(quoted)

    def unquote(self, quoted: re.Match[str]) -> str:
        try:
            return cast("str", json.loads(quoted.group()))
        except ValueError:
            self.fail("this string has a bad escape", offset=quoted.start())

    def truth(self) -> bool:
        start = self.position
        found = self.match(NAME_FORM)
        if found is None or found.group() not in {"true", "false"}:
            self.position = start
            self.fail(self.found(), "true", "false")
        return found.group() == "true"

    def op(self) -> Ops:
        self.skip()
        start = self.position
        found = self.match(NAME_FORM)
        if found is None:
            self.fail(self.found(), "an op")
        op = _OPS.get(found.group())
        if op is None:
            close = did_you_mean(found.group().lower(), _OPS)
            hint = "docs/uop.md lists the ops" if close is None else f"did you mean {close!r}?"
            self.fail(f"unknown op {found.group()!r}", offset=start, remedy=hint)
        return op

    def axis(self) -> Axis:
        self.skip()
        start = self.position
        found = self.match(_AXIS)
        kind = None if found is None else _AXIS_LETTERS.get(found.group(2))
        if found is None or kind is None:
            letters = ", ".join(f"{k.letter} {k.name}" for k in AxisType)
            self.position = start
            self.fail(
                self.found(), "an axis such as i:g or k.outer:R", offset=start, remedy=f"letters: {letters}"
            )
        path = axis_path(found.group(1))
        return (
            Axis(path, kind).moved(self.path(found.group(3), start)) if found.group(3) else Axis(path, kind)
        )

    def path(self, text: str | None, offset: int) -> tuple[int, ...]:
        return tuple(self.to_int(part, offset) for part in text.split("_")) if text else ()

    def lanes(self) -> Lanes:
        axes: list[tuple[tuple[int, ...], int]] = []
        self.expect("(")
        while not self.take(")"):
            if axes:
                self.expect(",")
            found = self.match(_LANE)
            if found is None:
                self.fail(self.found(), "axis:size such as 0:4 or 1_0:8")
            axes.append(
                (self.path(found.group(1), found.start()), self.to_int(found.group(2), found.start()))
            )
        return Lanes(tuple(axes))

    def bounds(self) -> tuple[int, int]:
        found = self.match(_BOUNDS)
        if found is None:
            self.fail(self.found(), "bounds such as 0..63")
        return self.to_int(found.group(1), found.start()), self.to_int(found.group(2), found.start())

    def values(self, depth: int = 0) -> tuple[object, ...]:
        """A tuple of anything an argument may hold."""
        self.skip()
        if depth >= _MAX_NESTING:
            self.fail(f"tuples nest more than {_MAX_NESTING} deep")
        self.expect("(")
        items: list[object] = []
        while not self.take(")"):
            if items:
                self.expect(",")
                if self.take(")"):
                    break
            items.append(self.value(depth + 1))
        return tuple(items)

    def value(self, depth: int) -> object:
        self.skip()
        if self.position < self.end and self.text[self.position] == "(":
            return self.values(depth)
        if self.position < self.end and self.text[self.position] == "%":
            return self.reference()
        quoted = self.match(_STRING)
        if quoted is not None:
            return self.unquote(quoted)
        number = self.match(_NUMBER)
        if number is not None:
            found = self.number(number)
            if isinstance(found, float) and math.isnan(found):
                # A NaN differs from itself, so an argument that holds one would never be found in the table.
                self.fail("an argument cannot hold NaN", offset=number.start())
            return found
        start = self.position
        word = self.match(NAME_FORM)
        if word is not None and word.group() in _WORDS:
            return _WORDS[word.group()]
        self.position = start
        return self.fail(self.found(), "a number", "a string", "true", "false", "none", "%n", "a tuple")

    def number(self, found: re.Match[str]) -> int | float:
        text = found.group()
        return self.to_int(text, found.start()) if text.lstrip("+-").isdigit() else float(text)

    def reference(self) -> UOp:
        self.skip()
        start = self.position
        found = self.match(REF_FORM)
        if found is None:
            self.fail(self.found(), "a node such as %3")
        node = self.nodes.get(found.group())
        if node is None:
            self.fail(f"{found.group()} is not defined above", offset=start, remedy="sources come first")
        return node

    def constant(self) -> Number | None:
        """A number, a truth value, `complex(re, im)` or `invalid` (None)."""
        number = self.match(_NUMBER)
        if number is not None:
            return self.number(number)
        start = self.position
        word = self.match(NAME_FORM)
        match word.group() if word else "":
            case "true":
                return True
            case "false":
                return False
            case "invalid":
                return None
            case "complex":
                self.expect("(")
                parts = []
                for closing in ",)":
                    part = self.match(_NUMBER)
                    if part is None:
                        self.fail(self.found(), "a number")
                    parts.append(float(self.number(part)))
                    self.expect(closing)
                return complex(*parts)
            case _:
                self.position = start
                return self.fail(
                    self.found(), "%n", "a number", "true", "false", "complex(re, im)", "invalid"
                )

    def dtype(self) -> DType:
        self.skip()
        start = self.position
        found = self.match(_DTYPE)
        if found is None:
            self.fail(self.found(), "a dtype")
        try:
            return dtypes.parse(found.group())
        except DTypeError as error:
            self.fail(error.message, offset=start, remedy=error.remedy)
