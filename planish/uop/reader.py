"""The reader of the text form's words: numbers, names, axes, tuples, dtypes, references to nodes.

It walks over one line at a time and keeps its place, so that every failure is a `ParseError` with line, column and
what was expected there. The grammar of a line is in `text.py`.
"""

from __future__ import annotations

import math
import re
from typing import Final

from planish.cursor import IDENTIFIER, LineCursor
from planish.dtypes import DType
from planish.uop.access_hints import HINT_WORDS, NO_HINTS, AccessHints
from planish.uop.hardware_index import HardwareIndex, index_named
from planish.uop.node import Number, Table, UOp
from planish.uop.ops import Axis, AxisType, Ops, UnrolledLanes, axis_path

_OPS: Final = {op.name.lower(): op for op in Ops}
_AXIS_LETTERS: Final = {kind.letter: kind for kind in AxisType}
_WORDS: Final[dict[str, object]] = {"none": None, "true": True, "false": False}
_MAX_NESTING: Final = 16
"""Tuples in arguments nest two or three deep; the limit keeps the reader's recursion bounded."""

REF_FORM: Final = re.compile(r"%([0-9]+)(?![0-9A-Za-z_])")
_NUMBER: Final = re.compile(
    r"[-+]?(?:nan|inf|[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)(?![0-9A-Za-z_]|\.[0-9])"
)
KEY_FORM: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)[ \t]*=")
_AXIS: Final = re.compile(
    r"([a-z](?:[1-9][0-9]{0,8})?(?:\.(?:outer|inner|first|last|[4-9]|[1-9][0-9]{1,8}))*):([A-Za-z])(?:@([0-9]+(?:_[0-9]+)*))?(?![0-9A-Za-z_])"
)
_LANE: Final = re.compile(r"(-?[0-9]+(?:_-?[0-9]+)*)?:([0-9]+)(?![0-9A-Za-z_])")
_BOUNDS: Final = re.compile(r"([-+]?[0-9]+)\.\.([-+]?[0-9]+)(?![0-9A-Za-z_])")
_HINT: Final = re.compile(r"(align|buffers|own)([1-9][0-9]*)|nontemporal|async|own")
_DTYPE: Final = re.compile(
    r"\*?[ \t]*(?:(?:global|local|reg)[ \t]+)?[A-Za-z]\w*(?:\[(?:[0-9]+|\?)\](?:x[0-9]+)?)?"
)


class Reader(LineCursor):
    """Reads one line at a time; nodes go to a scratch table of its own."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.table = Table()
        self.nodes: dict[str, UOp] = {}
        self.defined: dict[str, int] = {}  # name -> offset of its line

    def name(self) -> str:
        word = self.match(IDENTIFIER)
        return self.string("a name", "a quoted string") if word is None else word.group()

    def truth(self) -> bool:
        if self.take_word("true"):
            return True
        if not self.take_word("false"):
            self.unexpected("true", "false")
        return False

    def op(self) -> Ops:
        start = self.here()
        name = self.word("an op")
        op = _OPS.get(name)
        if op is None:
            self.unknown("unknown op", name, _OPS, "docs/uop.md lists the ops", start)
        return op

    def axis(self) -> Axis:
        start = self.here()
        match = self.match(_AXIS)
        kind = None if match is None else _AXIS_LETTERS.get(match.group(2))
        if match is None or kind is None:
            letters = ", ".join(f"{k.letter} {k.name}" for k in AxisType)
            self.position = start
            self.fail(
                self.what_is_here(),
                "an axis such as i:g or k.outer:R",
                offset=start,
                remedy=f"letters: {letters}",
            )
        path = axis_path(match.group(1))
        return (
            Axis(path, kind).moved(self.path(match.group(3), start)) if match.group(3) else Axis(path, kind)
        )

    def path(self, text: str | None, offset: int) -> tuple[int, ...]:
        return tuple(self.to_int(part, offset) for part in text.split("_")) if text else ()

    def lanes(self) -> UnrolledLanes:
        self.expect("(")
        return UnrolledLanes(tuple(self.until(")", self._lane_axis)))

    def _lane_axis(self) -> tuple[tuple[int, ...], int]:
        match = self.need(_LANE, "axis:size such as 0:4 or 1_0:8")
        return self.path(match.group(1), match.start()), self.to_int(match.group(2), match.start())

    def hardware_index(self) -> HardwareIndex:
        start = self.here()
        name = self.name()
        if not name.isidentifier():
            self.fail(f"{name!r} is no identifier", "an index such as gidx0", offset=start)
        return index_named(name)

    def hints(self) -> AccessHints:
        """The words of an access: a name, or several in quotes."""
        start = self.here()
        said = NO_HINTS
        for word in self.name().split():
            hint = _HINT.fullmatch(word)
            if hint is None:
                self.unknown(
                    "unknown hint", word, dict.fromkeys(HINT_WORDS), f"such as {', '.join(HINT_WORDS)}", start
                )
            number = self.to_int(hint.group(2) or "0", start)
            match hint.group(1) or word:
                case "align":
                    said = said._replace(align=number)
                case "buffers":
                    said = said._replace(buffers=number)
                case "own":
                    said = said._replace(own=True, buffers=number or said.buffers)
                case "async":
                    said = said._replace(asynchronous=True)
                case _:
                    said = said._replace(nontemporal=True)
        return said

    def bounds(self) -> tuple[int, int]:
        match = self.need(_BOUNDS, "bounds such as 0..63")
        return self.to_int(match.group(1), match.start()), self.to_int(match.group(2), match.start())

    def values(self, depth: int = 0) -> tuple[object, ...]:
        """A tuple of anything an argument may hold."""
        self.skip()
        if depth >= _MAX_NESTING:
            self.fail(f"tuples nest more than {_MAX_NESTING} deep")
        self.expect("(")
        return tuple(self.until(")", lambda: self.value(depth + 1)))

    def value(self, depth: int) -> object:
        if self.peek() == "(":
            return self.values(depth)
        if self.peek() == "%":
            return self.reference()
        if self.peek() == '"':
            return self.string()
        number = self.match(_NUMBER)
        if number is not None:
            value = self.number(number)
            if isinstance(value, float) and math.isnan(value):
                # A NaN differs from itself, so an argument that holds one would never be found in the table.
                self.fail("an argument cannot hold NaN", offset=number.start())
            return value
        start = self.position
        word = self.match(IDENTIFIER)
        if word is not None and word.group() in _WORDS:
            return _WORDS[word.group()]
        self.position = start
        return self.fail(
            self.what_is_here(), "a number", "a string", "true", "false", "none", "%n", "a tuple"
        )

    def number(self, match: re.Match[str]) -> int | float:
        text = match.group()
        return self.to_int(text, match.start()) if text.lstrip("+-").isdigit() else float(text)

    def reference(self) -> UOp:
        match = self.need(REF_FORM, "a node such as %3")
        node = self.nodes.get(match.group())
        if node is None:
            self.fail(
                f"{match.group()} is not defined above", offset=match.start(), remedy="sources come first"
            )
        return node

    def constant(self) -> Number | None:
        """A number, a truth value, `complex(re, im)` or `invalid` (None)."""
        number = self.match(_NUMBER)
        if number is not None:
            return self.number(number)
        start = self.position
        word = self.match(IDENTIFIER)
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
                    parts.append(float(self.number(self.need(_NUMBER, "a number"))))
                    self.expect(closing)
                return complex(*parts)
            case _:
                self.position = start
                return self.fail(
                    self.what_is_here(), "%n", "a number", "true", "false", "complex(re, im)", "invalid"
                )

    def plain_number(self) -> Number:
        """A constant that is not `invalid`."""
        offset = self.here()
        value = self.constant()
        if value is None:
            self.fail("invalid is not a number", "a number", offset=offset)
        return value

    def dtype(self) -> DType:
        return self.dtype_of(_DTYPE)
