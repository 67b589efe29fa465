r"""Regular expressions of models, matched in time that grows with text and pattern alone.

A pattern from a file may be one on which a matcher that goes back and tries again never ends. ONNX asks for RE2's language, which has
nothing that needs that: Python's parser reads the pattern, and all ways to match it are followed at once, a character at a
time. References to groups and looking around are refused, as RE2 does; `\d`, `\w` and `\s` are ASCII, as there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final

_parser: Final[Any] = import_module("re._parser")
_MOST: Final = 20_000
"""States of a pattern, with its repetitions written out."""
_WORD: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_CATEGORIES: Final = {"DIGIT": frozenset("0123456789"), "SPACE": frozenset(" \t\n\r\f\v"), "WORD": _WORD}
Test = Callable[[str], bool]


class RegularExpression:
    """A pattern, ready to match whole texts."""

    def __init__(self, text: str) -> None:
        """`re.error` if it is none, or none of those that can be matched in one pass."""
        self._tests: list[Test | None] = []
        self._next: list[list[int]] = []
        self._at: list[str] = []
        parsed = _parser.parse(text, re.ASCII)
        end = self._state(None, [])
        self._start = self._sequence(parsed, end, parsed.state.flags)
        self._end = end

    def fullmatch(self, text: str) -> bool:
        """Whether it is all of a text."""
        here = self._closure([self._start], text, 0)
        for position, character in enumerate(text, 1):
            moved = [
                self._next[state][0]
                for state in here
                if (test := self._tests[state]) is not None and test(character)
            ]
            if not moved:
                return False
            here = self._closure(moved, text, position)
        return self._end in here

    def _closure(self, states: Sequence[int], text: str, position: int) -> set[int]:
        """Where one can be without reading on."""
        closure: set[int] = set()
        todo = list(states)
        while todo:
            state = todo.pop()
            if state in closure or not _holds(self._at[state], text, position):
                continue
            closure.add(state)
            if self._tests[state] is None:
                todo += self._next[state]
        return closure

    # -- making ------------------------------------------------------------------------------------------------------

    def _state(self, test: Test | None, following: list[int], at: str = "") -> int:
        if len(self._tests) >= _MOST:
            raise re.error("the pattern is too long with its repetitions written out")
        self._tests.append(test)
        self._next.append(following)
        self._at.append(at)
        return len(self._tests) - 1

    def _sequence(self, items: Any, end: int, flags: int) -> int:
        """Where a sequence begins that goes on at `end`."""
        for kind, given in reversed(list(items)):
            end = self._item(str(kind), given, end, flags)
        return end

    def _item(self, kind: str, given: Any, end: int, flags: int) -> int:
        match kind:
            case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN":
                return self._state(_test(kind, given, flags), [end])
            case "SUBPATTERN":
                _, added, removed, inner = given
                return self._sequence(inner, end, (flags | added) & ~removed)
            case "BRANCH":
                return self._state(None, [self._sequence(one, end, flags) for one in given[1]])
            case "MAX_REPEAT" | "MIN_REPEAT":
                least, most, inner = given
                return self._repeated(least, most, inner, end, flags)
            case "AT":
                name = str(given)
                many = bool(flags & re.MULTILINE) and name in {"AT_BEGINNING", "AT_END"}
                return self._state(None, [end], f"{name}_LINE" if many else name)
        raise re.error(f"{kind.lower()} is nothing that RE2 has")

    def _repeated(self, least: int, most: Any, inner: Any, end: int, flags: int) -> int:
        if most is _parser.MAXREPEAT:
            around = self._state(None, [end])
            self._next[around].append(self._sequence(inner, around, flags))
            start = around
        else:
            start = end
            for _ in range(int(most) - least):
                start = self._state(None, [end, self._sequence(inner, start, flags)])
        for _ in range(least):
            start = self._sequence(inner, self._state(None, [start]), flags)
        return start


def _holds(at: str, text: str, position: int) -> bool:
    """Whether a position is what an assertion wants."""
    if not at:
        return True
    before = text[position - 1] if position else ""
    after = text[position] if position < len(text) else ""
    match at:
        case "AT_BEGINNING" | "AT_BEGINNING_STRING":
            return not position
        case "AT_BEGINNING_LINE":
            return not before or before == "\n"
        case "AT_END":  # RE2: the very end
            return not after
        case "AT_END_STRING":
            return not after
        case "AT_END_LINE":
            return not after or after == "\n"
    return ((before in _WORD and bool(before)) != (after in _WORD and bool(after))) is (at == "AT_BOUNDARY")


def _test(kind: str, given: Any, flags: int) -> Test:
    """What a single character has to be."""
    if kind == "ANY":
        return (lambda c: True) if flags & re.DOTALL else (lambda c: c != "\n")
    parts = [("LITERAL", given)] if kind != "IN" else [(str(name), value) for name, value in given]
    wanted = not (kind == "NOT_LITERAL" or any(name == "NEGATE" for name, _ in parts))
    tests = [_part(name, value) for name, value in parts if name != "NEGATE"]
    if flags & re.IGNORECASE:
        return lambda c: any(test(d) for test in tests for d in {c, c.lower(), c.upper()}) is wanted
    return lambda c: any(test(c) for test in tests) is wanted


def _part(name: str, value: Any) -> Test:
    match name:
        case "LITERAL":
            return lambda c: c == chr(value)
        case "RANGE":
            low, high = map(chr, value)
            return lambda c: low <= c <= high
    _, *negated, category = str(value).split("_")
    members = _CATEGORIES[category]
    return (lambda c: c not in members) if negated else (lambda c: c in members)
